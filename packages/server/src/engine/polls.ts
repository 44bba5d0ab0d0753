/**
 * Long polls: fetches that wait for work. A poll is entered before its first claim is tried, so that a job committed in
 * between wakes it; the commit that makes jobs available wakes as many polls as there are jobs, oldest first.
 */

export interface Poll {
  /** Resolves when there may be work, or when the poll should give up. */
  woken(): Promise<void>
  readonly dismissed: boolean
  wake(): void
  leave(): void
}

class OpenPoll implements Poll {
  readonly queues: readonly string[]
  readonly workerId: string | null
  dismissed = false
  #awake = false
  #resolve: (() => void) | null = null
  readonly #polls: Polls

  constructor(polls: Polls, queues: readonly string[], workerId: string | null) {
    this.#polls = polls
    this.queues = queues
    this.workerId = workerId
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

  wake(): void {
    this.#awake = true
    this.#resolve?.()
  }

  /** A wake this poll no longer needs is passed on: the job it told of is still there. */
  leave(): void {
    this.#polls.remove(this)
    if (this.#awake) for (const queue of this.queues) this.#polls.wake(queue, 1)
  }
}

export class Polls {
  readonly #open = new Set<OpenPoll>()

  enter(queues: readonly string[], workerId: string | null): Poll {
    const poll = new OpenPoll(this, queues, workerId)
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

  /** So many jobs of this queue became available. */
  wake(queue: string, jobs: number): void {
    let left = jobs
    for (const poll of this.#open) {
      if (left <= 0) return
      if (!poll.isAsleep || !poll.queues.includes(queue)) continue
      poll.wake()
      left -= 1
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
