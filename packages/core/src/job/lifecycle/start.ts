/** The start of an attempt: the limits are settled with the worker that claims, and the reservation begins. */
import { broken } from '../../errors.ts'
import { startedEvent } from '../../wire/job/job-events.ts'
import { totalAt, totalCut } from '../deadlines.ts'
import { wakeAtOf } from '../due.ts'
import type { Hold, Job } from '../job.ts'
import type { LifeEntry } from '../life.ts'
import { moved, type Moment, type Step } from './transition.ts'
import { settleAtClaim, type Claimant } from '../settle.ts'
import type { Instant } from '../../time/clock.ts'
import { isDue } from '../../time/sums.ts'

export interface Claim extends Claimant {
  readonly workerId: string | null
}

export function start(job: Job, claim: Claim, moment: Moment): Step {
  const { now } = moment
  if (job.state !== 'available' || isDue(wakeAtOf(job), now)) {
    throw broken(`job ${job.id} is ${job.state} (wakes at ${String(job.wakeAt)}) and cannot start at ${String(now)}`)
  }
  const limits = settleAtClaim(job.limits, claim, moment.limits)
  const attempt = job.attempt + 1
  const hold: Hold = {
    workerId: claim.workerId,
    known: claim.known,
    ...limits,
    signAt: now,
    visibleFrom: now,
    visibleMs: limits.visibility.ms,
  }
  const active = moved(
    job,
    {
      at: now,
      to: 'active',
      attempt,
      worker: claim.workerId,
      timeout: [limits.timeout.whole ?? limits.timeout.ms, limits.timeout.source],
      grace: [limits.grace.ms, limits.grace.source],
      ...cutFor(job, hold, now),
    },
    { attempt, lease: job.lease + 1, startedAt: now, closedBy: null, progress: null, hold },
  )
  return {
    before: job,
    job: active,
    events: [startedEvent(active, now)],
  }
}

/** What a total takes from the attempt that starts now: the total may be changed later, and `explain` tells it as it was. */
function cutFor(job: Job, hold: Hold, now: Instant): Pick<LifeEntry, 'cut'> {
  // Most jobs have no total.
  if (totalAt(job) === null) return {}
  const cut = totalCut({ ...job, startedAt: now, hold })
  return cut === null ? {} : { cut: [cut.softMs, cut.hardMs, cut.source] }
}
