/**
 * Long polls: fetches that wait for work. A poll is entered before its first claim is tried, so that a job committed in
 * between wakes it; the commit that makes jobs available wakes as many polls as there are jobs, oldest first.
 *
 * Jobs that a limiter holds back are available already, so nothing will tell of them. The poll that was turned away
 * watches the limiter, and when it leaves, another of the same queue is woken to look, and to watch in its place.
 */
import type { TurnedAway } from './limiters.ts'

export interface Poll {
  /** Resolves when there may be work, or when the poll should give up. */
  woken(): Promise<void>
  readonly dismissed: boolean
  /** What it waits for besides new jobs: a limiter turned it away. */
  readonly watches: TurnedAway | null
  watch(turnedAway: TurnedAway | null): void
  wake(): void
  leave(): void
}

class OpenPoll implements Poll {
  readonly queues: readonly string[]
  readonly workerId: string | null
  readonly tenant: string | null
  dismissed = false
  watches: TurnedAway | null = null
  #awake = false
  #resolve: (() => void) | null = null
  readonly #polls: Polls

  constructor(polls: Polls, queues: readonly string[], workerId: string | null, tenant: string | null) {
    this.#polls = polls
    this.queues = queues
    this.workerId = workerId
    this.tenant = tenant
  }

  get isAsleep(): boolean {
    return !this.#awake
  }

  woken(): Promise<void> {
    if (this.#awake) {
      this.#awake = false
      return Promise.resolve()
    }
    return new Promise((resolve) => {
      this.#resolve = () => {
        this.#resolve = null
        this.#awake = false
        resolve()
      }
    })
  }

  watch(turnedAway: TurnedAway | null): void {
    this.watches = turnedAway
  }

  wake(): void {
    this.#awake = true
    this.#resolve?.()
  }

  /** A wake this poll no longer needs is passed on: the job it told of is still there. So is what it watched. */
  leave(): void {
    this.#polls.remove(this)
    if (this.#awake || this.watches !== null) for (const queue of this.queues) this.#polls.passOn(queue, this.watches)
  }
}

export class Polls {
  readonly #open = new Set<OpenPoll>()

  enter(queues: readonly string[], workerId: string | null, tenant: string | null = null): Poll {
    const poll = new OpenPoll(this, queues, workerId, tenant)
    this.#open.add(poll)
    return poll
  }

  remove(poll: OpenPoll): void {
    this.#open.delete(poll)
  }

  isOpen(workerId: string): boolean {
    for (const poll of this.#open) if (poll.workerId === workerId) return true
    return false
  }

  /** Those who wait here, each once. */
  workers(): string[] {
    const ids = new Set<string>()
    for (const { workerId } of this.#open) if (workerId !== null) ids.add(workerId)
    return [...ids]
  }

  /** There may be work anywhere. */
  wakeAll(): void {
    for (const poll of this.#open) poll.wake()
  }

  /** So many jobs of this queue, and of this tenant or nobody, became available. */
  wake(queue: string, jobs: number, tenant: string | null = null): void {
    let left = jobs
    for (const poll of this.#open) {
      if (left <= 0) return
      if (!poll.isAsleep || !poll.queues.includes(queue)) continue
      if (poll.tenant !== null && poll.tenant !== tenant) continue
      poll.wake()
      left -= 1
    }
  }

  /** All who wait for this queue: it was resumed, or has other limits. */
  wakeQueue(queue: string): void {
    for (const poll of this.#open) if (poll.queues.includes(queue)) poll.wake()
  }

  /** An active job ended: those that wait for one look again. */
  wakeAfterEnd(): void {
    for (const poll of this.#open) if (poll.watches?.awaitsEnd === true) poll.wake()
  }

  /** There may be a job of anybody's in this queue: the first who may take every job looks, and before it those who wait for a tenant. */
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
    for (const poll of this.#open) {
      if (poll.workerId !== workerId) continue
      poll.dismissed = true
      poll.wake()
    }
  }

  /** The server is stopping. */
  dismissAll(): void {
    for (const poll of this.#open) {
      poll.dismissed = true
      poll.wake()
    }
  }

  get size(): number {
    return this.#open.size
  }
}
