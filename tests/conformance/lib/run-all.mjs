// Many cases side by side. Those that wait longest begin first, so that the whole takes hardly longer than the longest.
// Cases that meet in the queue `default` go one after another.
import { randomBytes } from 'node:crypto'
import { declaredWaitMs } from './cases.mjs'
import { namesIn } from './names.mjs'
import { play } from './play.mjs'

/**
 * @param world what `play` takes, and `concurrency`
 * @param told called with each case and its result, as they end
 */
export async function runAll(cases, world, told = () => {}) {
  const run = randomBytes(3).toString('hex')
  const results = []
  const lanes = laneOf(cases, world.concurrency)
  let number = 0
  await Promise.all(
    lanes.map(async (next) => {
      for (let one = next(); one !== undefined && !world.signal.aborted; one = next()) {
        number += 1
        const began = performance.now()
        const outcome = await play(one, world, `${run}${number.toString(36)}`)
        const result = { ...outcome, case: one, suite: one.suite, ms: Math.round(performance.now() - began) }
        results.push(result)
        told(one, result)
      }
    }),
  )
  return results
}

function laneOf(cases, concurrency) {
  if (concurrency === 1) {
    const all = [...cases]
    return [() => all.shift()]
  }
  const waits = new Map(cases.map((one) => [one, declaredWaitMs(one)]))
  const longestFirst = [...cases].sort((a, b) => waits.get(b) - waits.get(a))
  const meeting = longestFirst.filter((one) => namesIn([...one.setup, ...one.steps, ...one.teardown]).usesDefault)
  const free = longestFirst.filter((one) => !meeting.includes(one))
  const others = Array.from({ length: concurrency - 1 }, () => () => free.shift())
  return [() => meeting.shift() ?? free.shift(), ...others]
}
