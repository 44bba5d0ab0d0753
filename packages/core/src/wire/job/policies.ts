/** Type policies, the configuration of queues and the limits of handlers on the wire. */
import { badField, badPolicy } from '../../errors.ts'
import type { Bound } from '../../job/backpressure.ts'
import { NO_TERMS, sameTerms, type LimiterTerms } from '../../job/limiter.ts'
import { LIMIT_NAMES, type AskedLimits, type KeptFor, type LimitName } from '../../job/limits.ts'
import { ORDERS, type Order, type TypePolicy } from '../../job/policies.ts'
import { seconds, type Instant, type Millis } from '../../time/clock.ts'
import { MAX_DURATION_MS, parseIsoDuration } from '../../time/durations.ts'
import { DURATION_SCHEMA } from '../time-schemas.ts'
import { BACKPRESSURE_SHAPE, readBound } from './backpressure.ts'
import { limitKeys, limitShapes, ON_TIMEOUT_FIELD, onTimeoutShape, readCaps, readLimits, refuseTiny } from './limits.ts'
import { QUEUE_RATE_LIMIT_SHAPE, writeTerms } from './rate-limit.ts'
import { JOB_ALIASES } from '../names/aliases.ts'
import { unknownKey } from '../names/near-miss-words.ts'
import { vocabulary } from '../names/near-miss.ts'
import { anyObject, object, oneOf, policy, type Fields, type Shape } from '../shape.ts'

/** Whether arguments are held to the schemas of their type: refused, warned about, or not looked at (the default). */
export const VALIDATION_SHAPE = policy(oneOf('strict', 'warn', 'off'))

export function readTypePolicy(type: string, fields: Fields, now: Instant): TypePolicy {
  refuseUnknown(fields, [...limitKeys(), 'caps', 'validation'], '')
  const validation = fields['validation'] ?? null
  if (validation !== null) VALIDATION_SHAPE.read(validation, 'validation')
  const [asked, caps] = [readLimits(fields), readCaps(fields['caps'], 'caps')]
  refuseTiny(asked, fields)
  refuseTiny(caps, anyObject().read(fields['caps'] ?? {}, 'caps'), '', 'caps.')
  return {
    type,
    asked,
    caps,
    sent: withoutNulls(fields),
    updatedAt: now,
  }
}

/** A retention of less than a second would remove a job before a client could read it. */
const DURATION_OF_SECONDS = {
  ...DURATION_SCHEMA,
  title: 'Retention',
  pattern: String(DURATION_SCHEMA['pattern']).replace('(?=.*[1-9])', '(?=[^.]*[1-9])'),
  description: 'ISO 8601, from PT1S to ten years',
}

const length: Shape<Millis> = {
  json: {
    anyOf: [{ type: 'integer', minimum: 1, maximum: MAX_DURATION_MS / 1000 }, DURATION_OF_SECONDS],
  },
  read(value, at) {
    const ms = typeof value === 'string' ? parseIsoDuration(value) : isSeconds(value) ? seconds(value) : null
    if (ms === null || ms < 1_000 || ms > MAX_DURATION_MS)
      throw badPolicy(at, `${at} must be whole seconds (at least 1) or an ISO 8601 duration such as "P7D".`)
    return ms
  },
}
const isSeconds = (value: unknown): value is number => Number.isSafeInteger(value)

export const RETENTION_SHAPE = policy(
  object({ completed: length, cancelled: length, discarded: length, dead_letter: length }, { unknown: 'refuse' }),
)

function readRetention(value: unknown): KeptFor | null {
  if (value === undefined || value === null) return null
  const { completed, cancelled, discarded, dead_letter: deadLetter } = RETENTION_SHAPE.read(value, 'retention')
  return {
    ...(completed === undefined ? {} : { completedMs: completed }),
    ...(cancelled === undefined ? {} : { cancelledMs: cancelled }),
    ...(discarded === undefined ? {} : { discardedMs: discarded }),
    ...(deadLetter === undefined ? {} : { deadLetterMs: deadLetter }),
  }
}

/** Handlers may bound one attempt; the whole job's life is bounded at publish. */
const HANDLER_LIMITS: readonly LimitName[] = ['timeout', 'grace', 'heartbeat']

/** The documented form of the limits a handler brings. */
export const HANDLER_LIMITS_SHAPE = object(
  { ...limitShapes('', HANDLER_LIMITS), [ON_TIMEOUT_FIELD]: onTimeoutShape() },
  { unknown: 'refuse' },
)

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

/** The settings of a queue besides the limits of its jobs, key by key. */
const QUEUE_SETTINGS = {
  backpressure: BACKPRESSURE_SHAPE,
  retention: RETENTION_SHAPE,
  order: policy(oneOf(...ORDERS)),
  rate_limit: QUEUE_RATE_LIMIT_SHAPE,
} as const satisfies Record<string, Shape<unknown>>

const QUEUE_KEYS = [...limitKeys('default_', LIMIT_NAMES), ...Object.keys(QUEUE_SETTINGS)]

/** The documented form of a queue's configuration. */
export const QUEUE_CONFIG_SHAPE = object(
  { ...limitShapes('default_'), [`default_${ON_TIMEOUT_FIELD}`]: onTimeoutShape(), ...QUEUE_SETTINGS },
  { unknown: 'refuse' },
)

/** A queue's configuration, kept under the names it was sent with. Merges by key; null removes. */
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
  refuseTiny(readLimits(merged, 'default_'), sent, 'default_')
  for (const [key, shape] of Object.entries(QUEUE_SETTINGS)) if (merged[key] !== undefined) shape.read(merged[key], key)
  return merged
}

/** What the queue says about the limits of its jobs, and how long it keeps them when they are over. */
export function queueLimits(config: Fields): AskedLimits & { readonly kept?: KeptFor } {
  const asked = readLimits(config, 'default_')
  const kept = readRetention(config['retention'])
  return kept === null ? asked : { ...asked, kept }
}

export function queueOrder(config: Fields): Order {
  return config['order'] === 'edf' ? 'edf' : 'fifo'
}

/** The terms of the queue's own limiter; null: it has none. */
export function queueTerms(config: Fields): LimiterTerms | null {
  return config['rate_limit'] === undefined ? null : QUEUE_RATE_LIMIT_SHAPE.read(config['rate_limit'], 'rate_limit')
}

/** A job set the rate of the whole queue. What else limits the queue stays. */
export function withQueueRate(config: Fields, { rate }: LimiterTerms): Fields {
  const terms = queueTerms(config) ?? NO_TERMS
  return sameTerms(terms, { ...terms, rate }) ? config : { ...config, rate_limit: writeTerms({ ...terms, rate }) }
}

/** Set by the first job that brings a limiter of its own, so that other queues need not be searched for such jobs. */
const KEYED = 'keyed_limits'
export const hasKeyedLimits = (config: Fields): boolean => config[KEYED] === true
export const withKeyedLimits = (config: Fields): Fields =>
  hasKeyedLimits(config) ? config : { ...config, [KEYED]: true }

/** Null: the queue is not bounded. */
export function queueBound(config: Fields): Bound | null {
  return readBound(config['backpressure'])
}

function refuseUnknown(fields: Fields, known: readonly string[], prefix: string): void {
  for (const key of Object.keys(fields)) {
    if (!known.includes(key)) throw badField(`${prefix}${key}`, unknownKey(key, vocabulary(known, aliasesFor(known))))
  }
}

/** A queue has defaults: there `timeout` is `default_timeout`, and so is what other systems call it. */
function aliasesFor(known: readonly string[]): Record<string, string> {
  const aliases: Record<string, string> = {}
  for (const name of known) if (name.startsWith(DEFAULT)) aliases[name.slice(DEFAULT.length)] = name
  for (const [alias, name] of Object.entries(JOB_ALIASES)) {
    const meant = known.includes(name) ? name : aliases[name]
    if (meant !== undefined) aliases[alias] = aliases[`${DEFAULT}${alias}`] = meant
  }
  return aliases
}

const DEFAULT = 'default_'

function withoutNulls(fields: Fields): Fields {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== null))
}
