// Handlers of the crew. Each run writes into the journal when it begins, while it works, when its signal is aborted, and
// when it ends. A run has an id of its own: after a retry by hand the attempts of a job count from one again.
import { appendFileSync } from 'node:fs'
import { randomUUID } from 'node:crypto'
import { setTimeout as pause } from 'node:timers/promises'

const TICK_MS = 15
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

/**
 * Works for so long. What it does when its signal is aborted: `obey` and `still` stop at once, `deaf` goes on, `busy` does
 * not even let its thread know. `still` writes nothing meanwhile, so that many of them cost the machine nothing.
 */
export default async function work(context, [ms, manner = 'obey']) {
  const say = open(context)
  const endAt = performance.now() + ms
  try {
    while (performance.now() < endAt) {
      if (manner === 'busy') continue
      const leftMs = Math.max(1, endAt - performance.now())
      const restMs = manner === 'still' ? leftMs : Math.min(TICK_MS, leftMs)
      await pause(restMs, undefined, manner === 'deaf' ? {} : { signal: context.signal })
      if (manner !== 'still') say('tick')
    }
  } catch {
    say('end')
    throw context.signal.reason
  }
  say('end')
  return context.attempt
}
