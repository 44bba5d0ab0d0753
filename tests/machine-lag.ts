/**
 * How long the machine kept programs waiting for a processor or for the disk since the running test began. A test that holds
 * a real clock to a bound adds this to the bound: on a quiet machine the bound is exact, on a busy one it grows by what the
 * machine itself took, and the test need not be repeated.
 */
import { readFileSync } from 'node:fs'
import { monitorEventLoopDelay } from 'node:perf_hooks'
import { beforeEach } from 'vitest'

/** Linux counts these waits, in microseconds (pressure stall information). */
const PRESSURE_FILES = ['/proc/pressure/cpu', '/proc/pressure/io']

const ownDelays = monitorEventLoopDelay({ resolution: 5 })
ownDelays.enable()

let waitedAtStartMs = pressureMs()
beforeEach(() => {
  waitedAtStartMs = pressureMs()
  ownDelays.reset()
})

/** The bound, plus what the machine kept programs waiting since the running test began. */
export function plusLag(boundMs: number): number {
  const waitedMs = pressureMs() - waitedAtStartMs
  return boundMs + Math.max(waitedMs, Number.isFinite(ownDelays.max) ? ownDelays.max / 1e6 : 0)
}

function pressureMs(): number {
  let micros = 0
  for (const file of PRESSURE_FILES)
    try {
      micros += Number(/^some .*total=(\d+)/m.exec(readFileSync(file, 'utf8'))?.[1] ?? 0)
    } catch {
      // Not Linux, or counted nowhere: the delays of this process are what is known.
    }
  return micros / 1_000
}
