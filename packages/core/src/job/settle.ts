/**
 * Which limit counts. Per field the first of these that sets it wins, then caps clamp it:
 *
 *   publish > handler > type > (fetch, visibility only) > queue > server default
 *
 * Publish, type, queue and default values are settled at enqueue and stored with their source; a handler's values come
 * with the worker and are settled at each claim, for that attempt. Nothing is derived again later, so a change of
 * policy cannot reshape a job in flight and the row explains itself.
 */
import {
  askedSource,
  LIMIT_NAMES,
  type AskedLimits,
  type Caps,
  type KeptFor,
  type Limit,
  type LimitName,
  type Limits,
  type LimitSettings,
  type OnTimeout,
  type SettledName,
} from './limits.ts'
import { millis, type Millis } from '../time/clock.ts'

/** The sources of limits at enqueue, most specific first. */
export interface LimitSources {
  readonly publish: AskedLimits
  readonly type: (AskedLimits & { readonly caps: Caps }) | null
  readonly queue: (AskedLimits & { readonly kept?: KeptFor }) | null
  readonly server: LimitSettings
}

/** Equal sources get the same record: most jobs of a type ask for the same limits, and one record is stored and shown once. */
export function settleAtEnqueue(sources: LimitSources): Limits {
  const settled = SETTLED.get(sources.server) ?? new Map<string, Limits>()
  const key = keyOf(sources)
  const known = settled.get(key)
  if (known !== undefined) return known
  const limits = frozen(settle(sources))
  if (settled.size >= MAX_SETTLED) settled.clear()
  settled.set(key, limits)
  SETTLED.set(sources.server, settled)
  return limits
}

const SETTLED = new WeakMap<LimitSettings, Map<string, Limits>>()
const MAX_SETTLED = 1_000

function keyOf({ publish, type, queue }: LimitSources): string {
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

function settle(sources: LimitSources): Limits {
  const limits = eachAlone(sources)
  return { ...limits, timeout: withinTotal(limits.timeout, limits.total) }
}

/**
 * Some limits of a stored job settled anew, by what is published and by the policies of today. The others stay as they
 * were settled, whatever the policies have become; only a timeout that its total held down follows that total.
 */
export function settleAgain(stored: Limits, sources: LimitSources, names: ReadonlySet<SettledName>): Limits {
  if (names.size === 0) return stored
  const today = eachAlone(sources)
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
function eachAlone({ publish, type, queue, server }: LimitSources): Limits {
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
    if (asked === undefined || askedSource(stored) === 'publish') return stored
    return clamp({ ms: asked, source: 'handler' }, limits.caps[name])
  }
  const timeout = withinTotal(pick(limits.timeout, 'timeout'), limits.total)
  const grace = pick(limits.grace, 'grace')
  // A worker that never registered nor beat cannot be sent a soft signal, so the default grace is not its due (ADR 0017).
  const effectiveGrace = askedSource(grace) === 'default' && !claimant.known ? NO_GRACE : grace
  const heartbeat = pick(limits.heartbeat, 'heartbeat')
  const judged = claimant.known || askedSource(heartbeat) !== 'default' || server.judgeUnknownWorkers
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
  if (visibility !== null && askedSource(visibility) !== 'queue') return visibility
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
