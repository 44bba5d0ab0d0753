/** Events with the names their fields have on the wire. */
import type { EventType, NewEvent } from '../events.ts'
import { eventId } from '../ids.ts'
import type { Job, Json } from '../job/job.ts'
import { iso, type Instant } from '../time/clock.ts'
import type { Workflow } from '../workflow/workflow.ts'

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

/** An event with its place in the log, as clients get it. */
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
