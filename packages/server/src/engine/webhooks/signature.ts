/**
 * What a delivery is signed with. Two signatures over the same bytes: that of Standard Webhooks, which libraries in most
 * languages verify, and that of OJS webhooks §8.1. While a secret is being replaced there is one of each per secret.
 */
import { createHmac } from 'node:crypto'
import { iso, SECRET_PREFIX, type Instant } from '@curfew/core'

export interface Signed {
  readonly id: string
  /** Unix seconds. */
  readonly timestamp: string
  readonly body: string
}

/** Standard Webhooks: the base64 after the prefix is the key. Other texts are the key themselves. */
const keyOf = (secret: string): Buffer =>
  secret.startsWith(SECRET_PREFIX) ? Buffer.from(secret.slice(SECRET_PREFIX.length), 'base64') : Buffer.from(secret)

export function standardSignature({ id, timestamp, body }: Signed, secret: string): string {
  return `v1,${createHmac('sha256', keyOf(secret)).update(`${id}.${timestamp}.${body}`).digest('base64')}`
}

/** The whole secret, prefix and all, is the key. */
export function ojsSignature({ timestamp, body }: Signed, secret: string): string {
  return `sha256=${createHmac('sha256', secret).update(`${timestamp}.${body}`).digest('hex')}`
}

export function signatureHeaders(signed: Signed, secrets: readonly string[]): Record<string, string> {
  return {
    'webhook-id': signed.id,
    'webhook-timestamp': signed.timestamp,
    'webhook-signature': secrets.map((secret) => standardSignature(signed, secret)).join(' '),
    'X-OJS-Timestamp': signed.timestamp,
    'X-OJS-Signature': secrets.map((secret) => ojsSignature(signed, secret)).join(','),
  }
}

export const unixSeconds = (now: Instant): string => String(Math.floor(Date.parse(iso(now)) / 1000))
