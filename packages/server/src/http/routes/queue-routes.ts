/** Queues: what is in them; pause, drain and resume. Counts are exact right after each call. */
import { depthOf, iso, JOB_STATES, QUEUE_SHAPE, queueBound, type Instant, type JobState } from '@curfew/core'
import { drain, pause, resume } from '../../engine/queues/queue.ts'
import type { Engine } from '../../engine/engine.ts'
import type { Page, Queue, Reads, StateCounts } from '../../store/store.ts'
import { PAGES } from '../api/query.ts'
import { pagingOf, paginationOf, param, type Call, type Route } from '../api/route.ts'

const NONE = Object.fromEntries(JOB_STATES.map((state) => [state, 0])) as Record<JobState, number>

export interface QueueFacts {
  readonly name: string
  readonly queue: Queue | null
  readonly counts: StateCounts
}

/** Some of the queues, and how many there are. Reads no others: there may be tens of thousands. */
export async function queuesOf(engine: Engine, page: Page): Promise<{ facts: QueueFacts[]; total: number }> {
  return engine.read(async (reads) => {
    const { queues, total } = await reads.queuesPage(page)
    return { facts: await withCounts(reads, queues), total }
  })
}

export async function withCounts(reads: Reads, queues: readonly Queue[]): Promise<QueueFacts[]> {
  const counts = await reads.countsOf(queues.map(({ name }) => name))
  return queues.map((queue) => ({ name: queue.name, queue, counts: counts.get(queue.name) ?? NONE }))
}

export async function oneQueue(engine: Engine, name: string): Promise<QueueFacts> {
  QUEUE_SHAPE.read(name, 'queue')
  return engine.read(async (reads) => ({
    name,
    queue: await reads.queue(name),
    counts: (await reads.countsOf([name])).get(name) ?? NONE,
  }))
}

/** A queue that is paused hands out nothing, draining or not. */
function statusOf(queue: Queue | null): 'active' | 'paused' | 'draining' {
  if (queue === null) return 'active'
  return queue.pausedAt !== null ? 'paused' : queue.drainingAt !== null ? 'draining' : 'active'
}

/** Since when it is what it is, and whether a drain has come to its end. */
function statusView(queue: Queue | null, depth: number | null): Record<string, unknown> {
  if (queue === null) return {}
  return {
    ...(queue.pausedAt === null ? {} : { paused_at: iso(queue.pausedAt) }),
    ...(queue.drainingAt === null ? {} : { draining: true, draining_at: iso(queue.drainingAt) }),
    ...(queue.drainingAt === null || depth === null ? {} : { drained: depth === 0 }),
  }
}

export function queueView({ name, queue, counts }: QueueFacts): Record<string, unknown> {
  const status = statusOf(queue)
  return {
    name,
    status,
    state: status,
    paused: status === 'paused',
    ...(queue === null ? {} : { created_at: iso(queue.createdAt) }),
    ...statusView(queue, depthOf(counts)),
    counts,
  }
}

function statsView(engine: Engine, facts: QueueFacts, now: Instant): Record<string, unknown> {
  const { name, queue, counts } = facts
  const status = statusOf(queue)
  const paused = status === 'paused'
  const recent = engine.meters.recent(name, now)
  return {
    queue: { name, ...counts, paused, status },
    name,
    ...counts,
    paused,
    status,
    stats: {
      queue: name,
      depth: depthOf(counts),
      max_depth: queue === null ? null : (queueBound(queue.config)?.maxDepth ?? null),
      ...counts,
      completed_last_hour: recent.completed,
      failed_last_hour: recent.failed,
      avg_duration_ms: recent.avgDurationMs,
      avg_wait_ms: recent.avgWaitMs,
      throughput_per_second: recent.perMinute.completed / 60,
    },
    computed_at: iso(now),
  }
}

function pauseView(queue: Queue, now: Instant): Record<string, unknown> {
  const status = statusOf(queue)
  const paused = status === 'paused'
  const moment = status === 'active' ? { resumed_at: iso(now) } : statusView(queue, null)
  return { queue: { name: queue.name, paused, status }, name: queue.name, paused, status, ...moment }
}

export async function drainQueue(call: Call): Promise<Record<string, unknown>> {
  const name = QUEUE_SHAPE.read(param(call, 'name'), 'queue')
  return pauseView(await call.engine.run(drain(name)), call.engine.now())
}

export async function pauseQueue(call: Call): Promise<Record<string, unknown>> {
  const name = QUEUE_SHAPE.read(param(call, 'name'), 'queue')
  return pauseView(await call.engine.run(pause(name)), call.engine.now())
}

export async function resumeQueue(call: Call): Promise<Record<string, unknown>> {
  const name = QUEUE_SHAPE.read(param(call, 'name'), 'queue')
  return pauseView(await resume(call.engine, name), call.engine.now())
}

export const QUEUE_ROUTES: readonly Route[] = [
  {
    method: 'GET',
    path: '/ojs/v1/queues',
    tag: 'queues',
    summary: 'All queues with their counts',
    query: PAGES,
    handle: async (call) => {
      const paging = pagingOf(call, 50)
      const { facts, total } = await queuesOf(call.engine, paging)
      return {
        body: JSON.stringify({
          queues: facts.map(queueView),
          pagination: paginationOf(paging, total, facts.length),
        }),
      }
    },
  },
  {
    method: 'GET',
    path: '/ojs/v1/queues/:name',
    tag: 'queues',
    summary: 'One queue',
    handle: async (call) => ({
      body: JSON.stringify({ queue: queueView(await oneQueue(call.engine, param(call, 'name'))) }),
    }),
  },
  {
    method: 'GET',
    path: '/ojs/v1/queues/:name/stats',
    tag: 'queues',
    summary: 'Counts and recent pace of a queue',
    handle: async (call) => {
      const facts = await oneQueue(call.engine, param(call, 'name'))
      return { body: JSON.stringify(statsView(call.engine, facts, call.engine.now())) }
    },
  },
  {
    method: 'POST',
    path: '/ojs/v1/queues/:name/pause',
    tag: 'queues',
    summary: 'Hand out no more jobs of this queue',
    handle: async (call) => ({ body: JSON.stringify(await pauseQueue(call)) }),
  },
  {
    method: 'POST',
    path: '/ojs/v1/queues/:name/drain',
    aliases: ['POST /ojs/v1/admin/queues/:name/drain'],
    tag: 'queues',
    summary: 'Take no more jobs, and hand out those that are there',
    handle: async (call) => ({ body: JSON.stringify(await drainQueue(call)) }),
  },
  {
    method: 'POST',
    path: '/ojs/v1/queues/:name/resume',
    tag: 'queues',
    summary: 'Take and hand out jobs again, after a pause or a drain',
    handle: async (call) => ({ body: JSON.stringify(await resumeQueue(call)) }),
  },
]
