import { FakeClock, seededRandom } from '@curfew/core'
import { describe, expect, test } from 'vitest'
import { EXPRESSION_ERRORS, ExpressionError, type ExpressionErrorCode } from '../engine/expressions.ts'
import { InProcessExpressions } from './in-process.ts'
import type { EvaluationLimits } from './limits.ts'

const LONG = { budgetMs: 60_000 }

function stage(limits: Partial<EvaluationLimits> = {}) {
  const host = new FakeClock(Date.UTC(2026, 0, 1, 12))
  const expressions = new InProcessExpressions({ host, clock: host, random: seededRandom(7) }, limits)
  const evaluate = (text: string, document: unknown = {}) => expressions.evaluate('jsonata', text, document, LONG)
  const refusal = async (promise: Promise<unknown>): Promise<ExpressionError> => {
    const error: unknown = await promise.then(
      (value) => new Error(`it gave ${JSON.stringify(value)}`),
      (thrown: unknown) => thrown,
    )
    if (!(error instanceof ExpressionError)) throw error
    return error
  }
  return { host, expressions, evaluate, refusal }
}

describe('results', () => {
  const { evaluate, refusal } = stage()

  test('are plain JSON', async () => {
    const found = await evaluate('{"list": items.price, "one": items[0].price[]}', {
      items: [{ price: 1 }, { price: 2 }],
    })
    expect(found).toStrictEqual({ list: [1, 2], one: [1] })
    expect(Object.getOwnPropertyNames((found as { one: number[] }).one)).toEqual(['0', 'length'])
  })

  test('are null where there is nothing', async () => {
    expect(await evaluate('context.missing', { context: {} })).toBeNull()
  })

  test('are no functions, wherever one stands', async () => {
    for (const text of ['$sum', 'function($x){ $x }', '[1, $sum]', '{"f": function($x){ $x }}', '/a/'])
      expect((await refusal(evaluate(text))).code).toBe('JN_TYPE_MISMATCH')
  })

  test('are numbers that JSON knows', async () => {
    for (const text of ['1 / 0', '0 / 0', '[1e308 * 10]', '$map([0], function($x){ 1 / $x })'])
      expect((await refusal(evaluate(text))).code).toBe('JN_FUNCTION_ERROR')
  })

  test('keep what looks like a prototype as plain data', async () => {
    const document: unknown = JSON.parse('{"__proto__": {"a": 1}, "constructor": "x", "toString": 2}')
    expect(JSON.stringify(await evaluate('$', document))).toBe(JSON.stringify(document))
    expect(await evaluate('[__proto__.a, constructor, toString]', document)).toEqual([1, 'x', 2])
    expect(await evaluate('[__proto__, constructor, hasOwnProperty]', {})).toEqual([])
    expect(({} as { a?: unknown }).a).toBeUndefined()
  })

  test('are no larger than was agreed', async () => {
    const small = stage({ maxOutputBytes: 100 })
    expect(await small.evaluate('$pad("", 90, "x")')).toHaveLength(90)
    expect((await small.refusal(small.evaluate('$pad("", 99, "x")'))).code).toBe('JN_MAX_RESULT_SIZE_EXCEEDED')
    // Bytes, not characters.
    expect((await small.refusal(small.evaluate('$pad("", 50, "é")'))).code).toBe('JN_MAX_RESULT_SIZE_EXCEEDED')
  })
})

describe('predicates', () => {
  const { expressions, refusal } = stage()
  const holds = (text: string) => expressions.holds('jsonata', text, { context: { ok: true, zero: 0 } }, LONG)

  test('are true or false', async () => {
    expect(await holds('context.ok')).toBe(true)
    expect(await holds('context.zero = 1')).toBe(false)
    expect(await holds('$exists(context.missing)')).toBe(false)
  })

  test('are not taken for either when they are neither', async () => {
    expect((await refusal(holds('context.missing'))).code).toBe('JN_PATH_NOT_FOUND')
    for (const text of ['context.zero', '"true"', '[]', '{}'])
      expect((await refusal(holds(text))).code).toBe('JN_TYPE_MISMATCH')
  })
})

describe('the document', () => {
  const { evaluate, refusal } = stage()

  test('is not changed by anything an expression does', async () => {
    const document = { list: [], items: [{ a: 1 }], o: { x: 1 } }
    const before = structuredClone(document)
    await evaluate('list{"k": 1}', document)
    await evaluate('items[]', document)
    await evaluate('$ ~> |o|{"y": 2}, ["x"]|', document)
    await refusal(evaluate('o()', document))
    expect(document).toStrictEqual(before)
  })

  test('is not shared with the result', async () => {
    const document = { o: { x: 1 } }
    const result = (await evaluate('o', document)) as { x: number }
    result.x = 2
    expect(document.o.x).toBe(1)
  })

  test('is plain JSON', async () => {
    for (const document of [() => 1, { big: 1n }, { date: new Date(0) }, { map: new Map() }, Symbol('x')])
      expect((await refusal(evaluate('1', document))).code).toBe('JN_TYPE_MISMATCH')
    const self: { self?: unknown } = {}
    self.self = self
    expect((await refusal(evaluate('1', self))).code).toBe('JN_MAX_RESULT_SIZE_EXCEEDED')
    expect(await evaluate('f', { f: () => 1 })).toBeNull()
    expect(await evaluate('then', { then: () => 1 })).toBeNull()
    expect(await evaluate('$', { a: undefined, b: [undefined, NaN], c: Object.create(null) as unknown })).toEqual({
      b: [null, null],
      c: {},
    })
  })

  test('cannot bring along what JSONata would take for its own', async () => {
    for (const key of ['_jsonata_lambda', '_jsonata_function', 'tupleStream', 'outerWrapper']) {
      const error = await refusal(evaluate('1', { f: [{ [key]: true, body: {}, arguments: [] }] }))
      expect(error).toMatchObject({ code: 'JN_TYPE_MISMATCH', message: expect.stringContaining(key) })
    }
    expect(await evaluate('f', { f: '"_jsonata_lambda"' })).toBe('"_jsonata_lambda"')
  })

  test('may be large, and deep, but not endless', async () => {
    let deep: unknown = 1
    for (let level = 0; level < 5_000; level++) deep = [deep]
    expect((await refusal(evaluate('$count(a.**)', { a: deep }))).code).toMatch(/SIZE|TIME/)
    expect((await refusal(evaluate('1', { a: 'x'.repeat(1_048_577) }))).code).toBe('JN_MAX_RESULT_SIZE_EXCEEDED')
  })
})

describe('time and chance', () => {
  test('are those of the engine', async () => {
    const { evaluate, host } = stage()
    host.stepWall(3_600_000)
    expect(await evaluate('[$now(), $millis()]')).toEqual(['2026-01-01T12:00:00.000Z', Date.UTC(2026, 0, 1, 12)])
    // What a picture leaves out is filled in from the same clock.
    expect(await evaluate('$fromMillis($toMillis("14:30", "[H01]:[m01]"))')).toBe('2026-01-01T14:30:00.000Z')
    host.advance(1_000)
    expect(await evaluate('$now("[s01]")')).toBe('01')
  })

  test('do not depend on where the machine stands', async () => {
    const { evaluate } = stage()
    expect(await evaluate('$toMillis("2026-01-01T12:00:00")')).toBe(Date.UTC(2026, 0, 1, 12))
    expect(await evaluate('$toMillis("2026-01-01T12:00:00+01:00")')).toBe(Date.UTC(2026, 0, 1, 11))
  })

  test('come by chance as it is handed in', async () => {
    const texts = ['$random()', '$shuffle([1..20])']
    const [one, other] = [stage(), stage()]
    for (const text of texts) expect(await one.evaluate(text)).toEqual(await other.evaluate(text))
    expect([...((await one.evaluate('$shuffle([1..20])')) as number[])].sort((a, b) => a - b)).toEqual(
      Array.from({ length: 20 }, (_, index) => index + 1),
    )
  })
})

describe('limits of time', () => {
  /** A clock on which every look takes a millisecond. */
  function slow(limits: Partial<EvaluationLimits> = {}) {
    const host = new FakeClock()
    let looks = 0
    const ticking = Object.assign(Object.create(host) as FakeClock, {
      monotonicMs: () => (looks += 1),
      setTimer: () => ({ cancel: () => undefined }),
      defer: (run: () => void) => {
        host.defer(run)
      },
    })
    const expressions = new InProcessExpressions({ host: ticking, clock: host, random: () => 0 }, limits)
    return { expressions, looks: () => looks }
  }
  const endless = '($f := function($n){ $f($n + 1) }; $f(0))'
  const { refusal } = stage()

  test('are looked at all the time', async () => {
    const { expressions, looks } = slow()
    const error = await refusal(expressions.evaluate('jsonata', endless, {}, LONG))
    expect(error).toMatchObject({ code: 'JN_MAX_EVAL_TIME_EXCEEDED', message: expect.stringContaining('50 ms') })
    expect(looks()).toBeLessThan(70)
  })

  test('are the smaller of the engine’s and what the caller has left', async () => {
    const { expressions, looks } = slow()
    await refusal(expressions.evaluate('jsonata', endless, {}, { budgetMs: 10 }))
    expect(looks()).toBeLessThan(25)
    for (const budgetMs of [0, -1, NaN]) {
      const error = await refusal(expressions.evaluate('jsonata', '1', {}, { budgetMs }))
      expect(error.code).toBe('JN_MAX_EVAL_TIME_EXCEEDED')
    }
  })

  /** A clock on which time flies by a while at some looks, and stands otherwise. */
  function halting(everyLooks: number, byMs: number) {
    const host = new FakeClock()
    const state = { looks: 0, nowMs: 0 }
    const monotonicMs = (): number => {
      state.looks += 1
      if (state.looks % everyLooks === 0) state.nowMs += byMs
      return state.nowMs
    }
    const timers = { setTimer: () => ({ cancel: () => undefined }), defer: (run: () => void) => void host.defer(run) }
    const ticking = Object.assign(Object.create(host) as FakeClock, { monotonicMs, ...timers })
    return { expressions: new InProcessExpressions({ host: ticking, clock: host, random: () => 0 }), state }
  }
  const counting = '($f := function($n){ $n = 0 ? "done" : $f($n - 1) }; $f(300))'

  test('do not run while the machine stands still', async () => {
    const { expressions, state } = halting(70, 80)
    expect(await expressions.evaluate('jsonata', counting, {}, LONG)).toBe('done')
    expect(state.nowMs).toBeGreaterThan(50)
  })

  test('run again when it has stood still for too long, or the caller has no time left', async () => {
    const often = halting(5, 90)
    expect((await refusal(often.expressions.evaluate('jsonata', endless, {}, LONG))).code).toBe(
      'JN_MAX_EVAL_TIME_EXCEEDED',
    )
    expect(often.state.nowMs).toBeGreaterThan(100)
    expect(often.state.nowMs).toBeLessThanOrEqual(50 + 100 + 90)
    const hurried = halting(70, 80)
    const ended = refusal(hurried.expressions.evaluate('jsonata', counting, {}, { budgetMs: 60 }))
    expect((await ended).code).toBe('JN_MAX_EVAL_TIME_EXCEEDED')
  })

  test('hold where no node is evaluated in between', async () => {
    const { expressions, looks } = slow()
    for (const text of ['$map([1..10000], $string)', '$sift($merge([1..9000].{$string($): $}), $string)']) {
      const before = looks()
      expect((await refusal(expressions.evaluate('jsonata', text, {}, LONG))).code).toBe('JN_MAX_EVAL_TIME_EXCEEDED')
      expect(looks() - before).toBeLessThan(70)
    }
  })

  test('hold without a clock too: work is limited', async () => {
    const { evaluate, refusal: refused } = stage()
    expect((await refused(evaluate(endless))).code).toBe('JN_MAX_EVAL_TIME_EXCEEDED')
  })

  test('end what goes on beside a failure', async () => {
    const { expressions, looks } = slow()
    const text = `[$error("first"), ${endless}]`
    expect((await refusal(expressions.evaluate('jsonata', text, {}, LONG))).code).toBe('JN_FUNCTION_ERROR')
    const after = looks()
    for (let turn = 0; turn < 1_000; turn++) await Promise.resolve()
    expect(looks()).toBe(after)
  })
})

describe('limits of size', () => {
  const { evaluate, refusal } = stage()

  test('are known before anything is built', async () => {
    // As text it would be short enough; but to write it takes as long as for something longer.
    const document = { list: Array<number>(40_000).fill(0) }
    for (const text of ['list & ""', '$string(list)', 'list = $append([], list)', '$sort(list)'])
      expect((await refusal(evaluate(text, document))).code).toBe('JN_MAX_RESULT_SIZE_EXCEEDED')
    expect(await evaluate('$count(list) & $sum(list)', document)).toBe('400000')
  })

  test('hold for functions applied in part, and so do their types', async () => {
    expect((await refusal(evaluate('$uppercase(?)(5)'))).message).toContain('(T0410)')
    expect((await refusal(evaluate('$pad(?, 300000000)("x")'))).code).toBe('JN_MAX_RESULT_SIZE_EXCEEDED')
    expect(await evaluate('$substring(?, 1)("abc")')).toBe('bc')
  })
})

describe('languages', () => {
  const { expressions, refusal } = stage()

  test('are named, and never guessed', async () => {
    for (const lang of [undefined, null, '', 5]) {
      const error = await refusal(expressions.check(lang, '1'))
      expect(error).toMatchObject({ code: 'JN_CONFIG_INVALID', message: expect.stringContaining('available: jsonata') })
    }
    expect((await refusal(expressions.check('JSONata', '1'))).code).toBe('JN_CONFIG_INVALID')
    expect((await refusal(expressions.check('constructor', '1'))).code).toBe('JN_CONFIG_INVALID')
    expect((await refusal(expressions.evaluate('jq', '.', {}, LONG))).code).toBe('JN_CONFIG_INVALID')
  })

  test('that are not here are known by name', async () => {
    const error = await refusal(expressions.check('dataweave', 'payload'))
    expect(error.message).toContain('dataweave: engine not available here; available: jsonata.')
    expect(error.message).toContain('docs/expressions.md')
  })
})

describe('errors are reported at deploy time', () => {
  const { expressions, refusal } = stage()
  const cases: [text: unknown, code: ExpressionErrorCode, says: RegExp, position?: number][] = [
    ['', 'JN_PARSE_ERROR', /not empty/, 0],
    [5, 'JN_PARSE_ERROR', /text/],
    ['a.b =', 'JN_PARSE_ERROR', /ends too early.*At character 5/, 5],
    ['a == b', 'JN_PARSE_ERROR', /= needs something.*At character 4/, 4],
    ['{"a": }', 'JN_PARSE_ERROR', /At character 7/, 7],
    ['"abc', 'JN_PARSE_ERROR', /string is not closed/],
    ['$upercase(a)', 'JN_UNKNOWN_VARIABLE', /\$upercase.*At character 9/, 9],
    ['$match(a, /(a)\\1/)', 'JN_UNSUPPORTED_SYNTAX', /back-reference.*At character/],
    ['$match(a, /a(?=b)/)', 'JN_UNSUPPORTED_SYNTAX', /looks ahead/],
    ['$match(a, /(/)', 'JN_PARSE_ERROR', /./],
    ['$eval("1")', 'JN_UNSUPPORTED_SYNTAX', /\$eval/, 5],
    ['x'.repeat(16_385), 'JN_PARSE_ERROR', /16384/],
  ]

  for (const [text, code, says, position] of cases) {
    test(`${String(text).slice(0, 30)} is ${code}`, async () => {
      const error = await refusal(expressions.check('jsonata', text))
      expect(error).toMatchObject({ code, message: expect.stringMatching(says) })
      if (position !== undefined) expect(error.position).toBe(position)
    })
  }

  test('and nothing is said about what is right', async () => {
    await expressions.check('jsonata', '($f := function($n)<n:n>{ $n + 1 }; $map(context.items@$i.price, $f))')
    await expressions.check('jsonata', 'x'.repeat(16_384))
  })
})

describe('errors', () => {
  const { evaluate, refusal } = stage()
  const secret = 'the-secret-of-the-data'
  const document = { secret, n: 1, nothing: null, list: [secret], items: [{ k: secret }, { k: 1 }] }
  const cases: [text: string, code: ExpressionErrorCode][] = [
    ['secret + 1', 'JN_TYPE_MISMATCH'],
    ['nothing + 1', 'JN_NULL_DEREFERENCE'],
    ['-secret', 'JN_TYPE_MISMATCH'],
    ['secret < 1', 'JN_TYPE_MISMATCH'],
    ['$number(secret)', 'JN_FUNCTION_ERROR'],
    ['$toMillis(secret)', 'JN_FUNCTION_ERROR'],
    ['$sum(list)', 'JN_TYPE_MISMATCH'],
    ['{n: 1}', 'JN_TYPE_MISMATCH'],
    ['items{"a": k, $lowercase("A"): n}', 'JN_FUNCTION_ERROR'],
    ['items^(k)', 'JN_TYPE_MISMATCH'],
    ['secret()', 'JN_TYPE_MISMATCH'],
    ['nothing()', 'JN_TYPE_MISMATCH'],
    ['$error(secret)', 'JN_FUNCTION_ERROR'],
    ['$assert(false, secret)', 'JN_FUNCTION_ERROR'],
    ['$formatInteger(n, secret)', 'JN_FUNCTION_ERROR'],
    ['$fromMillis(n, secret & "[")', 'JN_FUNCTION_ERROR'],
    ['[1..secret]', 'JN_TYPE_MISMATCH'],
    ['[1..20000]', 'JN_MAX_RESULT_SIZE_EXCEEDED'],
    ['$replace(secret, /x*/, "")', 'JN_FUNCTION_ERROR'],
    ['$decodeUrl("%E0%A4%A" & secret)', 'JN_FUNCTION_ERROR'],
    ['|$|secret|($)', 'JN_TYPE_MISMATCH'],
  ]

  for (const [text, code] of cases) {
    test(`${text} is ${code}, and keeps the data to itself`, async () => {
      const error = await refusal(evaluate(text, document))
      expect(error.code).toBe(code)
      expect(EXPRESSION_ERRORS).toContain(error.code)
      expect(error.message).not.toContain(secret)
      expect(error.message).not.toContain('undefined')
    })
  }

  test('repeat what the author wrote, word for word', async () => {
    const error = await refusal(evaluate('$error("amount must be positive")'))
    expect(error.message).toContain('amount must be positive')
  })

  test('say where', async () => {
    expect(await refusal(evaluate('n + $number(secret)', document))).toMatchObject({
      position: 12,
      message: expect.stringMatching(/At character 12/),
    })
  })

  test('leave the next evaluation alone', async () => {
    const text = '[n, $number(secret)]'
    await refusal(evaluate(text, document))
    expect(await evaluate(text, { n: 1, secret: '2' })).toEqual([1, 2])
  })
})

test('limits that are none are refused', () => {
  for (const limits of [{ maxEvalMs: 0 }, { maxEvalMs: 1.5 }, { maxOutputBytes: -1 }])
    expect(() => stage(limits)).toThrow(expect.objectContaining({ code: 'JN_CONFIG_INVALID' }) as Error)
})

test('a thousand expressions and more are compiled again when they are needed', async () => {
  const { evaluate } = stage()
  for (let n = 0; n < 1_100; n++) expect(await evaluate(String(n))).toBe(n)
  expect(await evaluate('0')).toBe(0)
})

test('nothing is evaluated after the end', async () => {
  const { expressions, evaluate, refusal } = stage()
  await expressions.close()
  expect((await refusal(evaluate('1'))).code).toBe('JN_ENGINE_INTERNAL_ERROR')
})
