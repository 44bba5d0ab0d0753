// How long after its hard deadline does a busy handler run its last instruction?
import { atMost, quantile, row } from '../lib/report.mjs'
import { inOwner } from './owner.mjs'

export const name = 'From the hard deadline to the last instruction'

export async function run({ quick }) {
  const count = quick ? 20 : 200
  const rows = []
  const notes = []
  for (const isolation of ['thread', 'process']) {
    const { last, told, timer, stacks } = await inOwner('kills', { isolation, count })
    for (const figures of [last, told, timer]) figures.sort((a, b) => a - b)
    rows.push(
      row(`${isolation}: p50`, 'ms', [quantile(last, 0.5)]),
      row(`${isolation}: p99`, 'ms', [quantile(last, 0.99)], atMost(20)),
      row(`${isolation}: most`, 'ms', [quantile(last, 1)]),
      row(`${isolation}: until its end was told, p50`, 'ms', [quantile(told, 0.5)]),
      row(`${isolation}: until its end was told, p99`, 'ms', [quantile(told, 0.99)]),
      row(`${isolation}: a bare timer for the same instants, p99`, 'ms', [quantile(timer, 0.99)]),
    )
    notes.push(`${isolation}: the stack of the stuck function was seen in ${stacks} of ${count}.`)
  }
  return {
    name,
    question:
      `${count} kills each, one after another, of a handler that does nothing but write the time, into shared memory ` +
      '(thread) or into one place of a file (process); the last time written is compared with the deadline. The owner ' +
      'is a thread that runs nothing else. Beside it a bare timer of that thread.',
    rows,
    notes,
  }
}
