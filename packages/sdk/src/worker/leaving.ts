/**
 * How a worker leaves, stage by stage:
 *
 *   drain         handlers run on, until `drainAt`
 *   clean-up      handlers were asked to stop; what can be killed is killed at the end of it
 *   last-reports  no handler runs; what is still to be reported is sent
 *   silence       the guard ends its beats
 *   deregister    the server hears that the worker leaves, and takes back what is left
 *   ended         nothing follows
 *
 * `drain` and `clean-up` end early when no handler runs. Where the process ends with the worker, `clean-up` may end with the
 * process.
 */
import { after, earliest, isDue, millis, type Instant, type Millis } from '@curfew/core'
import type { Calls } from './calls.ts'
import type { Effects } from './effects.ts'
import { takesSlot } from './held-attempt.ts'
import type { Leases } from './leases.ts'
import { handBackReport } from './outcomes.ts'
import type { Registration } from './registration.ts'

/** What handlers get to clean up in, once the worker waits for them no longer. */
const CLEAN_UP_MS = millis(2_000)
/** How long the last reports may take. */
const LAST_REPORTS_MS = millis(5_000)

type Stage = 'drain' | 'clean-up' | 'last-reports' | 'silence' | 'deregister' | 'ended'

export class Leaving {
  readonly #effects: Effects
  readonly #leases: Leases
  readonly #calls: Calls
  readonly #registration: Registration
  /** The process ends with the worker. */
  exits = false
  /** Null: the worker stays. */
  #stage: Stage | null = null
  #drainAt: Instant | null = null
  #stageEndsAt: Instant | null = null
  #isDeregistering = false

  constructor(effects: Effects, leases: Leases, calls: Calls, registration: Registration) {
    this.#effects = effects
    this.#leases = leases
    this.#calls = calls
    this.#registration = registration
  }

  get hasBegun(): boolean {
    return this.#stage !== null
  }

  get hasEnded(): boolean {
    return this.#stage === 'ended'
  }

  /** No call follows. */
  get hasSaidAll(): boolean {
    return this.#stage === 'silence' || this.#stage === 'deregister' || this.#stage === 'ended'
  }

  /** When the stage ends by itself; null: it does not. */
  get endsAt(): Instant | null {
    return this.#stage === 'drain' ? this.#drainAt : this.#stageEndsAt
  }

  /** Asked to stop again, the worker waits no longer than the shorter of both. */
  begin(drainMs: Millis, now: Instant): void {
    this.#drainAt = earliest(this.#drainAt, after(now, drainMs))
    this.#stage ??= 'drain'
  }

  /** Handlers are waited for no longer. */
  hurry(now: Instant): void {
    if (this.#stage === 'drain') this.#drainAt = now
  }

  /** The worker was never known to the server: it ends at once. */
  end(): void {
    this.#enter('ended', null)
  }

  /** No beat follows: the guard said so, or is gone. */
  silenced(): void {
    if (this.#stage === 'silence') this.#enter('deregister', null)
  }

  deregistered(): void {
    if (this.#stage === 'deregister') this.#enter('ended', null)
  }

  /** Goes through the stages as far as it can. */
  goOn(now: Instant): void {
    for (let before: Stage | null = null; before !== this.#stage;) {
      before = this.#stage
      this.#leaveStage(now)
    }
  }

  #enter(stage: Stage, endsAt: Instant | null): void {
    this.#stage = stage
    this.#stageEndsAt = endsAt
    this.#effects.wakeBy(endsAt)
  }

  #leaveStage(now: Instant): void {
    const isIdle = this.#leases.table.slotsTaken === 0
    switch (this.#stage) {
      case null:
      case 'silence':
        return
      case 'drain':
        if (isIdle) this.#sayLastWords(now)
        else if (isDue(this.#drainAt, now)) {
          const endsAt = after(now, CLEAN_UP_MS)
          this.#enter('clean-up', endsAt)
          this.#leases.stops.shutDown(endsAt)
        }
        return
      case 'clean-up':
        if (isIdle) this.#sayLastWords(now)
        else if (this.exits && isDue(this.#stageEndsAt, now)) this.#exit(now)
        return
      case 'last-reports':
        if (this.#hasMoreToSay() && !isDue(this.#stageEndsAt, now)) return
        this.#calls.hangUpAll()
        this.#enter('silence', null)
        this.#effects.do({ do: 'silence' })
        return
      case 'deregister':
        this.#deregister(now)
        return
      case 'ended':
        this.#effects.log('info', {}, 'the worker has ended')
        this.#effects.do({ do: 'ended' })
    }
  }

  #sayLastWords(now: Instant): void {
    this.#enter('last-reports', after(now, LAST_REPORTS_MS))
    this.#calls.isLastWord = true
  }

  #hasMoreToSay(): boolean {
    return this.#registration.wasDone ? !this.#calls.isDone : this.#registration.isAsking
  }

  #deregister(now: Instant): void {
    if (this.#isDeregistering) return
    this.#isDeregistering = true
    if (!this.#registration.wasAsked) this.#enter('ended', null)
    else this.#effects.do({ do: 'deregister', leases: this.#leases.table.begun(), seq: this.#calls.nextSeq(now) })
  }

  /** Only inline handlers that ignore their signal are left: they stop with the process, and their jobs go back. */
  #exit(now: Instant): void {
    const running = this.#leases.table.running()
    if (running.some(({ facts }) => facts.isolated)) return
    const message = 'The worker shut down before the job was done.'
    const handBacks = running.filter(takesSlot).map(({ hold }) => handBackReport(hold, 'shutdown', message))
    this.#calls.isLastWord = true
    this.#calls.hangUpAll()
    const reports = [...this.#calls.takeUnsent(), ...handBacks]
    this.#effects.do({ do: 'exit', reports, leases: [], seq: this.#calls.nextSeq(now) })
    this.#enter('silence', null)
  }
}
