// Many cases side by side. Those that wait longest begin first, so that the whole takes hardly longer than the longest.
// Cases that meet in the queue `default` go one after another.
//
// A case that failed while answers or the runner's own timers came late says little: it is played again when the others
// are done, with less beside it. If it passes then, its result says so.
import { randomBytes } from 'node:crypto'
import { declaredWaitMs } from './cases.mjs'
import { namesIn } from './names.mjs'
import { play } from './play.mjs'

/** An answer or a timer as late as this, and the machine had too much to do. */
const BUSY_MS = 250
/** At a time, when cases are played again. */
const QUIET = 3

/**
 * @param world what `play` takes, and `concurrency` and `replays`
 * @param told called with each case and its last result, as they end
 */
export async function runAll(cases, world, told = () => {}) {
  const run = randomBytes(3).toString('hex')
  const results = []
  let number = 0
  let todo = cases
  for (let round = 0; todo.length > 0 && !world.signal.aborted; round += 1) {
    const again = []
    const lanes = lanesOf(todo, round === 0 ? world.concurrency : Math.min(QUIET, world.concurrency))
    const playLane = async (next) => {
      for (let one = next(); one !== undefined && !world.signal.aborted; one = next()) {
        number += 1
        const began = performance.now()
        const outcome = await play(one, world, `${run}${number.toString(36)}`)
        if (outcome.status === 'failed' && outcome.lateMs > BUSY_MS && round < world.replays) {
          again.push(one)
          continue
        }
        const ms = Math.round(performance.now() - began)
        const result = { ...outcome, case: one, suite: one.suite, ms, round }
        results.push(result)
        told(one, result)
      }
    }
    await Promise.all(lanes.map(playLane))
    todo = again
  }
  return results
}

function lanesOf(cases, concurrency) {
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
