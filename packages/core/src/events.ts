/**
 * What happened, as a closed list. Events are saved in the transaction of their cause, in lifecycle order per job, and
 * read by poll and by stream. `job.heartbeat`, `worker.heartbeat` and `token.changed` go to live streams only.
 */
import type { Fragment } from './job/job.ts'
import type { Instant } from './time/clock.ts'

export const EVENT_TYPES = [
  'job.enqueued',
  'job.scheduled',
  'job.started',
  'job.completed',
  'job.failed',
  'job.retrying',
  'job.discarded',
  'job.cancelled',
  'job.interrupted',
  'job.limits_changed',
  'job.timeout',
  'job.stalled',
  'job.ttl_expired',
  'job.total_timeout',
  'job.expired',
  'job.progress',
  'job.checkpointed',
  'job.heartbeat',
  'queue.paused',
  'queue.resumed',
  'rate_limit.exceeded',
  'rate_limit.released',
  'rate_limit.dropped',
  'queue.draining',
  'backpressure.warning',
  'backpressure.rejected',
  'backpressure.dropped',
  'worker.started',
  'worker.stopped',
  'worker.quiet',
  'worker.died',
  'worker.heartbeat',
  'cron.triggered',
  'cron.skipped',
  'dead_letter.added',
  'dead_letter.retried',
  'dead_letter.deleted',
  'dead_letter.pruned',
  'webhook.subscription.created',
  'webhook.subscription.deleted',
  'webhook.subscription.disabled',
  'journey.paused',
  'webhook.dead',
  'workflow.started',
  'workflow.step_completed',
  'workflow.step_failed',
  'workflow.callback_fired',
  'workflow.completed',
  'workflow.failed',
  'workflow.cancelled',
  'journey.started',
  'journey.completed',
  'journey.failed',
  'journey.timeout',
  'journey.cancelled',
  'operator.action',
  'token.changed',
] as const
export type EventType = (typeof EVENT_TYPES)[number]

/** An event before the log has given it its place. */
export interface NewEvent {
  readonly type: EventType
  readonly at: Instant
  /** The job, queue, worker, cron entry, workflow, run of a journey or token it is about. */
  readonly subject: string
  readonly queue: string | null
  readonly jobType: string | null
  readonly data: Readonly<Record<string, unknown>>
  /** More of `data` that is JSON text already, and stays as it was written. */
  readonly more?: Fragment
}
