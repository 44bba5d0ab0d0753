/**
 * Jobs that the server takes for held here although they are not known: the answer that brought them was lost, or is late, or
 * they were reported while the beat was answered. Those that a later beat names again are handed back; if the answer comes
 * after all, its job is not started.
 */
import { after, before, millis, type Instant } from '@curfew/core'
import { keyOf } from '../attempt/report.ts'
import { LATE_ANSWER_MS, type Calls } from './calls.ts'
import type { Effects } from './effects.ts'
import type { Unlisted } from './inputs.ts'
import type { Leases } from './leases.ts'

/** A job that is not known is handed back when a beat names it that was sent this long after it was first read of. */
const SECOND_LOOK_MS = millis(500)

export class LostAnswers {
  readonly #effects: Effects
  readonly #leases: Leases
  readonly #calls: Calls
  /** Jobs that are not known, with when the first beat that named them was answered. */
  #unknown = new Map<string, Instant>()

  constructor(effects: Effects, leases: Leases, calls: Calls) {
    this.#effects = effects
    this.#leases = leases
    this.#calls = calls
  }

  /** The answer to a beat that was sent at `sentAt` names these jobs. */
  recover(unlisted: readonly Unlisted[], sentAt: Instant, now: Instant): void {
    const seen = this.#unknown
    this.#unknown = new Map()
    for (const { jobId, lease, heldMs } of unlisted) {
      const key = keyOf({ jobId, attempt: 0, lease })
      if (this.#leases.table.has(key)) continue
      const firstAt = seen.get(key)
      if (firstAt === undefined || sentAt < after(firstAt, SECOND_LOOK_MS)) {
        this.#unknown.set(key, firstAt ?? now)
        this.#effects.do({ do: 'beat', inMs: LATE_ANSWER_MS })
        continue
      }
      // The claim was at this moment or before it, on the worker's own clock.
      const bringers = this.#calls.bringersAt(before(now, millis(heldMs)))
      const fields = { job_id: jobId, lease }
      this.#effects.log('warn', fields, 'the answer that brought this job was lost; handing the job back')
      this.#leases.outcomes.handBackUnknown({ jobId, lease }, now)
      for (const call of bringers) this.#calls.hangUp(call)
    }
  }
}
