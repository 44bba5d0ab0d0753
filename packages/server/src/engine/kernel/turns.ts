/**
 * Work whose length a caller chooses is done in turns of the event loop. The server has one thread: a list of ten
 * thousand that is worked through at once stops every deadline, every heartbeat and every other call for its length.
 * Turns are counted in entries, not in time, so that a test or a simulation sees the same turns on every machine.
 */
import type { Host } from '@curfew/core'

export type Turning = Pick<Host, 'defer'>

/** How many entries of a list are worked through in one turn: some ten milliseconds, if each is a job. */
export const MAX_PER_TURN = 250

export function nextTurn(host: Turning): Promise<void> {
  return new Promise((resolve) => {
    host.defer(resolve)
  })
}

/** Counts entries, and says when it is time for the next turn. */
export class Pace {
  readonly #host: Turning
  readonly #perTurn: number
  #done = 0

  constructor(host: Turning, perTurn = MAX_PER_TURN) {
    this.#host = host
    this.#perTurn = perTurn
  }

  /** Called before each entry; a promise only where the turn has had its share. */
  step(): Promise<void> | undefined {
    this.#done += 1
    if (this.#done <= this.#perTurn) return undefined
    this.#done = 1
    return nextTurn(this.#host)
  }

  /** Called after several at once, which were bounded already. */
  did(entries: number): Promise<void> | undefined {
    this.#done += entries
    if (this.#done < this.#perTurn) return undefined
    this.#done = 0
    return nextTurn(this.#host)
  }
}

/** What `act` makes of each entry, in order. */
export async function inTurns<Entry, Made>(
  host: Turning,
  entries: readonly Entry[],
  act: (entry: Entry, index: number) => Made,
  perTurn = MAX_PER_TURN,
): Promise<Made[]> {
  const made: Made[] = []
  const pace = new Pace(host, perTurn)
  for (const [index, entry] of entries.entries()) {
    const pause = pace.step()
    if (pause !== undefined) await pause
    made.push(act(entry, index))
  }
  return made
}

/**
 * Drives a generator to its end, one piece a turn. Work of one piece is done at once and gives its value, not a promise:
 * commands that came one after the other are decided in that order.
 */
export function inPieces<Made>(host: Turning, work: Generator<void, Made>): Made | Promise<Made> {
  const first = work.next()
  return first.done === true ? first.value : theRest(host, work)
}

async function theRest<Made>(host: Turning, work: Generator<void, Made>): Promise<Made> {
  for (;;) {
    await nextTurn(host)
    const step = work.next()
    if (step.done === true) return step.value
  }
}
