import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { instant, millis } from '@curfew/core'
import { fenceAt, termsOf } from './terms.ts'
import type { HandedJob } from '../wire/jobs.ts'

const ASKED = { at: instant(1_000), waitedMs: millis(0) }

function handed(more: Partial<HandedJob> = {}): HandedJob {
  return { id: 'a', type: 't', queue: 'q', args: [], state: 'active', attempt: 1, ...more }
}

function withLimits(more: Record<string, unknown> = {}): HandedJob {
  const limits = {
    timeout_ms: 500,
    grace_ms: 100,
    on_timeout: 'retry',
    soft_ms: 400,
    hard_ms: 480,
    sources: { timeout: 'type' },
  }
  return handed({ x_limits: { ...limits, ...more } })
}

describe('until when an attempt may run', () => {
  test('is counted from the moment it was asked for', () => {
    expect(termsOf(withLimits(), ASKED, {})).toMatchObject({
      startedAt: 1_000,
      softAt: 1_400,
      hardAt: 1_480,
      killAt: 1_476,
      softStop: { kind: 'execution', limitMs: 500, source: 'type' },
    })
  })

  test('is not shortened by the time the server let the worker wait', () => {
    expect(termsOf(withLimits(), { ...ASKED, waitedMs: millis(20_000) }, {})).toMatchObject({ softAt: 21_400 })
  })

  test.each([
    ['where the server says so', { soft_limit: 'total', soft_deadline: 'w' }],
    ['where an older server ends both at once', {}],
  ])('says that it is the total that ends it, %s', (_who, more) => {
    const total = {
      total_ms: 900,
      soft_deadline: 'x',
      total_deadline: 'x',
      sources: { timeout: 'type', total: 'parent' },
      ...more,
    }
    expect(termsOf(withLimits(total), ASKED, {}).softStop).toEqual({
      why: 'deadline',
      kind: 'total',
      limitMs: 900,
      source: 'parent',
    })
  })

  test('is counted here where the server does not say it: publish, then handler, then 30 minutes', () => {
    const handler = { timeout: '7s', gracePeriod: '2s' } as const
    const published = termsOf(handed({ timeout: 3 }), ASKED, handler)
    expect(published).toMatchObject({ softAt: 4_000, hardAt: 6_000, softStop: { source: 'publish', limitMs: 3_000 } })
    expect(termsOf(handed(), ASKED, handler)).toMatchObject({ softAt: 8_000, softStop: { source: 'handler' } })
    expect(termsOf(handed(), ASKED, {})).toMatchObject({ softAt: 1_801_000, hardAt: 1_831_000 })
    expect(termsOf(handed({ timeout_ms: 250, timeout: 9 }), ASKED, {})).toMatchObject({ softAt: 1_250 })
  })
})

test('what hears nothing is warned before the server could take it for dead, and is gone by then', () => {
  fc.assert(
    fc.property(fc.integer({ min: 0, max: 1e9 }), fc.integer({ min: 10, max: 600_000 }), (contact, timeout) => {
      const { warnAt, fenceAt: gone } = fenceAt(instant(contact), millis(timeout))
      expect(gone).toBe(contact + timeout)
      expect(warnAt).toBeLessThan(gone)
      expect(warnAt).toBeGreaterThanOrEqual(contact + timeout * 0.9 - 1)
    }),
  )
})
