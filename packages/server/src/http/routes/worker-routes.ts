/** The door for workers at work: FETCH, ACK, FAIL, BEAT. */
import {
  badField,
  elapsed,
  iso,
  logBatchOf,
  object,
  renderJob,
  retryComesAt,
  ruled,
  type Instant,
  type Job,
  type Json,
} from '@curfew/core'
import { fetchJobs } from '../../engine/jobs/fetch.ts'
import { heartbeat } from '../../engine/workers/heartbeat.ts'
import { ack, isRepeat, nack } from '../../engine/jobs/reports.ts'
import { BEAT_SHAPE, beatReport, beatView } from '../shapes/beat-shape.ts'
import { deliver, FETCH_SHAPE, fetchRequest, handedOut } from '../shapes/fetch-shape.ts'
import { arrayOf, objectOf, type Answer } from '../api/message.ts'
import {
  ACK_FIELDS,
  ERROR_OR_REQUEUE,
  failureOf,
  FENCE_SHAPES,
  fenceOf,
  JOB_ID,
  memberText,
  NACK_FIELDS,
} from '../shapes/report-shapes.ts'
import { bodyOf, tenantOf, type Call, type Route } from '../api/route.ts'

const ACK_SHAPE = object({ job_id: JOB_ID, ...FENCE_SHAPES, ...ACK_FIELDS })
const NACK_SHAPE = ruled(object({ job_id: JOB_ID, ...FENCE_SHAPES, ...NACK_FIELDS }), ERROR_OR_REQUEUE)
/** Where the path does not name the job. */
const NAMES_JOB = { required: ['job_id'], properties: { job_id: { type: 'string' } } }

const STALE = 'The attempt is over, or held by another worker'

export const WORKER_ROUTES: readonly Route[] = [
  {
    method: 'POST',
    path: '/ojs/v1/workers/fetch',
    aliases: ['POST /ojs/v1/jobs/fetch'],
    tag: 'workers',
    summary: 'Take jobs; with wait_ms, wait for some',
    body: { shape: FETCH_SHAPE },
    handle: async (call) => {
      const askedAt = call.engine.now()
      const read = bodyOf(call, FETCH_SHAPE)
      const request = fetchRequest(read.worker_id ?? null, read, tenantOf(call))
      const handed = await deliver(call, await fetchJobs(call.engine, request, call.request.signal))
      const answeredAt = call.engine.now()
      const jobs = handedOut(handed, request, answeredAt)
      return {
        body: objectOf({
          jobs: arrayOf(jobs),
          job: jobs[0],
          server_time: JSON.stringify(iso(answeredAt)),
          x_waited_ms: String(elapsed(askedAt, answeredAt)),
        }),
      }
    },
  },
  {
    method: 'POST',
    path: '/ojs/v1/workers/ack',
    tag: 'workers',
    summary: 'The attempt succeeded',
    body: { shape: ruled(ACK_SHAPE, { allOf: [NAMES_JOB] }) },
    answers: { 409: STALE },
    handle: acknowledge,
  },
  {
    method: 'POST',
    path: '/ojs/v1/jobs/:id/ack',
    tag: 'workers',
    summary: 'The attempt succeeded; the path names the job',
    body: { shape: ACK_SHAPE, optional: true },
    answers: { 409: STALE },
    handle: acknowledge,
  },
  {
    method: 'POST',
    path: '/ojs/v1/workers/nack',
    aliases: ['POST /ojs/v1/workers/fail'],
    tag: 'workers',
    summary: 'The attempt failed, or (requeue) is handed back',
    body: { shape: ruled(NACK_SHAPE, { allOf: [NAMES_JOB] }) },
    answers: { 409: STALE },
    handle: fail,
  },
  {
    method: 'POST',
    path: '/ojs/v1/jobs/:id/nack',
    aliases: ['POST /ojs/v1/jobs/:id/fail'],
    tag: 'workers',
    summary: 'The attempt failed, or (requeue) is handed back; the path names the job',
    body: { shape: NACK_SHAPE },
    answers: { 409: STALE },
    handle: fail,
  },
  {
    method: 'POST',
    path: '/ojs/v1/workers/heartbeat',
    aliases: ['POST /ojs/v1/workers/beat'],
    tag: 'workers',
    summary: 'A sign of life, with the jobs being run; the answer says what to do',
    body: { shape: BEAT_SHAPE },
    handle: async (call) => {
      const read = bodyOf(call, BEAT_SHAPE)
      return { body: JSON.stringify(beatView(await heartbeat(call.engine, beatReport(read.worker_id, read)))) }
    },
  },
]

async function acknowledge(call: Call): Promise<Answer> {
  const read = bodyOf(call, ACK_SHAPE)
  const job = await call.engine.run(
    ack(call.engine, {
      jobId: jobIdOf(call, read.job_id),
      ...fenceOf(read),
      log: logBatchOf(read.x_log),
      result: memberText(call.text, 'result') ?? null,
    }),
  )
  return { body: closing(job, { acknowledged: 'true', already: already(job) }) }
}

async function fail(call: Call): Promise<Answer> {
  const read = bodyOf(call, NACK_SHAPE)
  const failure = failureOf(read, call.text)
  const job = await call.engine.run(
    nack(call.engine, {
      jobId: jobIdOf(call, read.job_id),
      ...fenceOf(read),
      log: logBatchOf(read.x_log),
      ...failure,
    }),
  )
  const at = (moment: Instant | null): Json | undefined => (moment === null ? undefined : JSON.stringify(iso(moment)))
  return {
    body: closing(job, {
      already: already(job),
      attempt: String(job.attempt),
      max_attempts: String(job.retry.maxAttempts),
      retry_delay_ms: job.state === 'retryable' && job.retryDelayMs !== null ? String(job.retryDelayMs) : undefined,
      next_attempt_at: at(retryComesAt(job)),
      next_retry_at: at(retryComesAt(job)),
      discarded_at: at(job.discardedAt),
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

const already = (job: Job): Json | undefined => (isRepeat(job) ? 'true' : undefined)

function closing(job: Job, more: Record<string, Json | undefined>): Json {
  const id = JSON.stringify(job.id)
  return objectOf(more, {
    id,
    job_id: id,
    state: JSON.stringify(job.state),
    completed_at: job.completedAt === null ? undefined : JSON.stringify(iso(job.completedAt)),
    job: renderJob(job),
  })
}
