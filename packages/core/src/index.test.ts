import { expect, test } from 'vitest'
import * as core from './index.ts'

// Users of the package import index.ts: a circle of imports would leave constants undefined there.
test('the rules work when they are imported from the package, the largest limit included', () => {
  expect(() => core.readLimits({ timeout: 315_360_001 })).toThrow('timeout must be a whole number between')
  expect(core.MAX_DURATION_MS).toBe(315_360_000_000)
})

test('no test builder is exported', () => {
  expect(Object.keys(core)).not.toContain('activeJob')
})
