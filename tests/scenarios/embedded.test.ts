/** The whole server inside an application: opened, asked without sockets or with them, on its own clock, and closed. */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, inject, onTestFinished, test, vi } from 'vitest'
import { FakeClock, seededRandom } from '@curfew/core'
import { openServer, SettingsError, type CurfewServer, type ServerOptions } from 'curfew'
import { at, idle, type Body } from '../harness.ts'

async function opened(options: ServerOptions = {}): Promise<CurfewServer> {
  const server = await openServer({ data: ':memory:', ...options })
  onTestFinished(() => server.close())
  return server
}

async function call(server: CurfewServer, method: string, url: string, body?: object, token?: string) {
  const response = await server.handler({
    method,
    url,
    headers: token === undefined ? {} : { authorization: `Bearer ${token}` },
    body: body === undefined ? '' : JSON.stringify(body),
    signal: new AbortController().signal,
  })
  return { status: response.status, body: JSON.parse(response.body as string) as Body }
}

const enqueue = (server: CurfewServer, more: object = {}) =>
  call(server, 'POST', '/ojs/v1/jobs', { type: 'a', args: [], ...more })
const fetchOne = (server: CurfewServer, more: object = {}) =>
  call(server, 'POST', '/ojs/v1/workers/fetch', { queues: ['default'], ...more })

const register = (server: CurfewServer) =>
  call(server, 'POST', '/ojs/v1/workers/register', {
    worker_id: 'w1',
    hostname: 'here',
    pid: 1,
    queues: ['default'],
    concurrency: 1,
    started_at: at(0),
  })

test('a server in memory answers through its handler, and two of them know nothing of each other', async () => {
  const [one, other] = [await opened(), await opened()]
  const { body } = await enqueue(one)
  expect((await fetchOne(one)).body.job.id).toBe(body.job.id)
  expect((await fetchOne(other)).body.jobs).toEqual([])
})

test('it writes nothing to stdout, and hears no signals', async () => {
  const listeners = (): number[] => ['SIGTERM', 'SIGINT', 'warning'].map((name) => process.listenerCount(name))
  const before = listeners()
  const write = vi.spyOn(process.stdout, 'write')
  const server = await opened()
  await enqueue(server)
  await server.close()
  expect(listeners()).toEqual(before)
  expect(write).not.toHaveBeenCalled()
  write.mockRestore()
})

test.each([
  ['60s', '5s', 1],
  ['5s', '5s', 1],
  ['5s', '6s', 0],
])('asked to beat every %s and dead after %s: %d warnings, and it serves', async (interval, timeout, warnings) => {
  const warn = vi.fn()
  const log = { info: () => {}, warn, error: () => {} }
  const settings = {
    'workers.heartbeat-interval': interval,
    'workers.heartbeat-timeout': timeout,
    'limits.defaults.heartbeat-timeout': '10m',
  }
  const server = await opened({ log, settings })
  expect((await enqueue(server)).status).toBe(201)
  expect(warn).toHaveBeenCalledTimes(warnings)
  const told = expect.stringMatching(/workers\.heartbeat-timeout .*workers\.heartbeat-interval/) as string
  if (warnings > 0) expect(warn).toHaveBeenCalledWith(expect.anything(), told)
})

test('on a clock that is handed in, everything is decided by it', async () => {
  const host = new FakeClock()
  const server = await opened({ host, random: seededRandom(1) })
  const { job } = (await enqueue(server, { timeout: 10, grace_period: 0, retry: { jitter: false } })).body
  expect(job.created_at).toBe(at(0))
  await fetchOne(server)
  host.advance(9_999)
  await idle()
  expect((await call(server, 'GET', `/ojs/v1/jobs/${job.id}`)).body.job.state).toBe('active')
  host.advance(1)
  await idle()
  expect((await call(server, 'GET', `/ojs/v1/jobs/${job.id}`)).body.job).toMatchObject({
    state: 'retryable',
    error: { type: 'timeout', deadline: at(10_000), overshoot_ms: 0 },
  })
  const poll = fetchOne(server, { wait_ms: 5_000 })
  await idle()
  host.advance(1_000)
  expect((await poll).body).toMatchObject({ job: { id: job.id, attempt: 2 }, x_waited_ms: 1_000 })
})

test('it says for how long nothing but housekeeping will happen', async () => {
  const host = new FakeClock()
  const server = await opened({ host })
  await idle()
  expect(await server.idleMs()).toBe(Infinity)
  expect((await register(server)).status).toBe(200)
  // A worker that is silent is judged by it.
  expect(await server.idleMs()).toBe(30_000)
  const poll = fetchOne(server, { worker_id: 'w1', wait_ms: 20_000 })
  await idle()
  expect(await server.idleMs()).toBe(Infinity)
  await enqueue(server, { queue: 'unserved' })
  expect(await server.idleMs()).toBe(Infinity)
  await call(server, 'POST', '/ojs/v1/cron', { name: 'c', cron: '@every 2h', job_template: { type: 'a', args: [] } })
  expect(await server.idleMs()).toBe(7_200_000)
  await enqueue(server, { scheduled_at: at(60_000) })
  expect(await server.idleMs()).toBe(60_000)
  const { job } = (await enqueue(server)).body
  expect((await poll).body.job.id).toBe(job.id)
  expect(await server.idleMs()).toBe(0)
})

test('it says that it is not idle while a worker that polls has to register again', async () => {
  const host = new FakeClock()
  const server = await opened({ host })
  const poll = fetchOne(server, { worker_id: 'w1', wait_ms: 20_000 })
  await idle()
  expect(await server.idleMs()).toBe(0)
  expect((await register(server)).status).toBe(200)
  // A registration ends the calls that were open before it.
  expect((await poll).body.jobs).toEqual([])
  const again = fetchOne(server, { worker_id: 'w1', wait_ms: 20_000 })
  await idle()
  expect(await server.idleMs()).toBe(Infinity)
  host.advance(20_000)
  expect((await again).body.jobs).toEqual([])
})

test.skipIf(inject('database') === undefined)('on PostgreSQL too', async () => {
  const host = new FakeClock()
  const schema = `embedded_${String(process.pid)}`
  const server = await openServer({ database: `${inject('database') ?? ''}?schema=${schema}`, host })
  onTestFinished(() => server.close())
  const { job } = (await enqueue(server, { timeout: 10 })).body
  expect(job.created_at).toBe(at(0))
  await fetchOne(server)
  host.advance(10_000)
  const look = await call(server, 'GET', `/ojs/v1/jobs/${job.id}`)
  expect(look.body.job).toMatchObject({ state: 'retryable', error: { deadline: at(10_000) } })
})

test('chance is handed in as well: the same seed makes the same ids', async () => {
  const ids = await Promise.all(
    [1, 1, 2].map(async (seed) => {
      const server = await opened({ host: new FakeClock(), random: seededRandom(seed) })
      return (await enqueue(server)).body.job.id
    }),
  )
  expect(ids[0]).toBe(ids[1])
  expect(ids[0]).not.toBe(ids[2])
})

test('settings are those of the configuration file, by their dotted keys', async () => {
  const server = await opened({ settings: { 'limits.defaults.timeout': '10m', 'limits.caps.total-timeout': '1h' } })
  expect((await enqueue(server)).body.job.x_limits).toMatchObject({ timeout_ms: 600_000, total_ms: 3_600_000 })
})

const WRONG: [string, ServerOptions, RegExp][] = [
  ['an unknown key', { settings: { 'limits.default.timeout': '10m' } }, /Unknown key "limits.default.timeout"/],
  ['a bad value', { settings: { 'limits.defaults.timeout': 'soon' } }, /limits.defaults.timeout must be a duration/],
  ['two places', { database: 'postgres://localhost/x' }, /name two places/],
  ['an empty token', { token: '' }, /token is empty/],
  ['a bad address of a database', { data: undefined, database: 'mysql://x' } as never, /postgres:\/\//],
  ['a manual clock without conformance', { settings: { clock: 'manual' } }, /conformance/],
]

test.each(WRONG)('%s is an error', async (_, options, message) => {
  const error = await openServer({ data: ':memory:', ...options }).catch((reason: unknown) => reason)
  expect(error).toBeInstanceOf(SettingsError)
  expect((error as Error).message).toMatch(message)
})

test('with a token, callers must send it', async () => {
  const server = await opened({ token: 'secret' })
  expect((await enqueue(server)).status).toBe(401)
  expect((await call(server, 'GET', '/ojs/v1/jobs', undefined, 'secret')).status).toBe(200)
})

test('it uses the given name', async () => {
  const server = await opened({ version: '9.9.9' })
  expect((await call(server, 'GET', '/ojs/manifest')).body.implementation).toMatchObject({ version: '9.9.9' })
  const own = (await call(await opened(), 'GET', '/ojs/manifest')).body.implementation as { version: string }
  expect(own.version).toMatch(/^\d+\.\d+\.\d+/)
})

test('what is worth a warning goes to the log of the application', async () => {
  const told: string[] = []
  const note = (_: object, message: string): void => void told.push(message)
  const server = await opened({ log: { info: note, warn: note, error: note } })
  const nothing = null as unknown as AbortSignal
  const broken = { method: 'POST', url: '/ojs/v1/workers/fetch', headers: {}, signal: nothing }
  const response = await server.handler({ ...broken, body: '{"queues":["a"],"wait_ms":5}' })
  expect(response.status).toBe(500)
  expect(told).toEqual(['a request broke'])
})

test('what is in a folder is there again after it was closed', async () => {
  const data = mkdtempSync(join(tmpdir(), 'curfew-embedded-'))
  onTestFinished(() => {
    rmSync(data, { recursive: true })
  })
  const first = await opened({ data })
  const { id } = (await enqueue(first)).body.job
  await first.close()
  expect((await fetchOne(await opened({ data }))).body.job.id).toBe(id)
})

test('a socket may be opened in front of it, on loopback or with a token', async () => {
  const server = await opened()
  const { address } = await server.listen()
  expect(address).toMatch(/^http:\/\/127\.0\.0\.1:\d+$/)
  expect((await fetch(`${address}/ojs/v1/health`)).status).toBe(200)
  await expect(server.listen({ host: '0.0.0.0' })).rejects.toThrow(SettingsError)
  const guarded = await opened({ token: 'secret' })
  const open = await guarded.listen({ host: '0.0.0.0', port: 0 })
  expect((await fetch(open.address.replace('0.0.0.0', '127.0.0.1') + '/ojs/v1/jobs')).status).toBe(401)
})

test('a stored token lets it be reached by others, as one that was given does', async () => {
  const server = await opened()
  const headers = { 'content-type': 'application/json' }
  const body = JSON.stringify({ name: 'root', roles: ['admin'] })
  const { signal } = new AbortController()
  expect((await server.handler({ method: 'POST', url: '/api/v1/tokens', headers, body, signal })).status).toBe(201)
  const { address } = await server.listen({ host: '0.0.0.0' })
  expect((await fetch(address.replace('0.0.0.0', '127.0.0.1') + '/ojs/v1/jobs')).status).toBe(401)
})

test('closing answers who waits, ends the sockets, and may be done twice', async () => {
  const server = await opened()
  const { address } = await server.listen()
  const poll = fetchOne(server, { wait_ms: 30_000 })
  await idle()
  await Promise.all([server.close(), server.close()])
  expect((await poll).body.jobs).toEqual([])
  await expect(fetch(`${address}/ojs/v1/health`)).rejects.toThrow()
  expect((await enqueue(server)).status).toBe(503)
})

test('it warns at its start of a configured heartbeat timeout that beats at its interval cannot keep', async () => {
  const warned: string[] = []
  const log = { info: () => {}, warn: (_: object, text: string) => void warned.push(text), error: () => {} }
  await opened({ log })
  await opened({ log, settings: { 'limits.defaults.heartbeat-timeout': '20s' } })
  expect(warned).toEqual([])
  await opened({ log, settings: { 'limits.defaults.heartbeat-timeout': '12s' } })
  expect(warned).toEqual([
    'limits.defaults.heartbeat-timeout is 12 s (a setting of the server), less than 4 heartbeat intervals of 5 s: workers that beat at that interval may be taken for stalled. Set it to at least 20 s, or shorten workers.heartbeat-interval.',
  ])
})
