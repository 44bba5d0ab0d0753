/**
 * One delivery: the job it is, the request it becomes, and how it ends. The event is kept in the job as it was told, so
 * that it can be delivered, or delivered again, when the log has long forgotten it.
 */
import {
  broken,
  deliveryDelayMs,
  deliveryLimitKey,
  DELIVERY_MARGIN_MS,
  DELIVERY_RETRY,
  DELIVERY_TOTAL_MS,
  DELIVERY_TYPE,
  elementsOf,
  fail,
  membersOf,
  millis,
  NO_NEAR_MISSES,
  readRateLimit,
  renderEvent,
  secretsOf,
  WEBHOOK,
  WEBHOOK_QUEUE,
  webhookEvent,
  writeRetryPolicy,
  type EnqueueRequest,
  type Fence,
  type Instant,
  type Job,
  type Millis,
  type ReportedError,
  type Webhook,
} from '@curfew/core'
import type { StoredEvent } from '../../store/store.ts'
import type { Command } from '../kernel/command.ts'
import type { WebhooksContext } from './context.ts'
import type { Unit } from '../kernel/unit.ts'
import { heldJob } from '../jobs/reports.ts'
import type { OutgoingCall } from '../outgoing.ts'
import { signatureHeaders, unixSeconds } from './signature.ts'

/** What the job of a delivery carries. */
export interface Delivery {
  readonly subscriptionId: string
  readonly eventId: string
  readonly eventType: string
  /** The event as it was told: the body of the request, byte for byte. */
  readonly event: string
}

/** So many at once to one endpoint, from all servers together: a slow one must not take the place of all others. */
const MAX_PER_ENDPOINT = 4

export function deliveryRequest(webhook: Webhook, event: StoredEvent): EnqueueRequest {
  const args = `[${JSON.stringify(webhook.id)},${renderEvent(event)}]`
  const limit = { key: deliveryLimitKey(webhook.id), concurrency: MAX_PER_ENDPOINT }
  const timeoutMs = millis(webhook.timeoutMs + DELIVERY_MARGIN_MS)
  return {
    id: null,
    type: DELIVERY_TYPE,
    queue: WEBHOOK_QUEUE,
    priority: 0,
    pending: false,
    asked: { timeout: timeoutMs, grace: millis(0), total: DELIVERY_TOTAL_MS },
    retry: DELIVERY_RETRY,
    scheduled: null,
    expires: null,
    resultTtlMs: null,
    parent: null,
    inheritDeadline: false,
    schema: null,
    unique: null,
    rateLimit: readRateLimit(limit),
    tenant: webhook.tenant,
    traceId: null,
    nearMisses: NO_NEAR_MISSES,
    body: `"args":${args},"meta":{},"retry":${JSON.stringify(writeRetryPolicy(DELIVERY_RETRY))}`,
    given: `"timeout_ms":${String(timeoutMs)},"grace_period_ms":0,"total_timeout_ms":${String(DELIVERY_TOTAL_MS)},"rate_limit":${JSON.stringify(limit)}`,
  }
}

export function readDelivery({ id, body }: Job): Delivery {
  const [subscription, event] = elementsOf(membersOf(`{${body}}`).get('args')?.value ?? '[]')
  if (subscription === undefined || event === undefined) throw broken(`job ${id} is not a delivery`)
  const { id: eventId, type } = JSON.parse(event) as { id: string; type: string }
  return { subscriptionId: JSON.parse(subscription) as string, eventId, eventType: type, event }
}

/** Stable over all attempts (OJS webhooks §7.5). */
export const deliveryId = ({ id }: Pick<Job, 'id'>): string => `del_${id}`

/** OJS webhooks §5.3, and the headers of Standard Webhooks. */
export function deliveryCall(
  webhook: Webhook,
  id: string,
  { eventType, event }: Pick<Delivery, 'eventType' | 'event'>,
  signal: AbortSignal,
  now: Instant,
): OutgoingCall {
  return {
    method: 'POST',
    url: webhook.url,
    headers: {
      'Content-Type': 'application/json',
      'User-Agent': 'OJS-Webhook/1.0 (curfew)',
      'X-OJS-Event-Type': eventType,
      'X-OJS-Delivery-ID': id,
      'X-OJS-Subscription-ID': webhook.id,
      ...signatureHeaders({ id, timestamp: unixSeconds(now), body: event }, secretsOf(webhook, now)),
    },
    body: event,
    signal,
    mostBytes: 4_096,
  }
}

/** The server itself holds the deliveries it makes; the lease says which attempt is meant. */
export function fenceOf({ attempt, lease }: Job): Fence {
  return { workerId: 'curfew', attempt, lease }
}

/** `delayMs` is the endpoint's own wish; without one, the waits of the specification hold. */
export function failDelivery(
  context: WebhooksContext,
  { id, attempt, interruptions, lease }: Job,
  error: ReportedError,
  { delayMs = null, disable = null }: { delayMs?: Millis | null; disable?: string | null } = {},
): Command<Job> {
  return {
    name: 'nack',
    needs: { jobs: [id], docs: disable === null ? [] : [{ kind: WEBHOOK.kind, id: disable }] },
    run: (unit) => {
      const job = heldJob(context, unit, id, { workerId: 'curfew', attempt, lease })
      const wait = delayMs ?? deliveryDelayMs(attempt - interruptions)
      const once = { ...job.retry, strategy: 'constant', initialMs: wait, maxMs: wait, jitter: false } as const
      const step = fail({ ...job, retry: once }, error, unit.moment)
      unit.apply({ ...step, before: job, job: { ...step.job, retry: job.retry } })
      if (disable !== null) {
        const webhook = unit.doc(WEBHOOK, disable)
        if (webhook?.active === true) {
          unit.putDoc(WEBHOOK, disable, {
            ...webhook,
            active: false,
            inactiveReason: error.message,
            updatedAt: unit.now,
          })
          unit.emit(webhookEvent('webhook.subscription.disabled', disable, unit.now, { reason: error.message }))
        }
      }
      return step.job
    },
  }
}

/** Announces a delivery that will not be tried again, whatever ended it. */
export function followDeliveries(unit: Unit, ended: readonly Job[]): Promise<void> {
  for (const job of ended) {
    if (job.state !== 'discarded' || !job.deadLetter) continue
    const { subscriptionId, eventId, eventType } = readDelivery(job)
    unit.emit(
      webhookEvent('webhook.dead', subscriptionId, unit.now, {
        delivery_id: deliveryId(job),
        job_id: job.id,
        event_id: eventId,
        event_type: eventType,
        attempts: job.attempt,
      }),
    )
  }
  return Promise.resolve()
}
