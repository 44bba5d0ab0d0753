/** Limits on the wire: one table for enqueue, PATCH, type policies, queue defaults and handlers. */
import { badField, badPolicy } from '../../errors.ts'
import {
  MIN_SHARED_LIMIT_MS,
  LIMIT_NAMES,
  type AskedLimits,
  type Caps,
  type LimitName,
  type SettledName,
  type TimeoutMode,
} from '../../job/limits.ts'
import { millis, seconds, type Millis } from '../../time/clock.ts'
import { MAX_DURATION_MS, parseIsoDuration } from '../../time/durations.ts'
import { DURATION_SCHEMA } from '../time-schemas.ts'
import { unknownKey } from '../names/near-miss-words.ts'
import { vocabulary } from '../names/near-miss.ts'
import { anyObject, either, oneOf, policy, whole, type Fields, type Shape } from '../shape.ts'

export const LIMIT_FIELDS: Readonly<Record<LimitName, string>> = {
  timeout: 'timeout',
  total: 'total_timeout',
  ttl: 'enqueue_ttl',
  grace: 'grace_period',
  heartbeat: 'heartbeat_timeout',
  visibility: 'visibility_timeout',
}
export const ON_TIMEOUT_FIELD = 'x_on_timeout'

const MAX_SECONDS = MAX_DURATION_MS / 1000
const isoSeconds = {
  json: DURATION_SCHEMA,
  read(value: unknown, at: string): number {
    const ms = parseIsoDuration(String(value))
    if (ms === null || ms <= 0 || ms > MAX_DURATION_MS)
      throw badPolicy(at, `${at} must be a positive ISO 8601 duration or whole seconds.`)
    return ms / 1000
  },
}

/** Whole seconds under the plain name, whole milliseconds with `_ms`. */
function secondsShape(name: LimitName): Shape<number> {
  const inSeconds = policy(whole(name === 'grace' ? 0 : 1, MAX_SECONDS))
  return name === 'visibility' ? either(isoSeconds, inSeconds, (value) => typeof value === 'string') : inSeconds
}
const millisShape = policy(whole(0, MAX_DURATION_MS))

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

/** `asked` was read from `fields`; `at` and `prefix` as there. */
export function refuseTiny(asked: Caps, fields: Fields, prefix = '', at = ''): void {
  for (const { name, key, keyMs } of keysWith(prefix).lengths) {
    const ms = asked[name]
    const isSent = (fields[key] ?? fields[keyMs] ?? null) !== null
    if (name === 'grace' || ms === undefined || !isSent || ms >= MIN_SHARED_LIMIT_MS) continue
    const field = `${at}${(fields[keyMs] ?? null) === null ? key : keyMs}`
    throw badPolicy(
      field,
      `${field} is ${String(ms)} ms: every job would end by it. Set at least ${String(MIN_SHARED_LIMIT_MS)} ms, or leave it out.`,
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
