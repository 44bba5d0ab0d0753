import { FakeClock } from '@curfew/core'
import { describe, expect, test } from 'vitest'
import { nodeStopwatch } from '../../host.ts'
import { compileAtCost, compileSchema, type CheckTerms, type Validation } from './json-schema.ts'
import { TimeAccounts, UNBOUNDED } from './time-accounts.ts'

const said = (schema: unknown, args: unknown) => {
  const verdict = compileSchema(schema, { stopwatch: nodeStopwatch, account: UNBOUNDED })(args)
  return verdict.kind === 'invalid'
    ? verdict.mistakes.map(({ pointer, keyword }) => `${pointer} ${keyword}`)
    : verdict.kind
}

describe('arguments', () => {
  test.each([
    [{ type: 'array' }, [], 'valid'],
    [false, [], [' false']],
    [{ minItems: 1 }, [], [' minItems']],
    [{ prefixItems: [{ type: 'string' }] }, [7], ['/0 type']],
    [{ items: [{ type: 'string' }] }, [7], ['/0 type']],
    [{ items: { properties: { 'a/b': { type: 'integer' } } } }, [{ 'a/b': 'x' }], ['/0/a~1b type']],
    [{ items: { required: ['to'] } }, [{}], ['/0 required']],
    [{ $defs: { t: { type: 'string' } }, items: { $ref: '#/$defs/t' } }, ['a', 1], ['/1 type']],
    [{ items: { format: 'email' } }, ['unknown'], ['/0 format']],
    [
      { items: { properties: { child: { $ref: '#/items' } }, additionalProperties: false } },
      [{ child: { x: 1 } }],
      ['/0/child/x false', '/0/child additionalProperties'],
    ],
  ])('with the schema %j, %j: %j', (schema, args, expected) => {
    const found = said(schema, args)
    if (Array.isArray(expected)) expect(new Set(found)).toEqual(new Set(expected))
    else expect(found).toBe(expected)
  })

  test('are not changed by being looked at, and neither is the schema', () => {
    const schema = Object.freeze({ items: Object.freeze({ default: 7, type: 'object' }) })
    const args = Object.freeze([Object.freeze({})])
    expect(said(schema, args)).toBe('valid')
    expect(JSON.stringify(schema)).toBe('{"items":{"default":7,"type":"object"}}')
  })

  test('named like what every object has are only names', () => {
    expect(said({ items: { required: ['constructor'] } }, [{}])).toEqual(['/0 required'])
    expect(
      said({ items: { properties: { ['__proto__']: { type: 'string' } } } }, JSON.parse('[{"__proto__":1}]')),
    ).not.toBe('undecided')
  })
})

describe('a schema that asks for too much work is stopped', () => {
  const doubling = (steps: number) => ({
    $defs: Object.fromEntries(
      Array.from({ length: steps + 1 }, (_, step) => [
        `s${String(step)}`,
        step === steps
          ? {}
          : { allOf: [{ $ref: `#/$defs/s${String(step + 1)}` }, { $ref: `#/$defs/s${String(step + 1)}` }] },
      ]),
    ),
    $ref: '#/$defs/s0',
  })
  test.each([
    ['a pattern that backtracks', { items: { pattern: '^(a+)+$' } }, [`${'a'.repeat(40)}!`]],
    ['another', { items: { pattern: '^(([a-z])+.)+[A-Z]([a-z])+$' } }, ['a'.repeat(60)]],
    ['references that double at each step', doubling(40), []],
    ['a circle', { $ref: '#' }, []],
    ['a bigger circle', { $defs: { a: { $ref: '#/$defs/b' }, b: { $ref: '#/$defs/a' } }, $ref: '#/$defs/a' }, []],
  ])('%s', (_, schema, args) => {
    const begun = performance.now()
    expect(said(schema, args)).toBe('undecided')
    expect(performance.now() - begun).toBeLessThan(1_000)
    // And does not stand in the way of the next one.
    expect(said({ type: 'array' }, [])).toBe('valid')
  })
})

describe('while the machine stands still', () => {
  /** Arguments at which every look, or only the first, takes long and nothing of the processor. */
  function standing(isStanding: (look: number) => boolean) {
    const seen = { looks: 0 }
    const args = [
      {
        get to() {
          seen.looks += 1
          if (isStanding(seen.looks)) Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 5_000)
          return 'ada'
        },
      },
    ]
    const account = new TimeAccounts(new FakeClock()).of('email.send')
    const check = compileSchema(
      { items: { properties: { to: { type: 'string' } } } },
      { stopwatch: () => () => 0, account },
    )
    return { verdict: check(args), seen, account }
  }

  test('arguments are looked at again', () => {
    const { verdict, seen } = standing((look) => look === 1)
    expect(verdict).toEqual({ kind: 'valid' })
    expect(seen.looks).toBeGreaterThan(1)
  })

  test('but not for ever', () => {
    const { verdict, seen } = standing(() => true)
    expect(verdict.kind).toBe('undecided')
    expect(seen.looks).toBeLessThan(10)
  })

  test('nothing of it is booked', () => {
    const { account } = standing(() => true)
    account.book(60)
    expect(account.grantMs(50, 1)).toBe(40)
  })
})

describe('a schema that takes much time', () => {
  /** Every look takes so long, whatever it really takes. */
  /** Without the watchdog: a machine that stands still must not make an honest validation pay. */
  const unwatched = (work: () => unknown): unknown => work()

  function slow(schema: unknown, tookMs: number, more: Partial<CheckTerms> = {}) {
    const clock = new FakeClock()
    const account = new TimeAccounts(clock).of('email.send')
    const seen = { looks: 0, tookMs }
    const stopwatch = () => {
      seen.looks += 1
      return () => seen.tookMs
    }
    return { clock, account, seen, check: compileSchema(schema, { stopwatch, account, ...more }) }
  }
  const HOSTILE = { items: { pattern: '^(a+)+$' } }
  const BAD = [`${'a'.repeat(40)}!`]
  const messageOf = (verdict: Validation) =>
    verdict.kind === 'undecided' ? verdict.mistakes[0]?.message : verdict.kind

  test('has it for a while; then arguments are not looked at', () => {
    const { check, seen } = slow(HOSTILE, 50)
    const told = Array.from({ length: 60 }, () => messageOf(check(BAD)))
    expect(told.slice(0, 2)).toEqual(Array(2).fill(expect.stringContaining('takes longer than 50 ms')))
    expect(told.slice(2)).toEqual(Array(58).fill(expect.stringContaining('have taken too much time lately')))
    expect(seen.looks).toBe(5)
  })

  test('is given short looks again while it owes less, and long ones when it owes nothing', () => {
    const { clock, check, seen } = slow(HOSTILE, 50)
    for (let job = 0; job < 60; job += 1) check(BAD)
    expect(seen.looks).toBe(5)
    seen.tookMs = 0.1
    expect(messageOf(check(['aaa']))).toContain('lately')
    clock.advance(1_000)
    expect(check(['aaa'], 40_000)).toEqual({ kind: 'valid' })
    seen.tookMs = 50
    expect(messageOf(check(BAD))).toContain('lately')
    clock.advance(10_000)
    expect(messageOf(check(BAD))).toContain('takes longer than 50 ms')
  })

  test('pays for what was stopped in full, and else only for what is more than fair', () => {
    const stopped = slow(HOSTILE, 50)
    stopped.check(BAD)
    stopped.account.book(40)
    expect(stopped.account.grantMs(50, 1)).toBe(10)
    const honest = slow({ items: { type: 'string' } }, 1, { within: unwatched })
    for (let job = 0; job < 300; job += 1) expect(honest.check(['a'])).toEqual({ kind: 'valid' })
    honest.account.book(60)
    expect(honest.account.grantMs(50, 1)).toBe(40)
    const slower = slow({ items: { type: 'string' } }, 11, { within: unwatched })
    slower.check(['a'])
    slower.account.book(60)
    expect(slower.account.grantMs(50, 1)).toBe(30)
  })

  test('pays for being made ready, and is not while it owes too much', () => {
    const account = new TimeAccounts(new FakeClock()).of('email.send')
    const terms = { stopwatch: () => () => 21, account }
    expect(compileAtCost({}, terms)?.([])).toEqual({ kind: 'valid' })
    account.book(30)
    expect(account.grantMs(50, 1)).toBe(30)
    account.book(131)
    expect(compileAtCost({}, terms)).toBeNull()
  })

  test('may take longer over longer arguments', () => {
    const { account, check } = slow({ items: { type: 'string' } }, 11, { within: unwatched })
    const length = 40 * 1024
    for (let job = 0; job < 100; job += 1) expect(check(['a'], length)).toEqual({ kind: 'valid' })
    account.book(60)
    expect(account.grantMs(50, 1)).toBe(40)
  })
})
