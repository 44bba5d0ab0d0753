/**
 * What follows when a job ends that belongs to somebody: a workflow goes on, a cron entry may fire again. It is decided
 * in the transaction that ends the job, so that what must follow is saved with its cause. Whoever follows may end or
 * admit other jobs; then there is more to follow.
 */
import { broken, type Job, type Owner } from '@curfew/core'
import { followCron } from '../cron/cron.ts'
import { followDeliveries } from '../webhooks/delivery.ts'
import type { Engine } from './engine.ts'
import { followRuns } from '../journeys/runs.ts'
import type { Unit } from './unit.ts'
import { followWorkflows } from '../workflows/members.ts'

/** Hears of all jobs of its kind of owner that ended, in their order. */
export type Follower = (engine: Engine, unit: Unit, ended: readonly Job[]) => Promise<void>

const FOLLOWERS: ReadonlyMap<Owner['kind'], Follower> = new Map<Owner['kind'], Follower>([
  ['cron', followCron],
  ['journey', followRuns],
  ['webhook', followDeliveries],
  ['workflow', followWorkflows],
])

/** A circle would be a broken promise: every round ends jobs, or admits new ones that have not ended yet. */
const MOST_ROUNDS = 1_000

export async function follow(engine: Engine, unit: Unit): Promise<void> {
  for (let rounds = 0; ; rounds += 1) {
    const ended = unit.takeEnded()
    if (ended.length === 0) return
    if (rounds === MOST_ROUNDS) throw broken('what follows from the end of a job does not come to an end')
    for (const [kind, hear] of FOLLOWERS) {
      const own = ended.filter(({ owner }) => owner?.kind === kind)
      if (own.length > 0) await hear(engine, unit, own)
    }
  }
}
