// Everything that is measured. `kind`: `curfew`, a `peer`, or a `limit` that no job server can beat.
import { BULLMQ } from './contenders/bullmq.mjs'
import { CURFEW, OTHER_BUILD } from './contenders/curfew.mjs'
import { LIMITS } from './contenders/limits.mjs'
import { POSTGRES_PEERS } from './contenders/postgres-peers.mjs'
import { startLoad } from '../lib/processes.mjs'

const PEERS_AND_LIMITS = [...BULLMQ, ...POSTGRES_PEERS, ...LIMITS]

/** In the order of the tables. With `--beside DIR` there is another build of Curfew, too. */
export const contendersOf = (beside) => [...CURFEW, ...(beside ? OTHER_BUILD : []), ...PEERS_AND_LIMITS]

/** Every measurement is bounded by itself; this ends one that hangs. */
const CALL_MS = 120_000

const MEASURE = new URL('./measure.mjs', import.meta.url).href

/**
 * A contender that runs: its server, and a client process of its own. `call` runs a function of measure.mjs there, `run`
 * one of another module.
 * `variant` is what a row adds to the contender (an id, a label, settings).
 */
export async function start(contender, stage, variant = {}) {
  const running = await contender.start(stage, variant.settings)
  const load = startLoad()
  const run = (module, name, args) => within(CALL_MS, name, load.run(module, name, args))
  const call = (name, args) => run(MEASURE, name, args)
  const stop = async () => {
    await load.stop()
    await running.stop()
  }
  try {
    await call('open', { driver: contender.driver, settings: running.settings })
  } catch (error) {
    await stop()
    throw error
  }
  return { ...running, ...contender, ...variant, start: undefined, server: running.server, run, call, stop }
}

async function within(ms, what, promise) {
  let timer
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error(`${what} gave no answer within ${ms / 1000} s`)), ms)
  })
  return Promise.race([promise, late]).finally(() => clearTimeout(timer))
}
