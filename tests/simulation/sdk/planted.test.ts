import { describe, expect, test } from 'vitest'
import { PLANTED } from './planted-faults.ts'
import { runSeed } from './run.ts'

/** A simulation that does not find these would not find their like. */
const MAX_RUNS = Number(process.env['PLANTED_RUNS'] ?? 300)

describe.skipIf(process.env['SEED'] !== undefined)('a planted fault is found', () => {
  test.each(Object.entries(PLANTED))('%s', { timeout: 3_600_000 }, async (name, plant) => {
    let [found, runs] = [null as Error | null, 0]
    while (found === null && runs < MAX_RUNS) found = (await runSeed(++runs, { plant })).broken
    console.log(`${name}: ${found === null ? 'not found' : 'found'} in run ${String(runs)}: ${String(found?.message)}`)
    expect(found, `not found in ${String(runs)} runs`).not.toBeNull()
  })
})
