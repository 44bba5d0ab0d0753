// Preloaded into a server (node --import): measures for how long its event loop stands still. A message of any content
// is answered with the longest stall since the message before, in milliseconds: as the clock saw it, and without the
// time for which this thread was ready to run and other programs had the processor (where the system tells: Linux).
import { Buffer } from 'node:buffer'
import { closeSync, openSync, readSync } from 'node:fs'
import { monitorEventLoopDelay, performance } from 'node:perf_hooks'

const TICK_MS = 1
const delays = monitorEventLoopDelay({ resolution: TICK_MS })
delays.enable()

const stats = openStats()
let last = { at: performance.now(), waitedMs: waitedMs() }
let longestOwnMs = 0

function tick() {
  const now = { at: performance.now(), waitedMs: waitedMs() }
  longestOwnMs = Math.max(longestOwnMs, now.at - last.at - (now.waitedMs - last.waitedMs) - TICK_MS)
  last = now
  setTimeout(tick, TICK_MS).unref()
}
tick()

process.on('message', () => {
  // Later than the next tick: the stall that is under way, if any, has been recorded by then.
  setTimeout(() => {
    const longestMs = Math.max(0, delays.max / 1e6 - TICK_MS)
    process.send({ longestMs, ownMs: Math.min(longestOwnMs, longestMs) })
    delays.reset()
    longestOwnMs = 0
  }, 4 * TICK_MS)
})
// The channel must not keep a server alive that has nothing else to do.
process.channel.unref()

/** How long this thread has waited for a processor so far; 0 where the system does not tell. */
function waitedMs() {
  if (stats === null) return 0
  const bytes = Buffer.alloc(80)
  const text = bytes.toString('latin1', 0, readSync(stats, bytes, 0, bytes.length, 0))
  return Number(text.split(' ')[1]) / 1e6
}

function openStats() {
  try {
    const file = openSync(`/proc/${process.pid}/task/${process.pid}/schedstat`)
    process.on('exit', () => closeSync(file))
    return file
  } catch {
    return null
  }
}
