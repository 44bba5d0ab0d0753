/**
 * Which seeds to run. `SEED=123` repeats one and tells everything that happened; `RUNS=20000` runs more than usual (600),
 * `FROM=5000` begins elsewhere. A failure says how to see it again.
 */
import { describe, expect, test } from 'vitest'
import { runSeed, type Told } from './run.ts'

const number = (name: string, byDefault: number): number => Number(process.env[name] ?? byDefault)

const ONE_SEED = process.env['SEED']
const FIRST = number('FROM', 1)
const RUNS = number('RUNS', 600)
const BLOCKS = 8

/** A broken rule tends to break many seeds; a few of them are enough to see which. */
const ENOUGH = 3
const LAST_LINES = 25

/** The blocks of one file; several files run beside each other. */
export function describeSeeds(part: number, parts: number): void {
  if (ONE_SEED !== undefined) {
    test.runIf(part === 0)(`seed ${ONE_SEED}`, { timeout: 600_000 }, async () => {
      const told = await runSeed(Number(ONE_SEED), { verbose: true })
      console.log(told.lines.join('\n'))
      expect(told.violation?.message).toBeUndefined()
    })
    test.skipIf(part === 0)('only one seed was asked for', () => {})
    return
  }
  describe('every promise is kept', () => {
    for (let block = part; block < BLOCKS; block += parts) {
      const from = FIRST + Math.floor((RUNS * block) / BLOCKS)
      const until = FIRST + Math.floor((RUNS * (block + 1)) / BLOCKS)
      test(`seeds ${String(from)} to ${String(until - 1)}`, { timeout: 3_600_000 }, async () => {
        const broken: string[] = []
        for (let seed = from; seed < until && broken.length < ENOUGH; seed += 1) {
          const { violation } = await runSeed(seed)
          if (violation !== null) broken.push(await storyOf(seed))
        }
        expect(broken.join('\n\n')).toBe('')
      })
    }
  })
}

/** The same run once more, listening this time. */
async function storyOf(seed: number): Promise<string> {
  const told: Told = await runSeed(seed, { verbose: true })
  return [
    `Seed ${String(seed)} broke a promise after ${String(told.steps)} turns:`,
    told.violation?.message ?? 'not any more: the run does not repeat itself',
    `Repeat it with: SEED=${String(seed)} npx vitest run --project simulation`,
    'What happened last:',
    ...told.lines.slice(-LAST_LINES).map((line) => `  ${line}`),
  ].join('\n')
}
