/** The door for workers: register, FETCH, ACK, FAIL, BEAT, deregister, and the registry for those who look. */
import {
  anyObject,
  anything,
  badField,
  either,
  flag,
  iso,
  list,
  mapOf,
  membersOf,
  millis,
  notFound,
  number,
  object,
  OjsError,
  oneOf,
  policy,
  QUEUE_SHAPE,
  readHandlerLimits,
  renderHandedOut,
  renderJob,
  text,
  TYPE_SHAPE,
  whole,
  WORKER_ID_SHAPE,
  type AskedLimits,
  type Fence,
  type Instant,
  type Job,
  type Json,
  type Millis,
  type ReportedError,
  type Worker,
} from '@curfew/core'
import { fetchJobs } from '../engine/fetch.ts'
import { heartbeat, type BeatReport } from '../engine/heartbeat.ts'
import { deregister, register } from '../engine/registry.ts'
import { ack, nack } from '../engine/reports.ts'
import type { Engine } from '../engine/engine.ts'
import { arrayOf, objectOf, type Answer } from './message.ts'
import { bodyOf, pagingOf, paginationOf, param, type Call, type Route } from './route.ts'

const JOB_ID = text({ min: 1, maxBytes: 255 })

/** Proof of which attempt a report speaks for. */
export const FENCE_SHAPES = { worker_id: WORKER_ID_SHAPE, attempt: whole(0), x_lease: whole(0) } as const

export function fenceOf(read: { worker_id?: string; attempt?: number; x_lease?: number }): Fence {
  return { workerId: read.worker_id, attempt: read.attempt, lease: read.x_lease }
}

const VISIBILITY = policy(whole(0, 315_360_000_000))
const visibilityOf = (ms: number | undefined): Millis | null => (ms === undefined || ms === 0 ? null : millis(ms))

const REGISTER_SHAPE = object(
  {
    worker_id: WORKER_ID_SHAPE,
    hostname: text({ maxBytes: 1024 }),
    pid: whole(0),
    queues: list(QUEUE_SHAPE, 1, 1000),
    concurrency: whole(1, 1_000_000),
    labels: list(text({ maxBytes: 1024 }), 0, 1000),
    started_at: text({ maxBytes: 64 }),
    handlers: mapOf(anyObject()),
  },
  { required: ['worker_id', 'hostname', 'pid', 'queues', 'concurrency'] },
)
const DEREGISTER_SHAPE = object({ worker_id: WORKER_ID_SHAPE }, { required: ['worker_id'] })
const FETCH_SHAPE = object(
  {
    queues: list(QUEUE_SHAPE, 1, 1000),
    count: whole(1, 1000),
    worker_id: WORKER_ID_SHAPE,
    visibility_timeout_ms: VISIBILITY,
    wait_ms: whole(0),
  },
  { required: ['queues'] },
)
const ACK_SHAPE = object({ job_id: JOB_ID, ...FENCE_SHAPES, result: anything() })
const ERROR_SHAPE = object(
  {
    type: text({ maxBytes: 1024 }),
    code: text({ maxBytes: 1024 }),
    message: text({ maxBytes: 65_536 }),
    retryable: flag(),
    details: anything(),
    backtrace: either(text(), list(text()), (value) => typeof value === 'string'),
    timeout_kind: text(),
    limit_seconds: number(),
    elapsed_seconds: number(),
  },
  { required: [] },
)
const NACK_SHAPE = object({ job_id: JOB_ID, ...FENCE_SHAPES, error: ERROR_SHAPE, requeue: flag() })
const IDS = list(JOB_ID, 0, 100_000)
const BEAT_STATES = ['running', 'quiet', 'terminate', 'drain', 'draining'] as const
const BEAT_SHAPE = object(
  {
    worker_id: WORKER_ID_SHAPE,
    state: oneOf(...BEAT_STATES),
    active_jobs: either(IDS, whole(0), (value) => Array.isArray(value)),
    active_job_ids: IDS,
    job_id: JOB_ID,
    visibility_timeout_ms: VISIBILITY,
    seq: whole(0),
    x_beats: IDS,
    x_leases: mapOf(whole(0)),
    hostname: text({ maxBytes: 1024 }),
    pid: whole(0),
    queues: list(QUEUE_SHAPE, 0, 1000),
    concurrency: whole(0, 1_000_000),
    labels: list(text({ maxBytes: 1024 }), 0, 1000),
    started_at: text({ maxBytes: 64 }),
  },
  { required: ['worker_id'] },
)

export const WORKER_ROUTES: readonly Route[] = [
  {
    method: 'POST',
    path: '/ojs/v1/workers/register',
    tag: 'workers',
    summary: 'Introduce a worker, with the limits its handlers bring',
    body: { shape: REGISTER_SHAPE },
    handle: async (call) => {
      const read = bodyOf(call, REGISTER_SHAPE)
      const handlers: Record<string, AskedLimits> = {}
      for (const [type, limits] of Object.entries(read.handlers ?? {})) {
        TYPE_SHAPE.read(type, `handlers.${type}`)
        handlers[type] = readHandlerLimits(limits, `handlers.${type}`)
      }
      const now = await call.engine.run(
        register({
          workerId: read.worker_id,
          hostname: read.hostname,
          pid: read.pid,
          queues: read.queues,
          concurrency: read.concurrency,
          labels: read.labels ?? [],
          startedAt: read.started_at ?? null,
          handlers,
        }),
      )
      const { settings } = call.engine
      return {
        body: JSON.stringify({
          ok: true,
          worker_id: read.worker_id,
          server_time: iso(now),
          heartbeat_interval: settings.heartbeatIntervalMs / 1000,
          heartbeat_timeout: settings.workerTimeoutMs / 1000,
          visibility_timeout_default: settings.limits.defaults.visibility / 1000,
          job_heartbeat_timeout_default: settings.limits.defaults.heartbeat / 1000,
        }),
      }
    },
  },
  {
    method: 'POST',
    path: '/ojs/v1/workers/deregister',
    tag: 'workers',
    summary: 'A worker leaves; what it still holds is recovered at once',
    body: { shape: DEREGISTER_SHAPE },
    handle: (call) => leave(call.engine, bodyOf(call, DEREGISTER_SHAPE).worker_id),
  },
  {
    method: 'DELETE',
    path: '/ojs/v1/workers/:id',
    tag: 'workers',
    summary: 'The same, by path',
    handle: (call) => leave(call.engine, param(call, 'id')),
  },
  {
    method: 'POST',
    path: '/ojs/v1/workers/fetch',
    aliases: ['POST /ojs/v1/jobs/fetch'],
    tag: 'workers',
    summary: 'Take jobs; with wait_ms, wait for some',
    body: { shape: FETCH_SHAPE },
    handle: async (call) => {
      const read = bodyOf(call, FETCH_SHAPE)
      const request = {
        queues: read.queues,
        count: read.count ?? 1,
        workerId: read.worker_id ?? null,
        visibilityMs: visibilityOf(read.visibility_timeout_ms),
        waitMs: Math.min(read.wait_ms ?? 0, 30_000),
      }
      const handed = await fetchJobs(call.engine, request, call.request.signal)
      const answeredAt = call.engine.now()
      const jobs = handed.map(({ job, checkpoint }) =>
        renderHandedOut(job, { answeredAt, checkpoint, withoutSeconds: request.visibilityMs !== null }),
      )
      return { body: objectOf({ jobs: arrayOf(jobs), job: jobs[0], server_time: JSON.stringify(iso(answeredAt)) }) }
    },
  },
  {
    method: 'POST',
    path: '/ojs/v1/workers/ack',
    aliases: ['POST /ojs/v1/jobs/:id/ack'],
    tag: 'workers',
    summary: 'The attempt succeeded',
    body: { shape: ACK_SHAPE, optional: true },
    answers: { 409: 'The attempt is over, or held by another worker' },
    handle: async (call) => {
      if (call.json === undefined && call.params['id'] === undefined) {
        throw new OjsError('invalid_payload', 'The body is empty; an ACK names its job.')
      }
      const read = bodyOf(call, ACK_SHAPE)
      const given = call.text === '' ? undefined : membersOf(call.text).get('result')?.value
      const job = await call.engine.run(
        ack(call.engine, {
          jobId: jobIdOf(call, read.job_id),
          ...fenceOf(read),
          result: given === undefined || given === 'null' ? null : given,
        }),
      )
      return { body: closing(job, { acknowledged: 'true' }) }
    },
  },
  {
    method: 'POST',
    path: '/ojs/v1/workers/nack',
    aliases: ['POST /ojs/v1/workers/fail', 'POST /ojs/v1/jobs/:id/nack', 'POST /ojs/v1/jobs/:id/fail'],
    tag: 'workers',
    summary: 'The attempt failed, or (requeue) is handed back',
    body: { shape: NACK_SHAPE },
    answers: { 409: 'The attempt is over, or held by another worker' },
    handle: async (call) => {
      const read = bodyOf(call, NACK_SHAPE)
      const requeue = read.requeue ?? false
      if (read.error === undefined && !requeue) throw badField('error', 'error is required unless requeue is true.')
      const error = read.error === undefined ? null : reportedError(read.error, detailsText(call))
      const job = await call.engine.run(
        nack(call.engine, { jobId: jobIdOf(call, read.job_id), ...fenceOf(read), error, requeue }),
      )
      const at = (moment: Instant | null): Json | undefined =>
        moment === null ? undefined : JSON.stringify(iso(moment))
      return {
        body: closing(job, {
          attempt: String(job.attempt),
          max_attempts: String(job.retry.maxAttempts),
          retry_delay_ms: job.state === 'retryable' && job.retryDelayMs !== null ? String(job.retryDelayMs) : undefined,
          next_attempt_at: at(job.nextRetryAt),
          next_retry_at: at(job.nextRetryAt),
          discarded_at: at(job.discardedAt),
        }),
      }
    },
  },
  {
    method: 'POST',
    path: '/ojs/v1/workers/heartbeat',
    aliases: ['POST /ojs/v1/workers/beat'],
    tag: 'workers',
    summary: 'A sign of life, with the jobs being run; the answer says what to do',
    body: { shape: BEAT_SHAPE },
    handle: async (call) => {
      const answer = await heartbeat(call.engine, beatReport(call))
      return {
        body: JSON.stringify({
          state: answer.state,
          directive: answer.state === 'running' ? 'continue' : answer.state,
          acknowledged: true,
          server_time: iso(answer.serverTime),
          jobs_extended: answer.extended,
          x_cancel_jobs: answer.stop.map(({ jobId, reason, lease }) => ({
            job_id: jobId,
            reason,
            ...(lease === null ? {} : { x_lease: lease }),
          })),
          x_reregister: answer.reregister,
        }),
      }
    },
  },
  {
    method: 'GET',
    path: '/ojs/v1/workers',
    tag: 'workers',
    summary: 'The registry',
    handle: async (call) => {
      const paging = pagingOf(call, 50)
      const workers = await livingWorkers(call.engine)
      const shown = workers.slice(paging.offset, paging.offset + paging.limit)
      return {
        body: JSON.stringify({
          workers: shown.map(workerView),
          pagination: paginationOf(paging, workers.length, shown.length),
        }),
      }
    },
  },
  {
    method: 'GET',
    path: '/ojs/v1/workers/:id',
    tag: 'workers',
    summary: 'One worker',
    handle: async (call) => {
      const worker = await findWorker(call)
      return { body: JSON.stringify({ worker: workerView(worker), ...workerView(worker) }) }
    },
  },
  {
    method: 'GET',
    path: '/ojs/v1/workers/:id/health',
    tag: 'workers',
    summary: 'Whether a worker is alive; 503 for an hour after its death',
    handle: async (call) => {
      const id = param(call, 'id')
      const worker = await call.engine.read((reads) => reads.worker(id))
      if (worker === null) throw notFound('worker', id)
      const alive = worker.diedAt === null
      return {
        status: alive ? 200 : 503,
        body: JSON.stringify({
          worker_id: id,
          state: worker.draining ? 'drain' : worker.state,
          healthy: alive,
          last_heartbeat_at: worker.lastBeatAt === null ? null : iso(worker.lastBeatAt),
          active_jobs: worker.activeJobs,
          ...(worker.diedAt === null ? {} : { died_at: iso(worker.diedAt) }),
        }),
      }
    },
  },
]

async function leave(engine: Engine, workerId: string): Promise<Answer> {
  const { requeued, discarded } = await deregister(engine, workerId)
  return {
    body: JSON.stringify({
      ok: true,
      deregistered: true,
      worker_id: workerId,
      requeued_jobs: requeued,
      discarded_jobs: discarded,
    }),
  }
}

/** The id in the path, or in the body; both must agree. */
function jobIdOf(call: Call, inBody: string | undefined): string {
  const inPath = call.params['id']
  if (inPath !== undefined && inBody !== undefined && inPath !== inBody)
    throw badField('job_id', 'job_id differs from the id in the path.')
  const id = inPath ?? inBody
  if (id === undefined) throw badField('job_id', 'job_id is required.')
  return id
}

const LONGEST_BACKTRACE = 10_000
const MOST_FRAMES = 50

/** `error.details` as it was written. */
function detailsText(call: Call): Json | undefined {
  return membersOf(membersOf(call.text).get('error')?.value ?? '{}').get('details')?.value
}

function reportedError(read: ReturnType<typeof ERROR_SHAPE.read>, details: Json | undefined): ReportedError {
  const frames = typeof read.backtrace === 'string' ? read.backtrace.split('\n') : read.backtrace
  let room = LONGEST_BACKTRACE
  const backtrace = frames?.slice(0, MOST_FRAMES).filter((frame) => (room -= frame.length) >= 0)
  return {
    ...(read.type === undefined ? {} : { type: read.type }),
    ...(read.code === undefined ? {} : { code: read.code }),
    message: read.message ?? '',
    ...(read.retryable === undefined ? {} : { retryable: read.retryable }),
    ...(read.details === undefined ? {} : { details: read.details }),
    ...(read.details === undefined || details === undefined ? {} : { detailsText: details }),
    ...(backtrace === undefined ? {} : { backtrace }),
  }
}

function closing(job: Job, more: Record<string, Json | undefined>): Json {
  const id = JSON.stringify(job.id)
  return objectOf({
    ...more,
    id,
    job_id: id,
    state: JSON.stringify(job.state),
    completed_at: job.completedAt === null ? undefined : JSON.stringify(iso(job.completedAt)),
    job: renderJob(job),
  })
}

function beatReport(call: Call): BeatReport {
  const read = bodyOf(call, BEAT_SHAPE)
  const state = read.state ?? 'running'
  const draining = state === 'drain' || state === 'draining'
  const jobIds = [
    ...new Set([
      ...(read.active_job_ids ?? []),
      ...(Array.isArray(read.active_jobs) ? read.active_jobs : []),
      ...(read.job_id === undefined ? [] : [read.job_id]),
    ]),
  ]
  return {
    workerId: read.worker_id,
    state: draining ? 'quiet' : state,
    draining,
    activeJobs: typeof read.active_jobs === 'number' ? read.active_jobs : jobIds.length,
    jobIds,
    proofs: read.x_beats ?? null,
    leases: read.x_leases ?? {},
    visibilityMs: visibilityOf(read.visibility_timeout_ms),
    seq: read.seq ?? null,
    facts: {
      ...(read.hostname === undefined ? {} : { hostname: read.hostname }),
      ...(read.pid === undefined ? {} : { pid: read.pid }),
      ...(read.queues === undefined ? {} : { queues: read.queues }),
      ...(read.concurrency === undefined ? {} : { concurrency: read.concurrency }),
      ...(read.labels === undefined ? {} : { labels: read.labels }),
      ...(read.started_at === undefined ? {} : { startedAt: read.started_at }),
    },
  }
}

/** The dead have left the registry. */
export async function livingWorkers(engine: Engine): Promise<Worker[]> {
  return (await engine.read((reads) => reads.workers())).filter(({ diedAt }) => diedAt === null)
}

async function findWorker(call: Call): Promise<Worker> {
  const id = param(call, 'id')
  const worker = await call.engine.read((reads) => reads.worker(id))
  if (worker === null || worker.diedAt !== null) throw notFound('worker', id)
  return worker
}

export function workerView(worker: Worker): Record<string, unknown> {
  return {
    worker_id: worker.id,
    hostname: worker.hostname,
    pid: worker.pid,
    queues: worker.queues,
    concurrency: worker.concurrency,
    labels: worker.labels,
    state: worker.draining ? 'drain' : worker.state,
    directive: worker.directive,
    active_jobs: worker.activeJobs,
    active_job_ids: worker.beat === null ? [] : [...worker.beat.jobs],
    started_at: worker.startedAt,
    last_heartbeat_at: worker.lastBeatAt === null ? null : iso(worker.lastBeatAt),
    last_seen_at: iso(worker.lastSeenAt),
    registered: worker.registered,
  }
}
