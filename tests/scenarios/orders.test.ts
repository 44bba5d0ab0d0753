/** The open call of a worker: jobs and orders arrive at once, in the answer to the one call it keeps open. */
import { expect, test } from 'vitest'
import { at, idle, TestServer, type Reply } from '../harness.ts'

interface Asked {
  readonly state?: string
  readonly seq?: number
  readonly heard?: readonly { job_id: string; x_lease: number }[]
  readonly count?: number
  readonly wait_ms?: number
  readonly queues?: readonly string[]
  readonly worker?: string
  /** Reports and the beat. */
  readonly more?: object
}

let lastSeq = 0

/** Opens the call of worker w. */
function listen(server: TestServer, asked: Asked = {}): Promise<Reply> {
  const { state = 'running', seq = (lastSeq += 1), heard, count = 10, wait_ms = 30_000, queues = ['default'] } = asked
  return server.post('/ojs/v1/workers/exchange', {
    worker_id: asked.worker ?? 'w',
    listen: { state, seq, ...(heard === undefined ? {} : { heard }) },
    fetch: { queues, count, wait_ms },
    ...asked.more,
  })
}

async function answered(call: Promise<Reply>): Promise<boolean> {
  await idle()
  const open = Symbol('open')
  return (await Promise.race([call, Promise.resolve(open)])) !== open
}

/** A server that knows worker w, which holds so many jobs. */
async function working(count = 0, job: object = {}): Promise<{ server: TestServer; ids: string[] }> {
  const server = await TestServer.open()
  await server.register('w')
  const ids: string[] = []
  for (let n = 0; n < count; n += 1) ids.push((await server.start({ ...job }, { worker_id: 'w' })).id)
  return { server, ids }
}

const cancel = (server: TestServer, id: string | undefined): Promise<Reply> =>
  server.call('DELETE', `/ojs/v1/jobs/${String(id)}`)
const direct = (server: TestServer, word: string): Promise<Reply> => server.post(`/ojs/v1/admin/workers/w/${word}`)

test('an open call with nothing to say is answered at the end of its time, without orders', async () => {
  const { server } = await working()
  const call = listen(server, { wait_ms: 10_000 })
  await server.advance(9_999)
  expect(await answered(call)).toBe(false)
  await server.advance(1)
  expect((await call).body).toEqual({
    checkpoints: [],
    acks: [],
    nacks: [],
    jobs: [],
    server_time: at(10_000),
    x_waited_ms: 10_000,
  })
})

test('an open call is answered by the job that comes', async () => {
  const { server } = await working()
  const call = listen(server)
  await server.advance(3_000)
  const id = await server.enqueue()
  const { body } = await call
  expect(body.jobs).toMatchObject([{ id, worker_id: 'w' }])
  expect(body['orders']).toBeUndefined()
})

test('an open call hears of a cancel at once', async () => {
  const { server, ids } = await working(2)
  const call = listen(server)
  await server.advance(2_000)
  expect(await answered(call)).toBe(false)
  await cancel(server, ids[1])
  expect((await call).body).toMatchObject({
    jobs: [],
    orders: { state: 'running', x_cancel_jobs: [{ job_id: ids[1], reason: 'cancelled', x_lease: 1 }] },
    x_waited_ms: 2_000,
  })
})

test('an open call hears at that instant of an attempt that the server ends at its deadline', async () => {
  const { server, ids } = await working(1, { timeout: 5, grace_period: 0 })
  const call = listen(server)
  await server.advance(5_000)
  expect((await call).body).toMatchObject({
    orders: { x_cancel_jobs: [{ job_id: ids[0], reason: 'timeout', x_lease: 1 }] },
    x_waited_ms: 5_000,
  })
})

test('an order from before the call is sent at once, until the worker acknowledges it', async () => {
  const { server, ids } = await working(2)
  await cancel(server, ids[0])
  await cancel(server, ids[1])
  const both = [
    { job_id: ids[0], reason: 'cancelled', x_lease: 1 },
    { job_id: ids[1], reason: 'cancelled', x_lease: 1 },
  ]
  expect((await listen(server)).body['orders']).toEqual({ state: 'running', x_cancel_jobs: both })
  expect((await listen(server)).body['orders']).toEqual({ state: 'running', x_cancel_jobs: both })
  const first = { job_id: String(ids[0]), x_lease: 1 }
  expect((await listen(server, { heard: [first] })).body['orders'].x_cancel_jobs).toEqual([both[1]])
  expect((await server.beat('w', [])).body.x_cancel_jobs).toEqual([both[1]])
  const call = listen(server, { heard: [first, { job_id: String(ids[1]), x_lease: 1 }] })
  expect(await answered(call)).toBe(false)
  expect((await server.beat('w', [])).body.x_cancel_jobs).toEqual([])
})

test('what was heard of one lease is not heard of another', async () => {
  const { server, ids } = await working(1)
  await cancel(server, ids[0])
  const { body } = await listen(server, { heard: [{ job_id: String(ids[0]), x_lease: 2 }] })
  expect(body['orders'].x_cancel_jobs).toHaveLength(1)
})

test('an order is sent whatever the beats of the worker list', async () => {
  const { server } = await working()
  const { id } = await server.start({ visibility_timeout: 10 }, { worker_id: 'w' })
  await server.advance(10_000)
  await server.fetch({ worker_id: 'w' })
  await server.beat('w', [id], { x_leases: { [id]: 2 } })
  expect((await listen(server)).body['orders'].x_cancel_jobs).toEqual([{ job_id: id, reason: 'lost', x_lease: 1 }])
})

test('orders that are older than a minute are not told', async () => {
  const { server, ids } = await working(1)
  await cancel(server, ids[0])
  for (let beat = 0; beat < 6; beat += 1) {
    await server.advance(10_000)
    await server.beat('w', [])
  }
  const call = listen(server)
  expect(await answered(call)).toBe(false)
})

test.each(['quiet', 'terminate'])('an open call hears of %s by an operator at once, with no jobs', async (word) => {
  const { server } = await working()
  const call = listen(server)
  await server.advance(1_000)
  const told = direct(server, word)
  await Promise.all([told, server.enqueue()])
  expect((await call).body).toMatchObject({ jobs: [], orders: { state: word, x_cancel_jobs: [] } })
  expect((await listen(server)).body).toMatchObject({ jobs: [], orders: { state: word } })
})

test('a worker that does as it was asked has nothing to hear, and gets no jobs', async () => {
  const { server } = await working()
  await direct(server, 'quiet')
  await server.enqueue()
  const call = listen(server, { state: 'quiet', count: 5 })
  await server.advance(1_000)
  await server.enqueue()
  expect(await answered(call)).toBe(false)
  await direct(server, 'terminate')
  expect((await call).body).toMatchObject({ jobs: [], orders: { state: 'terminate' } })
})

test('the open call of a quiet worker hears of resume by an operator, and then gets jobs at once', async () => {
  const { server } = await working()
  await direct(server, 'quiet')
  const id = await server.enqueue()
  const call = listen(server, { state: 'quiet' })
  expect(await answered(call)).toBe(false)
  await direct(server, 'resume')
  expect((await call).body).toMatchObject({ jobs: [], orders: { state: 'running' } })
  expect((await listen(server)).body.jobs).toMatchObject([{ id }])
  // It has reported running: what it does from here on is its own.
  const own = listen(server, { state: 'quiet' })
  expect(await answered(own)).toBe(false)
})

test('a quiet worker is held open and hears of cancels', async () => {
  const { server, ids } = await working(1)
  const call = listen(server, { state: 'quiet' })
  await server.advance(1_000)
  await cancel(server, ids[0])
  expect((await call).body['orders']).toMatchObject({ state: 'quiet', x_cancel_jobs: [{ job_id: ids[0] }] })
  expect((await server.get('/ojs/v1/workers/w')).body['state']).toBe('quiet')
  expect((await server.eventTypes('w')).filter((type) => type === 'worker.quiet')).toHaveLength(1)
})

test('a call for no jobs hears orders and leaves jobs to others', async () => {
  const { server, ids } = await working(1)
  const call = listen(server, { count: 0 })
  await server.advance(1_000)
  const id = await server.enqueue()
  expect(await answered(call)).toBe(false)
  expect((await server.fetch({ worker_id: 'other' })).body.jobs).toMatchObject([{ id }])
  await cancel(server, ids[0])
  expect((await call).body).toMatchObject({ jobs: [], orders: { x_cancel_jobs: [{ job_id: ids[0] }] } })
})

test('jobs and orders may come in one answer', async () => {
  const { server, ids } = await working(1)
  await cancel(server, ids[0])
  const id = await server.enqueue()
  expect((await listen(server)).body).toMatchObject({
    jobs: [{ id }],
    orders: { state: 'running', x_cancel_jobs: [{ job_id: ids[0] }] },
  })
})

const BAD: [string, object, string][] = [
  ['count 0 without listen', { fetch: { queues: ['a'], count: 0 } }, 'fetch.count'],
  ['a negative count', { fetch: { queues: ['a'], count: -1 }, listen: { state: 'running', seq: 1 } }, 'fetch.count'],
  ['an unknown state', { listen: { state: 'drain', seq: 1 } }, 'listen.state'],
  ['no state', { listen: { seq: 1 } }, 'listen.state'],
  ['no seq', { listen: { state: 'quiet' } }, 'listen.seq'],
  ['a negative seq', { listen: { state: 'quiet', seq: -1 } }, 'listen.seq'],
  [
    'an order without its lease',
    { listen: { state: 'quiet', seq: 1, heard: [{ job_id: 'a' }] } },
    'listen.heard[0].x_lease',
  ],
]

test.each(BAD)('a call with %s is refused', async (_, body, field) => {
  const { server } = await working()
  const reply = await server.post('/ojs/v1/workers/exchange', { worker_id: 'w', ...body })
  expect([reply.status, reply.body['error'].details.field]).toEqual([400, field])
})

test('listen alone is answered at once with what there is', async () => {
  const { server, ids } = await working(1)
  const alone = (): Promise<Reply> =>
    server.post('/ojs/v1/workers/exchange', { worker_id: 'w', listen: { state: 'running', seq: (lastSeq += 1) } })
  expect((await alone()).body['orders']).toBeUndefined()
  await cancel(server, ids[0])
  expect((await alone()).body).toMatchObject({ orders: { x_cancel_jobs: [{ job_id: ids[0] }] } })
})

test('reports do not wait, and orders come with their answer', async () => {
  const { server, ids } = await working(2)
  await cancel(server, ids[1])
  const acks = { acks: [{ job_id: ids[0], x_lease: 1 }] }
  expect((await listen(server, { more: acks })).body).toMatchObject({
    acks: [{ ok: true }],
    jobs: [],
    orders: { x_cancel_jobs: [{ job_id: ids[1] }] },
  })
  const repeated = await listen(server, { more: acks, heard: [{ job_id: String(ids[1]), x_lease: 1 }] })
  expect(repeated.body).toMatchObject({ acks: [{ ok: true, already: true }], x_waited_ms: 0 })
  expect(repeated.body['orders']).toBeUndefined()
})

test('a beat in the same call is answered with it, and held only while there is nothing to say', async () => {
  const { server, ids } = await working(1)
  const more = { beat: { active_job_ids: ids } }
  const call = listen(server, { more })
  await server.advance(1_000)
  expect(await answered(call)).toBe(false)
  await cancel(server, ids[0])
  expect((await call).body).toMatchObject({ beat: { jobs_extended: ids }, orders: { x_cancel_jobs: [{}] } })
  expect((await listen(server, { more, state: 'quiet' })).body).toMatchObject({ beat: {}, orders: {} })
})

test('a newer call of the same worker takes the place of the older one, which is answered empty at once', async () => {
  const { server } = await working()
  const older = listen(server, { seq: 7 })
  await server.advance(1_000)
  const newer = listen(server, { seq: 8 })
  expect(await answered(newer)).toBe(false)
  expect((await older).body).toMatchObject({ jobs: [], x_waited_ms: 1_000 })
  const late = listen(server, { seq: 6 })
  expect((await late).body).toMatchObject({ jobs: [] })
  const id = await server.enqueue()
  expect((await newer).body.jobs).toMatchObject([{ id }])
})

test('the calls of others, and plain fetches of the same worker, are left alone by a newer call', async () => {
  const { server } = await working()
  const plain = server.fetch({ worker_id: 'w', queues: ['a'], wait_ms: 30_000 })
  await server.register('v')
  const other = listen(server, { worker: 'v', seq: 1, queues: ['b'] })
  await idle()
  const newer = listen(server, { seq: 9, queues: ['c'] })
  expect(await Promise.all([plain, other, newer].map(answered))).toEqual([false, false, false])
})

test('a job is not lost between an older call and the one that takes its place', async () => {
  const { server } = await working()
  for (let round = 0; round < 20; round += 1) {
    const older = listen(server)
    await idle()
    const [id, newer] = [server.enqueue(), listen(server, { wait_ms: 1_000 })]
    await server.advance(1_000)
    const got = [...(await older).body.jobs, ...(await newer).body.jobs].map((job) => job.id)
    expect(got).toEqual([await id])
    await server.ack(String(got[0]))
  }
})

test('a registration ends the calls that an earlier process of the same id left open', async () => {
  const { server } = await working()
  const left = listen(server, { seq: 1_000_000 })
  await idle()
  await server.register('w')
  expect((await left).body.jobs).toEqual([])
  // The clock of the new process began anew.
  const call = listen(server, { seq: 5 })
  expect(await answered(call)).toBe(false)
  const id = await server.enqueue()
  expect((await call).body.jobs).toMatchObject([{ id }])
})

const DISMISSALS: [string, (server: TestServer) => unknown][] = [
  ['registers again', (server) => server.register('w')],
  ['deregisters', (server) => server.post('/ojs/v1/workers/deregister', { worker_id: 'w' })],
  ['beats quiet', (server) => server.beat('w', [], { state: 'quiet' })],
  ['beats terminate', (server) => server.beat('w', [], { state: 'terminate' })],
  ['is asked to be quiet', (server) => direct(server, 'quiet')],
  ['is asked to terminate', (server) => direct(server, 'terminate')],
  ['finds the server stopping', (server) => void server.engine.beginClose()],
]

test.each(DISMISSALS)('the open call of a worker that %s is answered', async (_, happen) => {
  const { server } = await working()
  const call = listen(server)
  await server.advance(1_000)
  await happen(server)
  expect(await answered(call)).toBe(true)
  expect((await call).body.jobs).toEqual([])
})

test.each([
  ['of a quiet worker', 'quiet', { state: 'quiet' }],
  ['of a worker that terminates', 'terminate', { state: 'terminate' }],
  ['for no jobs', 'quiet', { state: 'running', count: 0 }],
])('a beat of a worker that is not running leaves an open call %s open', async (_, state, asked) => {
  const { server, ids } = await working(1)
  const call = listen(server, { ...asked, seq: 1 })
  await server.advance(1_000)
  await server.beat('w', ids, { state, seq: 2 })
  await server.post('/ojs/v1/workers/exchange', { worker_id: 'w', beat: { state, seq: 3, active_job_ids: ids } })
  expect(await answered(call)).toBe(false)
  await cancel(server, ids[0])
  expect((await call).body['orders']).toMatchObject({ x_cancel_jobs: [{ job_id: ids[0] }] })
})

test('the call of a worker whose caller hung up takes no job', async () => {
  const { server } = await working()
  const gone = new AbortController()
  const body = JSON.stringify({
    worker_id: 'w',
    listen: { state: 'running', seq: 1 },
    fetch: { queues: ['default'], wait_ms: 30_000 },
  })
  const lost = server.handler({
    method: 'POST',
    url: '/ojs/v1/workers/exchange',
    headers: {},
    body,
    signal: gone.signal,
  })
  await server.advance(1_000)
  gone.abort()
  await lost
  const id = await server.enqueue()
  expect((await server.job(id)).state).toBe('available')
})

test('an order that is stored while the call is being opened is not missed', async () => {
  const { server, ids } = await working(3)
  const heard: { job_id: string; x_lease: number }[] = []
  for (const id of ids) {
    const [call] = [listen(server, { heard }), cancel(server, id)]
    expect(await answered(call)).toBe(true)
    expect((await call).body['orders'].x_cancel_jobs).toMatchObject([{ job_id: id }])
    heard.push({ job_id: id, x_lease: 1 })
  }
})

test('a call that is open keeps its worker alive, and writes its row no more often than a fetch that waits', async () => {
  const versions: (number | undefined)[] = []
  for (const waits of [listen, (server: TestServer) => server.fetch({ worker_id: 'w', wait_ms: 30_000 })]) {
    const { server } = await working()
    for (let calls = 0; calls < 4; calls += 1) {
      const call = waits(server)
      await server.advance(30_000)
      await call
    }
    expect((await server.get('/ojs/v1/workers/w')).status).toBe(200)
    versions.push((await server.store.worker('w'))?.version)
  }
  expect(versions[0]).toBeLessThanOrEqual(versions[1] ?? 0)
})

test('a worker that the server does not know is asked at once to register', async () => {
  const server = await TestServer.open()
  expect((await listen(server)).body['orders']).toEqual({ state: 'running', x_cancel_jobs: [], x_reregister: true })
  await server.advance(60_000)
  expect((await server.get('/ojs/v1/workers/w')).status).toBe(404)
  const { body } = await listen(server)
  expect(body).toMatchObject({ orders: { x_reregister: true }, x_waited_ms: 0 })
})

test('a worker is asked to register with every answer until it has, and its calls still wait', async () => {
  const { server } = await working()
  await server.advance(60_000)
  expect((await listen(server)).body).toMatchObject({ orders: { x_reregister: true }, x_waited_ms: 0 })
  const unregistered = { state: 'running', x_cancel_jobs: [], x_reregister: true }
  for (const more of [{}, { beat: { active_job_ids: [] } }]) {
    const call = listen(server, { more, wait_ms: 10_000 })
    expect(await answered(call)).toBe(false)
    await server.advance(10_000)
    expect((await call).body).toMatchObject({ jobs: [], orders: unregistered, x_waited_ms: 10_000 })
  }
  const id = await server.enqueue()
  expect((await listen(server)).body).toMatchObject({ jobs: [{ id }], orders: unregistered })
  await server.register('w')
  const call = listen(server, { wait_ms: 10_000 })
  await server.advance(10_000)
  expect((await call).body['orders']).toBeUndefined()
})

test('a worker that was first heard of by a beat is asked to register by its open call', async () => {
  const server = await TestServer.open()
  await server.beat('w', [])
  const call = listen(server, { wait_ms: 10_000 })
  expect(await answered(call)).toBe(false)
  await server.advance(10_000)
  expect((await call).body['orders']).toMatchObject({ x_reregister: true })
})

test('what a call says of its state counts unless a later beat has said otherwise', async () => {
  const { server } = await working()
  await server.beat('w', [], { seq: 10, state: 'quiet' })
  await server.enqueue()
  const late = listen(server, { seq: 9 })
  expect(await answered(late)).toBe(false)
  expect((await server.get('/ojs/v1/workers/w')).body['state']).toBe('quiet')
  expect((await listen(server, { seq: 11 })).body.jobs).toHaveLength(1)
  expect((await server.get('/ojs/v1/workers/w')).body['state']).toBe('running')
})

test('a beat is not late because a call with a larger number came first', async () => {
  const { server, ids } = await working(1)
  void listen(server, { seq: 21, wait_ms: 1_000 })
  await idle()
  expect((await server.beat('w', ids, { seq: 20 })).body.jobs_extended).toEqual(ids)
})
