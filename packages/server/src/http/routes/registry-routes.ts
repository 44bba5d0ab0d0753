/** The registry: workers register and deregister; operators list workers and check that they are alive. */
import {
  anyObject,
  before,
  HANDLER_LIMITS_SHAPE,
  hasLeft,
  iso,
  list,
  mapOf,
  millis,
  named,
  notFound,
  object,
  orNull,
  QUEUE_SHAPE,
  readHandlerLimits,
  shortHeartbeat,
  shownDirective,
  SOURCE_IN_WORDS,
  STARTED_AT_SHAPE,
  text,
  TYPE_SHAPE,
  whole,
  WORKER_ID_SHAPE,
  type AskedLimits,
  type Fields,
  type Instant,
  type Millis,
  type Shape,
  type Worker,
} from '@curfew/core'
import { deregister, register, type Leaving } from '../../engine/workers/registry.ts'
import type { Engine } from '../../engine/engine.ts'
import type { Reads } from '../../store/store.ts'
import { MAX_HELD } from '../shapes/beat-shape.ts'
import type { Answer } from '../api/message.ts'
import { PAGES } from '../api/query.ts'
import { bodyOf, pagingOf, paginationOf, param, type Call, type Route } from '../api/route.ts'

/** How many types one worker may have handlers for. */
const MAX_HANDLERS = 1_000

/** Read by type and limit, so that a mistake is named with both. */
const HANDLERS_SHAPE: Shape<Record<string, Fields>> = {
  json: {
    type: 'object',
    maxProperties: MAX_HANDLERS,
    propertyNames: TYPE_SHAPE.json,
    additionalProperties: orNull(named('HandlerLimits', HANDLER_LIMITS_SHAPE).json),
  },
  read: (value, at, refuse) => mapOf(anyObject(), MAX_HANDLERS).read(value, at, refuse),
}

const REGISTER_SHAPE = object(
  {
    worker_id: WORKER_ID_SHAPE,
    hostname: text({ maxLength: 1024 }),
    pid: whole(0),
    queues: list(QUEUE_SHAPE, 1, 1000),
    concurrency: whole(1, 1_000_000),
    labels: list(text({ maxLength: 1024 }), 0, 1000),
    started_at: STARTED_AT_SHAPE,
    handlers: HANDLERS_SHAPE,
  },
  { required: ['worker_id', 'hostname', 'pid', 'queues', 'concurrency'] },
)
const DEREGISTER_SHAPE = object(
  { worker_id: WORKER_ID_SHAPE, x_leases: mapOf(whole(0), MAX_HELD), seq: whole(0) },
  { required: ['worker_id'] },
)

export const REGISTRY_ROUTES: readonly Route[] = [
  {
    method: 'POST',
    path: '/ojs/v1/workers/register',
    tag: 'workers',
    summary: 'Register a worker, with the limits of its handlers',
    body: { shape: REGISTER_SHAPE },
    handle: async (call) => {
      const read = bodyOf(call, REGISTER_SHAPE)
      const handlers: Record<string, AskedLimits> = {}
      for (const [type, limits] of Object.entries(read.handlers ?? {})) {
        TYPE_SHAPE.read(type, `handlers.${type}`)
        handlers[type] = readHandlerLimits(limits, `handlers.${type}`)
      }
      const now = await register(call.engine, {
        workerId: read.worker_id,
        hostname: read.hostname,
        pid: read.pid,
        queues: read.queues,
        concurrency: read.concurrency,
        labels: read.labels ?? [],
        startedAt: read.started_at ?? null,
        handlers,
      })
      const { settings } = call.engine
      return {
        body: JSON.stringify({
          ok: true,
          worker_id: read.worker_id,
          server_time: iso(now),
          ...inWholeSeconds('heartbeat_interval', settings.heartbeatIntervalMs),
          ...inWholeSeconds('heartbeat_timeout', settings.workerTimeoutMs),
          visibility_timeout_default: settings.limits.defaults.visibility / 1000,
          job_heartbeat_timeout_default: settings.limits.defaults.heartbeat / 1000,
          ...warningsOf(handlers, settings.heartbeatIntervalMs),
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
    handle: (call) => {
      const { worker_id: workerId, x_leases: leases = null, seq = null } = bodyOf(call, DEREGISTER_SHAPE)
      return leave(call.engine, { workerId, leases, seq })
    },
  },
  {
    method: 'DELETE',
    path: '/ojs/v1/workers/:id',
    tag: 'workers',
    summary: 'The same, by path',
    handle: (call) => leave(call.engine, { workerId: param(call, 'id'), leases: null, seq: null }),
  },
  {
    method: 'GET',
    path: '/ojs/v1/workers',
    tag: 'workers',
    summary: 'The registry',
    query: PAGES,
    handle: async (call) => {
      const paging = pagingOf(call, 50)
      const { shown, total } = await call.engine.read(async (reads, now) => ({
        shown: await reads.workersPage(paging),
        total: (await workerSummary(call.engine, reads, now)).total,
      }))
      return {
        body: JSON.stringify({
          workers: shown.map(workerView),
          pagination: paginationOf(paging, total, shown.length),
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
      if (worker === null || hasLeft(worker)) throw notFound('worker', id)
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

function warningsOf(
  handlers: Readonly<Record<string, AskedLimits>>,
  beatEveryMs: Millis,
): { readonly x_warnings?: readonly string[] } {
  const warnings = Object.entries(handlers).flatMap(([type, { heartbeat }]) => {
    const subject = `heartbeat_timeout of the handler for ${JSON.stringify(type)}`
    const warning =
      heartbeat === undefined ? null : shortHeartbeat(subject, heartbeat, SOURCE_IN_WORDS.handler, beatEveryMs)
    return warning === null ? [] : [warning]
  })
  return warnings.length === 0 ? {} : { x_warnings: warnings }
}

/** Whole seconds, rounded up, for workers that read integers; the exact length under `_ms`. */
function inWholeSeconds(name: string, ms: Millis): Record<string, number> {
  return { [name]: Math.max(1, Math.ceil(ms / 1000)), [`${name}_ms`]: ms }
}

async function leave(engine: Engine, leaving: Leaving): Promise<Answer> {
  const { workerId } = leaving
  const { requeued, discarded } = await deregister(engine, leaving)
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

export interface WorkerSummary {
  readonly total: number
  readonly running: number
  readonly quiet: number
  readonly terminate: number
  /** Known, and silent for three beats. */
  readonly stale: number
}

/** Of all workers in the registry. The dead have left it. */
export async function workerSummary({ settings }: Engine, reads: Reads, now: Instant): Promise<WorkerSummary> {
  const totals = await reads.workerTotals(before(now, millis(settings.heartbeatIntervalMs * 3)))
  const inState = (state: string): number => totals.find((one) => one.state === state)?.count ?? 0
  return {
    total: totals.reduce((sum, { count }) => sum + count, 0),
    running: inState('running'),
    quiet: inState('quiet'),
    terminate: inState('terminate'),
    stale: totals.reduce((sum, { silent }) => sum + silent, 0),
  }
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
    directive: shownDirective(worker.directive),
    active_jobs: worker.activeJobs,
    active_job_ids: worker.beat === null ? [] : [...worker.beat.jobs],
    started_at: worker.startedAt,
    last_heartbeat_at: worker.lastBeatAt === null ? null : iso(worker.lastBeatAt),
    last_seen_at: iso(worker.lastSeenAt),
    registered: worker.registered,
  }
}
