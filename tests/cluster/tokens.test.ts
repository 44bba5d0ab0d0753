/** Two servers on one database know the same tokens: what one makes, rotates or revokes counts on the other soon. */
import { afterAll, beforeAll, expect, test } from 'vitest'
import { Cluster } from '../postgres/cluster.ts'
import { type Reply, type ServerProcess, until } from '../process/server-process.ts'
import { Fleet } from './fleet.ts'

let database: Cluster
let fleet: Fleet
let first: ServerProcess
let second: ServerProcess

beforeAll(async () => {
  database = await Cluster.start()
  fleet = await Fleet.start({ database: database.url(), skewsMs: [0, 0], flags: ['--token', 'secret'] })
  const [one, other] = fleet.members.map(({ server }) => server)
  if (one == null || other == null) throw new Error('no servers')
  ;[first, second] = [one, other]
}, 120_000)
afterAll(async () => {
  await fleet.stop()
  await database.remove()
})

const ADMIN = { authorization: 'Bearer secret' }
const bearer = (token: string): Record<string, string> => ({ authorization: `Bearer ${token}` })
const queues = (server: ServerProcess, headers: Record<string, string>): Promise<Reply> =>
  server.get('/ojs/v1/queues', headers)

/** Waits until the server answers so, and tells how long that took. */
async function soon(server: ServerProcess, headers: Record<string, string>, status: number): Promise<number> {
  const since = performance.now()
  await until(`a ${String(status)}`, async () => ((await queues(server, headers)).status === status ? true : undefined))
  return performance.now() - since
}

async function create(server: ServerProcess, name: string): Promise<string> {
  const { status, body } = await server.call('POST', '/api/v1/tokens', { name, roles: ['read'] }, ADMIN)
  expect(status).toBe(201)
  return String(body.token)
}

test('a new token counts on the other server, and a revoked one does not, within two seconds', async () => {
  const token = bearer(await create(first, 'ci'))
  expect((await queues(first, token)).status).toBe(200)
  expect(await soon(second, token, 200)).toBeLessThan(2_000)
  await second.call('DELETE', '/api/v1/tokens/ci', undefined, ADMIN)
  expect((await queues(second, token)).status).toBe(401)
  expect(await soon(first, token, 401)).toBeLessThan(2_000)
})

test('a rotation on one server counts on the other', async () => {
  const old = bearer(await create(first, 'app'))
  await soon(second, old, 200)
  const { body } = await second.call('POST', '/api/v1/tokens/app/rotate', { overlap_ms: 0 }, ADMIN)
  expect(await soon(first, bearer(String(body.token)), 200)).toBeLessThan(2_000)
  expect(await soon(first, old, 401)).toBeLessThan(2_000)
})

test('a session of one server is known by the other, and ends on both', async () => {
  const token = await create(first, 'ada')
  const signedIn = await first.call('POST', '/api/v1/session', undefined, bearer(token))
  const [cookie = ''] = [signedIn.headers['set-cookie'] ?? []].flat()
  const session = { cookie: cookie.split(';')[0] ?? '' }
  await soon(second, session, 200)
  await first.call('DELETE', '/api/v1/tokens/ada', undefined, ADMIN)
  expect(await soon(second, session, 401)).toBeLessThan(2_000)
})

test('a server that lost its connection to the database meanwhile knows the tokens afterwards', async () => {
  const token = bearer(await create(first, 'late'))
  await soon(second, token, 200)
  const [, member] = fleet.members
  if (member === undefined) throw new Error('no server')
  fleet.pause(member)
  await first.call('DELETE', '/api/v1/tokens/late', undefined, ADMIN)
  fleet.resume(member)
  await soon(second, token, 401)
})

test('the uses of a token on either server are shown by both', async () => {
  const token = bearer(await create(first, 'seen'))
  await soon(second, token, 200)
  const lastUse = async (server: ServerProcess): Promise<unknown> => {
    const { body } = await server.call('GET', '/api/v1/tokens', undefined, ADMIN)
    return (body.items as { name: string; last_used_at: string | null }[]).find(({ name }) => name === 'seen')
      ?.last_used_at
  }
  expect(await lastUse(second)).toEqual(expect.any(String))
  // The other server hears of it when it is written down, after half a minute at most; a stop writes it at once.
  await second.stop()
  await until('the use on the other server', async () => ((await lastUse(first)) == null ? undefined : true))
})
