/**
 * The model's own reading of the limits: which length holds, and who said so. Written from the documents, not the product,
 * so that the two can disagree.
 */
import type { EngineSettings } from '../../../packages/server/src/engine/kernel/context.ts'
import type { Fields } from '../calls.ts'

const WIRE = {
  timeout: 'timeout',
  total: 'total_timeout',
  ttl: 'enqueue_ttl',
  grace: 'grace_period',
  heartbeat: 'heartbeat_timeout',
  visibility: 'visibility_timeout',
} as const
export type LimitName = keyof typeof WIRE
const NAMES = Object.keys(WIRE) as LimitName[]

type Lengths = { [name in LimitName]?: number }
export type Asked = Lengths & { onTimeout?: string }

/** Who spoke first for a length; `source` is what the answer shows, which a cap may have replaced: a default that was
 * capped is still not chosen. */
export interface Length {
  readonly ms: number
  readonly source: string
  readonly said: string
}

/** Reads lengths off a body: seconds, or milliseconds under `_ms`, where 0 means not set (except for grace). */
export function askedIn(body: Fields, prefix = ''): Asked {
  const asked: Asked = {}
  for (const name of NAMES) {
    const [inSeconds, inMs] = [body[prefix + WIRE[name]], body[`${prefix}${WIRE[name]}_ms`]]
    if (typeof inSeconds === 'number') asked[name] = inSeconds * 1000
    else if (typeof inMs === 'number' && (inMs > 0 || name === 'grace')) asked[name] = inMs
  }
  const mode = body[`${prefix}x_on_timeout`]
  if (typeof mode === 'string') asked.onTimeout = mode
  return asked
}

/** Within one source a total must not be shorter than the timeout. */
export function contradicts({ total, timeout }: Asked): boolean {
  return total !== undefined && timeout !== undefined && total < timeout
}

export interface JobLimits {
  readonly timeout: Length
  /** The timeout as it would be without the total. */
  readonly alone: Length
  readonly grace: Length
  readonly heartbeat: Length
  readonly visibility: Length | null
  readonly total: Length | null
  readonly ttl: Length | null
  readonly onTimeout: { readonly mode: string; readonly said: string }
  readonly caps: Lengths
}

export interface TypePolicy {
  readonly asked: Asked
  readonly caps: Lengths
}

export function resolveAtEnqueue(
  asked: Asked,
  type: TypePolicy | null,
  queue: Asked,
  { defaults, caps: serverCaps }: EngineSettings['limits'],
): JobLimits {
  const caps: Lengths = {}
  for (const name of NAMES) {
    const least = Math.min(type?.caps[name] ?? Infinity, serverCaps[name] ?? Infinity)
    if (least !== Infinity) caps[name] = least
  }
  const speakers: readonly [string, Asked][] = [
    ['publish', asked],
    ['type', type?.asked ?? {}],
    ['queue', queue],
  ]
  const first = (name: LimitName, byDefault: number | null): Length | null => {
    for (const [said, lengths] of speakers) {
      const ms = lengths[name]
      if (ms !== undefined) return capped({ ms, source: said, said }, caps[name])
    }
    if (byDefault !== null) return capped({ ms: byDefault, source: 'default', said: 'default' }, caps[name])
    // A cap on a total or a TTL that was not given sets it.
    const cap = name === 'total' || name === 'ttl' ? caps[name] : undefined
    return cap === undefined ? null : { ms: cap, source: 'cap', said: 'cap' }
  }
  const total = first('total', defaults.total)
  const alone = surely(first('timeout', defaults.timeout))
  const speaker = speakers.find(([, { onTimeout }]) => onTimeout !== undefined)
  return {
    timeout: within(alone, total),
    alone,
    grace: surely(first('grace', defaults.grace)),
    heartbeat: surely(first('heartbeat', defaults.heartbeat)),
    visibility: first('visibility', null),
    total,
    ttl: first('ttl', defaults.ttl),
    onTimeout: { mode: speaker?.[1].onTimeout ?? defaults.onTimeout, said: speaker?.[0] ?? 'default' },
    caps,
  }
}

/** Of what a change names, today's limits; the rest as it was. A timeout as long as its total follows the total. */
export function resolveAgain(stored: JobLimits, today: JobLimits, named: ReadonlySet<string>): JobLimits {
  const from = (name: string): JobLimits => (named.has(name) ? today : stored)
  const { total } = from('total')
  const follows = named.has('total') && stored.timeout.ms === stored.total?.ms
  const alone = follows || named.has('timeout') ? today.alone : stored.timeout
  const caps = NAMES.flatMap((name) => {
    const cap = from(name).caps[name]
    return cap === undefined ? [] : [[name, cap] as const]
  })
  return {
    timeout: within(alone, total),
    alone,
    grace: from('grace').grace,
    heartbeat: from('heartbeat').heartbeat,
    visibility: from('visibility').visibility,
    total,
    ttl: from('ttl').ttl,
    onTimeout: from('onTimeout').onTimeout,
    caps: Object.fromEntries(caps),
  }
}

export interface AttemptLimits {
  readonly timeout: Length
  readonly grace: Length
  /** Null when the attempt is not judged by its heartbeats. */
  readonly heartbeat: Length | null
  readonly visibility: Length
  readonly onTimeout: string
}

export interface Claimant {
  readonly known: boolean
  readonly handler: Asked
  readonly visibilityMs: number | null
}

/** What the worker brings counts for what was not given at publish. */
export function resolveAtClaim(
  limits: JobLimits,
  { known, handler, visibilityMs }: Claimant,
  settings: EngineSettings['limits'],
): AttemptLimits {
  const { caps } = limits
  const pick = (stored: Length, name: 'timeout' | 'grace' | 'heartbeat'): Length => {
    const ms = handler[name]
    if (stored.said === 'publish' || ms === undefined) return stored
    return capped({ ms, source: 'handler', said: 'handler' }, caps[name])
  }
  const timeout = within(pick(limits.timeout, 'timeout'), limits.total)
  const asked = pick(limits.grace, 'grace')
  const grace = asked.said === 'default' && !known ? { ms: 0, source: 'default', said: asked.said } : asked
  const heartbeat = pick(limits.heartbeat, 'heartbeat')
  const judged = known || heartbeat.said !== 'default' || settings.judgeUnknownWorkers
  const { visibility: stored } = limits
  const visibility =
    stored !== null && stored.said !== 'queue'
      ? stored
      : visibilityMs !== null
        ? capped({ ms: visibilityMs, source: 'fetch', said: 'fetch' }, caps.visibility)
        : (stored ??
          capped(
            {
              ms: Math.max(settings.defaults.visibility, timeout.ms + grace.ms),
              source: 'default',
              said: 'default',
            },
            caps.visibility,
          ))
  return {
    timeout,
    grace,
    heartbeat: judged ? heartbeat : null,
    visibility,
    onTimeout:
      limits.onTimeout.said === 'publish' ? limits.onTimeout.mode : (handler.onTimeout ?? limits.onTimeout.mode),
  }
}

export function readPolicy(body: Fields): TypePolicy {
  return { asked: askedIn(body), caps: askedIn((body['caps'] ?? {}) as Fields) }
}

function capped(length: Length, cap: number | undefined): Length {
  return cap !== undefined && length.ms > cap ? { ...length, ms: cap, source: 'cap' } : length
}

/** A total also bounds each attempt. */
function within(timeout: Length, total: Length | null): Length {
  return total !== null && total.ms < timeout.ms ? { ...timeout, ms: total.ms } : timeout
}

function surely(length: Length | null): Length {
  if (length === null) throw new Error('a length without a default')
  return length
}
