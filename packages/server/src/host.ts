/** The machine: the only place where the process takes time and chance from outside. */
import { randomFillSync } from 'node:crypto'
import { createHistogram, performance } from 'node:perf_hooks'
import type { Host, Random, Stopwatch } from '@curfew/core'

export const nodeHost: Host = {
  wallMs: () => Date.now(),
  monotonicMs: () => performance.now(),
  setTimer(ms, fire) {
    const timer = setTimeout(fire, Math.ceil(ms))
    return {
      cancel: () => {
        clearTimeout(timer)
      },
    }
  },
  defer: (run) => void setImmediate(run),
}

/**
 * What this process had of the processor, which is nothing while the machine stands still. All its threads are in that, so
 * it is never more than what went by.
 */
export const nodeStopwatch: Stopwatch = () => {
  const begunMs = performance.now()
  const before = process.cpuUsage()
  return () => {
    const { user, system } = process.cpuUsage(before)
    return Math.min((user + system) / 1000, performance.now() - begunMs)
  }
}

/** Chance from the system's generator, in a pool so that an id costs no system call. */
export function systemRandom(): Random {
  const pool = new Uint32Array(1024)
  let used = pool.length
  return () => {
    if (used >= pool.length) {
      randomFillSync(pool)
      used = 0
    }
    const value = pool[used] ?? 0
    used += 1
    return value / 4_294_967_296
  }
}

/** The share of the time since the last call in which the event loop worked. */
export function loopUtilization(): () => number {
  let last = performance.eventLoopUtilization()
  return () => {
    const now = performance.eventLoopUtilization()
    const { utilization } = performance.eventLoopUtilization(now, last)
    last = now
    return utilization
  }
}

export const newHistogram = createHistogram
