/**
 * The other end of a webhook: verifies that a request comes from the server and is not a replay. Signatures
 * are those of Standard Webhooks (standardwebhooks.com), so any of its libraries does as well.
 */
import { createHmac, timingSafeEqual } from 'node:crypto'
import { CurfewError, InputError } from '../errors.ts'
import { toMillis, type Duration } from '../durations.ts'
import type { CurfewEvent } from './events.ts'
import { nodeHost } from '../host.ts'

/** The request cannot be trusted: forged, changed on its way, or too old. Answer it with 401. */
export class WebhookError extends CurfewError {
  constructor(reason: string) {
    super('webhook_not_verified', `The webhook cannot be trusted: ${reason}.`)
  }
}

export interface VerifyOptions {
  /** How far the time of sending may be from now. Five minutes, if it is left out. */
  readonly tolerance?: Duration
  /** In milliseconds since 1970; the time of this machine, if it is left out. */
  readonly now?: number
}

/** `Headers`, or the `headers` of a request of `node:http`; names in any case. */
export type WebhookHeaders = Headers | Readonly<Record<string, string | readonly string[] | undefined>>

export interface WebhookEvent extends CurfewEvent {
  readonly id: string
  /** The same for every attempt of one delivery: use it to detect an event that was seen before. */
  readonly deliveryId: string
}

const PREFIX = 'whsec_'
const TOLERANCE = '5m'

/**
 * Reads the event from a request, or throws a `WebhookError`. `body` must be exactly what was received: parse nothing
 * before. While a secret is being replaced, both may be given.
 */
export function verifyWebhook(
  body: string | Uint8Array,
  headers: WebhookHeaders,
  secret: string | readonly string[],
  { tolerance = TOLERANCE, now = nodeHost.wallMs() }: VerifyOptions = {},
): WebhookEvent {
  const secrets = typeof secret === 'string' ? [secret] : secret
  if (secrets.length === 0 || secrets.some((one) => one === '')) throw new InputError('The secret is missing.')
  const [id, timestamp, signatures] = ['webhook-id', 'webhook-timestamp', 'webhook-signature'].map((name) =>
    headerOf(headers, name),
  )
  if (id === undefined || timestamp === undefined || signatures === undefined)
    throw new WebhookError('it has no signature')
  if (!/^\d{1,12}$/.test(timestamp) || Math.abs(now - Number(timestamp) * 1000) > toMillis(tolerance, 'tolerance'))
    throw new WebhookError('it was sent too long ago, or one of the clocks is wrong')
  const received = signatures
    .split(' ')
    .filter((one) => one.startsWith('v1,'))
    .map((one) => Buffer.from(one.slice(3), 'base64'))
  const isSigned = secrets.some((one) => {
    const expected = createHmac('sha256', keyOf(one)).update(`${id}.${timestamp}.`).update(body).digest()
    return received.some((signature) => signature.length === expected.length && timingSafeEqual(signature, expected))
  })
  if (!isSigned) throw new WebhookError('its signature does not fit')
  const text = typeof body === 'string' ? body : new TextDecoder().decode(body)
  return { ...(JSON.parse(text) as Omit<WebhookEvent, 'deliveryId'>), deliveryId: id }
}

const keyOf = (secret: string): Buffer =>
  secret.startsWith(PREFIX) ? Buffer.from(secret.slice(PREFIX.length), 'base64') : Buffer.from(secret)

function headerOf(headers: WebhookHeaders, name: string): string | undefined {
  if (headers instanceof Headers) return headers.get(name) ?? undefined
  for (const [key, value] of Object.entries(headers)) {
    if (key.toLowerCase() !== name || value === undefined) continue
    return typeof value === 'string' ? value : value[0]
  }
  return undefined
}
