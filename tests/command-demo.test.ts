/** `curfew demo --fast` in this process: the clock of its server is turned by hand, so nothing waits. */
import { expect, test } from 'vitest'
import { curfew } from './command-stage.ts'

test('demo shows every kind of ending, and ends by itself with 0', async () => {
  const { code, out } = await curfew('demo --fast')
  expect(out).toMatch(/^mail\.send .* completed +completed/m)
  expect(out).toMatch(/^report\.build .* discarded +timeout 10 s/m)
  expect(out).toMatch(/^video\.encode .* discarded +stalled 10 s/m)
  expect(out).toMatch(/^image\.resize .* completed +completed/m)
  expect(out).toMatch(/^coupon\.apply .* discarded +enqueue_ttl/m)
  expect(out).toMatch(/^invoice\.print .* completed +completed/m)
  expect(out).toMatch(/^approval .* failed +timeout/m)
  expect(code).toBe(0)
})
