// Handlers that leave a mark with every turn of a loop that never ends: the last one tells when they were stopped.
import { openSync, writeSync } from 'node:fs'
import { getEnvironmentData } from 'node:worker_threads'

export const empty = () => null

/** Into memory it shares with the thread that measures. */
export async function markMemory(ctx) {
  const marks = new BigUint64Array(getEnvironmentData('marks'))
  await ctx.progress(0)
  markMemoryForever(marks)
}

function markMemoryForever(marks) {
  for (;;) marks[0] = process.hrtime.bigint()
}

/** Into the same eight bytes of a file: what was written stays when the process is killed, as in memory. */
export async function markFile(ctx, [path]) {
  const file = openSync(path, 'r+')
  const mark = new BigUint64Array(1)
  await ctx.progress(0)
  markFileForever(file, mark)
}

function markFileForever(file, mark) {
  for (;;) {
    mark[0] = process.hrtime.bigint()
    writeSync(file, mark, 0, 8, 0)
  }
}
