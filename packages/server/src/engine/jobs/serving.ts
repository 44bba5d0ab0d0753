/**
 * Serves polls inside the transaction that makes their jobs available: enqueue and claim share one commit, and an idle
 * worker has its job one commit earlier than if it had been woken to look for itself.
 *
 * It is the look of the poll, decided in the same unit after what is due was settled and after the commands of the group,
 * with the same `now`. A poll that hangs up meanwhile is given its jobs all the same, and its route hands them back.
 *
 * Invariants: a poll hears of nothing before the transaction is durable, and of nothing at all if it was rolled back; a
 * look that breaks costs the commands of the group nothing (the group is decided again without it).
 */
import { broken } from '@curfew/core'
import { RowsMoved, StoreUnavailable } from '../../store/store.ts'
import { changeOf } from '../kernel/changes.ts'
import { decideEach, type Command } from '../kernel/command.ts'
import { ServingFailed, type Serving } from '../kernel/feature.ts'
import { asksFor, type OpenPoll, type Polls } from './polls.ts'
import { Ready } from '../kernel/ready.ts'
import type { Seen } from './fetch.ts'
import type { Unit } from '../kernel/unit.ts'

/** In one transaction: the commands of the group wait for it. Other polls are woken, as many as there are jobs. */
const MAX_SERVED = 50
/** A poll takes several jobs, so few polls are served even by many. A worker that is not foreseen is found when it is served. */
const MAX_FORESEEN = 10

export class PollServing implements Serving {
  readonly #polls: Polls
  readonly #mayServe: (poll: OpenPoll) => boolean
  readonly #served: { readonly poll: OpenPoll; readonly seen: Seen }[] = []
  #serving: OpenPoll | null = null
  #ready = new Ready()
  #read = 0

  constructor(polls: Polls, mayServe: (poll: OpenPoll) => boolean) {
    this.#polls = polls
    this.#mayServe = mayServe
  }

  /** The looks of the polls that are first in line for these queues, at most one for each job. */
  foreseen(queues: readonly string[], jobs: number): readonly Command<unknown>[] {
    if (this.#polls.size === 0) return []
    const looks: Command<unknown>[] = []
    for (const poll of this.#polls.waiting()) {
      if (looks.length === Math.min(jobs, MAX_FORESEEN)) break
      if (queues.some((queue) => poll.queues.includes(queue)) && this.#mayServe(poll)) looks.push(poll.lookWithin())
    }
    return looks
  }

  /** Lets polls look for what the unit has made available. */
  async serve(unit: Unit): Promise<void> {
    if (this.#polls.size === 0) return
    for (const poll of this.#polls.waiting()) {
      this.#catchUp(unit)
      const kind = this.#kindFor(poll)
      if (kind === 'none') return
      if (kind === null || !this.#mayServe(poll)) continue
      this.#ready.offered(poll, kind.queue, kind.tenant, await this.#look(unit, poll))
      if (this.#served.length === MAX_SERVED) return
    }
  }

  /** What is left for polls that have to be woken. */
  rest(unit: Unit): Ready {
    if (this.#polls.size > 0) this.#catchUp(unit)
    return this.#ready
  }

  /** The transaction was committed. */
  answer(durable: Promise<void>, refusal: (error: unknown) => unknown): void {
    const { endings } = this.#polls
    for (const { poll, seen } of this.#served) {
      durable.then(
        () => {
          poll.served({ seen, endings })
        },
        (error: unknown) => {
          poll.fail(refusal(error))
        },
      )
    }
  }

  /** The transaction was rolled back. */
  undo(): void {
    this.#serving?.notServed()
    for (const { poll } of this.#served) poll.notServed()
  }

  /** `none`: no job is left for any poll. */
  #kindFor(poll: OpenPoll): { readonly queue: string; readonly tenant: string | null } | 'none' | null {
    let hasLeft = false
    for (const { queue, tenant, left } of this.#ready.kinds()) {
      if (left <= 0) continue
      hasLeft = true
      if (asksFor(poll, queue, tenant)) return { queue, tenant }
    }
    return hasLeft ? null : 'none'
  }

  async #look(unit: Unit, poll: OpenPoll): Promise<boolean> {
    poll.serve()
    this.#serving = poll
    const seen = await lookWithin(unit, poll)
    this.#serving = null
    this.#served.push({ poll, seen })
    return (seen.claimed?.handed.length ?? 0) > 0
  }

  #catchUp(unit: Unit): void {
    for (; this.#read < unit.transitions.length; this.#read += 1) {
      const transition = unit.transitions[this.#read]
      if (transition !== undefined) this.#ready.note(changeOf(transition))
    }
  }
}

async function lookWithin(unit: Unit, poll: OpenPoll): Promise<Seen> {
  try {
    const [outcome] = await decideEach(unit, [poll.lookWithin()])
    if (outcome?.ok !== true) throw broken('the claim for a waiting poll was refused')
    return outcome.value
  } catch (error) {
    if (error instanceof StoreUnavailable || error instanceof RowsMoved) throw error
    throw new ServingFailed('the claim for a waiting poll failed', { cause: error })
  }
}
