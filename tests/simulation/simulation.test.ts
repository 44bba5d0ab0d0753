import { describe, expect, test } from 'vitest'
import { runSeed } from './run.ts'
import { describeSeeds } from './seeds.ts'

describeSeeds(0, 2)

describe.skipIf(process.env['SEED'] !== undefined)('the world', () => {
  test('repeats itself: the same seed tells the same story', async () => {
    for (const seed of [1, 2, 3]) {
      const [once, again] = [await runSeed(seed, { verbose: true }), await runSeed(seed, { verbose: true })]
      expect(again.lines).toEqual(once.lines)
      expect(again.fingerprint).toBe(once.fingerprint)
    }
  })

  test('tries what it claims to try', { timeout: 120_000 }, async () => {
    const tried = new Map<string, number>()
    for (let seed = 1; seed <= 40; seed += 1) {
      for (const [what, times] of (await runSeed(seed)).tried) tried.set(what, (tried.get(what) ?? 0) + times)
    }
    const endings = ['timeout', 'total_timeout', 'total_timeout, foreseen', 'enqueue_ttl_expired', 'expired']
    const silences = ['stalled', 'visibility_timeout', 'worker_death', 'shutdown']
    const calls = ['ack 409', 'nack 409', 'checkpoint 409', 'enqueue 422', 'patch 200', 'retry 200', 'fetch waits']
    const faults = ['fetch died', 'beat died', 'beat 503']
    for (const what of [...[...endings, ...silences].map((type) => `ended by ${type}`), ...calls, ...faults]) {
      expect(tried.get(what) ?? 0, what).toBeGreaterThan(0)
    }
  })
})
