/** BEAT on the wire, in every dialect, and its answer. */
import {
  either,
  iso,
  list,
  LOG_SHAPE,
  logBatchOf,
  mapOf,
  object,
  oneOf,
  QUEUE_SHAPE,
  STARTED_AT_SHAPE,
  text,
  whole,
  WORKER_ID_SHAPE,
  type LogBatch,
} from '@curfew/core'
import type { BeatAnswer, BeatReport, StopOrder } from '../../engine/workers/heartbeat.ts'
import { VISIBILITY, visibilityOf } from './fetch-shape.ts'
import { JOB_ID } from './report-shapes.ts'

/** The most jobs in one heartbeat: all of them are looked up in one turn, which takes about 40 ms. */
export const MAX_HELD = 10_000
const IDS = list(JOB_ID, 0, MAX_HELD)
const BEAT_STATES = ['running', 'quiet', 'terminate', 'drain', 'draining'] as const

/** All but the name of the worker. */
const BEAT_FIELDS = {
  state: oneOf(...BEAT_STATES),
  active_jobs: either(IDS, whole(0), (value) => Array.isArray(value)),
  active_job_ids: IDS,
  job_id: JOB_ID,
  visibility_timeout_ms: VISIBILITY,
  seq: whole(0),
  x_beats: IDS,
  x_leases: mapOf(whole(0), MAX_HELD),
  x_stacks: mapOf(list(text(), 0, 1000), MAX_HELD),
  x_logs: mapOf(LOG_SHAPE, MAX_HELD),
  hostname: text({ maxLength: 1024 }),
  pid: whole(0),
  queues: list(QUEUE_SHAPE, 0, 1000),
  concurrency: whole(0, 1_000_000),
  labels: list(text({ maxLength: 1024 }), 0, 1000),
  started_at: STARTED_AT_SHAPE,
} as const
export const BEAT_SHAPE = object({ worker_id: WORKER_ID_SHAPE, ...BEAT_FIELDS }, { required: ['worker_id'] })
/** For calls in which another field names the worker. */
export const NAMELESS_BEAT_SHAPE = object(BEAT_FIELDS)

export function beatReport(workerId: string, read: ReturnType<typeof NAMELESS_BEAT_SHAPE.read>): BeatReport {
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
    workerId,
    state: draining ? 'quiet' : state,
    draining,
    activeJobs: typeof read.active_jobs === 'number' ? read.active_jobs : jobIds.length,
    jobIds,
    proofs: read.x_beats ?? null,
    leases: read.x_leases ?? {},
    isComplete: read.x_leases !== undefined,
    visibilityMs: visibilityOf(read.visibility_timeout_ms),
    stacks: shortened(read.x_stacks ?? {}),
    logs: logsOf(read.x_logs),
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

const NO_LOGS: Readonly<Record<string, LogBatch>> = {}

function logsOf(read: ReturnType<typeof NAMELESS_BEAT_SHAPE.read>['x_logs']): Readonly<Record<string, LogBatch>> {
  if (read === undefined) return NO_LOGS
  return Object.fromEntries(
    Object.entries(read).flatMap(([id, each]) => {
      const batch = logBatchOf(each)
      return batch === null ? [] : [[id, batch] as const]
    }),
  )
}

const MAX_FRAMES = 50
const MAX_FRAME_LENGTH = 500

/** A beat is not refused for a stack that is too long. */
function shortened(stacks: Readonly<Record<string, readonly string[]>>): Record<string, readonly string[]> {
  const short: Record<string, readonly string[]> = {}
  for (const [id, lines] of Object.entries(stacks))
    short[id] = lines.slice(0, MAX_FRAMES).map((line) => line.slice(0, MAX_FRAME_LENGTH))
  return short
}

export function beatView(answer: BeatAnswer): Record<string, unknown> {
  return {
    state: answer.state,
    directive: answer.state === 'running' ? 'continue' : answer.state,
    acknowledged: true,
    server_time: iso(answer.serverTime),
    jobs_extended: answer.extended,
    x_cancel_jobs: answer.stop.map(stopView),
    ...(answer.unlisted.length === 0
      ? {}
      : {
          x_unlisted: answer.unlisted.map(({ jobId, lease, heldMs }) => ({
            job_id: jobId,
            x_lease: lease,
            held_ms: heldMs,
          })),
        }),
    x_reregister: answer.reregister,
  }
}

export function stopView({ jobId, reason, lease }: StopOrder): Record<string, unknown> {
  return { job_id: jobId, reason, ...(lease === null ? {} : { x_lease: lease }) }
}
