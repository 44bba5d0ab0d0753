/**
 * Limits: how long things may take, and who said so.
 *
 * Per field the first of these that speaks wins, then caps clamp it:
 *
 *   publish > handler > type > (fetch, visibility only) > queue > server default
 *
 * Publish, type, queue and default values are settled at enqueue and stored with their source; a handler's values come
 * with the worker and are settled at each claim, for that attempt. Nothing is derived again later, so a change of
 * policy cannot reshape a job in flight and the row explains itself.
 */
import { badField, badPolicy } from '../errors.ts'
import { days, millis, seconds, minutes, type Millis } from '../time/clock.ts'
import type { RunLimits } from './deadlines.ts'
import { DURATION_SCHEMA, LONGEST_MS, parseIsoDuration } from '../time/durations.ts'
import { speakerFor } from './job.ts'
import type { Retention } from './lifecycle/lifecycle.ts'
import { unknownKey, vocabulary } from '../wire/near-miss.ts'
import { anyObject, either, oneOf, policy, whole, type Fields, type Shape } from '../wire/shape.ts'

export type LimitSource = 'publish' | 'handler' | 'type' | 'queue' | 'fetch' | 'default' | 'cap' | 'parent' | 'workflow'

export interface Limit {
  readonly ms: Millis
  readonly source: LimitSource
  /** Who had spoken, where a cap overruled them: a cap lowers what they asked for, not their rank. */
  readonly asked?: LimitSource
  /** Of a timeout that a shorter total holds down: what it was before. */
  readonly whole?: Millis
}

export type TimeoutMode = 'retry' | 'discard'

export interface OnTimeout {
  readonly mode: TimeoutMode
  readonly source: LimitSource
}

/** The lengths a job can be given, by our names. */
export const LIMIT_NAMES = ['timeout', 'total', 'ttl', 'grace', 'heartbeat', 'visibility'] as const
export type LimitName = (typeof LIMIT_NAMES)[number]

/** Lengths somebody asked for: at publish, in a type policy, in a queue's configuration, with a handler. */
export type AskedLimits = { readonly [name in LimitName]?: Millis } & { readonly onTimeout?: TimeoutMode }

export type Caps = { readonly [name in LimitName]?: Millis }

/** What was settled at enqueue. Grace, stall clock and visibility may still change with the worker that claims. */
export interface Limits {
  readonly timeout: Limit
  readonly grace: Limit
  readonly heartbeat: Limit
  /** Null: decided at the claim (fetch, or the default, which follows timeout and grace). */
  readonly visibility: Limit | null
  readonly total: Limit | null
  readonly ttl: Limit | null
  readonly onTimeout: OnTimeout
  /** Caps that held at enqueue, for the values a handler brings. */
  readonly caps: Caps
  /** How long the queue keeps its jobs when they are over, where it has a mind of its own. */
  readonly kept?: KeptFor
}

/** Lengths by ending. */
export type KeptFor = Partial<Retention>

/** The server's own defaults and caps. Every one is configurable. */
export interface LimitSettings {
  readonly defaults: {
    readonly timeout: Millis
    readonly grace: Millis
    readonly heartbeat: Millis
    readonly visibility: Millis
    readonly total: Millis | null
    readonly ttl: Millis | null
    readonly onTimeout: TimeoutMode
  }
  readonly caps: Caps
  /** How long runs of journeys may take. */
  readonly run: RunLimits
  /** Judge workers that never registered nor beat by the default stall clock as well (OJS timeouts §5.5, literally). */
  readonly judgeUnknownWorkers: boolean
}

export const DEFAULT_LIMITS: LimitSettings = {
  defaults: {
    timeout: minutes(30), // OJS timeouts §5.1
    grace: seconds(30), // §5.4
    heartbeat: seconds(60), // §5.5
    visibility: minutes(30), // OJS worker protocol §5.2
    total: null,
    ttl: null,
    onTimeout: 'retry',
  },
  caps: {},
  run: { defaultMs: days(1), capMs: days(7) },
  judgeUnknownWorkers: false,
}

/** What may speak for a limit at enqueue, most specific first. */
export interface Speakers {
  readonly publish: AskedLimits
  readonly type: (AskedLimits & { readonly caps: Caps }) | null
  readonly queue: (AskedLimits & { readonly kept?: KeptFor }) | null
  readonly server: LimitSettings
}

/** Equal speakers get the same record: most jobs of a kind ask for the same, and what is one is stored and shown as one. */
export function settleAtEnqueue(speakers: Speakers): Limits {
  const settled = SETTLED.get(speakers.server) ?? new Map<string, Limits>()
  const key = keyOf(speakers)
  const known = settled.get(key)
  if (known !== undefined) return known
  const limits = frozen(settle(speakers))
  if (settled.size >= MOST_SETTLED) settled.clear()
  settled.set(key, limits)
  SETTLED.set(speakers.server, settled)
  return limits
}

const SETTLED = new WeakMap<LimitSettings, Map<string, Limits>>()
const MOST_SETTLED = 1_000

function keyOf({ publish, type, queue }: Speakers): string {
  const ofType = type === null ? '' : `${askedKey(type)};${lengthsKey(type.caps)}`
  return `${askedKey(publish)};${ofType};${queue === null ? '' : `${askedKey(queue)}${keptKey(queue.kept)}`}`
}

function askedKey(asked: AskedLimits): string {
  return `${lengthsKey(asked)},${asked.onTimeout ?? ''}`
}

function lengthsKey({ timeout, total, ttl, grace, heartbeat, visibility }: Caps): string {
  return `${text(timeout)},${text(total)},${text(ttl)},${text(grace)},${text(heartbeat)},${text(visibility)}`
}

function keptKey(kept: KeptFor | undefined): string {
  if (kept === undefined) return ''
  return `,${text(kept.completedMs)},${text(kept.cancelledMs)},${text(kept.discardedMs)},${text(kept.deadLetterMs)}`
}

const text = (length: Millis | undefined): string => (length === undefined ? '' : String(length))

function frozen(limits: Limits): Limits {
  for (const part of Object.values(limits)) Object.freeze(part)
  return Object.freeze(limits)
}

function settle(speakers: Speakers): Limits {
  const limits = eachAlone(speakers)
  return { ...limits, timeout: withinTotal(limits.timeout, limits.total) }
}

export type SettledName = LimitName | 'onTimeout'

/**
 * Some limits of a stored job settled anew, by what is published and by the policies of today. The others stay as they
 * were settled, whatever the policies have become; only a timeout that its total held down follows that total.
 */
export function settleAgain(stored: Limits, speakers: Speakers, names: ReadonlySet<SettledName>): Limits {
  if (names.size === 0) return stored
  const today = eachAlone(speakers)
  const settled = <Name extends SettledName>(name: Name): Limits[Name] => (names.has(name) ? today : stored)[name]
  const total = settled('total')
  const wasHeldDown = stored.total !== null && stored.timeout.ms === stored.total.ms
  const timeout = names.has('total') && wasHeldDown ? today.timeout : settled('timeout')
  const caps: { [name in LimitName]?: Millis } = {}
  for (const name of LIMIT_NAMES) {
    const cap = (names.has(name) ? today : stored).caps[name]
    if (cap !== undefined) caps[name] = cap
  }
  return frozen({
    timeout: withinTotal(timeout, total),
    grace: settled('grace'),
    heartbeat: settled('heartbeat'),
    visibility: settled('visibility'),
    total,
    ttl: settled('ttl'),
    onTimeout: settled('onTimeout'),
    caps,
    ...(stored.kept === undefined ? {} : { kept: stored.kept }),
  })
}

/** Every limit by itself: the timeout is not yet held down by the total. */
function eachAlone({ publish, type, queue, server }: Speakers): Limits {
  const caps = smallest(type?.caps ?? {}, server.caps)
  const first = (name: LimitName, fallback: Millis | null): Limit | null => {
    const asked: Limit | null =
      publish[name] !== undefined
        ? { ms: publish[name], source: 'publish' }
        : type?.[name] !== undefined
          ? { ms: type[name], source: 'type' }
          : queue?.[name] !== undefined
            ? { ms: queue[name], source: 'queue' }
            : fallback === null
              ? null
              : { ms: fallback, source: 'default' }
    return clamp(asked, caps[name])
  }
  const required = (name: 'timeout' | 'grace' | 'heartbeat'): Limit => {
    const limit = first(name, server.defaults[name])
    if (limit === null) throw new Error(`no default for ${name}`)
    return limit
  }
  const total = first('total', server.defaults.total) ?? capAsLimit(caps.total)
  const onTimeout: OnTimeout =
    publish.onTimeout !== undefined
      ? { mode: publish.onTimeout, source: 'publish' }
      : type?.onTimeout !== undefined
        ? { mode: type.onTimeout, source: 'type' }
        : queue?.onTimeout !== undefined
          ? { mode: queue.onTimeout, source: 'queue' }
          : { mode: server.defaults.onTimeout, source: 'default' }
  return {
    timeout: required('timeout'),
    grace: required('grace'),
    heartbeat: required('heartbeat'),
    // A queue's visibility ranks after the one a FETCH may bring, so it is kept apart from publish and type by source.
    visibility: first('visibility', null),
    total,
    ttl: first('ttl', server.defaults.ttl) ?? capAsLimit(caps.ttl),
    onTimeout,
    caps,
    ...(queue?.kept === undefined ? {} : { kept: queue.kept }),
  }
}

/** The limits of one attempt: what was settled at enqueue, and what the claiming worker brings. */
export interface AttemptLimits {
  readonly timeout: Limit
  readonly grace: Limit
  readonly heartbeat: Limit | null
  readonly visibility: Limit
  readonly onTimeout: OnTimeout
}

export interface Claimant {
  readonly handler: AskedLimits | null
  readonly known: boolean
  /** Visibility sent with FETCH. */
  readonly fetchVisibilityMs: Millis | null
}

const NO_GRACE: Limit = { ms: millis(0), source: 'default' }

export function settleAtClaim(limits: Limits, claimant: Claimant, server: LimitSettings): AttemptLimits {
  const handler = claimant.handler ?? {}
  const pick = (stored: Limit, name: 'timeout' | 'grace' | 'heartbeat'): Limit => {
    const asked = handler[name]
    if (asked === undefined || speakerFor(stored) === 'publish') return stored
    return clamp({ ms: asked, source: 'handler' }, limits.caps[name])
  }
  const timeout = withinTotal(pick(limits.timeout, 'timeout'), limits.total)
  const grace = pick(limits.grace, 'grace')
  // A worker that never introduced itself cannot be sent a soft signal, so the default grace is not its due (ADR 0017).
  const effectiveGrace = speakerFor(grace) === 'default' && !claimant.known ? NO_GRACE : grace
  const heartbeat = pick(limits.heartbeat, 'heartbeat')
  const judged = claimant.known || speakerFor(heartbeat) !== 'default' || server.judgeUnknownWorkers
  const onTimeout: OnTimeout =
    handler.onTimeout !== undefined && limits.onTimeout.source !== 'publish'
      ? { mode: handler.onTimeout, source: 'handler' }
      : limits.onTimeout
  return {
    timeout,
    grace: effectiveGrace,
    heartbeat: judged ? heartbeat : null,
    visibility: visibilityFor(limits, claimant, timeout, effectiveGrace, server),
    onTimeout,
  }
}

function visibilityFor(
  { visibility, caps }: Limits,
  { fetchVisibilityMs }: Claimant,
  timeout: Limit,
  grace: Limit,
  server: LimitSettings,
): Limit {
  if (visibility !== null && speakerFor(visibility) !== 'queue') return visibility
  if (fetchVisibilityMs !== null) return clamp({ ms: fetchVisibilityMs, source: 'fetch' }, caps.visibility)
  if (visibility !== null) return visibility
  // The larger of the two, so that an untouched job is never requeued before its execution deadline (ADR 0017).
  const ms = millis(Math.max(server.defaults.visibility, timeout.ms + grace.ms))
  return clamp({ ms, source: 'default' }, caps.visibility)
}

function clamp(limit: Limit, cap: Millis | undefined): Limit
function clamp(limit: Limit | null, cap: Millis | undefined): Limit | null
function clamp(limit: Limit | null, cap: Millis | undefined): Limit | null {
  return limit !== null && cap !== undefined && limit.ms > cap ? { ms: cap, source: 'cap', asked: limit.source } : limit
}

/** A total given alone also bounds each attempt (ADR 0017). The source stays that of the timeout itself. */
function withinTotal(timeout: Limit, total: Limit | null): Limit {
  return total !== null && total.ms < timeout.ms ? { ...timeout, ms: total.ms, whole: timeout.ms } : timeout
}

function capAsLimit(cap: Millis | undefined): Limit | null {
  return cap === undefined ? null : { ms: cap, source: 'cap' }
}

function smallest(a: Caps, b: Caps): Caps {
  const caps: { [name in LimitName]?: Millis } = {}
  for (const name of LIMIT_NAMES) {
    const [x, y] = [a[name], b[name]]
    const cap = x === undefined ? y : y === undefined ? x : millis(Math.min(x, y))
    if (cap !== undefined) caps[name] = cap
  }
  return caps
}

// ---- Heartbeat timeouts that beats at the server's interval cannot keep ----

/** A heartbeat timeout leaves room for so many intervals: a beat may be late, and one or two may be lost. */
const BEATS_PER_TIMEOUT = 4

/**
 * What is wrong with a heartbeat timeout that is too short for the interval at which workers are asked to beat; null when
 * it is long enough. `subject` names the value as the reader knows it, `from` where it was set.
 */
export function shortHeartbeat(subject: string, ms: Millis, from: string, intervalMs: Millis): string | null {
  const leastMs = BEATS_PER_TIMEOUT * intervalMs
  if (ms >= leastMs) return null
  return (
    `${subject} is ${String(ms / 1000)} s (${from}), less than ${String(BEATS_PER_TIMEOUT)} heartbeat intervals of ${String(intervalMs / 1000)} s: ` +
    `workers that beat at that interval may be taken for stalled. Set it to at least ${String(leastMs / 1000)} s, or shorten workers.heartbeat-interval.`
  )
}

/** Where a limit was set, in words. */
export const SOURCE_IN_WORDS: Readonly<Record<LimitSource, string>> = {
  publish: 'set at enqueue',
  handler: "set by the worker's handler",
  type: 'set by the job type',
  queue: 'set by the queue',
  fetch: 'set by the fetch',
  default: 'the default of the server',
  cap: 'held down by a cap',
  parent: 'inherited from the parent',
  workflow: 'set by the workflow',
}

// ---- Reading limits off the wire: one table for enqueue, PATCH, type policies, queue defaults and handlers ----

export const LIMIT_FIELDS: Readonly<Record<LimitName, string>> = {
  timeout: 'timeout',
  total: 'total_timeout',
  ttl: 'enqueue_ttl',
  grace: 'grace_period',
  heartbeat: 'heartbeat_timeout',
  visibility: 'visibility_timeout',
}
export const ON_TIMEOUT_FIELD = 'x_on_timeout'

const LONGEST_SECONDS = LONGEST_MS / 1000
const isoSeconds = {
  json: DURATION_SCHEMA,
  read(value: unknown, at: string): number {
    const ms = parseIsoDuration(String(value))
    if (ms === null || ms <= 0 || ms > LONGEST_MS)
      throw badPolicy(at, `${at} must be a positive ISO 8601 duration or whole seconds.`)
    return ms / 1000
  },
}

/** Whole seconds under the plain name, whole milliseconds with `_ms`. */
function secondsShape(name: LimitName): Shape<number> {
  const inSeconds = policy(whole(name === 'grace' ? 0 : 1, LONGEST_SECONDS))
  return name === 'visibility' ? either(isoSeconds, inSeconds, (value) => typeof value === 'string') : inSeconds
}
const millisShape = policy(whole(0, LONGEST_MS))

/** The shapes of every key under which a limit may arrive. */
export function limitShapes(prefix = '', names: readonly LimitName[] = LIMIT_NAMES): Record<string, Shape<unknown>> {
  const shapes: Record<string, Shape<unknown>> = {}
  for (const name of names) {
    shapes[`${prefix}${LIMIT_FIELDS[name]}`] = secondsShape(name)
    shapes[`${prefix}${LIMIT_FIELDS[name]}_ms`] = millisShape
  }
  return shapes
}

export function onTimeoutShape(): Shape<TimeoutMode> {
  return policy(oneOf('retry', 'discard'))
}

export function limitKeys(prefix = '', names: readonly LimitName[] = LIMIT_NAMES): string[] {
  return [...Object.keys(limitShapes(prefix, names)), `${prefix}${ON_TIMEOUT_FIELD}`]
}

const SECONDS_SHAPES = Object.fromEntries(LIMIT_NAMES.map((name) => [name, secondsShape(name)])) as Record<
  LimitName,
  Shape<number>
>
const MODE_SHAPE = onTimeoutShape()

/** Reads the limits out of a body (`at`: where that body lies). `null` means not sent. Values out of range are refused with 422, naming the field. */
export function readLimits(fields: Fields, prefix = '', at = ''): AskedLimits {
  const asked: { [name in LimitName]?: Millis } & { onTimeout?: TimeoutMode } = {}
  const { lengths, onTimeout } = keysWith(prefix)
  for (const { name, key, keyMs } of lengths) {
    const ms = readLength(fields, key, keyMs, name, at)
    if (ms !== undefined) asked[name] = ms
  }
  refuseShortTotal(asked, `${at}${prefix}`)
  const mode = fields[onTimeout]
  if (mode !== undefined && mode !== null) asked.onTimeout = MODE_SHAPE.read(mode, `${at}${onTimeout}`)
  return asked
}

/** Which limits these keys speak of. */
export function limitsNamed(keys: readonly string[]): ReadonlySet<SettledName> {
  const { lengths, onTimeout } = keysWith('')
  const named = new Set<SettledName>()
  for (const { name, key, keyMs } of lengths) if (keys.includes(key) || keys.includes(keyMs)) named.add(name)
  if (keys.includes(onTimeout)) named.add('onTimeout')
  return named
}

/** Within one source, a total shorter than the timeout is a mistake; across sources the total clamps. */
function refuseShortTotal({ total, timeout }: AskedLimits, prefix: string): void {
  if (total === undefined || timeout === undefined || total >= timeout) return
  throw badPolicy(
    `${prefix}total_timeout`,
    `${prefix}total_timeout (${String(total / 1000)} s) must not be shorter than ${prefix}timeout (${String(timeout / 1000)} s).`,
  )
}

/** Caps are lengths under the same names, without a mode. */
export function readCaps(value: unknown, at: string): Caps {
  if (value === undefined || value === null) return {}
  const fields = anyObject().read(value, at)
  const known = Object.keys(limitShapes())
  for (const key of Object.keys(fields)) {
    if (!known.includes(key)) throw badField(`${at}.${key}`, unknownKey(key, vocabulary(known)))
  }
  const caps: { [name in LimitName]?: Millis } = {}
  for (const { name, key, keyMs } of keysWith('').lengths) {
    const ms = readLength(fields, key, keyMs, name, `${at}.`)
    if (ms !== undefined) caps[name] = ms
  }
  return caps
}

/** What holds for all jobs of a queue or a type, or of the whole server, must leave each of them time to do something. */
export const LEAST_SHARED_LIMIT_MS = millis(100)

/** `asked` was read from `fields`; `at` and `prefix` as there. */
export function refuseTiny(asked: Caps, fields: Fields, prefix = '', at = ''): void {
  for (const { name, key, keyMs } of keysWith(prefix).lengths) {
    const ms = asked[name]
    const isSent = (fields[key] ?? fields[keyMs] ?? null) !== null
    if (name === 'grace' || ms === undefined || !isSent || ms >= LEAST_SHARED_LIMIT_MS) continue
    const field = `${at}${(fields[keyMs] ?? null) === null ? key : keyMs}`
    throw badPolicy(
      field,
      `${field} is ${String(ms)} ms: every job would end by it. Set at least ${String(LEAST_SHARED_LIMIT_MS)} ms, or leave it out.`,
    )
  }
}

interface LimitKeys {
  readonly lengths: readonly { readonly name: LimitName; readonly key: string; readonly keyMs: string }[]
  readonly onTimeout: string
}

const KEYS_BY_PREFIX = new Map<string, LimitKeys>()

/** The names of all limits under a prefix, put together once. */
function keysWith(prefix: string): LimitKeys {
  const known = KEYS_BY_PREFIX.get(prefix)
  if (known !== undefined) return known
  const lengths = LIMIT_NAMES.map((name) => ({
    name,
    key: `${prefix}${LIMIT_FIELDS[name]}`,
    keyMs: `${prefix}${LIMIT_FIELDS[name]}_ms`,
  }))
  const keys = { lengths, onTimeout: `${prefix}${ON_TIMEOUT_FIELD}` }
  KEYS_BY_PREFIX.set(prefix, keys)
  return keys
}

function readLength(fields: Fields, key: string, keyMs: string, name: LimitName, at: string): Millis | undefined {
  const inSeconds = fields[key] ?? undefined
  const inMillis = fields[keyMs] ?? undefined
  if (inSeconds === undefined && inMillis === undefined) return undefined
  const fromSeconds =
    inSeconds === undefined
      ? undefined
      : millis(Math.round(seconds(SECONDS_SHAPES[name].read(inSeconds, `${at}${key}`))))
  const fromMillis = inMillis === undefined ? undefined : millisOf(millisShape.read(inMillis, `${at}${keyMs}`), name)
  if (fromSeconds !== undefined && fromMillis !== undefined && fromSeconds !== fromMillis) {
    throw badPolicy(`${at}${key}`, `${at}${key} and ${at}${key}_ms are both given and differ; send one of them.`)
  }
  return fromSeconds ?? fromMillis
}

/** Zero means "not set", except for grace, where it means "none". */
function millisOf(value: number, name: LimitName): Millis | undefined {
  return value === 0 && name !== 'grace' ? undefined : millis(value)
}
