/** The bound of a queue on the wire. */
import { badPolicy } from '../../errors.ts'
import { STRATEGIES, type Bound } from '../../job/backpressure.ts'
import { object, oneOf, policy, whole, type Shape } from '../shape.ts'

const WARN_BY_DEFAULT = 0.8

const fraction: Shape<number> = {
  json: { type: 'number', minimum: 0, maximum: 1 },
  read(value, at) {
    if (typeof value !== 'number' || !(value >= 0 && value <= 1))
      throw badPolicy(at, `${at} must be a number between 0 and 1.`)
    return value
  },
}

/** Only 0 (no bound) is accepted: the server does not count the bytes of a queue. */
const noSize: Shape<number> = {
  json: { type: 'integer', enum: [0] },
  read(value, at) {
    if (value === 0) return 0
    throw badPolicy(
      at,
      `${at} is not supported by this server: a queue is bounded by the number of its jobs (max_depth). One job is at most 10 MiB.`,
    )
  },
}

export const BACKPRESSURE_SHAPE = policy(
  object(
    {
      max_depth: whole(0, 1_000_000_000),
      max_size_bytes: noSize,
      strategy: oneOf(...STRATEGIES),
      warning_threshold: fraction,
    },
    { unknown: 'refuse' },
  ),
)

/** Null: the queue is not bounded. */
export function readBound(value: unknown, at = 'backpressure'): Bound | null {
  if (value === undefined || value === null) return null
  const read = BACKPRESSURE_SHAPE.read(value, at)
  const maxDepth = read.max_depth ?? 0
  if (maxDepth === 0) return null
  const warnAt = Math.max(1, Math.ceil(maxDepth * (read.warning_threshold ?? WARN_BY_DEFAULT)))
  return { maxDepth, strategy: read.strategy ?? 'reject', warnAt }
}
