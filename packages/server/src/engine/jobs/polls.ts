/**
 * Long polls: calls that wait for work, and those that listen for orders too. A poll is entered before its first look, so
 * that what is committed in between wakes it. The commit that makes jobs available wakes as many polls as there are jobs,
 * oldest first; the commit that stores an order wakes the listening polls of its worker.
 *
 * Of the listening polls of a worker only the latest is open: an older one is superseded and answered.
 *
 * A poll that is asleep is served inside the transaction that makes its jobs available (`serving.ts`). It is answered when
 * that transaction is durable; what happens to the poll meanwhile waits until then.
 *
 * Jobs that a limiter holds back are available already, so nothing will tell of them. The poll that was turned away
 * watches the limiter, and when it leaves, another of the same queue is woken to look, and to watch in its place.
 */
import type { Command } from '../kernel/command.ts'
import type { Seen } from './fetch.ts'
import type { TurnedAway } from '../queues/limiters.ts'
import type { Ready } from '../kernel/ready.ts'

/** What another command's transaction brought a poll, in place of a look of its own. */
export interface Brought {
  readonly seen: Seen
  /** How many active jobs had ended when that transaction was committed. */
  readonly endings: number
}

export interface Poll {
  /**
   * Resolves when there may be work or an order, or when the poll should give up: null. Or with what a transaction has
   * brought it, once that is durable; rejects if it is not known whether that is.
   */
  woken(): Promise<Brought | null>
  /** Called before each look. True if jobs woke the poll: the look takes care of them, or `owe` says that it did not. */
  look(): boolean
  owe(): void
  readonly dismissed: boolean
  /** A newer call of the same worker listens. */
  readonly superseded: boolean
  /** What it waits for besides new jobs: a limiter turned it away. */
  readonly watches: TurnedAway | null
  watch(turnedAway: TurnedAway | null): void
  /** Without a job: its time is over, or there is an order. */
  nudge(): void
  wake(): void
  leave(): void
}

export class OpenPoll implements Poll {
  /** Empty: it takes no jobs. */
  readonly queues: readonly string[]
  readonly workerId: string | null
  readonly tenant: string | null
  /** The number of the call, if it listens for orders. */
  readonly listenSeq: number | null
  dismissed = false
  superseded = false
  watches: TurnedAway | null = null
  #awake = false
  /** Jobs woke it, and it has not looked since. */
  #owes = false
  #sleep: { readonly resolve: (brought: Brought | null) => void; readonly reject: (error: unknown) => void } | null =
    null
  /** A transaction under way looks for it. */
  #isServed = false
  readonly #polls: Polls
  readonly lookWithin: PollFacts['lookWithin']

  constructor(polls: Polls, { queues, lookWithin, workerId = null, tenant = null, listenSeq = null }: PollFacts) {
    this.#polls = polls
    this.lookWithin = lookWithin
    this.queues = queues
    this.workerId = workerId
    this.tenant = tenant
    this.listenSeq = listenSeq
  }

  get isAsleep(): boolean {
    return !this.#awake
  }

  /** Asleep, and not looking: it can be served. */
  get isWaiting(): boolean {
    return this.#sleep !== null && !this.#isServed
  }

  woken(): Promise<Brought | null> {
    if (this.#awake) return Promise.resolve(null)
    return new Promise((resolve, reject) => {
      this.#sleep = { resolve, reject }
    })
  }

  /** A transaction looks for it. Until that has come to an end, nothing else wakes it. */
  serve(): void {
    this.#isServed = true
  }

  /** The transaction was committed, and is durable. */
  served(brought: Brought): void {
    this.#isServed = false
    this.#sleep?.resolve(brought)
    this.#sleep = null
  }

  /** The transaction was rolled back: it brought nothing. */
  notServed(): void {
    this.#isServed = false
    if (this.#awake) this.#rise()
  }

  /** It is not known whether the transaction is durable. */
  fail(error: unknown): void {
    this.#isServed = false
    this.#sleep?.reject(error)
    this.#sleep = null
  }

  #rise(): void {
    this.#sleep?.resolve(null)
    this.#sleep = null
  }

  look(): boolean {
    const owed = this.#owes
    this.#awake = false
    this.#owes = false
    return owed
  }

  owe(): void {
    this.#owes = true
  }

  watch(turnedAway: TurnedAway | null): void {
    this.watches = turnedAway
  }

  wake(): void {
    this.#owes = true
    this.nudge()
  }

  nudge(): void {
    this.#awake = true
    if (!this.#isServed) this.#rise()
  }

  dismiss(): void {
    this.dismissed = true
    this.nudge()
  }

  /** A wake this poll no longer needs is passed on: the job it told of is still there. So is what it watched. */
  leave(): void {
    this.#polls.remove(this)
    if (this.#owes || this.watches !== null) for (const queue of this.queues) this.#polls.passOn(queue, this.watches)
  }
}

export interface PollFacts {
  readonly queues: readonly string[]
  /** A look that another command's transaction makes for it. */
  readonly lookWithin: () => Command<Seen>
  readonly workerId?: string | null
  readonly tenant?: string | null
  /** The number of the call, if it listens for orders to its worker. */
  readonly listenSeq?: number | null
}

/** Whether this poll takes jobs of this queue and tenant. */
export const asksFor = (poll: OpenPoll, queue: string, tenant: string | null): boolean =>
  poll.queues.includes(queue) && (poll.tenant === null || poll.tenant === tenant)

export class Polls {
  readonly #open = new Set<OpenPoll>()
  readonly #byWorker = new Map<string, Set<OpenPoll>>()
  /** How many active jobs have ended, as far as this server has heard. */
  endings = 0

  enter(facts: PollFacts): Poll {
    const poll = new OpenPoll(this, facts)
    if (poll.listenSeq !== null) this.#supersede(poll, poll.listenSeq)
    this.#open.add(poll)
    if (poll.workerId !== null) {
      const others = this.#byWorker.get(poll.workerId)
      if (others === undefined) this.#byWorker.set(poll.workerId, new Set([poll]))
      else others.add(poll)
    }
    return poll
  }

  #supersede(poll: OpenPoll, seq: number): void {
    for (const other of this.#of(poll.workerId)) {
      if (other.listenSeq === null || other.superseded) continue
      const older = other.listenSeq <= seq ? other : poll
      older.superseded = true
      older.nudge()
    }
  }

  #of(workerId: string | null): Iterable<OpenPoll> {
    return (workerId === null ? undefined : this.#byWorker.get(workerId)) ?? []
  }

  remove(poll: OpenPoll): void {
    this.#open.delete(poll)
    if (poll.workerId === null) return
    const others = this.#byWorker.get(poll.workerId)
    others?.delete(poll)
    if (others?.size === 0) this.#byWorker.delete(poll.workerId)
  }

  isOpen(workerId: string): boolean {
    return this.#byWorker.has(workerId)
  }

  /** Whether any poll waits for jobs of this queue. */
  asksFor(queue: string): boolean {
    for (const poll of this.#open) if (poll.queues.includes(queue)) return true
    return false
  }

  /** The workers that wait here, each once. */
  workers(): string[] {
    return [...this.#byWorker.keys()]
  }

  /** There is an order to this worker. */
  tellOrders(workerId: string): void {
    for (const poll of this.#of(workerId)) if (poll.listenSeq !== null) poll.nudge()
  }

  /** There may be work anywhere. */
  wakeAll(): void {
    for (const poll of this.#open) poll.wake()
  }

  /** Polls that can be served, oldest first. */
  *waiting(): Generator<OpenPoll> {
    for (const poll of this.#open) if (poll.isWaiting) yield poll
  }

  /** As many as there are jobs, but none that the same transaction has served. */
  wake(ready: Ready): void {
    for (const { queue, tenant, left } of ready.kinds()) {
      let jobs = left
      for (const poll of this.#open) {
        if (jobs <= 0) break
        if (!poll.isAsleep || ready.hasServed(poll) || !asksFor(poll, queue, tenant)) continue
        poll.wake()
        jobs -= 1
      }
    }
  }

  /** All who wait for this queue: it was resumed, or has other limits. */
  wakeQueue(queue: string): void {
    for (const poll of this.#open) if (poll.queues.includes(queue)) poll.wake()
  }

  /** Active jobs ended: polls that a limiter turned away until then look again. */
  ended(count: number): void {
    this.endings += count
    for (const poll of this.#open) if (poll.watches?.awaitsEnd === true) poll.wake()
  }

  /** A job of any tenant may wait in this queue: wakes polls in order, up to and including the first that may take every job. */
  passOn(queue: string, watched: TurnedAway | null): void {
    for (const poll of this.#open) {
      if (!poll.isAsleep || !poll.queues.includes(queue)) continue
      poll.watches ??= watched
      poll.wake()
      if (poll.tenant === null) return
    }
  }

  /** The worker was removed or quieted: its polls are answered empty. */
  dismiss(workerId: string): void {
    for (const poll of this.#of(workerId)) poll.dismiss()
  }

  /** The worker reports that it takes no jobs: a poll that only listens for orders stays open. */
  dismissFetches(workerId: string): void {
    for (const poll of this.#of(workerId)) if (poll.queues.length > 0) poll.dismiss()
  }

  /** The server is stopping. */
  dismissAll(): void {
    for (const poll of this.#open) poll.dismiss()
  }

  get size(): number {
    return this.#open.size
  }
}
