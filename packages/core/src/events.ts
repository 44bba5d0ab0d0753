/**
 * What happened, as a closed list. Events are saved in the transaction of their cause, in lifecycle order per job, and
 * read by poll and by stream. `job.heartbeat` and `worker.heartbeat` go to live streams only.
 */
import { iso, type Instant } from './time/clock.ts'
import { eventId } from './ids.ts'
import type { Fragment, Job, Json } from './job/job.ts'
import type { Workflow } from './workflow/workflow.ts'

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
] as const
export type EventType = (typeof EVENT_TYPES)[number]

/** An event before the log has given it its place. */
export interface NewEvent {
  readonly type: EventType
  readonly at: Instant
  /** The job, queue, worker, cron entry, workflow or run of a journey it is about. */
  readonly subject: string
  readonly queue: string | null
  readonly jobType: string | null
  readonly data: Readonly<Record<string, unknown>>
  /** More of `data` that is JSON text already, and stays as it was written. */
  readonly more?: Fragment
}

/** `data` as text. */
export function eventData({ data, more }: NewEvent): Json {
  const text = JSON.stringify(data)
  return more === undefined ? text : `${text.slice(0, -1)},${more}}`
}

export function jobEvent(type: EventType, job: Job, at: Instant, data: Record<string, unknown> = {}): NewEvent {
  return {
    type,
    at,
    subject: job.id,
    queue: job.queue,
    jobType: job.type,
    data: {
      job_id: job.id,
      job_type: job.type,
      queue: job.queue,
      ...(job.traceId === null ? {} : { trace_id: job.traceId }),
      ...data,
    },
  }
}

export function queueEvent(type: EventType, queue: string, at: Instant, data: Record<string, unknown> = {}): NewEvent {
  return { type, at, subject: queue, queue, jobType: null, data: { queue, ...data } }
}

export function workerEvent(
  type: EventType,
  workerId: string,
  at: Instant,
  data: Record<string, unknown> = {},
): NewEvent {
  return { type, at, subject: workerId, queue: null, jobType: null, data: { worker_id: workerId, ...data } }
}

export function webhookEvent(
  type: EventType,
  subscriptionId: string,
  at: Instant,
  data: Record<string, unknown> = {},
): NewEvent {
  return {
    type,
    at,
    subject: subscriptionId,
    queue: null,
    jobType: null,
    data: { subscription_id: subscriptionId, ...data },
  }
}

/** An event with its place in the log, as everybody outside gets it. */
export function renderEvent(event: {
  readonly sequence: number
  readonly type: string
  readonly at: Instant
  readonly subject: string
  readonly data: Json
}): Json {
  const { at, type } = event
  const envelope = JSON.stringify({
    specversion: '1.0',
    id: eventId(at, event.sequence),
    type,
    source: `ojs://curfew/${type.split('.')[0] ?? 'server'}s`,
    time: iso(at),
    subject: event.subject,
  })
  return `${envelope.slice(0, -1)},"data":${event.data}}`
}

export function workflowEvent(
  type: EventType,
  { id, name, branch }: Pick<Workflow, 'id' | 'name' | 'branch'>,
  at: Instant,
  data: Record<string, unknown>,
): NewEvent {
  const common = { workflow_id: id, workflow_name: name, workflow_type: branch.kind }
  return { type, at, subject: id, queue: null, jobType: null, data: { ...common, ...data } }
}
