/** `curfew explain ID`: the timeline of a job in a terminal, against a server on a clock turned by hand. */
import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { runCurfew } from '../../packages/server/src/cli/run.ts'
import { TestServer } from '../harness.ts'

let server: TestServer
beforeEach(async () => {
  server = await TestServer.open({ token: 'secret' })
  const call = async (method: string, url: string, headers: Record<string, string>): Promise<Response> => {
    const { status, text } = await server.call(method, new URL(url).pathname, undefined, headers)
    return new Response(text, { status })
  }
  vi.stubGlobal('fetch', (url: string, init: { method: string; headers: Record<string, string> }) =>
    call(init.method, url, init.headers),
  )
})
afterEach(async () => {
  vi.unstubAllGlobals()
  vi.restoreAllMocks()
  await server.close()
})

const AUTHORIZED = { authorization: 'Bearer secret' }
const post = (url: string, body: unknown) => server.call('POST', url, body, AUTHORIZED)

/** In UTC, unless the test is about the zone of the machine. */
async function run(args: readonly string[], width = 80, colour = false): Promise<{ code: number; out: string }> {
  return explain([...args, '--utc'], width, colour)
}

async function explain(args: readonly string[], width = 80, colour = false): Promise<{ code: number; out: string }> {
  let out = ''
  const write = (text: string): void => void (out += `${text}\n`)
  const code = await runCurfew(['explain', ...args], { env: { CURFEW_TOKEN: 'secret' }, width, colour, write })
  return { code, out }
}

/** A job that has run for two of its three seconds. */
async function running(): Promise<string> {
  await post('/ojs/v1/workers/register', {
    worker_id: 'w1',
    hostname: 'h',
    pid: 1,
    queues: ['default'],
    concurrency: 1,
  })
  const limits = { timeout: 3, grace_period: 1, total_timeout: 12, retry: { jitter: false } }
  const { body } = await post('/ojs/v1/jobs', { type: 'report.build', args: [], ...limits })
  await post('/ojs/v1/workers/fetch', { queues: ['default'], worker_id: 'w1' })
  await server.advance(2_000)
  return body.job.id
}

const rows = (out: string, name: string): string => out.split('\n').find((line) => line.startsWith(name)) ?? ''

test('a running attempt is drawn against its limits, with the next step and who set what', async () => {
  const id = await running()
  const { code, out } = await run([id])
  expect(code).toBe(0)
  const lines = out.split('\n')
  expect(lines[0]).toBe(`report.build  ${id}  active, attempt 1 of 3, worker w1`)
  expect(lines[1]).toBe('Next: asked to stop in 1 s, attempt ends in 2 s, retry 1 s later. Total deadline in 10 s.')
  expect(rows(out, 'try 1')).toMatch(/^try 1 {3}├█+│╌+╎▨+┃$/)
  expect(rows(out, 'try 2?')).toMatch(/^try 2\? +│ +├╌+╎▨+┃$/)
  expect(rows(out, 'life')).toMatch(/^life {4}├█+│╌+▨+┄+╌+▨+ +┃$/)
  expect(out).toMatch(/╎ {2}asked to stop +12:00:03\.000 {2}in 1 s +timeout 3 s +● set at enqueue/)
  expect(out).toMatch(/┃ {2}job ends +12:00:12\.000 {2}in 10 s +total_timeout 12 s +● set at enqueue/)
  expect(out).toContain('attempt 1 started by "w1", may run 3 s (job)')
})

test.each([30, 40, 60, 80, 120, 400])('no lane is wider than a terminal of %i columns', async (width) => {
  const id = await running()
  const { out } = await run([id], width)
  const lanes = out.split('\n').filter((line) => /^(life|try|signs|reserved|worker)/.test(line))
  expect(lanes.length).toBeGreaterThanOrEqual(3)
  for (const line of lanes) expect(line.length).toBeLessThanOrEqual(Math.max(width, 33))
})

test('times are those of this machine, with --utc in UTC; what others wrote is left as it is', async () => {
  const { body } = await post('/ojs/v1/jobs', { type: 'report.build', args: [], enqueue_ttl: 60 })
  await post('/ojs/v1/workers/fetch', { queues: ['default'], worker_id: '2026-01-01T12:00:00.000Z' })
  await server.advance(1_000)
  vi.spyOn(Date.prototype, 'getTimezoneOffset').mockReturnValue(-120)
  const [local, utc] = [(await explain([body.job.id])).out, (await explain([body.job.id, '--utc'])).out]
  expect(local).toMatch(/^2026-01-01 14:00:00\.000 {2}attempt 1 started by "2026-01-01T12:00:00\.000Z"/m)
  expect(utc).toMatch(/^2026-01-01 12:00:00\.000 {2}attempt 1 started by "2026-01-01T12:00:00\.000Z"/m)
  expect(local).toMatch(/attempt ends +14:30:00\.000/)
  expect(utc).toMatch(/attempt ends +12:30:00\.000/)
  expect(local).toMatch(/^ +14:00:00/m)
  expect(local).toMatch(/transition at 2026-01-01 14:/)
})

test('colour is there where it is wanted, and nowhere else', async () => {
  const id = await running()
  const escape = '\u001b['
  expect((await run([id], 80, true)).out).toContain(escape)
  expect((await run([id], 80, false)).out).not.toContain(escape)
})

test('--json prints the explanation with the timeline it is drawn from', async () => {
  const id = await running()
  const told = JSON.parse((await run([id, '--json'])).out) as Record<string, unknown>
  expect(told).toMatchObject({
    job_id: id,
    state: 'active',
    next: { kind: 'soft_deadline' },
    timeline: { lanes: [{ name: 'life' }, { name: 'try 1' }, { name: 'try 2', isForeseen: true }, { name: 'signs' }] },
  })
})

test('what a worker reports does not speak to the terminal', async () => {
  const { body } = await post('/ojs/v1/jobs', { type: 'report.build', args: [] })
  await post('/ojs/v1/workers/fetch', { queues: ['default'], worker_id: 'w1' })
  const error = { type: 'x\u001b[2J', message: 'y\u001b[2J' }
  await post('/ojs/v1/workers/nack', { job_id: body.job.id, worker_id: 'w1', error })
  const { out } = await run([body.job.id])
  expect(out).toContain('failed (x·[2J)')
  expect(out).not.toContain('\u001b')
})

test('a job that is not there, and a command line that is wrong, say so', async () => {
  await expect(run(['nope'])).rejects.toThrow(/no job with this id/)
  await expect(run([])).rejects.toThrow('ID is missing. Usage: curfew explain ID')
  await expect(run(['a', '--colour'])).rejects.toThrow("Unknown option '--colour'")
  expect((await run(['--help'])).out).toContain('Usage: curfew explain ID')
})
