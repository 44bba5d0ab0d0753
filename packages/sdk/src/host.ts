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
