/** Wakes documents that are due, each by the feature that knows its kind. */
import { broken, type DocName } from '@curfew/core'
import type { DocWaker, Feature } from './feature.ts'
import type { Unit } from './unit.ts'

/** The wakers of all features as one function. */
export function docWakersOf(features: readonly Feature[]): (unit: Unit, docs: readonly DocName[]) => Promise<void> {
  const wakers = new Map<string, DocWaker>()
  for (const { wakes = {} } of features) for (const [kind, waker] of Object.entries(wakes)) wakers.set(kind, waker)
  return async (unit, docs) => {
    // For all of them at once: with a remote database, a query for each of them would make the last ones late.
    await unit.load({ docs: docs.flatMap(({ kind, id }) => wakers.get(kind)?.needs?.(unit, id) ?? []) })
    for (const { kind, id } of docs) {
      const pause = unit.pace.step()
      if (pause !== undefined) await pause
      const waker = wakers.get(kind)
      if (waker === undefined) throw broken(`no feature wakes ${kind} ${id}, which is due`)
      await waker.wake(unit, id)
    }
  }
}
