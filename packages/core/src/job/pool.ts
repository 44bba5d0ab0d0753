/**
 * Pools: queues that share the workers which serve them (OJS fair scheduling §6, §7). A fetch serves its queues from left
 * to right, and the first one may starve the others. Queues of one pool are served together instead, by the pool's
 * strategy, whatever their order in the fetch. What a queue must know of its pool stands in its own configuration, so a
 * fetch has it at hand.
 *
 *   round-robin    each queue the same share
 *   weighted       shares by weight
 *   least-loaded   the queue with most jobs waiting first
 *   strict         from left to right, as without a pool
 *
 * Shares need no memory of what was handed out before: whole parts of what a fetch asks for are divided exactly, what is
 * left over by lot. So they hold for any number of servers, and no queue with a weight waits for ever.
 */
import { docKind } from '../doc.ts'
import type { Instant, Random } from '../time/clock.ts'
import type { Fields } from '../wire/shape.ts'

export const POOL_STRATEGIES = ['round-robin', 'weighted', 'least-loaded', 'strict'] as const
export type PoolStrategy = (typeof POOL_STRATEGIES)[number]

export interface Pool {
  readonly name: string
  readonly strategy: PoolStrategy
  /** In the order they were named; each with its weight. */
  readonly queues: readonly { readonly name: string; readonly weight: number }[]
  readonly createdAt: Instant
  readonly updatedAt: Instant
}

export const POOL = docKind<Pool>('pool')

export interface Membership {
  readonly name: string
  readonly strategy: PoolStrategy
  readonly weight: number
}

const KEY = 'pool'

export const poolOf = (config: Fields): Membership | null => (config[KEY] as Membership | undefined) ?? null

export function withPool(config: Fields, membership: Membership | null): Fields {
  const { [KEY]: _before, ...rest } = config
  return membership === null ? rest : { ...rest, [KEY]: membership }
}

/** Queues that are served together, at the place of the first of them. */
export interface Station {
  readonly strategy: PoolStrategy
  readonly queues: readonly { readonly name: string; readonly weight: number }[]
}

export function stationsOf(queues: readonly string[], membership: (queue: string) => Membership | null): Station[] {
  const stations: { strategy: PoolStrategy; queues: { name: string; weight: number }[] }[] = []
  const pools = new Map<string, (typeof stations)[number]>()
  for (const name of new Set(queues)) {
    const pool = membership(name)
    const known = pool === null || pool.strategy === 'strict' ? undefined : pools.get(pool.name)
    if (known !== undefined) {
      known.queues.push({ name, weight: pool?.weight ?? 1 })
      continue
    }
    const station = { strategy: pool?.strategy ?? 'strict', queues: [{ name, weight: pool?.weight ?? 1 }] }
    stations.push(station)
    if (pool !== null) pools.set(pool.name, station)
  }
  return stations
}

export interface Share {
  readonly queue: string
  /** At most so many before the others have had theirs. */
  readonly most: number
}

/** How many of `count` jobs each queue is asked for; in the order in which they are asked. */
export function sharesOf({ queues }: Station, count: number, random: Random): Share[] {
  const total = queues.reduce((sum, { weight }) => sum + weight, 0)
  const exact = queues.map(({ name, weight }) => ({ name, weight, part: (count * weight) / total }))
  const shares = exact.map(({ name, part }) => ({ queue: name, most: Math.floor(part) }))
  const lots = exact.map(({ part }) => part - Math.floor(part))
  for (let left = count - shares.reduce((sum, { most }) => sum + most, 0); left > 0; left -= 1) {
    const drawn = draw(lots, random)
    const share = shares[drawn]
    if (share === undefined) break
    share.most += 1
    // Each part that is left over is drawn once; there are exactly as many as there is left to give.
    lots[drawn] = 0
  }
  return shuffled(
    shares,
    queues.map(({ weight }) => weight),
    random,
  )
}

/** The place of one of these, by lot; -1 when none has a chance. */
function draw(chances: readonly number[], random: Random): number {
  const total = chances.reduce((sum, chance) => sum + chance, 0)
  if (total <= 0) return -1
  let place = random() * total
  for (const [index, chance] of chances.entries()) {
    place -= chance
    if (chance > 0 && place < 0) return index
  }
  return chances.findLastIndex((chance) => chance > 0)
}

/** By lot as well: who comes first also gets what others leave. */
function shuffled<T>(items: readonly T[], weights: readonly number[], random: Random): T[] {
  const chances = [...weights]
  const order: T[] = []
  for (let drawn = draw(chances, random); drawn >= 0; drawn = draw(chances, random)) {
    const item = items[drawn]
    if (item !== undefined) order.push(item)
    chances[drawn] = 0
  }
  return order
}
