/**
 * What is counted. Counters and histograms follow from what was committed; gauges are read on each scrape
 * (`http/routes/system-routes.ts`). Labels are queues and job types, whose alphabet is restricted, never job or worker ids. Only
 * so many of them have series of their own (`series.ts`).
 */
import { Counter, Histogram, Registry } from 'prom-client'
import { instant, elapsed, type Instant, type Transition } from '@curfew/core'
import type { Committed } from '../kernel/feature.ts'
import { JobHistogram, RunCounter } from './histogram.ts'
import { isAboutRun, JourneyMeters } from './journey-meters.ts'
import { Series } from './series.ts'

const DURATIONS = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300]
const WAITS = [0.01, 0.05, 0.1, 0.5, 1, 5, 10, 30, 60, 300, 900, 3600]
const OVERSHOOTS = [0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1, 5, 30]
/** Failures that have an outcome of their own; everything else is `failed`. */
const OUTCOMES = ['timeout', 'stalled', 'total_timeout', 'visibility_timeout', 'worker_death', 'shutdown']
const COUNTED_KINDS = ['execution', 'total', 'enqueue_ttl', 'stalled']
const RECENT_MS = 3_600_000

/** What happened in one queue in the last hour, since this server came up. */
export interface Recent {
  readonly completed: number
  readonly failed: number
  readonly avgDurationMs: number
  readonly avgWaitMs: number
  readonly perMinute: { readonly started: number; readonly completed: number; readonly failed: number }
}

// A type, not an interface: it is used where any record of texts is taken.
type KindLabels = {
  readonly queue: string
  readonly type: string
}

interface Minute {
  readonly minute: number
  completed: number
  failed: number
  durationMs: number
  started: number
  waitMs: number
}

export class Meters {
  readonly registry = new Registry()
  readonly #journeys = new JourneyMeters(this.registry)
  readonly #byQueue = new Map<string, Minute[]>()
  readonly #ofAll: Minute[] = []
  readonly #queues = new Series()
  readonly #kinds = new Series()
  #lastKind: { readonly queue: string; readonly type: string; readonly labels: KindLabels } | null = null
  #lastMinutes: { readonly queue: string; readonly minute: number; readonly minutes: readonly Minute[] } | null = null

  readonly #timeouts = this.#counter('ojs_job_timeout_count_total', 'Jobs that ran out of time.', [
    'timeout_kind',
    'queue',
    'job_type',
  ])
  readonly #execution = this.#jobHistogram(
    'ojs_job_execution_duration_seconds',
    'How long attempts ran.',
    ['queue', 'job_type', 'outcome'],
    DURATIONS,
  )
  readonly #waitTime = this.#jobHistogram(
    'ojs_job_enqueue_wait_time_seconds',
    'Time in the queue before the first attempt.',
    ['queue'],
    WAITS,
  )
  readonly #enqueued = new RunCounter(this.#counter('ojs_job_enqueued_total', 'New jobs.', ['queue', 'type']))
  readonly #completed = new RunCounter(this.#counter('ojs_job_completed_total', 'Jobs completed.', ['queue', 'type']))
  readonly #failed = this.#counter('ojs_job_failed_total', 'Attempts that failed.', ['queue', 'type'])
  readonly #retried = this.#counter('ojs_job_retried_total', 'Attempts to be tried again.', ['queue', 'type'])
  readonly #cancelled = this.#counter('ojs_job_cancelled_total', 'Jobs cancelled.', ['queue', 'type'])
  readonly #expired = this.#counter('ojs_job_expired_total', 'Jobs that expired before they started.', [
    'queue',
    'type',
  ])
  readonly #duration = this.#jobHistogram(
    'ojs_job_duration_seconds',
    'How long attempts ran, by the state that followed.',
    ['queue', 'type', 'state'],
    DURATIONS,
  )
  readonly #queueTime = this.#jobHistogram(
    'ojs_job_queue_time_seconds',
    'Time between becoming available and being handed out.',
    ['queue', 'type'],
    WAITS,
  )
  readonly #deaths = this.#counter('ojs_worker_deaths_total', 'Workers declared dead.', [])
  readonly #lapsed = this.#counter('ojs_job_visibility_expired_total', 'Reservations that lapsed.', ['queue'])
  readonly #overshoot = this.#histogram(
    'curfew_deadline_overshoot_seconds',
    'How long after its deadline an expiry was decided.',
    ['kind'],
    OVERSHOOTS,
  )
  readonly #late = this.#counter('curfew_late_results_total', 'Reports refused because the attempt was over.', [
    'operation',
    'reason',
  ])
  readonly #batch = this.#histogram(
    'curfew_commit_batch_size',
    'Commands that shared one transaction.',
    [],
    [1, 2, 5, 10, 25, 50, 100, 250, 500],
  )

  readonly #refused = this.#counter('ojs_backpressure_rejected_total', 'Enqueues refused because a queue was full.', [
    'queue',
  ])
  readonly #dropped = this.#counter('ojs_backpressure_dropped_total', 'Jobs dropped to make room for others.', [
    'queue',
  ])

  refusedForRoom(queue: string): void {
    this.#refused.inc({ queue: this.#queues.of(queue) })
  }

  readonly #deliveries = this.#counter(
    'ojs_webhook_delivery_count_total',
    'Attempts to deliver an event to a webhook.',
    ['event_type', 'status'],
  )
  readonly #deliveryDuration = this.#histogram(
    'ojs_webhook_delivery_duration_seconds',
    'How long endpoints of webhooks took to answer.',
    ['event_type'],
    DURATIONS,
  )

  delivered(eventType: string, status: 'success' | 'failed', tookMs: number): void {
    this.#deliveries.inc({ event_type: eventType, status })
    this.#deliveryDuration.observe({ event_type: eventType }, tookMs / 1000)
  }

  late(operation: string, reason: string): void {
    this.#late.inc({ operation, reason })
  }

  committed({ transitions, events, ranOut, commands, now }: Committed): void {
    if (commands > 0) this.#batch.observe(commands)
    for (const transition of transitions) this.#observe(transition, now)
    this.#enqueued.flush()
    this.#completed.flush()
    for (const event of events) {
      const { type, queue } = event
      if (type === 'worker.died') this.#deaths.inc()
      else if (type === 'backpressure.dropped' && queue !== null) this.#dropped.inc({ queue: this.#queues.of(queue) })
      else if (isAboutRun(event)) this.#journeys.count(event)
    }
    for (const { kind, overshootMs } of ranOut) this.#overshoot.observe({ kind }, overshootMs / 1000)
  }

  /** Jobs that come together are mostly of a kind: then these are the same labels, as one object. */
  #labels({ queue, type }: { readonly queue: string; readonly type: string }): KindLabels {
    if (this.#lastKind?.queue === queue && this.#lastKind.type === type) return this.#lastKind.labels
    const [queueLabel, typeLabel] = this.#kinds.pair(queue, type)
    const labels = { queue: queueLabel, type: typeLabel }
    this.#lastKind = { queue, type, labels }
    return labels
  }

  #observe(transition: Transition, now: Instant): void {
    const { before, job, events, expired } = transition
    const subject = job ?? before
    if (subject === null) return
    const labels = this.#labels(subject)
    const { type } = labels
    if (before === null && job !== null) this.#enqueued.inc(labels)
    const queue = this.#queues.of(subject.queue)
    for (const event of events) {
      if (event.type === 'job.failed') this.#failed.inc(labels)
      // Without a moment no retry is planned: the job waits for its total.
      else if (event.type === 'job.retrying') this.#retried.inc(labels, event.data['next_retry_at'] === null ? 0 : 1)
      else if (event.type === 'job.cancelled') this.#cancelled.inc(labels)
      else if (event.type === 'job.expired') this.#expired.inc(labels)
      else if (event.type === 'job.completed') this.#completed.inc(labels)
    }
    for (const { kind, overshootMs } of expired ?? []) {
      if (COUNTED_KINDS.includes(kind)) this.#timeouts.inc({ timeout_kind: kind, queue: labels.queue, job_type: type })
      if (kind === 'visibility') this.#lapsed.inc({ queue })
      if (overshootMs !== null) this.#overshoot.observe({ kind }, overshootMs / 1000)
    }
    if (before?.state === 'available' && job?.state === 'active') {
      const waitedMs = elapsed(before.enqueuedAt ?? before.createdAt, now)
      this.#queueTime.observe(waitedMs / 1000, labels.queue, type)
      if (job.lease === 1) this.#waitTime.observe(elapsed(job.createdAt, now) / 1000, queue)
      for (const minute of this.#minutes(subject.queue, now)) {
        minute.started += 1
        minute.waitMs += waitedMs
      }
    }
    if (before?.state === 'active' && job !== null && job.state !== 'active' && before.startedAt !== null) {
      const ranMs = elapsed(before.startedAt, now)
      this.#execution.observe(ranMs / 1000, labels.queue, type, outcomeOf(transition))
      this.#duration.observe(ranMs / 1000, labels.queue, type, job.state)
      const hasFailed = events.some(({ type: told }) => told === 'job.failed')
      for (const minute of this.#minutes(subject.queue, now)) {
        if (job.state === 'completed') minute.completed += 1
        else if (hasFailed) minute.failed += 1
        minute.durationMs += ranMs
      }
    }
  }

  recent(queue: string, now: Instant): Recent {
    return recentOf(this.#byQueue.get(queue) ?? [], now)
  }

  /** Of all queues together. */
  recentOfAll(now: Instant): Recent {
    return recentOf(this.#ofAll, now)
  }

  /** The minute of this queue, and of all queues. */
  #minutes(queue: string, now: Instant): readonly Minute[] {
    const minute = Math.floor(now / 60_000)
    if (this.#lastMinutes?.queue === queue && this.#lastMinutes.minute === minute) return this.#lastMinutes.minutes
    const ofQueue = this.#byQueue.get(queue) ?? []
    this.#byQueue.set(queue, ofQueue)
    const minutes = [minuteOf(ofQueue, minute), minuteOf(this.#ofAll, minute)]
    this.#lastMinutes = { queue, minute, minutes }
    return minutes
  }

  #counter<L extends string>(name: string, help: string, labelNames: readonly L[]): Counter<L> {
    return new Counter({ name, help, labelNames: [...labelNames], registers: [this.registry] })
  }

  /** One that is observed with every job. */
  #jobHistogram<L extends string>(
    name: string,
    help: string,
    labelNames: readonly L[],
    buckets: readonly number[],
  ): JobHistogram<L> {
    return new JobHistogram({ name, help, labelNames, buckets }, this.registry)
  }

  #histogram<L extends string>(
    name: string,
    help: string,
    labelNames: readonly L[],
    buckets: readonly number[],
  ): Histogram<L> {
    return new Histogram({ name, help, labelNames: [...labelNames], buckets: [...buckets], registers: [this.registry] })
  }
}

function outcomeOf({ job, events }: Transition): string {
  if (job?.state === 'completed' || job?.state === 'cancelled') return job.state
  const failed = events.find(({ type }) => type === 'job.failed')
  if (failed === undefined)
    return events.some(({ type }) => type === 'job.interrupted') ? 'interrupted' : 'total_timeout'
  const type = (failed.data['error'] as { type?: string } | undefined)?.type ?? ''
  return OUTCOMES.includes(type) ? type : 'failed'
}

function recentOf(all: readonly Minute[], now: Instant): Recent {
  const minutes = all.filter(({ minute }) => elapsed(instant(minute * 60_000), now) < RECENT_MS)
  const sum = (pick: (minute: Minute) => number): number => minutes.reduce((total, minute) => total + pick(minute), 0)
  const [completed, failed, started] = [sum((m) => m.completed), sum((m) => m.failed), sum((m) => m.started)]
  const last = minutes.find(({ minute }) => minute === Math.floor(now / 60_000))
  return {
    completed,
    failed,
    avgDurationMs: completed + failed === 0 ? 0 : Math.round(sum((m) => m.durationMs) / (completed + failed)),
    avgWaitMs: started === 0 ? 0 : Math.round(sum((m) => m.waitMs) / started),
    perMinute: { started: last?.started ?? 0, completed: last?.completed ?? 0, failed: last?.failed ?? 0 },
  }
}

/** The last of these minutes, if it is this one; else a new one. */
function minuteOf(minutes: Minute[], minute: number): Minute {
  const last = minutes.at(-1)
  if (last?.minute === minute) return last
  const fresh: Minute = { minute, completed: 0, failed: 0, durationMs: 0, started: 0, waitMs: 0 }
  minutes.push(fresh)
  while (minutes.length > 61) minutes.shift()
  return fresh
}
