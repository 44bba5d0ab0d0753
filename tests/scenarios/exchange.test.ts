/** EXCHANGE: reports, beat and fetch in one round trip. Each report is decided on its own; nothing is held back. */
import { expect, test } from 'vitest'
import { seededRandom } from '@curfew/core'
import { at, idle, TestServer, type JobView, type Reply } from '../harness.ts'

const UNKNOWN = '01890000-0000-7000-8000-000000000000'

interface Entry {
  readonly job_id: string
  readonly ok: boolean
  readonly status?: number
  // eslint-disable-next-line @typescript-eslint/no-explicit-any
  readonly [field: string]: any
}

const exchange = (server: TestServer, body: object | string): Promise<Reply> =>
  server.post('/ojs/v1/workers/exchange', typeof body === 'string' ? body : { worker_id: 'w', ...body })

const entries = ({ body }: Reply, key: 'acks' | 'nacks' | 'checkpoints'): Entry[] => body[key] as Entry[]

/** So many jobs at worker w. */
async function busy(server: TestServer, count: number, job: object = {}): Promise<JobView[]> {
  await server.post('/ojs/v1/jobs/batch', {
    jobs: Array.from({ length: count }, () => ({ type: 'a', args: [], ...job })),
  })
  return (await server.fetch({ worker_id: 'w', count })).body.jobs
}

async function answered(call: Promise<Reply>): Promise<boolean> {
  await idle()
  const open = Symbol('open')
  return (await Promise.race([call, Promise.resolve(open)])) !== open
}

const commits = (server: TestServer): Promise<number> => server.metric('curfew_commit_batch_size_count')

test('checkpoints, acks, nacks, beat and fetch are one commit and one answer', async () => {
  const server = await TestServer.open()
  const [saved, done, failed, running] = (await busy(server, 4, { retry: { jitter: false } })) as [
    JobView,
    JobView,
    JobView,
    JobView,
  ]
  const next = await server.enqueue()
  await server.advance(1_000)
  const before = await commits(server)
  const reply = await exchange(server, {
    checkpoints: [{ job_id: saved.id, attempt: 1, x_lease: 1, state: { page: 3 } }],
    acks: [{ job_id: done.id, attempt: 1, x_lease: 1, result: 42 }],
    nacks: [{ job_id: failed.id, attempt: 1, x_lease: 1, error: { type: 'Boom', message: 'boom' } }],
    beat: { active_job_ids: [saved.id, running.id] },
    fetch: { queues: ['default'], count: 5 },
  })
  expect(await commits(server)).toBe(before + 1)
  expect(reply.status).toBe(200)
  expect(reply.body).toEqual({
    checkpoints: [{ job_id: saved.id, ok: true, state: 'active', sequence: 1, created_at: at(1_000) }],
    acks: [{ job_id: done.id, ok: true, state: 'completed', completed_at: at(1_000) }],
    nacks: [
      {
        job_id: failed.id,
        ok: true,
        state: 'retryable',
        attempt: 1,
        max_attempts: 3,
        retry_delay_ms: 1_000,
        next_attempt_at: at(2_000),
      },
    ],
    beat: {
      state: 'running',
      directive: 'continue',
      acknowledged: true,
      server_time: at(1_000),
      jobs_extended: [saved.id, running.id],
      x_cancel_jobs: [],
      x_reregister: true,
    },
    jobs: [expect.objectContaining({ id: next, state: 'active', x_lease: 1, worker_id: 'w' })],
    server_time: at(1_000),
    x_waited_ms: 0,
  })
  expect((await server.job(done.id)).result).toBe(42)
  expect((await server.job(failed.id)).error).toMatchObject({ type: 'Boom' })
})

test('what was not asked for is not answered', async () => {
  const server = await TestServer.open()
  const reply = await exchange(server, {})
  expect(reply.body).toEqual({ checkpoints: [], acks: [], nacks: [], server_time: at(0), x_waited_ms: 0 })
})

test('each report is decided on its own, in the order sent', async () => {
  const server = await TestServer.open()
  const [first, stale, last] = (await busy(server, 3)) as [JobView, JobView, JobView]
  const reply = await exchange(server, {
    acks: [
      { job_id: first.id, x_lease: 1 },
      { job_id: UNKNOWN },
      { job_id: stale.id, x_lease: 9 },
      { job_id: first.id, x_lease: 1 },
      { job_id: last.id, x_lease: 1 },
    ],
    fetch: { queues: ['default'] },
  })
  expect(
    entries(reply, 'acks').map(({ job_id, ok, status, already }): unknown[] => [job_id, ok, status ?? already]),
  ).toEqual([
    [first.id, true, undefined],
    [UNKNOWN, false, 404],
    [stale.id, false, 409],
    [first.id, true, true],
    [last.id, true, undefined],
  ])
  expect((await server.job(stale.id)).state).toBe('active')
  expect((await server.job(last.id)).state).toBe('completed')
})

test('a refused report is answered as the single call would be, and counted as late', async () => {
  const server = await TestServer.open()
  const [mine] = (await busy(server, 1)) as [JobView]
  const fence = { attempt: 1, x_lease: 7 }
  const singles = [
    await server.call('PUT', `/ojs/v1/jobs/${mine.id}/checkpoint`, { state: 1, worker_id: 'w', ...fence }),
    await server.ack(mine.id, { worker_id: 'w', ...fence }),
    await server.nack(mine.id, { message: 'x' }, { worker_id: 'w', ...fence }),
  ]
  const reply = await exchange(server, {
    checkpoints: [{ job_id: mine.id, state: 1, ...fence }],
    acks: [{ job_id: mine.id, ...fence }],
    nacks: [{ job_id: mine.id, error: { message: 'x' }, ...fence }],
  })
  for (const [index, [key, operation]] of [
    ['checkpoints', 'checkpoint'] as const,
    ['acks', 'ack'] as const,
    ['nacks', 'nack'] as const,
  ].entries()) {
    const [entry] = entries(reply, key)
    const request_id = reply.headers['X-Request-Id']
    expect(entry).toEqual({
      job_id: mine.id,
      ok: false,
      status: 409,
      error: { ...singles[index]?.body.error, request_id },
    })
    const labels = { operation, reason: 'stale_attempt' }
    expect(await server.metric('curfew_late_results_total', labels)).toBe(2)
  }
})

test('a worker reports only on what it holds', async () => {
  const server = await TestServer.open()
  const { id } = await server.start({}, { worker_id: 'other' })
  const [entry] = entries(await exchange(server, { acks: [{ job_id: id, worker_id: 'other' }] }), 'acks')
  expect(entry?.error.details).toMatchObject({ reason: 'not_owner' })
  expect((await server.job(id)).state).toBe('active')
})

test('a checkpoint and the ACK of the same job go together', async () => {
  const server = await TestServer.open()
  const [job] = (await busy(server, 1)) as [JobView]
  const reply = await exchange(server, {
    checkpoints: [{ job_id: job.id, state: 'end' }],
    acks: [{ job_id: job.id }],
  })
  expect([...entries(reply, 'checkpoints'), ...entries(reply, 'acks')].map(({ state }) => state as string)).toEqual([
    'active',
    'completed',
  ])
  expect((await server.get(`/ojs/v1/jobs/${job.id}/checkpoint`)).body.state).toBe('end')
})

test('a job that is handed back may be taken again in the same exchange', async () => {
  const server = await TestServer.open()
  const [job] = (await busy(server, 1)) as [JobView]
  const reply = await exchange(server, {
    nacks: [{ job_id: job.id, requeue: true }],
    fetch: { queues: ['default'], wait_ms: 30_000 },
  })
  expect(entries(reply, 'nacks')).toMatchObject([{ ok: true, state: 'available' }])
  expect(reply.body.jobs).toMatchObject([{ id: job.id, x_lease: 2 }])
})

test('a result that is too large falls alone, and its job stays active', async () => {
  const server = await TestServer.open()
  const [large, small] = (await busy(server, 2)) as [JobView, JobView]
  const reply = await exchange(server, {
    acks: [
      { job_id: large.id, result: 'x'.repeat(1_048_576) },
      { job_id: small.id, result: 'x' },
    ],
  })
  expect(entries(reply, 'acks')).toMatchObject([
    { ok: false, status: 413, error: { code: 'result_too_large' } },
    { ok: true },
  ])
  expect((await server.job(large.id)).state).toBe('active')
})

test('results, details and states of checkpoints stay as they were written', async () => {
  const server = await TestServer.open()
  const [done, failed, saved] = (await busy(server, 3)) as [JobView, JobView, JobView]
  const odd = '{"n": 12345678901234567890,  "f":1.0, "s":"\\ud800", "__proto__": {"a":1}}'
  await exchange(
    server,
    `{"worker_id": "w",
      "acks": [ {"job_id":"${done.id}", "result": ${odd}} ],
      "nacks":[{"error":{"details" : ${odd}, "message":"x"},"job_id":"${failed.id}"}],
      "checkpoints": [{"state":${odd},"job_id":"${saved.id}"}] }`,
  )
  expect((await server.get(`/ojs/v1/jobs/${done.id}/result`)).text).toContain(`"result":${odd}`)
  expect((await server.get(`/ojs/v1/jobs/${failed.id}`)).text).toContain(`"details":${odd}`)
  expect((await server.get(`/ojs/v1/jobs/${saved.id}/checkpoint`)).text).toContain(`"state":${odd}`)
})

const MALFORMED: [string, object, number, string][] = [
  ['no worker_id', { worker_id: null }, 400, 'worker_id'],
  ['acks that are no list', { acks: {} }, 400, 'acks'],
  ['an ack that is not an object', { acks: [null] }, 400, 'acks[0]'],
  ['an ack without a job', { acks: [{ result: 1 }] }, 400, 'acks[0].job_id'],
  ['a lease that is no number', { acks: [{ job_id: 'x', x_lease: '1' }] }, 400, 'acks[0].x_lease'],
  ['a nack without an error', { nacks: [{ job_id: 'x' }] }, 400, 'nacks[0].error'],
  ['an error of the wrong form', { nacks: [{ job_id: 'x', error: { message: 1 } }] }, 400, 'nacks[0].error.message'],
  ['a checkpoint without a state', { checkpoints: [{ job_id: 'x' }] }, 400, 'checkpoints[0].state'],
  ['a beat of the wrong form', { beat: { state: 'asleep' } }, 400, 'beat.state'],
  ['a fetch without queues', { fetch: {} }, 400, 'fetch.queues'],
  ['a fetch of too many', { fetch: { queues: ['a'], count: 1_001 } }, 400, 'fetch.count'],
  ['a bad visibility', { fetch: { queues: ['a'], visibility_timeout_ms: -1 } }, 422, 'fetch.visibility_timeout_ms'],
  ['more than a thousand acks', { acks: Array.from({ length: 1_001 }, () => ({ job_id: 'x' })) }, 400, 'acks'],
]

test.each(MALFORMED)('%s is refused as a whole, and nothing is changed', async (_, wrong, status, field) => {
  const server = await TestServer.open()
  const [job] = (await busy(server, 1)) as [JobView]
  const good = { acks: [{ job_id: job.id }], beat: {}, fetch: { queues: ['default'] } }
  const reply = await exchange(server, { ...good, ...wrong })
  expect([reply.status, reply.body.error.details.field]).toEqual([status, field])
  expect((await server.job(job.id)).state).toBe('active')
  expect((await server.get('/ojs/v1/workers/w')).body.last_heartbeat_at).toBeNull()
})

test('a thousand reports of each kind share one commit', async () => {
  const server = await TestServer.open()
  const jobs = [...(await busy(server, 1_000)), ...(await busy(server, 1_000))]
  const [acked, nacked] = [jobs.slice(0, 1_000), jobs.slice(1_000)]
  const before = await commits(server)
  const reply = await exchange(server, {
    checkpoints: acked.map(({ id }) => ({ job_id: id, state: 1 })),
    acks: acked.map(({ id }) => ({ job_id: id })),
    nacks: nacked.map(({ id }) => ({ job_id: id, requeue: true })),
    fetch: { queues: ['default'], count: 1_000 },
  })
  expect(await commits(server)).toBe(before + 1)
  expect(entries(reply, 'acks').every(({ ok }) => ok)).toBe(true)
  expect(reply.body.jobs.map(({ id }) => id)).toEqual(nacked.map(({ id }) => id))
})

test('an exchange counts for what it brings: more than 500 do not share a commit with others', async () => {
  const server = await TestServer.open()
  const jobs = await busy(server, 900)
  const before = await commits(server)
  await Promise.all(
    [0, 300, 600].map((from) =>
      exchange(server, { acks: jobs.slice(from, from + 300).map(({ id }) => ({ job_id: id })) }),
    ),
  )
  expect(await commits(server)).toBe(before + 3)
  expect((await server.get('/ojs/v1/queues/default/stats')).body.completed).toBe(900)
})

// ---- Waiting ----

test('without reports a fetch waits, and x_waited_ms tells how long', async () => {
  const server = await TestServer.open()
  const call = exchange(server, { fetch: { queues: ['default'], wait_ms: 10_000 } })
  await server.advance(4_000)
  expect(await answered(call)).toBe(false)
  const id = await server.enqueue({ timeout: 60 })
  const { body } = await call
  expect(body).toMatchObject({ jobs: [{ id, x_limits: { soft_ms: 60_000 } }], x_waited_ms: 4_000 })
  const empty = exchange(server, { fetch: { queues: ['default'], wait_ms: 10_000 } })
  await server.advance(10_000)
  expect((await empty).body).toMatchObject({ jobs: [], x_waited_ms: 10_000 })
})

test('a beat does not prevent waiting, and counts from its arrival', async () => {
  const server = await TestServer.open()
  const [job] = (await busy(server, 1, { visibility_timeout: 30 })) as [JobView]
  await server.advance(20_000)
  const call = exchange(server, {
    beat: { active_job_ids: [job.id] },
    fetch: { queues: ['default'], wait_ms: 20_000 },
  })
  await server.advance(15_000)
  expect(await answered(call)).toBe(false)
  expect((await server.job(job.id)).x_limits.visibility_deadline).toBe(at(50_000))
  expect((await server.get('/ojs/v1/workers/w')).body.last_heartbeat_at).toBe(at(20_000))
  await server.advance(5_000)
  expect((await call).body).toMatchObject({ beat: { server_time: at(20_000) }, jobs: [], x_waited_ms: 20_000 })
})

const REPORTS: [string, (id: string) => object][] = [
  ['an ack', (id) => ({ acks: [{ job_id: id }] })],
  ['a nack', (id) => ({ nacks: [{ job_id: id, error: { message: 'x' } }] })],
  ['a checkpoint', (id) => ({ checkpoints: [{ job_id: id, state: 1 }] })],
  ['a refused report', () => ({ acks: [{ job_id: UNKNOWN }] })],
]

test.each(REPORTS)('the answer to %s is not held back by a fetch that would wait', async (_, report) => {
  const server = await TestServer.open()
  const [job] = (await busy(server, 1)) as [JobView]
  const call = exchange(server, { ...report(job.id), fetch: { queues: ['default'], wait_ms: 30_000 } })
  expect(await answered(call)).toBe(true)
  expect((await call).body.jobs).toEqual([])
})

test('an order to stop is not held back either, and brings the jobs that are there', async () => {
  const server = await TestServer.open()
  const [job] = (await busy(server, 1)) as [JobView]
  await server.call('DELETE', `/ojs/v1/jobs/${job.id}`)
  const body = { beat: { active_job_ids: [job.id] }, fetch: { queues: ['default'], wait_ms: 30_000 } }
  const call = exchange(server, body)
  expect(await answered(call)).toBe(true)
  expect((await call).body.beat.x_cancel_jobs).toEqual([{ job_id: job.id, reason: 'cancelled', x_lease: 1 }])
  const id = await server.enqueue()
  expect((await exchange(server, body)).body.jobs).toMatchObject([{ id }])
})

const NOT_RUNNING: [string, object, (server: TestServer) => Promise<unknown>][] = [
  ['says that it is quiet', { state: 'quiet' }, () => Promise.resolve()],
  ['says that it drains', { state: 'drain' }, () => Promise.resolve()],
  ['was told to be quiet', {}, (server) => server.post('/ojs/v1/admin/workers/w/quiet')],
  ['was told to terminate', {}, (server) => server.post('/ojs/v1/admin/workers/w/terminate')],
]

test.each(NOT_RUNNING)(
  'a worker that %s is given nothing, waits for nothing and leaves its polls',
  async (_, beat, tell) => {
    const server = await TestServer.open()
    await server.register('w')
    const open = server.fetch({ worker_id: 'w', queues: ['other'], wait_ms: 30_000 })
    await server.advance(1_000)
    await server.enqueue()
    await tell(server)
    for (const wait_ms of [0, 30_000]) {
      const call = exchange(server, { beat, fetch: { queues: ['default'], wait_ms } })
      expect(await answered(call)).toBe(true)
      expect((await call).body).toMatchObject({ jobs: [], beat: { state: expect.stringMatching(/quiet|terminate/) } })
    }
    expect(await answered(open)).toBe(true)
    expect((await server.get('/ojs/v1/queues/default/stats')).body.available).toBe(1)
  },
)

test('a directive for this beat alone keeps jobs away as well', async () => {
  const server = await TestServer.open()
  const [job] = (await busy(server, 1, { meta: { test_directive: 'quiet' } })) as [JobView]
  await server.enqueue()
  const beat = { active_job_ids: [job.id] }
  for (const wait_ms of [0, 1]) {
    const { body } = await exchange(server, { beat, fetch: { queues: ['default'], wait_ms } })
    expect(body).toMatchObject({ beat: { state: 'quiet' }, jobs: [] })
  }
})

test('whatever it brings is a sign of life', async () => {
  const server = await TestServer.open()
  await server.register('w')
  await server.advance(20_000)
  await exchange(server, { acks: [{ job_id: UNKNOWN }] })
  await server.advance(20_000)
  expect((await server.get('/ojs/v1/workers/w')).body).toMatchObject({ last_seen_at: at(20_000) })
})

// ---- The same as single calls ----

/** What a worker does, one step after the other; both ways it must come to the same. */
interface Step {
  readonly acks: Record<string, unknown>[]
  readonly nacks: Record<string, unknown>[]
  readonly checkpoints: Record<string, unknown>[]
  readonly beat: Record<string, unknown>
}

async function oneByOne(server: TestServer, step: Step): Promise<{ oks: boolean[]; stop: unknown; jobs: JobView[] }> {
  const oks: boolean[] = []
  const note = async (call: Promise<Reply>): Promise<void> => void oks.push((await call).status === 200)
  for (const { job_id, ...rest } of step.checkpoints)
    await note(server.call('PUT', `/ojs/v1/jobs/${String(job_id)}/checkpoint`, { worker_id: 'w', ...rest }))
  for (const ack of step.acks) await note(server.post('/ojs/v1/workers/ack', { worker_id: 'w', ...ack }))
  for (const nack of step.nacks) await note(server.post('/ojs/v1/workers/nack', { worker_id: 'w', ...nack }))
  const beat = await server.post('/ojs/v1/workers/heartbeat', { worker_id: 'w', ...step.beat })
  const { jobs } = (await server.fetch({ worker_id: 'w', count: 3 })).body
  return { oks, stop: beat.body.x_cancel_jobs, jobs }
}

async function atOnce(server: TestServer, step: Step): ReturnType<typeof oneByOne> {
  const reply = await exchange(server, { ...step, fetch: { queues: ['default'], count: 3 } })
  const oks = (['checkpoints', 'acks', 'nacks'] as const).flatMap((key) => entries(reply, key).map(({ ok }) => ok))
  return { oks, stop: reply.body.beat.x_cancel_jobs, jobs: reply.body.jobs }
}

test.each([1, 2, 3, 4, 5])('an exchange comes to what single calls come to (seed %i)', async (seed) => {
  const [single, joint] = [await TestServer.open(), await TestServer.open()]
  const chance = seededRandom(seed)
  const pick = <T>(from: readonly T[]): T => from[Math.floor(chance() * from.length)] as T
  let known: JobView[] = []
  for (let round = 0; round < 25; round += 1) {
    // No two of them ever fall due in the same millisecond: which of those goes first is up to the store.
    const jobs = [2 * round, 2 * round + 1].map((serial) => ({
      type: 'a',
      args: [serial],
      timeout_ms: pick([2_000, 5_000, 60_000]) + serial,
      retry: { max_attempts: 2, jitter: false, initial_interval: `PT2.${String(101 + 7 * serial)}S` },
    }))
    const ids = jobs.map((_, n) => `01890000-0000-7000-8000-${String(round * 10 + n).padStart(12, '0')}`)
    const bodies = jobs.map((job, n) => ({ ...job, id: ids[n] }))
    for (const server of [single, joint]) await server.post('/ojs/v1/jobs/batch', { jobs: bodies })
    const report = (): Record<string, unknown> =>
      known.length === 0
        ? { job_id: UNKNOWN }
        : { job_id: pick(known).id, ...pick([{}, { x_lease: 1 }, { attempt: 1 }, { x_lease: 2 }]) }
    const some = <T>(make: () => T): T[] => Array.from({ length: Math.floor(chance() * 3) }, make)
    const step: Step = {
      checkpoints: some(() => ({ ...report(), state: round })),
      acks: some(() => ({ ...report(), result: round })),
      nacks: some(() => ({ ...report(), ...pick([{ error: { message: 'x' } }, { requeue: true }]) })),
      beat: { active_job_ids: known.slice(-4).map(({ id }) => id) },
    }
    const [one, all] = [await oneByOne(single, step), await atOnce(joint, step)]
    expect(all).toEqual(one)
    known = [...known, ...one.jobs]
    const passedMs = pick([0, 700, 2_000, 6_000])
    for (const server of [single, joint]) await server.advance(passedMs)
  }
  const view = async (server: TestServer): Promise<unknown> => ({
    jobs: (await server.get('/ojs/v1/jobs?limit=200')).body.jobs,
    events: (await server.events()).map(({ type, time, subject }) => [type, time, subject]),
  })
  expect(await view(joint)).toEqual(await view(single))
})
