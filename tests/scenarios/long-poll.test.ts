/** FETCH: what may be asked, and fetches that wait for work. */
import { expect, test } from 'vitest'
import { at, idle, TestServer, type Reply } from '../harness.ts'

/** Whether it has been answered yet. */
async function answered(poll: Promise<Reply>): Promise<boolean> {
  await idle()
  const open = Symbol('open')
  return (await Promise.race([poll, Promise.resolve(open)])) !== open
}

const ids = ({ body }: Reply): string[] => body.jobs.map(({ id }) => id)

test('without wait_ms an empty fetch answers at once', async () => {
  const server = await TestServer.open()
  expect((await server.fetch()).body).toEqual({ jobs: [], server_time: at(0), x_waited_ms: 0 })
  expect((await server.fetch({ wait_ms: 0 })).body.jobs).toEqual([])
})

test('a waiting fetch is answered by the job that comes, and otherwise at the end of its time', async () => {
  const server = await TestServer.open()
  const poll = server.fetch({ wait_ms: 10_000 })
  await server.advance(9_999)
  expect(await answered(poll)).toBe(false)
  await server.advance(1)
  expect(await answered(poll)).toBe(true)
  expect((await poll).body).toEqual({ jobs: [], server_time: at(10_000), x_waited_ms: 10_000 })
  const second = server.fetch({ wait_ms: 10_000 })
  await server.advance(3_000)
  const id = await server.enqueue()
  expect((await second).body).toMatchObject({ jobs: [{ id, started_at: at(13_000) }], server_time: at(13_000) })
})

test('an answer tells how long the server let it wait, and its lengths count from the answer', async () => {
  const server = await TestServer.open()
  await server.advance(3_000)
  const poll = server.fetch({ wait_ms: 30_000 })
  await server.advance(7_250)
  await server.enqueue({ timeout: 60 })
  const { body } = await poll
  expect([body.x_waited_ms, body.job.x_limits.soft_ms]).toEqual([7_250, 60_000])
})

test('waiting is bounded by 30 seconds, whatever was asked', async () => {
  const server = await TestServer.open()
  const poll = server.fetch({ wait_ms: 600_000 })
  await server.advance(29_999)
  expect(await answered(poll)).toBe(false)
  await server.advance(1)
  expect(await answered(poll)).toBe(true)
})

test('a fetch that finds work does not wait', async () => {
  const server = await TestServer.open()
  const id = await server.enqueue()
  expect(ids(await server.fetch({ wait_ms: 30_000, count: 5 }))).toEqual([id])
})

test('work in any of its queues wakes a poll, in another it does not', async () => {
  const server = await TestServer.open()
  const poll = server.fetch({ queues: ['first', 'second'], wait_ms: 30_000 })
  await server.advance(1_000)
  await server.enqueue({ queue: 'other' })
  expect(await answered(poll)).toBe(false)
  const id = await server.enqueue({ queue: 'second' })
  expect(ids(await poll)).toEqual([id])
})

test('of jobs that come together the first queue asked for is served first', async () => {
  const server = await TestServer.open()
  const poll = server.fetch({ queues: ['first', 'second'], wait_ms: 30_000 })
  await server.advance(1_000)
  const { jobs } = (
    await server.post('/ojs/v1/jobs/batch', {
      jobs: [
        { type: 'a', args: [], queue: 'second' },
        { type: 'a', args: [], queue: 'first' },
      ],
    })
  ).body
  expect(ids(await poll)).toEqual([jobs[1]?.id])
})

test('two polls and one job: the older gets it, the other waits on', async () => {
  const server = await TestServer.open()
  const older = server.fetch({ wait_ms: 30_000 })
  await server.advance(1_000)
  const younger = server.fetch({ wait_ms: 30_000 })
  await server.advance(1_000)
  const id = await server.enqueue()
  expect(ids(await older)).toEqual([id])
  expect(await answered(younger)).toBe(false)
  const next = await server.enqueue()
  expect(ids(await younger)).toEqual([next])
})

test('as many polls wake as there are jobs', async () => {
  const server = await TestServer.open()
  const polls = [1, 2, 3].map(() => server.fetch({ wait_ms: 30_000 }))
  await server.advance(1_000)
  await server.post('/ojs/v1/jobs/batch', { jobs: [1, 2].map(() => ({ type: 'a', args: [] })) })
  expect(await Promise.all(polls.map(answered))).toEqual([true, true, false])
})

test('a job is not handed out to a caller that hung up', async () => {
  const server = await TestServer.open()
  const gone = new AbortController()
  const body = JSON.stringify({ queues: ['default'], wait_ms: 30_000, worker_id: 'w' })
  const url = '/ojs/v1/workers/fetch'
  const lost = server.handler({ method: 'POST', url, headers: {}, body, signal: gone.signal })
  await server.advance(1_000)
  gone.abort()
  await lost
  const waiting = server.fetch({ wait_ms: 30_000 })
  const id = await server.enqueue()
  expect(ids(await waiting)).toEqual([id])
})

const CALLS: [string, string, object][] = [
  ['fetch', '/ojs/v1/workers/fetch', { queues: ['default'] }],
  ['fetch that waits', '/ojs/v1/workers/fetch', { queues: ['default'], wait_ms: 30_000 }],
  ['exchange', '/ojs/v1/workers/exchange', { fetch: { queues: ['default'] } }],
  [
    'call that listens',
    '/ojs/v1/workers/exchange',
    { fetch: { queues: ['default'], wait_ms: 30_000 }, listen: { state: 'running', seq: 1 } },
  ],
]

test.each(CALLS)('a job claimed for a %s is handed back when its caller hung up meanwhile', async (_, url, asked) => {
  const server = await TestServer.open()
  await server.register('w')
  const id = await server.enqueue({ retry: { max_attempts: 1 } })
  const gone = new AbortController()
  const body = JSON.stringify({ worker_id: 'w', ...asked })
  const lost = server.handler({ method: 'POST', url, headers: {}, body, signal: gone.signal })
  gone.abort()
  await lost
  const job = await server.job(id)
  expect(job.state).toBe('available')
  // A poll that is gone before it looks claims nothing.
  expect([job.x_interruptions, job.attempt]).toEqual(job.attempt === 0 ? [undefined, 0] : [1, 1])
  expect(ids(await server.fetch({ worker_id: 'w' }))).toEqual([id])
})

test.each(CALLS)('a job of a %s is handed back when the answer could not be written', async (_, url, asked) => {
  const server = await TestServer.open()
  await server.register('w')
  const id = await server.enqueue({ retry: { max_attempts: 1 } })
  const acts: (() => void)[] = []
  const answer = await server.handler({
    method: 'POST',
    url,
    headers: {},
    body: JSON.stringify({ worker_id: 'w', ...asked }),
    signal: new AbortController().signal,
    ifUndelivered: (act) => void acts.push(act),
  })
  expect(answer.body).toContain(id)
  expect((await server.job(id)).state).toBe('active')
  for (const act of acts) act()
  await idle()
  expect(await server.job(id)).toMatchObject({ state: 'available', x_interruptions: 1 })
  expect((await server.eventTypes(id)).slice(-2)).toEqual(['job.interrupted', 'job.enqueued'])
  await server.fetch({ worker_id: 'v' })
  for (const act of acts) act()
  await idle()
  expect(await server.job(id)).toMatchObject({ state: 'active', worker_id: 'v' })
})

test('a job that becomes due wakes a poll: scheduled, retried, resumed', async () => {
  const server = await TestServer.open()
  const scheduled = await server.enqueue({ scheduled_at: '+PT5S' })
  const first = server.fetch({ wait_ms: 30_000 })
  await server.advance(5_000)
  expect(ids(await first)).toEqual([scheduled])
  await server.nack(scheduled, { message: 'x' }, { requeue: true })
  await server.fetch()
  await server.ack(scheduled)
  await server.post('/ojs/v1/queues/default/pause')
  const paused = await server.enqueue()
  const second = server.fetch({ wait_ms: 30_000 })
  await server.advance(1_000)
  expect(await answered(second)).toBe(false)
  await server.post('/ojs/v1/queues/default/resume')
  expect(ids(await second)).toEqual([paused])
})

const DISMISSALS: [string, (server: TestServer) => Promise<unknown>][] = [
  ['deregistered', (server) => server.post('/ojs/v1/workers/deregister', { worker_id: 'w' })],
  ['told to be quiet', (server) => server.post('/ojs/v1/admin/workers/w/quiet')],
  ['told to terminate', (server) => server.post('/ojs/v1/admin/workers/w/terminate')],
  ['quiet by itself', (server) => server.beat('w', [], { state: 'quiet' })],
]

test.each(DISMISSALS)('the poll of a worker that is %s is answered with nothing', async (_, dismiss) => {
  const server = await TestServer.open()
  await server.register('w')
  const poll = server.fetch({ worker_id: 'w', wait_ms: 30_000 })
  const other = server.fetch({ worker_id: 'v', wait_ms: 30_000 })
  await server.advance(1_000)
  await dismiss(server)
  expect(await answered(poll)).toBe(true)
  expect(ids(await poll)).toEqual([])
  expect(await answered(other)).toBe(false)
})

test('the poll of a stranger whose record is removed is answered with nothing', async () => {
  const server = await TestServer.open()
  const poll = server.fetch({ worker_id: 'stranger', wait_ms: 30_000 })
  await server.advance(1_000)
  await server.call('DELETE', '/ojs/v1/admin/workers/stranger')
  expect(await answered(poll)).toBe(true)
})

test('polls are answered with nothing when the server stops', async () => {
  const server = await TestServer.open()
  const poll = server.fetch({ wait_ms: 30_000 })
  await server.advance(1_000)
  await server.close()
  expect(ids(await poll)).toEqual([])
})

test('count takes up to so many, across queues', async () => {
  const server = await TestServer.open()
  const first = [await server.enqueue({ queue: 'a' }), await server.enqueue({ queue: 'a' })]
  const second = [await server.enqueue({ queue: 'b' }), await server.enqueue({ queue: 'b' })]
  expect(ids(await server.fetch({ queues: ['a', 'b'], count: 3 }))).toEqual([...first, second[0]])
  expect(ids(await server.fetch({ queues: ['b', 'a'], count: 1000 }))).toEqual([second[1]])
  expect(ids(await server.fetch({ queues: ['a', 'a'], count: 2 }))).toEqual([])
})

const BAD: [string, unknown, number][] = [
  ['queues', undefined, 400],
  ['queues', [], 400],
  ['queues', 'default', 400],
  ['count', 0, 400],
  ['count', 1001, 400],
  ['count', 1.5, 400],
  ['count', '2', 400],
  ['wait_ms', -1, 400],
  ['wait_ms', 0.5, 400],
  ['wait_ms', '5', 400],
  ['visibility_timeout_ms', -1, 422],
  ['visibility_timeout_ms', 1.5, 422],
  ['visibility_timeout_ms', '30000', 422],
  ['visibility_timeout_ms', 315_360_000_001, 422],
  ['worker_id', '', 400],
]

test.each(BAD)('a fetch with %s = %j is refused with %i, and takes nothing', async (field, value, status) => {
  const server = await TestServer.open()
  await server.enqueue()
  const reply = await server.fetch({ [field]: value })
  expect([reply.status, reply.body.error.details.field]).toEqual([status, field])
  expect((await server.get('/ojs/v1/queues/default/stats')).body.available).toBe(1)
})

test('the alias of the fetch is the fetch', async () => {
  const server = await TestServer.open()
  const id = await server.enqueue()
  expect(ids(await server.post('/ojs/v1/jobs/fetch', { queues: ['default'] }))).toEqual([id])
})
