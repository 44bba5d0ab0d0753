/** How many jobs of a queue are not over: as the store counted them, and as the transitions since then have changed that. */
import { broken, isTerminal, type Transition } from '@curfew/core'

export class QueueDepths {
  readonly #transitions: readonly Transition[]
  readonly #counted = new Map<string, number>()
  readonly #risen = new Map<string, { upTo: number; by: number }>()
  /** How many transitions the counts of the store know of. */
  #saved = 0

  /** `transitions`: of the unit of work; the list grows. */
  constructor(transitions: readonly Transition[]) {
    this.#transitions = transitions
  }

  has(queue: string): boolean {
    return this.#counted.has(queue)
  }

  counted(queue: string, depth: number): void {
    this.#counted.set(queue, depth)
  }

  of(queue: string): number {
    const stored = this.#counted.get(queue)
    if (stored === undefined) throw broken(`the depth of ${queue} is looked at without having been measured`)
    const risen = this.#risen.get(queue) ?? { upTo: this.#saved, by: 0 }
    for (; risen.upTo < this.#transitions.length; risen.upTo += 1) {
      const transition = this.#transitions[risen.upTo]
      if (transition !== undefined && (transition.job ?? transition.before)?.queue === queue)
        risen.by += rise(transition)
    }
    this.#risen.set(queue, risen)
    return stored + risen.by
  }

  /** Transitions were taken back. */
  reverted(): void {
    this.#risen.clear()
  }

  /** Everything was saved: the store has to count again. */
  saved(): void {
    this.#counted.clear()
    this.#risen.clear()
    this.#saved = this.#transitions.length
  }
}

/** By how much a transition makes its queue deeper. */
function rise({ before, job }: Transition): number {
  return Number(job !== null && !isTerminal(job.state)) - Number(before !== null && !isTerminal(before.state))
}
