/** The machine: the only place where the SDK takes time and chance from outside. */
import { randomFillSync } from 'node:crypto'
import type { Host, Random } from '@curfew/core'

/**
 * The monotonic clock is the system's own, counted from the same zero in every thread of the process, so that instants
 * may travel between threads.
 */
export const nodeHost: Host = {
  wallMs: () => Date.now(),
  monotonicMs: () => Number(process.hrtime.bigint()) / 1e6,
  setTimer(ms, fire) {
    const timer = setTimeout(fire, Math.min(Math.ceil(ms), 2_147_483_647))
    return {
      cancel: () => {
        clearTimeout(timer)
      },
    }
  },
  defer: (run) => void setImmediate(run),
}

/** Drawn by the handful: asking the system for each number costs more than all else about an id. */
const drawn = new Uint32Array(256)
let used = drawn.length

export const systemRandom: Random = () => {
  if (used === drawn.length) {
    randomFillSync(drawn)
    used = 0
  }
  const number = drawn[used] ?? 0
  used += 1
  return number / 4_294_967_296
}

/**
 * Looks once in every round of the event loop: after it has slept, before any timer fires. An immediate that does not
 * count keeps no loop awake, and is called all the same when something else wakes it. Returns how to end it.
 */
export function afterEverySleep(look: () => void): () => void {
  let next: NodeJS.Immediate
  const again = (): void => {
    next = setImmediate(again).unref()
    look()
  }
  next = setImmediate(again).unref()
  return () => {
    clearImmediate(next)
  }
}

/** When everything that has arrived, and everything promised so far, has happened. */
export function turnOfTheLoop(): Promise<void> {
  return new Promise((resolve) => void setImmediate(resolve))
}
