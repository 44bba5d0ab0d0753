/** Pools: queues that share their workers. The pool is a document; each of its queues carries what a fetch must know. */
import {
  notFound,
  OjsError,
  POOL,
  poolOf,
  readPool,
  sharesOf,
  stationsOf,
  withPool,
  type Membership,
  type Pool,
  type Station,
} from '@curfew/core'
import type { Command } from '../kernel/command.ts'
import type { Context } from '../kernel/context.ts'
import { queueFor } from './queue.ts'
import type { Unit } from '../kernel/unit.ts'

export function putPool(name: string, sent: unknown): Command<Pool> {
  return {
    name: 'pool',
    needs: { docs: [{ kind: POOL.kind, id: name }] },
    run: async (unit) => {
      const before = unit.doc(POOL, name)
      const pool = readPool(name, sent, before, unit.now)
      const names = new Set([...pool.queues, ...(before?.queues ?? [])].map((queue) => queue.name))
      await unit.load({ queues: [...names] })
      for (const queue of pool.queues) {
        const other = poolOf(queueFor(unit, queue.name).config)
        if (other !== null && other.name !== name)
          throw new OjsError(
            'conflict',
            `The queue ${queue.name} belongs to the pool ${other.name}; take it out there first.`,
            {
              details: { field: 'queues', queue: queue.name, pool: other.name },
            },
          )
      }
      for (const queue of names) {
        const weight = pool.queues.find((one) => one.name === queue)?.weight
        join(unit, queue, weight === undefined ? null : { name, strategy: pool.strategy, weight })
      }
      unit.putDoc(POOL, name, pool)
      return pool
    },
  }
}

export function deletePool(name: string): Command<Pool> {
  return {
    name: 'pool',
    needs: { docs: [{ kind: POOL.kind, id: name }] },
    run: async (unit) => {
      const pool = unit.doc(POOL, name)
      if (pool === null) throw notFound('pool', name)
      await unit.load({ queues: pool.queues.map((queue) => queue.name) })
      for (const queue of pool.queues) join(unit, queue.name, null)
      unit.putDoc(POOL, name, null)
      return pool
    },
  }
}

function join(unit: Unit, name: string, membership: Membership | null): void {
  const queue = queueFor(unit, name)
  unit.putQueue({ ...queue, config: withPool(queue.config, membership) })
}

export const hasPools = (unit: Unit, queues: readonly string[]): boolean =>
  queues.length > 1 && queues.some((name) => poolOf(unit.queue(name)?.config ?? {}) !== null)

/** In which order the queues of a fetch are asked, and for how many jobs each; some are asked twice. */
export async function* turns(
  context: Context,
  unit: Unit,
  queues: readonly string[],
  left: () => number,
): AsyncGenerator<{ readonly queue: string; readonly most: number }> {
  const membership = (name: string): Membership | null => {
    const config = unit.queue(name)?.config
    return config === undefined ? null : poolOf(config)
  }
  for (const station of stationsOf(queues, membership)) {
    if (left() <= 0) return
    const [only] = station.queues
    if (station.queues.length === 1 && only !== undefined) {
      yield { queue: only.name, most: left() }
      continue
    }
    const shares =
      station.strategy === 'least-loaded' ? await byDepth(unit, station) : sharesOf(station, left(), context.random)
    for (const { queue, most } of shares) if (most > 0) yield { queue, most: Math.min(most, left()) }
    // What some had not, others may have.
    for (const { queue } of shares) {
      if (left() <= 0) return
      yield { queue, most: left() }
    }
  }
}

async function byDepth(unit: Unit, { queues }: Station): Promise<{ queue: string; most: number }[]> {
  const depths: { queue: string; most: number; depth: number }[] = []
  for (const { name } of queues) {
    const depth = unit.queue(name) === null ? 0 : (await unit.counts(name)).available
    depths.push({ queue: name, most: 0, depth })
  }
  return depths.sort((a, b) => b.depth - a.depth)
}
