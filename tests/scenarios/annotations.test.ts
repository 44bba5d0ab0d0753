/** Notes of operators, such as deploys: added, listed by the time of what happened, and forgotten after 90 days. */
import { expect, test } from 'vitest'
import { TestServer } from '../harness.ts'

const bearer = (token: string): Record<string, string> => ({ authorization: `Bearer ${token}` })
const ADMIN = bearer('secret')

async function textsOf(server: TestServer, query = '', headers = {}): Promise<string[]> {
  const { body } = await server.get(`/api/v1/annotations${query}`, headers)
  return (body.items as unknown as { text: string }[]).map(({ text }) => text)
}

test('notes are listed by the time of what happened, newest first and page by page', async () => {
  const server = await TestServer.open()
  const note = async (text: string, at?: string): Promise<Record<string, unknown>> => {
    const reply = await server.call('POST', '/api/v1/annotations', { text, ...(at === undefined ? {} : { at }) })
    expect(reply.status).toBe(201)
    return reply.body
  }
  const now = new Date(server.clock.now())
  const before = (minutes: number): string => new Date(server.clock.now() - minutes * 60_000).toISOString()
  expect(await note('deploy 7')).toMatchObject({ text: 'deploy 7', time: now.toISOString(), by: null })
  await note('deploy 5', before(20))
  await note('deploy 6', before(10))
  expect(await textsOf(server)).toEqual(['deploy 7', 'deploy 6', 'deploy 5'])
  const page = (await server.get('/api/v1/annotations?limit=2')).body
  expect(await textsOf(server, `?limit=2&cursor=${String(page['next_cursor'])}`)).toEqual(['deploy 5'])
})

test('a note without text, too long, of the future or with an unknown member is refused and stored nowhere', async () => {
  const server = await TestServer.open()
  const soon = new Date(server.clock.now() + 3_600_000).toISOString()
  const bad = [
    {},
    { text: '' },
    { text: 'x'.repeat(501) },
    { text: 'x', at: soon },
    { text: 'x', at: 'now' },
    { text: 'x', more: 1 },
  ]
  for (const body of bad)
    expect([body, (await server.call('POST', '/api/v1/annotations', body)).status]).toEqual([body, 400])
  expect(await textsOf(server)).toEqual([])
})

test('an operator adds a note under its name, which is audited; a reader sees it and adds none', async () => {
  const server = await TestServer.open({ token: 'secret' })
  const create = async (name: string, ...roles: string[]): Promise<Record<string, string>> =>
    bearer((await server.call('POST', '/api/v1/tokens', { name, roles }, ADMIN)).body['token'] as string)
  const [ada, reader] = [await create('ada', 'operate'), await create('reader', 'read')]
  const made = await server.call('POST', '/api/v1/annotations', { text: 'deploy' }, ada)
  expect([made.status, made.body['by']]).toEqual([201, 'ada'])
  expect(await textsOf(server, '', reader)).toEqual(['deploy'])
  expect((await server.call('POST', '/api/v1/annotations', { text: 'mine' }, reader)).status).toBe(403)
  const [noted] = (await server.get('/api/v1/audit', ADMIN)).body.items
  expect(noted).toMatchObject({ token: 'ada', method: 'POST', path: '/api/v1/annotations' })
})

test('notes of what happened more than 90 days ago go when the next one comes', async () => {
  const server = await TestServer.open()
  await server.call('POST', '/api/v1/annotations', { text: 'old' })
  server.clock.advance(91 * 24 * 3_600_000)
  await server.call('POST', '/api/v1/annotations', { text: 'new' })
  expect(await textsOf(server)).toEqual(['new'])
})
