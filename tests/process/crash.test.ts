/**
 * kill -9 under load, round after round on the same data. The load remembers what it was told was done; after each
 * restart all of that must still be so, and nothing may be there by halves.
 */
import Database from 'better-sqlite3'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { plusLag } from '../machine-lag.ts'
import { ServerProcess, temporaryDirectory, until } from './server-process.ts'

const ROUNDS = 6
const BATCH = 20

/** What callers were told. Only what was answered counts; what was under way may or may not have happened. */
interface Told {
  readonly enqueued: Set<string>
  readonly batches: Map<string, 'answered' | 'sent'>
  /** Job to the sequence of the last checkpoint answered. */
  readonly checkpoints: Map<string, number>
  readonly acked: Map<string, unknown>
  answers: number
}

test(`${String(ROUNDS)} rounds of kill -9 lose nothing that was acknowledged and leave nothing half done`, async () => {
  const data = temporaryDirectory()
  const told: Told = { enqueued: new Set(), batches: new Map(), checkpoints: new Map(), acked: new Map(), answers: 0 }
  for (let round = 0; round < ROUNDS; round += 1) {
    const server = await ServerProcess.start({ data })
    const killAfter = told.answers + 100 + Math.floor(Math.random() * 900)
    await load(server, round, told, killAfter)
    await server.exited
    const again = await ServerProcess.start({ data })
    await everythingToldIsThere(again, told)
    await nothingIsHalfDone(again, told)
    await again.kill()
  }
  expect(told.acked.size).toBeGreaterThan(100)
  expect(told.checkpoints.size).toBeGreaterThan(100)
}, 120_000)

/** Calls from all sides until enough was answered; then the plug is pulled while the rest is under way. */
async function load(server: ServerProcess, round: number, told: Told, killAfter: number): Promise<void> {
  let over = false
  const answered = (): void => {
    told.answers += 1
    if (told.answers < killAfter || over) return
    over = true
    server.signal('SIGKILL')
  }
  const caller = async (work: (n: number) => Promise<void>): Promise<void> => {
    try {
      for (let n = 0; ; n += 1) await work(n)
    } catch (error) {
      if (!over) throw error // only a call cut off by the kill may fail
    }
  }
  const single = (name: number) => async (n: number) => {
    const job = await server.enqueue({ queue: 'crash', args: [round, name, n] })
    told.enqueued.add(job.id as string)
    answered()
  }
  const batch = (name: number) => async (n: number) => {
    const tag = `b-${String(round)}-${String(name)}-${String(n)}`
    told.batches.set(tag, 'sent')
    const jobs = Array.from({ length: BATCH }, () => ({ type: 'test.batch', args: [tag], queue: 'batches' }))
    const { status } = await server.post('/ojs/v1/jobs/batch', { jobs })
    if (status !== 201) throw new Error(`a batch answered ${String(status)}`)
    told.batches.set(tag, 'answered')
    answered()
  }
  const worker = (name: number) => async () => {
    const workerId = `w-${String(round)}-${String(name)}`
    for (const job of await server.fetch({ queues: ['crash'], count: 5, worker_id: workerId, wait_ms: 1_000 })) {
      const id = job.id as string
      const checkpoint = await server.call('PUT', `/ojs/v1/jobs/${id}/checkpoint`, {
        state: { id },
        worker_id: workerId,
      })
      if (checkpoint.status !== 200) throw new Error(`a checkpoint answered ${checkpoint.text}`)
      told.checkpoints.set(id, checkpoint.body.sequence as number)
      answered()
      const result = { by: workerId, of: id }
      const ack = await server.post('/ojs/v1/workers/ack', { job_id: id, worker_id: workerId, result })
      if (ack.status !== 200) throw new Error(`an ack answered ${ack.text}`)
      told.acked.set(id, result)
      answered()
    }
  }
  const callers = [...[0, 1, 2, 3, 4, 5].map(single), ...[0, 1].map(batch), ...[0, 1, 2, 3].map(worker)]
  await Promise.all(callers.map(caller))
}

async function everythingToldIsThere(server: ServerProcess, told: Told): Promise<void> {
  const lost: string[] = []
  const look = async (id: string): Promise<void> => {
    const { status, body } = await server.get(`/ojs/v1/jobs/${id}`)
    if (status !== 200) return void lost.push(`enqueue ${id}`)
    const result = told.acked.get(id)
    if (result === undefined) return
    if (body.job.state !== 'completed') lost.push(`ack ${id}: ${String(body.job.state)}`)
    else expect(body.job.result).toEqual(result)
  }
  const lookAtCheckpoint = async ([id, sequence]: [string, number]): Promise<void> => {
    const { status, body } = await server.get(`/ojs/v1/jobs/${id}/checkpoint`)
    if (status !== 200 || body.sequence < sequence) lost.push(`checkpoint ${id}`)
    else expect(body.state).toEqual({ id })
  }
  await inParallel([...told.enqueued], look)
  await inParallel([...told.checkpoints], lookAtCheckpoint)
  expect(lost).toEqual([])
}

/** Read straight from the file: rows, counts and events must tell the same story. */
async function nothingIsHalfDone(server: ServerProcess, told: Told): Promise<void> {
  const db = new Database(join(server.data, 'curfew.db'), { readonly: true })
  expect(db.pragma('integrity_check', { simple: true })).toBe('ok')
  db.close()

  const jobs = await allJobs(server)
  const sizes = new Map<string, number>()
  for (const { type, args } of jobs)
    if (type === 'test.batch') sizes.set(String(args[0]), (sizes.get(String(args[0])) ?? 0) + 1)
  for (const [tag, state] of told.batches) {
    const size = sizes.get(tag) ?? 0
    expect([tag, size === BATCH || (size === 0 && state === 'sent')]).toEqual([tag, true])
  }

  const counted: Record<string, number> = {}
  for (const { state, queue } of jobs) counted[`${queue}/${state}`] = (counted[`${queue}/${state}`] ?? 0) + 1
  for (const queue of ['crash', 'batches']) {
    const { stats } = (await server.get(`/ojs/v1/queues/${queue}/stats`)).body
    for (const state of ['available', 'active', 'completed'])
      expect([queue, state, stats[state]]).toEqual([queue, state, counted[`${queue}/${state}`] ?? 0])
  }

  const tale = await replay(server)
  for (const { id, state, attempt } of jobs) expect([id, tale.get(id)]).toEqual([id, { state, started: attempt }])
}

interface Seen {
  readonly id: string
  readonly type: string
  readonly queue: string
  readonly state: string
  readonly attempt: number
  readonly args: readonly unknown[]
}

async function allJobs(server: ServerProcess): Promise<Seen[]> {
  const jobs: Seen[] = []
  for (let cursor = ''; ;) {
    const { body } = await server.get(`/ojs/v1/jobs?limit=200${cursor}`)
    jobs.push(...(body.jobs as Seen[]))
    if (body.pagination.next_cursor === undefined) return jobs
    cursor = `&cursor=${String(body.pagination.next_cursor)}`
  }
}

/** What the log of events says became of each job. */
async function replay(server: ServerProcess): Promise<Map<string, { state: string; started: number }>> {
  const becomes: Record<string, string> = {
    'job.enqueued': 'available',
    'job.started': 'active',
    'job.completed': 'completed',
  }
  const tale = new Map<string, { state: string; started: number }>()
  for (let after = ''; ;) {
    const { body } = await server.get(`/ojs/v1/events?limit=1000${after}`)
    for (const { type, subject } of body.events as { type: string; subject: string }[]) {
      const known = tale.get(subject) ?? { state: '', started: 0 }
      const state = becomes[type]
      if (state === undefined) continue
      tale.set(subject, { state, started: known.started + (type === 'job.started' ? 1 : 0) })
    }
    if (body.has_more !== true) return tale
    after = `&after=${String(body.cursor)}`
  }
}

async function inParallel<T>(items: readonly T[], work: (item: T) => Promise<void>): Promise<void> {
  const rest = items.values()
  await Promise.all(
    Array.from({ length: 20 }, async () => {
      for (const item of rest) await work(item)
    }),
  )
}

describe('what fell due while no server was up', () => {
  test('is settled before the first fetch is answered', async () => {
    const server = await ServerProcess.start()
    const ttl = await server.enqueue({ queue: 'ttl', options: { enqueue_ttl_ms: 300 } })
    const total = await server.enqueue({ queue: 'total', options: { total_timeout_ms: 300 } })
    const scheduled = await server.enqueue({ queue: 'later', scheduled_at: new Date(Date.now() + 300).toISOString() })
    const cut = await server.enqueue({ queue: 'cut', options: { timeout_ms: 300 }, retry: LONG_BACKOFF })
    await server.fetch({ queues: ['cut'] })
    await server.kill()
    await pastBy(100, ttl.x_limits.ttl_deadline, total.x_limits.total_deadline, scheduled.scheduled_at)

    const again = await ServerProcess.start({ data: server.data })
    const jobs = await again.fetch({ queues: ['ttl', 'total', 'later', 'cut'], count: 10 })
    expect(jobs.map(({ id }) => id as string)).toEqual([scheduled.id])
    expect(await again.job(ttl.id as string)).toMatchObject({
      state: 'discarded',
      error: { type: 'enqueue_ttl_expired', limit_seconds: 0.3 },
    })
    expect(await again.job(total.id as string)).toMatchObject({ state: 'discarded', error: { type: 'total_timeout' } })
    expect(await again.job(cut.id as string)).toMatchObject({
      state: 'retryable',
      error: { type: 'timeout', timeout_kind: 'execution', limit_seconds: 0.3 },
    })
    await again.kill()
  })

  test('is reported with its downtime, which is not charged to the decision', async () => {
    const server = await ServerProcess.start()
    const job = await server.enqueue({ options: { total_timeout_ms: 2_000 } })
    await server.kill()
    await pastBy(300, job.x_limits.total_deadline)

    const again = await ServerProcess.start({ data: server.data })
    const { error } = (await again.job(job.id as string)) as { error: Record<string, number> }
    expect(error).toMatchObject({ type: 'total_timeout', timeout_kind: 'total', limit_ms: 2_000 })
    const { late_ms = NaN, downtime_ms = NaN, overshoot_ms = NaN } = error
    expect(downtime_ms).toBeGreaterThanOrEqual(300)
    expect(late_ms).toBe(downtime_ms + overshoot_ms)
    const { body } = await again.get(`/ojs/v1/jobs/${job.id as string}/explain`)
    const told = `decided ${String(late_ms)} ms after the deadline: the server was down for ${String(downtime_ms)} ms of them`
    expect((body as { text: string }).text).toContain(told)
    await again.kill()
  })

  test('an attempt is timed out by the outage, but no worker counts as silent for it', async () => {
    const flags = ['--workers-heartbeat-interval', '500ms', '--workers-heartbeat-timeout', '2s']
    const server = await ServerProcess.start({ flags })
    await server.register('mortal')
    const options = { timeout_ms: 60_000, grace_period_ms: 0 }
    const job = async (queue: string, more: object): Promise<string> =>
      (await server.enqueue({ queue, retry: LONG_BACKOFF, options: { ...options, ...more } })).id as string
    const cut = await job('cut', { timeout_ms: CLOCK_MS })
    const stall = await job('stall', { heartbeat_timeout_ms: CLOCK_MS })
    const lapse = await job('lapse', { visibility_timeout_ms: CLOCK_MS })
    const orphan = await job('orphan', {})
    const claimedAt = performance.now()
    await server.fetch({ queues: ['cut', 'stall', 'lapse'], count: 3, worker_id: 'silent' })
    await server.fetch({ queues: ['orphan'], worker_id: 'mortal' })
    await server.kill()
    const servedMs = performance.now() - claimedAt
    await pastBy(CLOCK_MS + 500, new Date().toISOString())

    const again = await ServerProcess.start({ data: server.data, flags })
    const upAt = Date.now()
    expect(await again.job(cut)).toMatchObject({ state: 'retryable', error: { type: 'timeout' } })
    for (const id of [stall, lapse, orphan]) expect(await again.job(id)).toMatchObject({ state: 'active', attempt: 1 })
    // Their clocks go on from where they stood, and then they end.
    for (const [id, type] of [
      [stall, 'stalled'],
      [lapse, 'visibility_timeout'],
      [orphan, 'worker_death'],
    ] as const) {
      const ended = await until(`${type} ends its attempt`, async () => {
        const { state, error } = await again.job(id)
        return state === 'active' ? null : (error as { type: string; occurred_at: string })
      })
      expect(ended.type).toBe(type)
      const lateMs = Date.parse(ended.occurred_at) - upAt
      expect(lateMs).toBeGreaterThan(CLOCK_MS - servedMs - plusLag(300))
      expect(lateMs).toBeLessThan(plusLag(CLOCK_MS + 500))
    }
    await again.kill()
  })
})

/** Each clock of an attempt, and of the worker. */
const CLOCK_MS = 2_000

const LONG_BACKOFF = { max_attempts: 5, initial_interval: 'PT1H', max_interval: 'PT1H', jitter: false }

/** Until these instants have passed by so much. */
async function pastBy(ms: number, ...instants: unknown[]): Promise<void> {
  const last = Math.max(...instants.map((at) => Date.parse(String(at))))
  await until('time passes', () => Date.now() > last + ms)
}
