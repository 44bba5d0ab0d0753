/** The server about itself: manifest, health, readiness, metrics. They need no token. */
import { basename } from 'node:path'
import {
  elapsed,
  iso,
  clockOffsetMs,
  MAX_BODY_BYTES,
  MAX_VALUES,
  MAX_VALUES_OF_MANY,
  MAX_IN_BATCH,
  MAX_IN_BULK,
} from '@curfew/core'
import type { Engine } from '../../engine/engine.ts'
import { MAX_HELD } from '../shapes/beat-shape.ts'
import { MAX_REPORTS } from './exchange-routes.ts'
import { MAX_WAIT_MS } from '../shapes/fetch-shape.ts'
import type { Answer } from '../api/message.ts'
import { type Call, type Route } from '../api/route.ts'
import { metricsText } from './metrics.ts'
import { workerSummary } from './registry-routes.ts'

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
const OURS = [
  ...['exchange', 'orders', 'long-poll', 'limits', 'bulk-enqueue', 'job-filters', 'workflows', 'journeys'],
  ...['worker-registry', 'prometheus', 'job-logs'],
]

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
        body_bytes: MAX_BODY_BYTES,
        body_values: MAX_VALUES,
        list_values: MAX_VALUES_OF_MANY,
        meta_bytes: 65_536,
        result_bytes: engine.settings.largestResultBytes,
        checkpoint_bytes: engine.settings.largestCheckpointBytes,
        batch_jobs: MAX_IN_BATCH,
        bulk_jobs: MAX_IN_BULK,
        exchange_reports: MAX_REPORTS,
        beat_jobs: MAX_HELD,
        fetch_count: 1_000,
        fetch_wait_ms: MAX_WAIT_MS,
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
  const uptime = Math.floor(elapsed(engine.upAt, engine.now()) / 1000)
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
    const queues = await engine.store.queueTotals()
    const workers = await workerSummary(engine, engine.store, engine.now())
    // A whole number: SDKs in typed languages read nothing else.
    const latencyMs = Math.round(engine.host.monotonicMs() - started)
    const trouble = engine.trouble
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
          ...damageFacts(engine),
        },
        queues: { active: queues.total - queues.paused, paused: queues.paused },
        workers: { connected: workers.total, stale: workers.stale },
      }),
    }
  } catch {
    return {
      status: 503,
      body: JSON.stringify({
        status: 'degraded',
        ...base,
        backend: {
          type: info.backend,
          status: 'unhealthy',
          reason: engine.trouble ?? 'unreachable',
          ...damageFacts(engine),
        },
      }),
    }
  }
}

/** Only the name of the file: health needs no token, and the log has the whole path. */
function damageFacts({ damage }: Engine): Record<string, unknown> {
  if (damage === null) return {}
  return { status: 'damaged', ...(damage.file === null ? {} : { file: basename(damage.file) }) }
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

async function metrics(call: Call): Promise<Answer> {
  const text = await metricsText(call.engine)
  const plain = call.request.headers['accept'] === 'text/plain'
  return { media: plain ? 'text/plain' : 'text/plain; version=0.0.4; charset=utf-8', body: text }
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
    summary: 'Whether the server is ready for traffic',
    open: true,
    handle: ready,
  },
  {
    method: 'GET',
    path: '/metrics',
    aliases: ['GET /ojs/v1/metrics'],
    tag: 'system',
    summary: 'Prometheus metrics',
    open: true,
    handle: metrics,
  },
]
