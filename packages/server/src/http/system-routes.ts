/** The server about itself: manifest, health, readiness, metrics. Open to everybody. */
import {
  iso,
  lastSignAt,
  elapsed,
  clockOffsetMs,
  depthOf,
  JOB_STATES,
  LARGEST_BODY,
  MOST_IN_BATCH,
  MOST_IN_BULK,
  queueBound,
  type Instant,
} from '@curfew/core'
import { Gauge, Registry } from 'prom-client'
import type { Engine } from '../engine/engine.ts'
import { MOST_REPORTS } from './exchange-routes.ts'
import { LONGEST_WAIT_MS } from './fetch-shape.ts'
import type { Answer } from './message.ts'
import { type Call, type Route } from './route.ts'
import { livingWorkers } from './registry-routes.ts'
import { queueFacts } from './queue-routes.ts'

const EXTENSIONS = [
  'timeouts',
  'progress',
  'durable-execution',
  'graceful-shutdown',
  'admin-api',
  'observability',
  'dead-letter',
  'events',
  'backpressure',
  'webhooks',
  'schema-registry',
  'fair-scheduling',
  'rate-limiting',
]
/** What is ours beside the specification, for clients that ask before they rely on it. */
const OURS = ['exchange', 'orders', 'long-poll', 'limits', 'bulk-enqueue', 'workflows', 'journeys']

function manifest({ engine, info }: Call): Answer {
  const { defaults, caps } = engine.settings.limits
  const { inbox } = engine.store
  return {
    body: JSON.stringify({
      specversion: '1.0',
      ojs_version: '1.0',
      implementation: {
        name: 'curfew',
        version: info.version,
        language: 'typescript',
        homepage: 'https://openjobspec.org',
      },
      conformance_level: 4,
      protocols: ['http'],
      backend: info.backend,
      capabilities: {
        batch_enqueue: true,
        cron_jobs: true,
        dead_letter: true,
        delayed_jobs: true,
        job_ttl: true,
        priority_queues: true,
        rate_limiting: true,
        schema_validation: true,
        unique_jobs: true,
        workflows: true,
        pause_resume: true,
      },
      extensions: [
        ...EXTENSIONS.map((name) => `urn:ojs:ext:${name}`),
        ...[...OURS, ...(inbox === null ? [] : ['inbox'])].map((name) => `urn:curfew:ext:${name}`),
      ],
      endpoints: { base_url: '/ojs/v1', manifest: '/ojs/manifest', health: '/ojs/v1/health', openapi: '/openapi.json' },
      x_limits: {
        body_bytes: LARGEST_BODY,
        meta_bytes: 65_536,
        result_bytes: engine.settings.largestResultBytes,
        checkpoint_bytes: engine.settings.largestCheckpointBytes,
        batch_jobs: MOST_IN_BATCH,
        bulk_jobs: MOST_IN_BULK,
        exchange_reports: MOST_REPORTS,
        fetch_count: 1_000,
        fetch_wait_ms: LONGEST_WAIT_MS,
        caps,
      },
      x_timeout_defaults: {
        timeout: defaults.timeout / 1000,
        grace_period: defaults.grace / 1000,
        heartbeat_timeout: defaults.heartbeat / 1000,
        visibility_timeout: defaults.visibility / 1000,
        heartbeat_interval: engine.settings.heartbeatIntervalMs / 1000,
        worker_heartbeat_timeout: engine.settings.workerTimeoutMs / 1000,
      },
      x_uniqueness: 'strong',
      x_event_delivery: 'at-least-once',
      ...(inbox === null ? {} : { x_inbox: inbox }),
    }),
  }
}

async function health(call: Call): Promise<Answer> {
  const { engine, info } = call
  const started = engine.host.monotonicMs()
  const uptime = Math.floor((engine.now() - engine.upAt) / 1000)
  const base = {
    version: '1.0',
    server_version: info.version,
    uptime_seconds: uptime,
    server_time: iso(engine.now()),
    clock_offset_ms: clockOffsetMs(engine.host, engine.clock),
    ...sharedClockFacts(engine),
  }
  try {
    await engine.store.ping()
    const [queues, workers] = [await engine.store.queues(), await engine.store.workers()]
    const latencyMs = Math.round((engine.host.monotonicMs() - started) * 100) / 100
    const living = workers.filter(({ diedAt }) => diedAt === null)
    const staleMs = engine.settings.heartbeatIntervalMs * 3
    const trouble = engine.trouble
    const paused = queues.filter(({ pausedAt }) => pausedAt !== null).length
    return {
      status: trouble === null ? 200 : 503,
      body: JSON.stringify({
        status: trouble === null ? 'ok' : 'degraded',
        ...base,
        backend: {
          type: info.backend,
          status: trouble === null ? 'ok' : 'unhealthy',
          latency_ms: latencyMs,
          ...(trouble === null ? {} : { reason: trouble }),
        },
        queues: { active: queues.length - paused, paused },
        workers: {
          connected: living.length,
          stale: living.filter(({ known, lastSeenAt }) => known && engine.now() - lastSeenAt > staleMs).length,
        },
      }),
    }
  } catch {
    return {
      status: 503,
      body: JSON.stringify({
        status: 'degraded',
        ...base,
        backend: { type: info.backend, status: 'unhealthy', reason: engine.trouble ?? 'unreachable' },
      }),
    }
  }
}

/** Where the database's clock is the judge: how well it is known, and why it is not decided by at the moment, if so. */
function sharedClockFacts({ store: { clock } }: Engine): Record<string, unknown> {
  if (clock === null) return {}
  const reason = clock.distrust()
  return { clock_error_ms: clock.offset().errorMs, ...(reason === null ? {} : { clock_distrusted: reason }) }
}

function ready({ engine }: Call): Answer {
  const isReady = !engine.closing.aborted && engine.trouble === null
  return { status: isReady ? 200 : 503, body: JSON.stringify({ status: isReady ? 'ready' : 'not_ready' }) }
}

const MOST_AGES = 10_000

async function metrics(call: Call): Promise<Answer> {
  const { engine } = call
  const gauges = new Registry()
  const gauge = (name: string, help: string, labelNames: string[]): Gauge =>
    new Gauge({ name, help, labelNames, registers: [gauges] })
  const depth = gauge('ojs_queue_depth', 'Jobs in a queue, by state.', ['queue', 'state'])
  const pressure = gauge('ojs_backpressure_pressure', 'How much of its bound a queue has used.', ['queue'])
  for (const { name, queue, counts } of await queueFacts(engine)) {
    for (const state of JOB_STATES) depth.set({ queue: name, state }, counts[state])
    const bound = queue === null ? null : queueBound(queue.config)
    if (bound !== null) pressure.set({ queue: name }, depthOf(counts) / bound.maxDepth)
  }
  const dead = gauge('ojs_dead_letter_depth', 'Dead letters of a queue.', ['queue'])
  for (const { queue, count } of await engine.read((reads) => reads.deadLetterCounts())) dead.set({ queue }, count)
  const active = gauge('ojs_workers_active', 'Workers in the registry, by state.', ['state'])
  const workers = await livingWorkers(engine)
  for (const state of ['running', 'quiet', 'terminate'])
    active.set({ state }, workers.filter((worker) => worker.state === state).length)
  await activeGauges(engine, gauge)
  gauge('curfew_clock_offset_seconds', 'How far the wall clock is ahead of the engine clock.', []).set(
    clockOffsetMs(engine.host, engine.clock) / 1000,
  )
  const { clock } = engine.store
  if (clock !== null)
    gauge('curfew_clock_error_seconds', "By how much the database's clock may be known wrongly.", []).set(
      clock.offset().errorMs / 1000,
    )
  const text = (await engine.meters.registry.metrics()) + '\n' + (await gauges.metrics())
  const plain = call.request.headers['accept'] === 'text/plain'
  return { media: plain ? 'text/plain' : 'text/plain; version=0.0.4; charset=utf-8', body: text }
}

/** Oldest sign of life and busy workers per queue, over the active jobs. */
async function activeGauges(
  engine: Engine,
  gauge: (name: string, help: string, labels: string[]) => Gauge,
): Promise<void> {
  const age = gauge('ojs_job_heartbeat_age_seconds', 'Longest time since the last sign of life of an active job.', [
    'queue',
  ])
  const busy = gauge('ojs_workers_busy', 'Workers that hold jobs of a queue.', ['queue'])
  const jobs = await engine.read((reads) => reads.activeJobs(MOST_AGES))
  const workers = new Map((await engine.read((reads) => reads.workers())).map((worker) => [worker.id, worker]))
  const now: Instant = engine.now()
  const oldest = new Map<string, number>()
  const holders = new Map<string, Set<string>>()
  for (const job of jobs) {
    const holder = job.hold?.workerId ?? null
    const sign = lastSignAt(job, holder === null ? null : (workers.get(holder) ?? null)) ?? now
    oldest.set(job.queue, Math.max(oldest.get(job.queue) ?? 0, elapsed(sign, now)))
    const known = holders.get(job.queue) ?? new Set<string>()
    holders.set(job.queue, holder === null ? known : known.add(holder))
  }
  for (const [queue, ms] of oldest) age.set({ queue }, ms / 1000)
  for (const [queue, ids] of holders) busy.set({ queue }, ids.size)
}

export const SYSTEM_ROUTES: readonly Route[] = [
  {
    method: 'GET',
    path: '/ojs/manifest',
    tag: 'system',
    summary: 'What this server can do',
    open: true,
    handle: manifest,
  },
  {
    method: 'GET',
    path: '/ojs/v1/health',
    aliases: ['GET /health', 'GET /healthz'],
    tag: 'system',
    summary: 'Whether the server can do its work',
    open: true,
    answers: { 503: 'The store cannot serve' },
    handle: health,
  },
  {
    method: 'GET',
    path: '/ready',
    aliases: ['GET /readyz'],
    tag: 'system',
    summary: 'Whether to send it traffic',
    open: true,
    handle: ready,
  },
  { method: 'GET', path: '/metrics', tag: 'system', summary: 'Prometheus metrics', open: true, handle: metrics },
]
