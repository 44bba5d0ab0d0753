/** Type policies: the limits an operator lays down for every job of a type, and the caps no publisher may exceed. */
import { badField, badPolicy } from './errors.ts'
import type { Instant } from './clock.ts'
import { limitKeys, LIMIT_NAMES, readCaps, readLimits, type AskedLimits, type Caps, type LimitName } from './limits.ts'
import type { Fields } from './shape.ts'

export interface TypePolicy {
  readonly type: string
  readonly asked: AskedLimits
  readonly caps: Caps
  /** As it was sent. */
  readonly sent: Readonly<Record<string, unknown>>
  readonly updatedAt: Instant
}

export function readTypePolicy(type: string, fields: Fields, now: Instant): TypePolicy {
  refuseUnknown(fields, [...limitKeys(), 'caps'], '')
  return {
    type,
    asked: readLimits(fields),
    caps: readCaps(fields['caps'], 'caps'),
    sent: withoutNulls(fields),
    updatedAt: now,
  }
}

/** Handlers may bound one attempt; the whole job's life belongs to whoever publishes it. */
const HANDLER_LIMITS: readonly LimitName[] = ['timeout', 'grace', 'heartbeat']

export function readHandlerLimits(fields: Fields, at: string): AskedLimits {
  for (const key of ['total_timeout', 'total_timeout_ms']) {
    if (fields[key] !== undefined && fields[key] !== null) {
      throw badPolicy(
        `${at}.${key}`,
        'A handler cannot set a total timeout: it bounds the whole life of a job, which begins at publish, before any handler is known. Set it at publish, or for the type with PUT /api/v1/job-types/:type.',
      )
    }
  }
  refuseUnknown(fields, limitKeys('', HANDLER_LIMITS), `${at}.`)
  return readLimits(fields, '', `${at}.`)
}

const QUEUE_KEYS = limitKeys('default_', LIMIT_NAMES)

/** A queue's defaults, kept under the names they were sent with. Merges by key; null removes. */
export function mergeQueueConfig(stored: Fields, sent: Fields): Record<string, unknown> {
  refuseUnknown(sent, QUEUE_KEYS, '')
  const merged: Record<string, unknown> = { ...stored }
  for (const [key, value] of Object.entries(sent)) {
    // A later body's twin replaces the stored value (`default_timeout` and `default_timeout_ms` are one setting).
    const twin = key.endsWith('_ms') ? key.slice(0, -3) : `${key}_ms`
    if (sent[twin] === undefined) delete merged[twin]
    if (value === null) delete merged[key]
    else merged[key] = value
  }
  readLimits(merged, 'default_')
  return merged
}

export function queueLimits(config: Fields): AskedLimits {
  return readLimits(config, 'default_')
}

function refuseUnknown(fields: Fields, known: readonly string[], prefix: string): void {
  for (const key of Object.keys(fields)) {
    if (!known.includes(key))
      throw badField(`${prefix}${key}`, `Unknown key ${JSON.stringify(key)}. Known: ${known.join(', ')}.`)
  }
}

function withoutNulls(fields: Fields): Fields {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== null))
}
