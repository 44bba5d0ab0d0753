/** What the board and tokens that may only read are not shown. */
import { expect, test } from 'vitest'
import { openServer } from '../../packages/server/src/server.ts'
import { SettingsError } from '../../packages/server/src/settings.ts'
import { TestServer } from '../harness.ts'

const ADMIN = { authorization: 'Bearer secret' }
const HIDDEN = 'hunter2'

interface Seen {
  readonly server: TestServer
  /** Every answer about the job that a caller with these headers gets. */
  readonly all: (headers: Record<string, string>) => Promise<string[]>
}

async function withASecret(token?: string): Promise<Seen> {
  const server = await TestServer.open({ redact: ['password', 'message'], ...(token === undefined ? {} : { token }) })
  const headers: Record<string, string> = token === undefined ? {} : ADMIN
  const call = async (path: string, body: object) => (await server.call('POST', path, body, headers)).body
  const args = [{ user: 'ada', deep: { PASSWORD: [HIDDEN] } }]
  const meta = { password: HIDDEN }
  const retry = { max_attempts: 1, on_exhaustion: 'dead_letter' }
  const made = await call('/ojs/v1/jobs', { type: 'a.job', args, meta, retry })
  const id = made.job.id
  await call('/ojs/v1/workers/fetch', { queues: ['default'], worker_id: 'w' })
  await call('/ojs/v1/workers/nack', { job_id: id, error: { message: `no ${HIDDEN}`, details: { password: HIDDEN } } })
  await call('/ojs/v1/cron', { name: 'c', expression: '0 0 1 1 *', type: 'a.job', args })
  const paths = [
    ...[`/ojs/v1/jobs/${id}`, `/ojs/v1/jobs/${id}/explain`, `/api/v1/board/jobs/${id}`, `/ojs/v1/jobs/${id}/retries`],
    ...['/ojs/v1/jobs', '/api/v1/board/jobs', '/ojs/v1/dead-letter', '/ojs/v1/cron', '/ojs/v1/events'],
  ]
  const all = (as: Record<string, string>) =>
    Promise.all(
      paths.map(async (path) => {
        const { status, text } = await server.call('GET', path, undefined, as)
        expect([path, status]).toEqual([path, 200])
        return text
      }),
    )
  return { server, all }
}

test('a session and a token that may only read see no value of a redacted member, on any path', async () => {
  const { server, all } = await withASecret('secret')
  const create = async (name: string, role: string) =>
    String((await server.call('POST', '/api/v1/tokens', { name, roles: [role] }, ADMIN)).body['token'])
  const signIn = await server.call('POST', '/api/v1/session', undefined, ADMIN)
  const cookie = (signIn.headers['Set-Cookie'] ?? '').split(';')[0] ?? ''
  const reader = { authorization: `Bearer ${await create('r', 'read')}` }
  for (const headers of [{ cookie }, reader]) {
    const texts = await all(headers)
    expect(texts.filter((text) => text.includes(HIDDEN))).toEqual([])
    // Everything else is there.
    expect(texts[0]).toContain('{"user":"ada","deep":{"PASSWORD":"[redacted]"}}')
    expect(texts[1]).toContain('[redacted]')
    expect(texts[2]).toContain('[redacted]')
  }
  const worker = { authorization: `Bearer ${await create('w', 'operate')}` }
  for (const headers of [ADMIN, worker])
    expect((await all(headers)).filter((text) => text.includes(HIDDEN)).length).toBeGreaterThanOrEqual(7)
})

test('without tokens a browser is not shown them, and a program is', async () => {
  const { all } = await withASecret()
  const browser = { host: 'localhost', 'sec-fetch-site': 'same-origin' }
  expect((await all(browser)).filter((text) => text.includes(HIDDEN))).toEqual([])
  expect((await all({}))[0]).toContain(HIDDEN)
})

test('a stream of events is blanked too, and a change that a session asks for', async () => {
  const { server } = await withASecret('secret')
  const signIn = await server.call('POST', '/api/v1/session', undefined, ADMIN)
  const cookie = (signIn.headers['Set-Cookie'] ?? '').split(';')[0] ?? ''
  const page = { cookie, 'sec-fetch-site': 'same-origin', 'x-curfew-request': '1' }
  const asked = { type: 'b.job', args: [{ password: HIDDEN }] }
  const { status, text } = await server.call('POST', '/ojs/v1/jobs', asked, page)
  expect([status, text.includes(HIDDEN), text.includes('[redacted]')]).toEqual([201, false, true])
  const { events } = (await server.call('GET', '/ojs/v1/events', undefined, ADMIN)).body
  const gone = new AbortController()
  const stream = await server.handler({
    method: 'GET',
    url: `/ojs/v1/events/stream?last_event_id=${String(events[0]?.id)}`,
    headers: { cookie },
    body: '',
    signal: gone.signal,
  })
  let heard = ''
  for await (const part of stream.body as AsyncIterable<string>) {
    heard += part
    if (heard.includes('b.job')) break
  }
  gone.abort()
  expect(heard).toContain('job.failed')
  expect(heard).not.toContain(HIDDEN)
})

test('names come from the setting; one without which nothing could be shown is refused', async () => {
  const settings = { data: ':memory:', 'board-redact': ' password, ,Card ' }
  const server = await openServer({ settings })
  const call = async (method: string, url: string, headers: Record<string, string>, body = '') =>
    (await server.handler({ method, url, headers, body, signal: AbortSignal.timeout(5_000) })).body as string
  try {
    await call('POST', '/ojs/v1/jobs', {}, '{"type":"a","args":[{"password":"x1","card":"x2","cards":3}]}')
    const shown = await call('GET', '/ojs/v1/jobs', { host: 'localhost', 'sec-fetch-site': 'none' })
    expect(shown).toContain('{"password":"[redacted]","card":"[redacted]","cards":3}')
  } finally {
    await server.close()
  }
  await expect(openServer({ settings: { ...settings, 'board-redact': 'card,Error' } })).rejects.toThrow(SettingsError)
})
