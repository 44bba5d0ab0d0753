/**
 * The deadlines of the next minutes (`core/series/forecast.ts`). Every job with a deadline in them is woken before it, so
 * one index finds all of them. Jobs that wait for their removal are in that index too: a bounded number of entries is
 * looked at, in turns, and the answer says how far that reached.
 */
import { after, Forecast, millis, type Fields, type Instant } from '@curfew/core'
import { atRisk } from '../jobs/at-risk.ts'
import type { Context } from '../kernel/context.ts'
import { nextTurn } from '../kernel/turns.ts'

export const MAX_LOOKED_AT = 20_000
export const MAX_MINUTES = 60
const A_TURN = 250
const MAX_RISKS = 1_000

export interface Forecasted {
  readonly forecast: Fields
  readonly to: Instant
  readonly examined: number
  /** Everything until then was looked at. */
  readonly until: Instant
  readonly isWhole: boolean
}

export async function forecast(
  context: Context,
  queue: string | null,
  minutes: number,
  maxLookedAt = MAX_LOOKED_AT,
): Promise<Forecasted> {
  await context.settled()
  const now = context.now()
  const end = after(now, millis(minutes * 60_000))
  const made = new Forecast(now, minutes)
  const seen = new Set<string>()
  let [from, skip, examined, isWhole] = [now, 0, 0, false]
  while (examined < maxLookedAt && !isWhole) {
    const asked = { from, until: end, skip, look: A_TURN }
    const { wakes, jobs } = await context.look((reads) => reads.waking(asked))
    examined += wakes.length
    isWhole = wakes.length < A_TURN
    for (const job of jobs) {
      // What was changed meanwhile may be found a second time.
      if (seen.has(job.id) || (queue !== null && job.queue !== queue)) continue
      seen.add(job.id)
      made.add(job)
    }
    const last = wakes.at(-1) ?? end
    const together = wakes.filter((at) => at === last).length
    skip = last === from ? skip + together : together
    from = last
    await nextTurn(context.host)
  }
  const { risks } = await context.look((reads) =>
    atRisk(context.host, reads, { queue, limit: MAX_RISKS, until: end }, now),
  )
  for (const risk of risks) made.addRisk(risk)
  return { forecast: made.answer(), to: end, examined, until: isWhole ? end : from, isWhole }
}
