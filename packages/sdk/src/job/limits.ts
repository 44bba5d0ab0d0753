/**
 * How long things may take, as applications write it, and how it goes onto the wire.
 *
 * What is said at publish wins over what a handler says, field by field; the server settles it and stores who spoke. A
 * retry is always outside the timeout: there is no order in which to register anything.
 */
import type { TimeoutMode } from '@curfew/core'
import { toMillis, type Duration } from '../durations.ts'
import { InputError } from '../errors.ts'

export type { TimeoutMode }

/** What one attempt may take. A handler may bring these, or a publish. */
export interface AttemptLimits {
  /** One attempt, until its signal is aborted. */
  readonly timeout?: Duration
  /** From the signal to the end: for clean-up. */
  readonly gracePeriod?: Duration
  /** Silence after which the attempt counts as stalled. */
  readonly heartbeatTimeout?: Duration
  /** What an execution timeout does: `retry` (the default) or `discard`. */
  readonly onTimeout?: TimeoutMode
}

/** What a publish may say besides. */
export interface Limits extends AttemptLimits {
  /** The whole life of the job, waiting and retries included. */
  readonly totalTimeout?: Duration
  /** Waiting before the first start. */
  readonly enqueueTtl?: Duration
  /** A reservation without any sign of life. */
  readonly visibilityTimeout?: Duration
}

const WIRE_NAMES = {
  timeout: 'timeout_ms',
  gracePeriod: 'grace_period_ms',
  heartbeatTimeout: 'heartbeat_timeout_ms',
  totalTimeout: 'total_timeout_ms',
  enqueueTtl: 'enqueue_ttl_ms',
  visibilityTimeout: 'visibility_timeout_ms',
} as const

/** On the wire zero means "not said" (except for grace): a limit of nothing is a mistake. */
const MAY_BE_ZERO: readonly string[] = ['gracePeriod']

export function limitsOnWire(limits: Limits): Record<string, number | string> {
  const wire: Record<string, number | string> = {}
  for (const name of Object.keys(WIRE_NAMES) as (keyof typeof WIRE_NAMES)[]) {
    const given = limits[name]
    if (given === undefined) continue
    const ms = toMillis(given, name)
    if (ms === 0 && !MAY_BE_ZERO.includes(name)) throw new InputError(`${name} must be longer than 0.`, { field: name })
    wire[WIRE_NAMES[name]] = ms
  }
  const mode: unknown = limits.onTimeout
  if (mode !== undefined) {
    if (mode !== 'retry' && mode !== 'discard')
      throw new InputError(`onTimeout must be 'retry' or 'discard'.`, { field: 'onTimeout' })
    wire['x_on_timeout'] = mode
  }
  return wire
}

/** A change of limits: `null` takes one away. */
export type LimitChanges = { readonly [Name in keyof Limits]?: Limits[Name] | null }

export function changesOnWire(changes: LimitChanges): Record<string, number | string | null> {
  const isSet = ([, value]: [string, unknown]): boolean => value !== null
  const wire: Record<string, number | string | null> = limitsOnWire(
    Object.fromEntries(Object.entries(changes).filter(isSet)),
  )
  for (const name of Object.keys(WIRE_NAMES) as (keyof typeof WIRE_NAMES)[])
    if (changes[name] === null) wire[WIRE_NAMES[name]] = null
  if (changes.onTimeout === null) wire['x_on_timeout'] = null
  return wire
}

/** Seconds are what every server knows; the milliseconds of these are ours. */
const IN_SECONDS = {
  grace_period: 'gracePeriod',
  heartbeat_timeout: 'heartbeatTimeout',
  total_timeout: 'totalTimeout',
  enqueue_ttl: 'enqueueTtl',
} as const

/** The same, in whole seconds wherever that says it all; `ours` names what only a server of ours understands. */
export function widelyKnown(wire: Readonly<Record<string, unknown>>): {
  wire: Record<string, unknown>
  ours: string[]
} {
  const known: Record<string, unknown> = { ...wire }
  const ours = 'x_on_timeout' in wire ? ['onTimeout'] : []
  for (const [name, spoken] of Object.entries(IN_SECONDS)) {
    const ms = wire[`${name}_ms`]
    if (ms === undefined) continue
    if (typeof ms === 'number' && ms % 1000 !== 0) ours.push(`${spoken} in milliseconds`)
    else {
      delete known[`${name}_ms`]
      known[name] = typeof ms === 'number' ? ms / 1000 : ms
    }
  }
  return { wire: known, ours }
}

/** The limits a handler brings, checked. A total is the publisher's to give, and says why. */
export function handlerLimits(type: string, limits: AttemptLimits): Record<string, number | string> {
  const { totalTimeout, enqueueTtl } = limits as Limits
  const foreign = totalTimeout !== undefined ? 'totalTimeout' : enqueueTtl !== undefined ? 'enqueueTtl' : null
  if (foreign !== null) {
    throw new InputError(
      `The handler of ${type} cannot bring ${foreign}: that clock starts when the job is enqueued, before any handler is ` +
        `known. Say it at enqueue, in defineJob({ limits }), or in the policy of the type.`,
      { field: foreign, type },
    )
  }
  return limitsOnWire(limits)
}

export interface TimeoutSugar {
  readonly seconds: number
  /** `retry`, the default, or `discard`: forget the job. */
  readonly mode?: TimeoutMode
  /** `attempt`, the default: each attempt gets its own. `total`: one deadline for all of them, from the enqueue on. */
  readonly scope?: 'attempt' | 'total'
}

/** `timeout({ seconds: 30, mode: 'discard' })`, to spread into the limits of a handler or of an enqueue. */
export function timeout({ seconds, mode, scope = 'attempt' }: TimeoutSugar): Limits {
  if (!(seconds > 0)) throw new InputError('timeout needs seconds above zero.', { field: 'seconds' })
  const length = { ms: Math.round(seconds * 1000) }
  return {
    ...(scope === 'total' ? { totalTimeout: length } : { timeout: length }),
    ...(mode === undefined ? {} : { onTimeout: mode }),
  }
}
