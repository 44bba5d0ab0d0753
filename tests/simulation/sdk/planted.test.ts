import { describe, expect, test } from 'vitest'
import { PLANTED } from './planted-faults.ts'
import { BrokenPromise, type Promised } from './promises.ts'
import { runSeed } from './run.ts'

/** A simulation that does not find these would not find their like. */
const MAX_RUNS = Number(process.env['PLANTED_RUNS'] ?? 300)

/**
 * The first run that found the fault when this was written down; it is tried first. A change of the code or of the simulation may
 * make it another one: then the runs are searched from the first, and the output says which to write here.
 */
const FOUND_IN: Readonly<Record<string, number>> = {
  'attempts are known by their job, not by their lease': 3,
  'a quiet worker goes on asking': 1,
  'what arrives while the worker is quiet is started': 3,
  'beats go on after the deregistration': 3,
  'jobs are handed back while a call asks for jobs': 1,
  'a newer lease is started beside the older': 1,
  'a hand-back uses a try': 1,
  'a lost answer is never recovered': 12,
  'orders are obeyed by job, not by lease': 110,
  'an answer to an older state is obeyed': 3,
  'a report is dropped when its call failed': 47,
  'a stop hands back what still runs': 25,
  'beats come at the usual interval whatever the clocks': 2,
  'beats leave out jobs that wait for a slot': 8,
  'a job begins although it waited for a slot for too long': 6,
  'a quiet worker keeps jobs that wait for a slot': 54,
  'a job that waited for a slot for too long is not handed back': 28,
  'a job that waits for a slot is not cancelled': 31,
  'a heartbeat that failed counts as answered': 7,
  'a step that is stored is forgotten': 2,
  'a sleep is not slept': 2,
  'a sleep uses a try': 2,
  'an order to resume is ignored': 9,
  'an order to cancel is ignored': 10,
  'a handler does not learn that its time is over': 41,
}

/** Which promise must be seen broken; a run may end with another one, and is not enough then. */
const BREAKS: Readonly<Record<string, Promised>> = {
  'a step that is stored is forgotten': 'stepOnce',
  'a sleep is not slept': 'sleepInFull',
  'a sleep uses a try': 'sleepUsesNoTry',
  'a handler does not learn that its time is over': 'stepBudget',
}

describe.skipIf(process.env['SEED'] !== undefined)('a planted fault is found', () => {
  test.each(Object.entries(PLANTED))('%s', { timeout: 3_600_000 }, async (name, plant) => {
    const known = FOUND_IN[name]
    const isIt = (broken: Error | null): boolean =>
      broken !== null &&
      (BREAKS[name] === undefined || (broken instanceof BrokenPromise && broken.promise === BREAKS[name]))
    if (known !== undefined && isIt((await runSeed(known, { plant })).broken)) return
    let [found, runs] = [null as Error | null, 0]
    while (!isIt(found) && runs < MAX_RUNS) found = (await runSeed(++runs, { plant })).broken
    console.log(`${name}: ${found === null ? 'not found' : 'found'} in run ${String(runs)}: ${String(found?.message)}`)
    expect(found, `not found in ${String(runs)} runs`).not.toBeNull()
    if (BREAKS[name] !== undefined) expect(found).toHaveProperty('promise', BREAKS[name])
  })
})
