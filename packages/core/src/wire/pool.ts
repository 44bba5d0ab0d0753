/** Pools on the wire. */
import { badField, badPolicy } from '../errors.ts'
import { POOL_STRATEGIES, type Pool } from '../job/pool.ts'
import type { Instant } from '../time/clock.ts'
import { QUEUE_SHAPE } from './job/job-shapes.ts'
import { either, list, mapOf, object, oneOf, ruled, text, whole } from './shape.ts'

export const POOL_NAME_SHAPE = text({
  pattern: /^[a-zA-Z0-9][a-zA-Z0-9._-]*$/,
  maxLength: 128,
  expected: 'the name of a pool: letters, digits, ".", "_" and "-", at most 128',
})
const WEIGHT = whole(1, 1_000)
const MAX_QUEUES = 100
const NAMED = ruled(mapOf(object({ weight: WEIGHT }, { unknown: 'refuse' })), {
  minProperties: 1,
  maxProperties: MAX_QUEUES,
  propertyNames: QUEUE_SHAPE.json,
})

export const POOL_SHAPE = object(
  {
    name: POOL_NAME_SHAPE,
    strategy: oneOf(...POOL_STRATEGIES),
    queues: either(list(QUEUE_SHAPE, 1, MAX_QUEUES), NAMED, Array.isArray),
    weights: mapOf(WEIGHT),
  },
  { required: ['queues'], unknown: 'refuse' },
)

export function readPool(name: string, sent: unknown, before: Pool | null, now: Instant): Pool {
  const fields = POOL_SHAPE.read(sent, '')
  if (fields.name !== undefined && fields.name !== name)
    throw badField('name', 'name differs from the one in the path.')
  const weights = new Map(Object.entries(fields.weights ?? {}))
  const { queues } = fields
  const names = Array.isArray(queues) ? [...new Set(queues)] : Object.keys(queues)
  if (!Array.isArray(queues)) {
    for (const [queue, { weight }] of Object.entries(queues)) {
      QUEUE_SHAPE.read(queue, 'queues')
      if (weight !== undefined) weights.set(queue, weight)
    }
  }
  if (names.length === 0 || names.length > MAX_QUEUES)
    throw badField('queues', `queues must name between 1 and ${String(MAX_QUEUES)} queues.`)
  for (const queue of weights.keys())
    if (!names.includes(queue))
      throw badPolicy('weights', `weights names ${JSON.stringify(queue)}, which is not a queue of the pool.`)
  const strategy = fields.strategy ?? 'round-robin'
  if (weights.size > 0 && strategy !== 'weighted')
    throw badPolicy('strategy', `Weights have an effect only with the strategy "weighted", not with "${strategy}".`)
  return {
    name,
    strategy,
    queues: names.map((queue) => ({ name: queue, weight: weights.get(queue) ?? 1 })),
    createdAt: before?.createdAt ?? now,
    updatedAt: now,
  }
}
