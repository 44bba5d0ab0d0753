/**
 * What follows when a job with an owner ends: a workflow goes on, a cron entry may fire again. It is decided in the
 * transaction that ends the job, so that the consequence is saved with its cause. A follower may end or admit other jobs;
 * then there is more to follow.
 */
import { broken } from '@curfew/core'
import type { Feature, Follower } from './feature.ts'
import type { Unit } from './unit.ts'

/** Every round ends jobs, or admits new ones that have not ended yet; more rounds than this mean a cycle. */
const MAX_ROUNDS = 1_000

/** The followers of all features as one function. */
export function followersOf(features: readonly Feature[]): (unit: Unit) => Promise<void> {
  const followers = new Map<string, Follower>()
  for (const { follows = {} } of features) for (const [kind, hear] of Object.entries(follows)) followers.set(kind, hear)
  return async (unit) => {
    for (let rounds = 0; ; rounds += 1) {
      const ended = unit.takeEnded()
      if (ended.length === 0) return
      if (rounds === MAX_ROUNDS) throw broken('the consequences of an ended job do not come to an end')
      for (const [kind, hear] of followers) {
        const own = ended.filter(({ owner }) => owner?.kind === kind)
        if (own.length > 0) await hear(unit, own)
      }
    }
  }
}
