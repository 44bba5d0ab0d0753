import { describe, expect, test } from 'vitest'
import { runSeed } from './run.ts'
import { Tally } from './tally.ts'

const number = (name: string, byDefault: number): number => Number(process.env[name] ?? byDefault)

const ONE_SEED = process.env['SEED']
const FIRST = number('FROM', 1)
const RUNS = number('SDK_RUNS', 160)
const BLOCKS = 4
/** A broken rule tends to break many seeds; a few of them are enough to see which. */
const ENOUGH = 3
const LAST_LINES = 60

async function storyOf(seed: number): Promise<string> {
  const { broken, lines } = await runSeed(seed, { verbose: true })
  return [
    `Seed ${String(seed)} broke a promise:`,
    broken?.message ?? 'not any more: the run does not repeat itself',
    `Repeat it with: SEED=${String(seed)} npx vitest run --project simulation tests/simulation/sdk/sdk.test.ts`,
    'What happened last:',
    ...lines.slice(-LAST_LINES).map((line) => `  ${line}`),
  ].join('\n')
}

function summary(tally: Tally): string {
  const rows = ['input: ', 'begun: ', 'fault: ', 'operator: ', 'own: ', 'aborted: ', 'ended: ', 'steps: ']
  return [
    `runs ${String(tally.of('runs'))}, jobs ${String(tally.of('jobs'))}, attempts ${String(tally.of('attempts'))}, ` +
      `handlers begun ${String(tally.of('handlers begun'))}`,
    ...rows.map((prefix) => `${prefix}${tally.text(prefix)}`),
  ].join('\n')
}

describe.runIf(ONE_SEED !== undefined)('one seed', () => {
  test(`seed ${String(ONE_SEED)}`, { timeout: 600_000 }, async () => {
    const { lines, broken } = await runSeed(Number(ONE_SEED), { verbose: true })
    console.log(lines.join('\n'))
    expect(broken?.message).toBeUndefined()
  })
})

describe.skipIf(ONE_SEED !== undefined)('workers of the SDK keep their promises', () => {
  const tally = new Tally()

  for (let block = 0; block < BLOCKS; block += 1) {
    const from = FIRST + Math.floor((RUNS * block) / BLOCKS)
    const until = FIRST + Math.floor((RUNS * (block + 1)) / BLOCKS)
    test(`seeds ${String(from)} to ${String(until - 1)}`, { timeout: 3_600_000 }, async () => {
      const stories: string[] = []
      for (let seed = from; seed < until && stories.length < ENOUGH; seed += 1) {
        const outcome = await runSeed(seed)
        tally.add('runs')
        tally.addAll(outcome.tally)
        if (outcome.broken !== null) stories.push(await storyOf(seed))
      }
      expect(stories.join('\n\n')).toBe('')
    })
  }

  test('the runs try what they claim to try', () => {
    console.log(summary(tally))
    const inputs = ['answered', 'failed', 'beat', 'beat-failed', 'settled', 'quiet', 'resume', 'stop', 'fence']
    const faults = ['request lost', 'answer lost', 'request twice', 'late', 'crash', 'asleep', 'cut off']
    const ends = ['completed', 'cancelled', 'interrupted', 'timeout', 'stalled', 'visibility_timeout', 'worker_death']
    const tried = [
      ...inputs.map((name) => `input: ${name}`),
      'begun: from the buffer',
      ...faults.map((name) => `fault: ${name}`),
      ...ends.map((name) => `ended: ${name}`),
      ...['begun', 'stored', 'fell asleep', 'woken'].map((name) => `steps: ${name}`),
    ]
    for (const name of tried) expect(tally.of(name), name).toBeGreaterThan(0)
  })

  test('the same seed tells the same story', async () => {
    for (const seed of [1, 2, 3]) {
      const [once, again] = [await runSeed(seed, { verbose: true }), await runSeed(seed, { verbose: true })]
      expect(again.lines).toEqual(once.lines)
    }
  })
})
