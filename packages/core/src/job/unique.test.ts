import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { activeJob, aJob, at, cancelledJob, completedJob, NOON } from '../builders.suite.ts'
import { millis } from '../time/clock.ts'
import { OjsError } from '../errors.ts'
import type { Job } from './job.ts'
import { duplicateError, uniqueVerdict, type UniquePolicy } from './unique.ts'
import { canonical } from '../wire/json/canonical.ts'
import { readUnique, readUniquePolicy, uniqueText, type Dimensions } from '../wire/job/unique.ts'

const JOB: Dimensions = {
  type: 'email.send',
  queue: 'mail',
  args: '[{"user":42,"tpl":"hi"}, 7]',
  meta: '{"tenant":"acme","trace":"x"}',
}

const refused = (act: () => unknown): unknown[] => {
  try {
    act()
  } catch (error) {
    if (error instanceof OjsError) return [error.code, error.details['field']]
    throw error
  }
  return ['nothing was refused']
}

describe('reading a policy', () => {
  test('an empty one compares type and arguments with what is not over, and refuses', () => {
    expect(readUniquePolicy({})).toEqual({
      keys: ['type', 'args'],
      argsKeys: null,
      metaKeys: [],
      periodMs: null,
      states: ['scheduled', 'available', 'pending', 'active', 'retryable'],
      onConflict: 'reject',
    })
  })

  test('the type counts whether it is named or not', () => {
    expect(readUniquePolicy({ keys: ['queue'] }).keys).toEqual(['type', 'queue'])
    expect(readUniquePolicy({ keys: [] }).keys).toEqual(['type'])
  })

  test('key holds dimensions, or else fields of the first argument', () => {
    expect(readUniquePolicy({ key: ['type', 'queue'] })).toMatchObject({ keys: ['type', 'queue'], argsKeys: null })
    expect(readUniquePolicy({ key: ['user', 'args'] })).toMatchObject({
      keys: ['type', 'args'],
      argsKeys: ['args', 'user'],
    })
  })

  test('use_existing is ignore; empty lists of fields choose nothing', () => {
    expect(readUniquePolicy({ on_conflict: 'use_existing' }).onConflict).toBe('ignore')
    expect(readUniquePolicy({ args_keys: [], meta_keys: [] })).toMatchObject({ argsKeys: null, metaKeys: [] })
  })

  test('fields that are null were not given', () => {
    expect(readUniquePolicy({ keys: null, key: ['type'], period: null, states: null })).toMatchObject({
      keys: ['type'],
      periodMs: null,
    })
  })

  const bad: [string, unknown, string][] = [
    ['no object', 5, 'unique'],
    ['a list', ['type'], 'unique'],
    ['an unknown key', { argskeys: ['a'] }, 'unique.argskeys'],
    ['an unknown dimension', { keys: ['argz'] }, 'unique.keys[0]'],
    ['keys in another case', { keys: ['Type'] }, 'unique.keys[0]'],
    ['an empty key', { key: [] }, 'unique.key'],
    ['keys and key', { keys: ['type'], key: ['type'] }, 'unique.key'],
    ['fields chosen twice', { key: ['a'], args_keys: ['a'] }, 'unique.key'],
    ['meta without meta_keys', { keys: ['meta'] }, 'unique.meta_keys'],
    ['meta with empty meta_keys', { keys: ['meta'], meta_keys: [] }, 'unique.meta_keys'],
    ['meta_keys without meta', { meta_keys: ['tenant'] }, 'unique.meta_keys'],
    ['args_keys without args', { keys: ['type'], args_keys: ['user'] }, 'unique.args_keys'],
    ['a number as period', { period: 60 }, 'unique.period'],
    ['a word as period', { period: '1h' }, 'unique.period'],
    ['no time as period', { period: 'PT0S' }, 'unique.period'],
    ['a period beyond all time', { period: 'P11Y' }, 'unique.period'],
    ['no milliseconds as period', { period_ms: 0 }, 'unique.period_ms'],
    ['a fraction of a millisecond as period', { period_ms: 1.5 }, 'unique.period_ms'],
    ['two periods that differ', { period: 'PT1S', period_ms: 1001 }, 'unique.period_ms'],
    ['an unknown state', { states: ['running'] }, 'unique.states[0]'],
    ['no states', { states: [] }, 'unique.states'],
    ['an unknown answer to conflicts', { on_conflict: 'merge' }, 'unique.on_conflict'],
  ]
  test('the period may be in milliseconds, or in both spellings if they agree', () => {
    expect(readUniquePolicy({ period_ms: 1_500 }).periodMs).toBe(1_500)
    expect(readUniquePolicy({ period: 'PT1S', period_ms: 1_000 }).periodMs).toBe(1_000)
  })

  test.each(bad)('%s is a 422 that names the field', (_, value, field) => {
    expect(refused(() => readUniquePolicy(value))).toEqual(['validation_error', field])
  })
})

describe('what is compared', () => {
  test('the chosen dimensions, sorted and compact', () => {
    const policy = { keys: ['meta', 'queue', 'args'], args_keys: ['user'], meta_keys: ['tenant', 'region'] }
    expect(readUnique(policy, JOB).text).toBe(
      '{"args":{"user":42},"meta":{"tenant":"acme"},"queue":"mail","type":"email.send"}',
    )
    expect(readUnique({}, JOB).text).toBe('{"args":[{"tpl":"hi","user":42},7],"type":"email.send"}')
  })

  test.each([
    ['the first argument lacks it', '[{"a":1}]'],
    ['the first argument is not an object', '["user"]'],
    ['there is no argument', '[]'],
    ['it is only inherited', '[{}]'],
  ])('a field that is not there cannot be chosen: %s', (_, args) => {
    expect(refused(() => readUnique({ args_keys: ['user', 'toString'] }, { ...JOB, args }))).toEqual([
      'validation_error',
      'unique.args_keys',
    ])
  })

  test('a field named __proto__ is a field like any other', () => {
    const args = '[{"__proto__":{"a":1}}]'
    expect(readUnique({ key: ['__proto__'] }, { ...JOB, args }).text).toContain('{"__proto__":{"a":1}}')
  })

  test.each([
    ['1', '1.0', '10e-1', '0.1E1', '1.000'],
    ['0', '-0', '0.0', '0e99', '-0.00E-5'],
    ['100', '1e2', '1E+2', '100.0'],
    ['1e400', '10e399', '0.1e401'],
    ['12345678901234567890', '12345678901234567890.0', '1234567890123456789e1'],
  ])('%s is one number however it is written', (...spellings) => {
    expect(new Set(spellings.map(canonical)).size).toBe(1)
  })

  test.each([
    ['12345678901234567890', '12345678901234567891'],
    ['9007199254740992', '9007199254740993'],
    ['0.1', '0.10000000000000000001'],
    ['1e400', '1e401'],
    ['1e99999999999999999999', '1e99999999999999999998'],
    ['1', '-1'],
    ['1', '"1"'],
    ['null', '"null"'],
    ['"\\ud800"', '"\\ud801"'],
    ['"\\ud800"', '"\\ufffd"'],
    ['[1,2]', '[2,1]'],
    ['{"a":{"b":1}}', '{"a":{"c":1}}'],
    ['[]', '{}'],
    ['{}', '{"a":null}'],
    ['"a"', '"A"'],
  ])('%s and %s are two values', (one, other) => {
    expect(canonical(one)).not.toBe(canonical(other))
  })

  test('numbers a double holds are written as RFC 8785 has it', () => {
    const written = ['1e21', '1E30', '4.50', '2e-3', '0.000000000000000000000000001']
    expect(written.map(canonical)).toEqual(['1e+21', '1e+30', '4.5', '0.002', '1e-27'])
  })

  const { value: json } = fc.letrec((tie) => ({
    value: fc.oneof(
      { maxDepth: 4 },
      fc.constant(null),
      fc.boolean(),
      fc.double({ noNaN: true, noDefaultInfinity: true }),
      fc.integer(),
      fc.string({ unit: 'binary' }),
      fc.constantFrom('\ud800', 'é', 'Å', '__proto__'),
      fc.array(tie('value'), { maxLength: 4 }),
      fc.dictionary(fc.string({ maxLength: 3 }), tie('value'), { maxKeys: 4 }),
    ),
  }))
  const space = fc.constantFrom(undefined, 1, '\t', '\r\n  ')

  /** The same value with its keys the other way round, and every string decomposed. */
  function otherwise(value: unknown): unknown {
    if (typeof value === 'string') return value.normalize('NFD')
    if (Array.isArray(value)) return value.map(otherwise)
    if (typeof value !== 'object' || value === null) return value
    const turned: Record<string, unknown> = {}
    for (const [key, entry] of Object.entries(value).reverse())
      Object.defineProperty(turned, key.normalize('NFD'), { value: otherwise(entry), enumerable: true })
    return turned
  }
  const spelledOnce = (value: unknown): boolean => {
    if (Array.isArray(value)) return value.every(spelledOnce)
    if (typeof value !== 'object' || value === null) return true
    const names = Object.keys(value).map((key) => key.normalize('NFC'))
    return new Set(names).size === names.length && Object.values(value).every(spelledOnce)
  }

  test('order of keys, space between and forms of Unicode do not matter', () => {
    fc.assert(
      fc.property(json, space, (value, indent) => {
        fc.pre(spelledOnce(value))
        const text = canonical(JSON.stringify(value))
        expect(canonical(JSON.stringify(otherwise(value), null, indent))).toBe(text)
        expect(canonical(text)).toBe(text)
      }),
    )
  })

  test('every value does: equal texts mean equal values', () => {
    const folded = (value: unknown): unknown => JSON.parse(JSON.stringify(value).normalize('NFC'))
    fc.assert(
      fc.property(json, json, (one, other) => {
        const same = canonical(JSON.stringify(one)) === canonical(JSON.stringify(other))
        if (same) expect(folded(one)).toEqual(folded(other))
        else expect(JSON.stringify(one)).not.toBe(JSON.stringify(other))
      }),
    )
  })

  test('a change of any chosen dimension changes the text, a change of any other does not', () => {
    const dimension = fc.constantFrom('type', 'queue', 'args', 'meta')
    fc.assert(
      fc.property(fc.uniqueArray(dimension), dimension, (keys, changed) => {
        const policy = readUniquePolicy({ keys, ...(keys.includes('meta') ? { meta_keys: ['tenant'] } : {}) })
        const other = {
          ...JOB,
          ...{ type: { type: 'a' }, queue: { queue: 'b' }, args: { args: '[1]' }, meta: { meta: '{"tenant":"z"}' } }[
            changed
          ],
        }
        const isChosen = policy.keys.includes(changed)
        expect(uniqueText(policy, JOB) !== uniqueText(policy, other)).toBe(isChosen)
      }),
    )
  })
})

describe('what follows', () => {
  const policy = (changes: Partial<UniquePolicy> = {}): UniquePolicy => ({ ...readUniquePolicy({}), ...changes })
  const named = (job: Job, id: string): Job => ({ ...job, id })

  test('without a duplicate the job is admitted', () => {
    expect(uniqueVerdict(policy(), [], NOON)).toEqual({ kind: 'admit', replaces: [], scheduledLike: null })
    expect(uniqueVerdict(policy(), [completedJob()], NOON)).toMatchObject({ kind: 'admit', replaces: [] })
  })

  test('a duplicate is refused, kept or replaced', () => {
    const job = aJob()
    expect(uniqueVerdict(policy(), [job], NOON)).toEqual({ kind: 'refuse', existing: job, why: 'exists' })
    expect(uniqueVerdict(policy({ onConflict: 'ignore' }), [job], NOON)).toEqual({ kind: 'keep', existing: job })
    expect(uniqueVerdict(policy({ onConflict: 'replace' }), [job], NOON)).toEqual({
      kind: 'admit',
      replaces: [job],
      scheduledLike: null,
    })
  })

  test('the period is counted from the creation of the one that exists, and ends with its last millisecond', () => {
    const job = aJob({ createdAt: NOON })
    const hourly = policy({ periodMs: millis(3_600_000) })
    expect(uniqueVerdict(hourly, [job], at('12:59:59.999')).kind).toBe('refuse')
    expect(uniqueVerdict(hourly, [job], at('13:00')).kind).toBe('admit')
  })

  test('a job that runs is not replaced, even among others', () => {
    const running = activeJob()
    const verdict = uniqueVerdict(policy({ onConflict: 'replace' }), [aJob(), running], NOON)
    expect(verdict).toEqual({ kind: 'refuse', existing: running, why: 'active' })
    expect(uniqueVerdict(policy({ onConflict: 'replace', states: ['available'] }), [running], NOON).kind).toBe('admit')
  })

  test('what is over is never replaced: the new job comes beside it', () => {
    const over = completedJob()
    const verdict = uniqueVerdict(policy({ onConflict: 'replace', states: ['completed'] }), [over], NOON)
    expect(verdict).toEqual({ kind: 'admit', replaces: [], scheduledLike: null })
  })

  test('replace_except_schedule takes over the moment of a scheduled job, and only of one', () => {
    const keeps = policy({ onConflict: 'replace_except_schedule' })
    const scheduled = aJob({ scheduledAt: at('14:00') })
    expect(uniqueVerdict(keeps, [scheduled], NOON)).toMatchObject({ replaces: [scheduled], scheduledLike: scheduled })
    expect(uniqueVerdict(keeps, [aJob()], NOON)).toMatchObject({ kind: 'admit', scheduledLike: null })
    expect(uniqueVerdict(policy({ onConflict: 'replace' }), [scheduled], NOON)).toMatchObject({ scheduledLike: null })
  })

  test('of several, the one that is not over is named, and the newest', () => {
    const states = [...policy().states, 'completed', 'cancelled'] as const
    const over = named(completedJob({ createdAt: at('11:59') }), 'over')
    const old = named(aJob({ createdAt: at('11:00') }), 'old')
    const young = named(aJob({ createdAt: at('11:30') }), 'young')
    const keep = policy({ onConflict: 'ignore', states })
    expect(uniqueVerdict(keep, [over, old, young, cancelledJob()], NOON)).toMatchObject({ existing: { id: 'young' } })
  })

  test('the refusal names the job that exists', () => {
    const existing = aJob()
    expect(duplicateError({ kind: 'refuse', existing, why: 'exists' }, 'f00d')).toMatchObject({
      code: 'duplicate',
      details: { existing_job_id: existing.id, existing_state: 'available', unique_key: 'f00d' },
    })
  })
})
