// Handlers of the crew. Each run writes into the journal when it begins, while it works, when its signal is aborted, and
// when it ends. A run has an id of its own: after a retry by hand the attempts of a job count from one again.
import { appendFileSync } from 'node:fs'
import { randomUUID } from 'node:crypto'
import { setTimeout as pause } from 'node:timers/promises'

const TICK_MS = 10
const journal = JSON.parse(process.env.CREW).journal

/** One clock for all processes: the monotonic clock of the machine. */
export function write(line) {
  const at = Number(process.hrtime.bigint()) / 1e6
  appendFileSync(journal, `${JSON.stringify({ at, pid: process.pid, ...line })}\n`)
}

/** Opens a run: answers how it writes its lines. */
function open({ jobId, attempt, signal }) {
  const run = randomUUID()
  const say = (what) => write({ jobId, attempt, run, what })
  say('begin')
  signal.addEventListener('abort', () => say(`told:${signal.reason.code}`), { once: true })
  return say
}

/** Works for so long; stops at once when its signal is aborted. */
export default async function work(context, [ms]) {
  const say = open(context)
  const endAt = performance.now() + ms
  try {
    while (performance.now() < endAt) {
      const restMs = Math.max(1, Math.min(TICK_MS * 2, endAt - performance.now()))
      await pause(restMs, undefined, { signal: context.signal })
      say('tick')
    }
  } catch {
    say('end')
    throw context.signal.reason
  }
  say('end')
  return context.attempt
}

/** Works for so long, whatever its signal says. */
export async function deaf(context, [ms]) {
  const say = open(context)
  const endAt = performance.now() + ms
  while (performance.now() < endAt) {
    await pause(TICK_MS)
    say('tick')
  }
  say('end')
  return context.attempt
}

/** Blocks its thread for so long. */
export function busy(context, [ms]) {
  const say = open(context)
  const endAt = performance.now() + ms
  while (performance.now() < endAt);
  say('end')
}
