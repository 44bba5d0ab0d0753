// A handler that waits for its signal, and says when it began and when the signal was aborted.
import { appendFileSync } from 'node:fs'

/** The monotonic clock of the machine, the same in every process. */
export const now = () => Number(process.hrtime.bigint()) / 1e6

export function watched({ signal }, say) {
  say('begin', now())
  return new Promise((resolve, reject) => {
    signal.addEventListener('abort', () => {
      say('told', now())
      reject(signal.reason)
    })
  })
}

/** In a process of its own: the lines go into a file. */
export default function handler(context, [file]) {
  return watched(context, (what, at) => appendFileSync(file, `${JSON.stringify({ what, id: context.jobId, at })}\n`))
}
