/** Limits as they arrive: seconds and milliseconds, ranges, twins, zero and null. */
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import type { OjsError } from '../../errors.ts'
import { readCaps, readLimits } from './limits.ts'

describe('reading limits off the wire', () => {
  const refusal = (fields: Record<string, unknown>): { code: string; field: unknown } => {
    try {
      readLimits(fields)
    } catch (error) {
      return { code: (error as OjsError).code, field: (error as OjsError).details['field'] }
    }
    return { code: 'taken', field: null }
  }
  const FIELDS = ['timeout', 'total_timeout', 'enqueue_ttl', 'grace_period', 'heartbeat_timeout', 'visibility_timeout']

  test('seconds under the plain name, milliseconds with _ms', () => {
    expect(
      readLimits({
        timeout: 1,
        total_timeout: 2,
        enqueue_ttl: 3,
        grace_period: 4,
        heartbeat_timeout: 5,
        visibility_timeout: 6,
      }),
    ).toEqual({
      timeout: 1000,
      total: 2000,
      ttl: 3000,
      grace: 4000,
      heartbeat: 5000,
      visibility: 6000,
    })
    expect(
      readLimits({
        timeout_ms: 1,
        total_timeout_ms: 2,
        enqueue_ttl_ms: 3,
        grace_period_ms: 4,
        heartbeat_timeout_ms: 5,
        visibility_timeout_ms: 6,
      }),
    ).toEqual({
      timeout: 1,
      total: 2,
      ttl: 3,
      grace: 4,
      heartbeat: 5,
      visibility: 6,
    })
  })

  test.each(FIELDS)('%s: what is out of range is a 422 that names it', (field) => {
    const smallest = field === 'grace_period' ? -1 : 0
    for (const bad of [smallest, -1, 1.5, 315_360_001, '5', true, [], {}, NaN, Infinity]) {
      expect(refusal({ [field]: bad })).toEqual({ code: 'validation_error', field })
    }
    for (const bad of [-1, 1.5, 315_360_000_001, '5', true]) {
      expect(refusal({ [`${field}_ms`]: bad })).toEqual({ code: 'validation_error', field: `${field}_ms` })
    }
    expect(refusal({ [field]: 315_360_000 }).code).toBe('taken')
    expect(refusal({ [`${field}_ms`]: 315_360_000_000 }).code).toBe('taken')
  })

  test.each(FIELDS)('%s: twins that agree are fine, twins that differ are a 422', (field) => {
    expect(refusal({ [field]: 2, [`${field}_ms`]: 2000 }).code).toBe('taken')
    expect(refusal({ [field]: 2, [`${field}_ms`]: 2001 })).toEqual({ code: 'validation_error', field })
  })

  test('zero milliseconds mean not set, except for grace, where they mean none', () => {
    const fields = Object.fromEntries(FIELDS.map((field) => [`${field}_ms`, 0]))
    expect(readLimits(fields)).toEqual({ grace: 0 })
    expect(readLimits({ grace_period: 0 })).toEqual({ grace: 0 })
  })

  test('a twin of zero milliseconds leaves the seconds in force', () => {
    expect(readLimits({ timeout: 5, timeout_ms: 0 })).toEqual({ timeout: 5000 })
  })

  test('null means not sent', () => {
    expect(readLimits({ timeout: null, timeout_ms: null, x_on_timeout: null })).toEqual({})
  })

  test('a visibility may be written as an ISO duration, to the millisecond', () => {
    expect(readLimits({ visibility_timeout: 'PT1M' })).toEqual({ visibility: 60_000 })
    expect(readLimits({ visibility_timeout: 'PT1.001S', visibility_timeout_ms: 1001 })).toEqual({ visibility: 1001 })
    for (const bad of ['60', '1m', 'PT0S', 'P11Y'])
      expect(refusal({ visibility_timeout: bad }).code).toBe('validation_error')
    expect(refusal({ timeout: 'PT1M' })).toEqual({ code: 'validation_error', field: 'timeout' })
  })

  test('within one body a total shorter than the timeout is a 422; equal is fine', () => {
    expect(refusal({ timeout: 10, total_timeout: 9 })).toEqual({ code: 'validation_error', field: 'total_timeout' })
    expect(refusal({ timeout_ms: 10_001, total_timeout: 10 }).code).toBe('validation_error')
    expect(refusal({ timeout: 10, total_timeout: 10 }).code).toBe('taken')
    expect(refusal({ total_timeout: 1 }).code).toBe('taken')
  })

  test('x_on_timeout is retry or discard, anything else a 422', () => {
    expect(readLimits({ x_on_timeout: 'discard' })).toEqual({ onTimeout: 'discard' })
    for (const bad of ['delete', '', true, 1]) {
      expect(refusal({ x_on_timeout: bad })).toEqual({ code: 'validation_error', field: 'x_on_timeout' })
    }
  })

  test('caps are read like limits, and unknown names are refused', () => {
    expect(readCaps({ timeout: 5, total_timeout_ms: 7, grace_period: 0 }, 'caps')).toEqual({
      timeout: 5000,
      total: 7,
      grace: 0,
    })
    expect(readCaps(null, 'caps')).toEqual({})
    expect(() => readCaps({ x_on_timeout: 'retry' }, 'caps')).toThrow('Unknown key')
    expect(() => readCaps({ timeout: 0 }, 'caps')).toThrow()
    expect(() => readCaps([], 'caps')).toThrow('must be an object')
  })

  test('a length survives seconds and milliseconds alike', () => {
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 315_360_000 }), fc.constantFrom(...FIELDS), (length, field) => {
        expect(Object.values(readLimits({ [field]: length, [`${field}_ms`]: length * 1000 }))).toEqual([length * 1000])
      }),
    )
  })
})
