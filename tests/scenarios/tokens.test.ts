/** Tokens by name: made, used, rotated, revoked; and the audit of what operators change with them. */
import { expect, test } from 'vitest'
import { TestServer, type Reply } from '../harness.ts'
import { openTestStore } from '../stores.ts'

const bearer = (token: string): Record<string, string> => ({ authorization: `Bearer ${token}` })
const ADMIN = bearer('secret')

const open = (): Promise<TestServer> => TestServer.open({ token: 'secret' })

async function create(server: TestServer, name: string, ...roles: string[]): Promise<string> {
  const reply = await server.call('POST', '/api/v1/tokens', { name, roles }, ADMIN)
  expect(reply.status).toBe(201)
  return reply.body['token'] as string
}

const codeOf = ({ status, body }: Reply): unknown[] => [status, body['code'] ?? body['error']?.code]

test('a token does what its roles allow, and a refusal names the role that is missing', async () => {
  const server = await open()
  const token = await create(server, 'shop', 'produce')
  const job = { type: 'a', args: [] }
  expect((await server.call('POST', '/ojs/v1/jobs', job, bearer(token))).status).toBe(201)
  const refused = await server.call('POST', '/ojs/v1/queues/default/pause', undefined, bearer(token))
  expect([refused.status, refused.body.error]).toMatchObject([
    403,
    {
      code: 'permission_denied',
      message: 'This needs the role operate; the token shop has produce.',
      details: { required_roles: ['operate'], roles: ['produce'] },
    },
  ])
  expect((await server.get('/ojs/v1/queues/default', ADMIN)).body['status']).not.toBe('paused')
})

test('a token may have several roles, and operate includes read', async () => {
  const server = await open()
  const both = bearer(await create(server, 'app', 'work', 'produce'))
  expect((await server.call('POST', '/ojs/v1/workers/fetch', { queues: ['a'] }, both)).status).toBe(200)
  expect((await server.call('POST', '/ojs/v1/jobs', { type: 'a', args: [] }, both)).status).toBe(201)
  expect((await server.get('/ojs/v1/queues', both)).status).toBe(403)
  const operator = bearer(await create(server, 'ada', 'operate'))
  expect((await server.get('/ojs/v1/queues', operator)).status).toBe(200)
  expect((await server.call('POST', '/ojs/v1/jobs', { type: 'a', args: [] }, operator)).status).toBe(403)
})

test('the store holds no token, and no answer but the one that made it shows it', async () => {
  const server = await open()
  const token = await create(server, 'ada', 'admin')
  await server.call('POST', '/ojs/v1/queues/default/pause', undefined, bearer(token))
  const secret = token.slice(-43)
  const docs = await server.store.docs('token', '', null, 10)
  const shown = [
    JSON.stringify(docs),
    JSON.stringify(await server.store.docs('operator-action', '', null, 10)),
    (await server.get('/api/v1/tokens', ADMIN)).text,
    (await server.get('/api/v1/audit', ADMIN)).text,
    (await server.get('/ojs/v1/events', ADMIN)).text,
    (await server.get('/metrics')).text,
    JSON.stringify(server.logged),
  ].join('\n')
  expect(docs).toHaveLength(1)
  expect([secret.length, shown.includes(secret), shown.includes('operator.action')]).toEqual([43, false, true])
})

test('two secrets count during a rotation, and the old one ends with the overlap', async () => {
  const server = await open()
  const old = await create(server, 'ci', 'read')
  const rotated = await server.call('POST', '/api/v1/tokens/ci/rotate', { overlap_ms: 60_000 }, ADMIN)
  const fresh = rotated.body['token'] as string
  const status = async (token: string): Promise<number> => (await server.get('/ojs/v1/queues', bearer(token))).status
  expect(rotated.body).toMatchObject({ name: 'ci', valid_secrets: 2, old_secret_until: '2026-01-01T12:01:00.000Z' })
  expect([await status(old), await status(fresh)]).toEqual([200, 200])
  await server.advance(59_999)
  expect(await status(old)).toBe(200)
  await server.advance(1)
  expect([await status(old), await status(fresh)]).toEqual([401, 200])
  const said = await server.get('/ojs/v1/queues', bearer(old))
  expect(said.body.error.message).toBe('The token ci was rotated, and the time for its old secret is over.')
})

test('a second rotation ends the oldest secret at once, and an overlap of 0 the one before', async () => {
  const server = await open()
  const tokens = [await create(server, 'ci', 'read')]
  for (const overlap_ms of [60_000, 60_000, 0])
    tokens.push((await server.call('POST', '/api/v1/tokens/ci/rotate', { overlap_ms }, ADMIN)).body['token'] as string)
  const statuses = await Promise.all(
    tokens.map(async (token) => (await server.get('/ojs/v1/queues', bearer(token))).status),
  )
  expect(statuses).toEqual([401, 401, 401, 200])
})

test('a revoked token is refused at once and stays in the list; its name may be used again', async () => {
  const server = await open()
  const token = await create(server, 'ada', 'operate')
  expect((await server.get('/ojs/v1/queues', bearer(token))).status).toBe(200)
  expect((await server.call('DELETE', '/api/v1/tokens/ada', undefined, ADMIN)).body).toMatchObject({ state: 'revoked' })
  const refused = await server.get('/ojs/v1/queues', bearer(token))
  expect([refused.status, refused.body.error.message]).toEqual([401, 'The token ada was revoked.'])
  expect((await server.get('/api/v1/tokens', ADMIN)).body.items).toMatchObject([{ name: 'ada', state: 'revoked' }])
  expect(codeOf(await server.call('DELETE', '/api/v1/tokens/ada', undefined, ADMIN))).toEqual([409, 'conflict'])
  expect(codeOf(await server.call('POST', '/api/v1/tokens/ada/rotate', {}, ADMIN))).toEqual([409, 'conflict'])
  const again = await create(server, 'ada', 'read')
  expect((await server.get('/ojs/v1/queues', bearer(again))).status).toBe(200)
  expect((await server.get('/ojs/v1/queues', bearer(token))).status).toBe(401)
})

test('an open stream ends when its token is revoked', async () => {
  const server = await open()
  const token = await create(server, 'ada', 'read')
  const other = await create(server, 'bob', 'read')
  const stream = await server.listen('/ojs/v1/events/stream', bearer(token))
  const kept = await server.listen('/ojs/v1/events/stream', bearer(other))
  await server.call('DELETE', '/api/v1/tokens/ada', undefined, ADMIN)
  await server.advance(0)
  expect([stream.ended, kept.ended]).toEqual([true, false])
  kept.hangUp()
})

test('when a token was last used is shown, and survives a restart', async () => {
  const store = await openTestStore()
  const server = await TestServer.open({ token: 'secret', store })
  const token = await create(server, 'ci', 'read')
  const lastUse = async (of: TestServer): Promise<unknown> =>
    ((await of.get('/api/v1/tokens', ADMIN)).body.items as unknown as { last_used_at: unknown }[])[0]?.last_used_at
  expect(await lastUse(server)).toBeNull()
  await server.advance(5_000)
  await server.get('/ojs/v1/queues', bearer(token))
  expect(await lastUse(server)).toBe('2026-01-01T12:00:05.000Z')
  await server.advance(40_000)
  const later = await TestServer.open({ token: 'secret', store, clock: server.clock })
  expect(await lastUse(later)).toBe('2026-01-01T12:00:05.000Z')
})

test('the first token of an open server must be an administrator, and closes it', async () => {
  const server = await TestServer.open()
  const refused = await server.post('/api/v1/tokens', { name: 'ci', roles: ['read', 'operate'] })
  expect(codeOf(refused)).toEqual([409, 'conflict'])
  expect((await server.get('/ojs/v1/queues')).status).toBe(200)
  const { body, status } = await server.post('/api/v1/tokens', { name: 'root', roles: ['admin'] })
  expect([status, (await server.get('/ojs/v1/queues')).status]).toEqual([201, 401])
  const root = bearer(body['token'] as string)
  expect((await server.get('/ojs/v1/queues', root)).status).toBe(200)
  // No further token could be made.
  expect(codeOf(await server.call('DELETE', '/api/v1/tokens/root', undefined, root))).toEqual([409, 'conflict'])
  await server.call('POST', '/api/v1/tokens', { name: 'second', roles: ['admin'] }, root)
  expect((await server.call('DELETE', '/api/v1/tokens/root', undefined, root)).status).toBe(200)
  expect((await server.get('/ojs/v1/queues')).status).toBe(401)
})

test('a server that had tokens stays closed when it is opened again', async () => {
  const store = await openTestStore()
  const server = await TestServer.open({ store })
  const root = (await server.post('/api/v1/tokens', { name: 'root', roles: ['admin'] })).body['token'] as string
  const again = await TestServer.open({ store, clock: server.clock })
  expect((await again.get('/ojs/v1/queues')).status).toBe(401)
  expect((await again.get('/ojs/v1/queues', bearer(root))).status).toBe(200)
})

test('what is not right about a new token is refused, and nothing is made', async () => {
  const server = await open()
  await create(server, 'ci', 'read')
  for (const [sent, status] of [
    [{ name: 'ci', roles: ['read'] }, 409],
    [{ name: 'a b', roles: ['read'] }, 400],
    [{ name: '--token', roles: ['read'] }, 400],
    [{ name: 'x'.repeat(65), roles: ['read'] }, 400],
    [{ name: 'x', roles: [] }, 400],
    [{ name: 'x', roles: ['root'] }, 400],
    [{ name: 'x', roles: 'read' }, 400],
    [{ name: 'x', roles: ['read'], expires: 5 }, 400],
    [{ roles: ['read'] }, 400],
  ] as const)
    expect([sent, (await server.call('POST', '/api/v1/tokens', sent, ADMIN)).status]).toEqual([sent, status])
  expect((await server.call('POST', '/api/v1/tokens/ci/rotate', { overlap_ms: -1 }, ADMIN)).status).toBe(400)
  expect((await server.call('POST', '/api/v1/tokens/nope/rotate', {}, ADMIN)).status).toBe(404)
  expect((await server.call('DELETE', '/api/v1/tokens/nope', undefined, ADMIN)).status).toBe(404)
  expect((await server.get('/api/v1/tokens', ADMIN)).body.items).toHaveLength(1)
})

test('every change by an operator is written down with the name of the token, and refused ones are not', async () => {
  const server = await open()
  const ada = bearer(await create(server, 'ada', 'operate', 'produce'))
  const { id } = (await server.call('POST', '/ojs/v1/jobs', { type: 'a', args: [] }, ada)).body.job
  await server.call('POST', '/ojs/v1/queues/mail/pause', undefined, { ...ada, 'x-request-id': 'r-1' })
  await server.call('DELETE', `/ojs/v1/jobs/${id}`, undefined, ada)
  await server.call('DELETE', '/ojs/v1/jobs/nope', undefined, ada)
  await server.call('PUT', '/ojs/v1/admin/pools/p', { queues: ['a'] }, ada)
  await server.get('/ojs/v1/queues', ada)
  const { items } = (await server.get('/api/v1/audit', ADMIN)).body
  expect((items as unknown as { token: string; action: string }[]).map(({ token, action }) => [token, action])).toEqual(
    [
      ['ada', 'delete_ojs_v1_jobs_id'],
      ['ada', 'post_ojs_v1_queues_name_pause'],
      ['--token', 'post_api_v1_tokens'],
    ],
  )
  expect(items[1]).toMatchObject({
    time: '2026-01-01T12:00:00.000Z',
    via: 'bearer',
    method: 'POST',
    path: '/ojs/v1/queues/mail/pause',
    object: { name: 'mail' },
    request_id: 'r-1',
  })
  const { events } = (await server.get('/ojs/v1/events?types=operator.action&queues=mail', ADMIN)).body
  expect(events).toMatchObject([{ subject: 'ada', data: { token: 'ada', object: { name: 'mail' } } }])
  const page = (await server.get('/api/v1/audit?limit=2', ADMIN)).body
  const next = (await server.get(`/api/v1/audit?limit=2&cursor=${page['next_cursor'] as string}`, ADMIN)).body
  expect([...page.items, ...next.items]).toEqual(items)
})

test('a change that many commands make is written down once', async () => {
  const server = await open()
  const ada = bearer(await create(server, 'ada', 'operate', 'produce'))
  for (let n = 0; n < 5; n += 1) await server.call('POST', '/ojs/v1/jobs', { type: 'a', args: [] }, ada)
  const done = await server.call('POST', '/ojs/v1/jobs/bulk/cancel', { filter: { type: 'a' } }, ada)
  expect(done.status).toBe(200)
  const { items } = (await server.get('/api/v1/audit', ADMIN)).body
  expect(items.map(({ action }) => action as unknown)).toEqual(['post_ojs_v1_jobs_bulk_cancel', 'post_api_v1_tokens'])
})

test('guesses at the token of the command line are limited; tokens that were found good are not', async () => {
  const server = await open()
  const ada = await create(server, 'ada', 'read')
  const statuses = new Set<number>()
  for (let n = 0; n < 200; n += 1)
    statuses.add((await server.get('/ojs/v1/queues', bearer(`wrong ${String(n)}`))).status)
  expect([...statuses]).toEqual([401])
  expect(codeOf(await server.get('/ojs/v1/queues', bearer('one more')))).toEqual([429, 'rate_limited'])
  expect((await server.get('/ojs/v1/queues', ADMIN)).status).toBe(200)
  expect((await server.get('/ojs/v1/queues', bearer(ada))).status).toBe(200)
  await server.advance(1_000)
  expect((await server.get('/ojs/v1/queues', bearer('one more')))['status']).toBe(401)
})

const HOSTILE: readonly (readonly [string, string])[] = [
  ['an empty header', ''],
  ['a scheme without a token', 'Bearer'],
  ['another scheme', 'Basic c2VjcmV0'],
  ['a long header', `Bearer ${'a'.repeat(15_000)}`],
  ['a token with a wrong secret', `Bearer curfew_${'0'.repeat(12)}_${'A'.repeat(43)}`],
  ['bytes that are not ASCII', 'Bearer sécret\u0000'],
  ['two tokens', 'Bearer secret, Bearer secret'],
  ['the name of a member of every object', 'Bearer __proto__'],
]

test('headers of every kind are refused with 401', async () => {
  const server = await open()
  const ada = await create(server, 'ada', 'read')
  const all = [...HOSTILE, ['the token of another with its last sign changed', `Bearer ${ada.slice(0, -2)}..`] as const]
  for (const [what, authorization] of all) {
    const reply = await server.get('/ojs/v1/queues', { authorization })
    const said = [what, reply.status, reply.headers['WWW-Authenticate'], reply.body.error.code]
    expect(said).toEqual([what, 401, 'Bearer', 'unauthenticated'])
  }
})
