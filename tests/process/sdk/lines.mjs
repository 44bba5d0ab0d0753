// What handlers did and when, in a file that all processes of a test share. One clock for all: the machine's own.
import { appendFileSync } from 'node:fs'

export function say(context, what) {
  const at = Number(process.hrtime.bigint()) / 1e6
  const { jobId, attempt } = context
  appendFileSync(process.env.LINES, `${JSON.stringify({ at, jobId, attempt, what, pid: process.pid })}\n`)
}
