// What handlers did and when, in a file that all processes of a test share. One clock for all: the machine's own.
import { randomUUID } from 'node:crypto'
import { appendFileSync } from 'node:fs'

/** A name for each run of a handler: hand-backs are refunded, so two runs may have the same attempt. */
const runs = new WeakMap()

export function say(context, what) {
  const at = Number(process.hrtime.bigint()) / 1e6
  const { jobId } = context
  if (!runs.has(context)) runs.set(context, randomUUID())
  const line = { at, jobId, run: runs.get(context), what, pid: process.pid }
  appendFileSync(process.env.LINES, `${JSON.stringify(line)}\n`)
}
