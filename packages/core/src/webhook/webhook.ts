/**
 * Webhooks: which events a subscription wants, and what an endpoint's answer means. The rules only; wire/webhook.ts reads
 * subscriptions, `engine/webhooks/webhooks.ts` reads the log for each of them and makes a job of every delivery.
 *
 * A subscription has a place in the log (`cursor`): everything up to it has been looked at, and what matched is a job by
 * now. Events about the server's own queues, types and limiters are never delivered (`isOwnEvent`): a delivery would
 * cause events that cause deliveries, without end.
 *
 * OJS webhooks §5 (subscriptions, filters), §7 (what is tried again, and when), §8.3 (rotation).
 */
import { docKind } from '../doc.ts'
import { EVENT_TYPES } from '../events.ts'
import type { RetryPolicy } from '../job/retry.ts'
import { days, hours, millis, minutes, seconds, type Instant, type Millis } from '../time/clock.ts'
import { after } from '../time/sums.ts'
import { isReserved, RESERVED_PREFIX } from '../job/reserved.ts'
import type { Fields } from '../wire/shape.ts'

export const WEBHOOK_QUEUE = 'curfew.webhooks'
export const DELIVERY_TYPE = 'curfew.webhook.deliver'
/** The limiter that the deliveries of a subscription share. */
export const deliveryLimitKey = (subscriptionId: string): string => `${RESERVED_PREFIX}webhook/${subscriptionId}`

export interface WebhookFilter {
  readonly queues: readonly string[]
  readonly jobTypes: readonly string[]
}

export interface Webhook {
  readonly id: string
  /** Only events about this tenant's jobs are delivered; null: about all. */
  readonly tenant: string | null
  readonly url: string
  /** Types of events: as they are, `job.*`, or `*`. */
  readonly events: readonly string[]
  /** Empty lists let everything pass. */
  readonly filter: WebhookFilter
  readonly metadata: Fields | null
  readonly active: boolean
  /** Why the server turned it off, if it did. */
  readonly inactiveReason: string | null
  readonly timeoutMs: Millis
  readonly secret: string
  /** The secret before the last rotation, which signs too for a while. */
  readonly oldSecret: { readonly secret: string; readonly until: Instant } | null
  /** The place in the log up to which it has been served. */
  readonly cursor: number
  /** When some server looks after it, if none has before. */
  readonly lookAt: Instant
  readonly createdAt: Instant
  readonly updatedAt: Instant
}

export const WEBHOOK = docKind<Webhook>('webhook', ({ active, lookAt }) => (active ? lookAt : null))

/** Secrets as Standard Webhooks write them begin with this; the rest is the key in base64. */
export const SECRET_PREFIX = 'whsec_'

/** OJS webhooks §8.3. */
export const ROTATION_MS = hours(24)

export function rotateSecret(webhook: Webhook, secret: string, now: Instant): Webhook {
  return { ...webhook, secret, oldSecret: { secret: webhook.secret, until: after(now, ROTATION_MS) }, updatedAt: now }
}

/** The secrets that sign now, the newest first. */
export function secretsOf({ secret, oldSecret }: Webhook, now: Instant): string[] {
  return oldSecret !== null && now < oldSecret.until ? [secret, oldSecret.secret] : [secret]
}

/** Patterns that no event of this server fits: a slip of the pen, most likely. */
export function unheardOf(events: readonly string[]): string[] {
  return events.filter((pattern) => !EVENT_TYPES.some((type) => fitsPattern(pattern, type)))
}

/** Names in the filter that belong to the server itself: no event about them is ever delivered. */
export function undeliverable({ queues, jobTypes }: WebhookFilter): string[] {
  return [...queues, ...jobTypes].filter(isReserved)
}

export interface Tellable {
  readonly type: string
  readonly subject: string
  readonly queue: string | null
  readonly jobType: string | null
}

/** About webhooks, or about a queue, a job type or a limiter of the server itself: what a delivery causes is always one. */
export function isOwnEvent({ type, subject, queue, jobType }: Tellable): boolean {
  if (type.startsWith('webhook.')) return true
  if ((queue !== null && isReserved(queue)) || (jobType !== null && isReserved(jobType))) return true
  return type.startsWith('rate_limit.') && isReserved(subject)
}

export function wants({ events, filter }: Pick<Webhook, 'events' | 'filter'>, event: Tellable): boolean {
  if (isOwnEvent(event)) return false
  if (filter.queues.length > 0 && (event.queue === null || !filter.queues.includes(event.queue))) return false
  if (filter.jobTypes.length > 0 && (event.jobType === null || !filter.jobTypes.includes(event.jobType))) return false
  return events.some((pattern) => fitsPattern(pattern, event.type))
}

/** OJS webhooks §5.2. */
function fitsPattern(pattern: string, type: string): boolean {
  if (pattern === '*') return true
  return pattern.endsWith('.*') ? type.startsWith(pattern.slice(0, -1)) : pattern === type
}

/** After so long without a look by any server, the first that wakes serves the subscription. */
const LOOK_EVERY_MS = minutes(5)

export function nextLookAt(now: Instant): Instant {
  return after(now, LOOK_EVERY_MS)
}

/** OJS webhooks §7.2: the waits after the first, second, … attempt. */
const DELAYS: readonly Millis[] = [seconds(30), minutes(2), minutes(10), hours(1), hours(4), hours(12), hours(24)]

export function deliveryDelayMs(failedAttempt: number): Millis {
  return DELAYS[Math.min(Math.max(1, failedAttempt), DELAYS.length) - 1] ?? hours(24)
}

/** As near as a policy comes to the waits above: for attempts that end without a verdict (their server died). */
export const DELIVERY_RETRY: RetryPolicy = {
  maxAttempts: DELAYS.length + 1,
  initialMs: seconds(30),
  coefficient: 4,
  maxMs: hours(24),
  jitter: false,
  nonRetryable: [],
  onExhaustion: 'dead_letter',
  strategy: 'exponential',
}

/** All attempts and their waits, and time to spare. */
export const DELIVERY_TOTAL_MS = days(3)
/** What an attempt has beyond the endpoint's own time: to be begun, and to be written down. */
export const DELIVERY_MARGIN_MS = seconds(10)

export type DeliveryVerdict =
  | { readonly kind: 'delivered' }
  | { readonly kind: 'retry'; readonly delayMs: Millis | null; readonly reason: string }
  | { readonly kind: 'dead'; readonly reason: string }
  /** The endpoint is gone: nothing more is to be sent. */
  | { readonly kind: 'gone'; readonly reason: string }

/** OJS webhooks §7.1, but redirects are not followed: they would send a signed request to another host. */
export function verdictOnAnswer(status: number, retryAfter: string | undefined, now: Instant): DeliveryVerdict {
  const reason = `the endpoint answered ${String(status)}`
  if (status >= 200 && status < 300) return { kind: 'delivered' }
  if (status >= 300 && status < 400)
    return { kind: 'dead', reason: `${reason}; redirects are not followed, so change the url` }
  if (status === 410) return { kind: 'gone', reason }
  if (status === 429) return { kind: 'retry', delayMs: retryAfterMs(retryAfter, now), reason }
  if (status >= 400 && status < 500) return { kind: 'dead', reason }
  return { kind: 'retry', delayMs: null, reason }
}

/** Seconds, or a date; never longer than a day. Null when it holds neither. */
function retryAfterMs(value: string | undefined, now: Instant): Millis | null {
  if (value === undefined) return null
  const ms = /^\d{1,9}$/.test(value) ? Number(value) * 1000 : Date.parse(value) - now
  return Number.isFinite(ms) && ms > 0 ? millis(Math.min(Math.ceil(ms), hours(24))) : null
}
