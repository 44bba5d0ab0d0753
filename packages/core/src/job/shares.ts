/**
 * How a bounded look is shared out among queues: each gets an equal part of what is left, and what a queue does not need goes to
 * those after it. The shortest come first, so a long queue gets what short ones leave and hides none of them.
 */
export interface Waiting {
  readonly waiting: number
}

export class Shares<Queue extends Waiting> {
  /** In this order they ask. */
  readonly queues: readonly Queue[]
  #left: number
  #open: number

  constructor(total: number, queues: readonly Queue[]) {
    this.queues = queues.toSorted((one, other) => one.waiting - other.waiting)
    this.#left = total
    this.#open = queues.length
  }

  /** How many of its waiting jobs may be looked at. Each queue asks once. */
  take({ waiting }: Waiting): number {
    const share = Math.min(waiting, Math.ceil(this.#left / Math.max(1, this.#open)))
    this.#open -= 1
    this.#left -= share
    return share
  }

  /** What turned out not to be needed. To find that out costs one look. */
  giveBack(share: number): void {
    this.#left += Math.max(0, share - 1)
  }
}
