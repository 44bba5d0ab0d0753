/** The attempts a worker holds, by lease and by job, and how many of them run or wait. The only place that changes a step. */
import type { Effects } from './effects.ts'
import { isUnbegun, leaseName, mayRun, takesSlot, type HeldAttempt, type Step } from './held-attempt.ts'
import type { LeaseName } from './inputs.ts'

export const NO_OTHERS: readonly HeldAttempt[] = []

export class AttemptTable {
  readonly #effects: Effects
  readonly #byKey = new Map<string, HeldAttempt>()
  /** More than one only while an older attempt steps aside. */
  readonly #byJob = new Map<string, readonly HeldAttempt[]>()
  /** Jobs for which no slot is free, in the order of arrival. */
  readonly #buffer = new Set<HeldAttempt>()
  #slotsTaken = 0
  #waiting = 0

  constructor(effects: Effects) {
    this.#effects = effects
  }

  /** How many handlers run. */
  get slotsTaken(): number {
    return this.#slotsTaken
  }

  /** How many jobs run, or wait for a slot or for an older attempt. */
  get kept(): number {
    return this.#slotsTaken + this.#buffer.size + this.#waiting
  }

  /** Jobs for which no slot is free, in the order of arrival. */
  get buffer(): ReadonlySet<HeldAttempt> {
    return this.#buffer
  }

  has(key: string): boolean {
    return this.#byKey.has(key)
  }

  get(key: string): HeldAttempt | undefined {
    return this.#byKey.get(key)
  }

  all(): IterableIterator<HeldAttempt> {
    return this.#byKey.values()
  }

  /** As they are now: for loops that forget some of them. */
  snapshot(): HeldAttempt[] {
    return [...this.#byKey.values()]
  }

  ofJob(jobId: string): readonly HeldAttempt[] {
    return this.#byJob.get(jobId) ?? NO_OTHERS
  }

  /** The attempts that an order is about. */
  meant(jobId: string, lease: number | undefined): readonly HeldAttempt[] {
    const held = this.ofJob(jobId)
    return lease === undefined ? held : held.filter(({ hold }) => hold.lease === lease)
  }

  /** Leases the worker still answers for. */
  names(): LeaseName[] {
    return this.snapshot().map(leaseName)
  }

  /** Attempts whose handlers may be running, abandoned ones included. */
  running(): HeldAttempt[] {
    return this.snapshot().filter(mayRun)
  }

  unbegun(): HeldAttempt[] {
    return this.snapshot().filter(isUnbegun)
  }

  /**
   * Attempts that were begun here and not ended: the server must not take them for untouched. What is handed back is not
   * among them: if the report did not arrive, the deregistration hands it back.
   */
  begun(): LeaseName[] {
    const begun = this.snapshot().filter((held) => mayRun(held) || (held.isReported && !held.isHandedBack))
    return begun.map(leaseName)
  }

  add(held: HeldAttempt): HeldAttempt {
    this.#byKey.set(held.key, held)
    const same = this.#byJob.get(held.hold.jobId)
    this.#byJob.set(held.hold.jobId, same === undefined ? [held] : [...same, held])
    return held
  }

  /** It waits for a slot, behind those that arrived before it. */
  enterBuffer(held: HeldAttempt): void {
    if (held.step !== 'buffered') this.enter(held, 'buffered')
    this.#buffer.add(held)
  }

  enter(held: HeldAttempt, step: Step): void {
    if (takesSlot(held)) this.#slotsTaken -= 1
    if (held.step === 'waiting') this.#waiting -= 1
    if (held.step === 'buffered') this.#buffer.delete(held)
    held.step = step
    if (takesSlot(held)) this.#slotsTaken += 1
    if (step === 'waiting') this.#waiting += 1
    this.#effects.wantsTurn = true
  }

  forget(held: HeldAttempt): void {
    this.#byKey.delete(held.key)
    const same = this.ofJob(held.hold.jobId)
    if (same.length <= 1) this.#byJob.delete(held.hold.jobId)
    else {
      const others = same.filter((other) => other !== held)
      this.#byJob.set(held.hold.jobId, others)
    }
    this.#effects.do({ do: 'unwatch', key: held.key })
  }
}
