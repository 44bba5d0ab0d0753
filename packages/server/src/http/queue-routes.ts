/** Queues: what is in them, pause and resume. Counts are exact right after each call. */
import { iso, JOB_STATES, QUEUE_SHAPE, type Instant, type JobState } from '@curfew/core'
import { pause, resume } from '../engine/queue.ts'
import type { Engine } from '../engine/engine.ts'
import type { Queue, StateCounts } from '../store/store.ts'
import { pagingOf, paginationOf, param, type Call, type Route } from './route.ts'

const NONE = Object.fromEntries(JOB_STATES.map((state) => [state, 0])) as Record<JobState, number>

export interface QueueFacts {
  readonly name: string
  readonly queue: Queue | null
  readonly counts: StateCounts
}

export async function queueFacts(engine: Engine): Promise<QueueFacts[]> {
  return engine.read(async (reads) => {
    const [queues, counts] = [await reads.queues(), await reads.counts()]
    return queues.map((queue) => ({ name: queue.name, queue, counts: counts.get(queue.name) ?? NONE }))
  })
}

async function oneQueue(engine: Engine, name: string): Promise<QueueFacts> {
  QUEUE_SHAPE.read(name, 'queue')
  return engine.read(async (reads) => ({
    name,
    queue: await reads.queue(name),
    counts: (await reads.counts()).get(name) ?? NONE,
  }))
}

export function queueView({ name, queue, counts }: QueueFacts): Record<string, unknown> {
  const paused = queue !== null && queue.pausedAt !== null
  return {
    name,
    status: paused ? 'paused' : 'active',
    state: paused ? 'paused' : 'active',
    paused,
    ...(queue === null ? {} : { created_at: iso(queue.createdAt) }),
    ...(queue?.pausedAt == null ? {} : { paused_at: iso(queue.pausedAt) }),
    counts,
  }
}

function depthOf(counts: StateCounts): number {
  return counts.available + counts.active + counts.scheduled + counts.pending + counts.retryable
}

function statsView(engine: Engine, facts: QueueFacts, now: Instant): Record<string, unknown> {
  const { name, counts } = facts
  const paused = facts.queue !== null && facts.queue.pausedAt !== null
  const status = paused ? 'paused' : 'active'
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
      max_depth: null,
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
  const paused = queue.pausedAt !== null
  const status = paused ? 'paused' : 'active'
  const moment = queue.pausedAt !== null ? { paused_at: iso(queue.pausedAt) } : { resumed_at: iso(now) }
  return { queue: { name: queue.name, paused, status }, name: queue.name, paused, status, ...moment }
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
    handle: async (call) => {
      const paging = pagingOf(call, 50)
      const facts = await queueFacts(call.engine)
      const shown = facts.slice(paging.offset, paging.offset + paging.limit)
      return {
        body: JSON.stringify({
          queues: shown.map(queueView),
          pagination: paginationOf(paging, facts.length, shown.length),
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
    path: '/ojs/v1/queues/:name/resume',
    tag: 'queues',
    summary: 'Hand out jobs again',
    handle: async (call) => ({ body: JSON.stringify(await resumeQueue(call)) }),
  },
]
