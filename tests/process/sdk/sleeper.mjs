// Sleeps as long as its arguments say, printing so all the time; stops when it is asked to.
import { setTimeout as pause } from 'node:timers/promises'
import { say } from './lines.mjs'

export default async function sleeper(context, [ms, then = 'end']) {
  say(context, 'start')
  const endAt = performance.now() + ms
  try {
    while (performance.now() < endAt) {
      await pause(20, undefined, { signal: context.signal })
      say(context, 'tick')
    }
  } catch {
    say(context, `stopped:${context.signal.reason.code}`)
    throw context.signal.reason
  }
  say(context, then)
  return context.attempt
}

/** Does not yield, and does not listen. */
export function busy(context, [ms]) {
  say(context, 'start')
  const endAt = performance.now() + ms
  let tickAt = 0
  while (performance.now() < endAt) {
    if (performance.now() < tickAt) continue
    tickAt = performance.now() + 20
    say(context, 'tick')
  }
  say(context, 'end')
}
