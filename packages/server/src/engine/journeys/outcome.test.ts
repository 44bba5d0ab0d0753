import { describe, expect, test } from 'vitest'
import { FakeClock, seededRandom, type Definition, type End, type Run } from '@curfew/core'
import { aDefinition, aFrame, anEnd, anEndedRun, RUN_ID } from '../../../../core/src/journey/run/runs.suite.ts'
import { InProcessExpressions } from '../../expressions/in-process.ts'
import { apiAnswer, outcomeOf } from './outcome.ts'

const clock = new FakeClock()
const expressions = new InProcessExpressions({ host: clock, clock, random: seededRandom(7) })
const asking = { expressions, settings: { platformConfig: {} } }
const jsonata = (expr: string) => ({ lang: 'jsonata', expr })

const endedWith = (end: End, context = {}): Run =>
  anEndedRun(end.terminationKind, 1_000, {
    end,
    root: { ...aFrame('finish', 'succeed', { kind: 'over', end }), context },
  })

describe('the outcome of a journey', () => {
  const outcomes: Definition['outcomes'] = [
    { id: 'Broken', phase: 'SUCCEEDED', predicate: jsonata('context.order.total') },
    { id: 'Worse', phase: 'SUCCEEDED', predicate: jsonata('$error("no")') },
    { id: 'Large', phase: 'SUCCEEDED', predicate: jsonata('output.total > 100') },
    { id: 'Slow', phase: 'FAILED', predicate: jsonata('outcome.terminationKind = "Timeout"') },
    { id: 'Lost', phase: 'FAILED', predicate: jsonata('error.code = "ORDER_NOT_FOUND"') },
    { id: 'Other', phase: 'SUCCEEDED', predicate: null },
  ]
  const definition = aDefinition({ outcomes })
  const classified = async (end: End) => (await outcomeOf(asking, endedWith(end), end, definition))['outcomeId']

  test('has the first name whose phase fits and whose predicate holds; one that fails does not', async () => {
    expect(await classified(anEnd('Success', { output: { total: 101 } }))).toBe('Large')
    expect(await classified(anEnd('Success', { output: { total: 7 } }))).toBe('Other')
    expect(await classified(anEnd('Timeout'))).toBe('Slow')
    expect(await classified(anEnd('Fail'))).toBe('Lost')
    expect(await classified(anEnd('Cancel'))).toBeUndefined()
  })

  test('shows what the definition asks for beside its own members', async () => {
    const end = anEnd('Success')
    const run = endedWith(end, { report: { reportId: 'r1', phase: 'MINE' } })
    const shown = aDefinition({ output: { schema: null, response: { outputVar: 'report', schema: null } } })
    expect(await outcomeOf(asking, run, end, shown)).toMatchObject({ reportId: 'r1', phase: 'SUCCEEDED' })
  })

  test('of a compensation it says nothing that is meant for the run it cleans up after', async () => {
    const end = anEnd('Success')
    const run: Run = { ...endedWith(end), kind: 'Compensation' }
    expect(await outcomeOf(asking, run, end, definition)).not.toHaveProperty('outcomeId')
  })

  test('can be told when the definition is gone', async () => {
    const end = anEnd('Fail')
    expect(await outcomeOf(asking, endedWith(end), end, null)).toMatchObject({ status: 'ORDER_NOT_FOUND' })
  })
})

describe('the answer of an Api', () => {
  const answer = (end: End, more: Partial<Definition> = {}, context = {}) =>
    apiAnswer(asking, { id: RUN_ID, context }, end, aDefinition({ kind: 'Api', ...more }))
  const ruled = (...rules: NonNullable<Definition['apiResponses']>['rules']) => ({
    apiResponses: { rules, succeeded: 201, failed: null },
  })
  const rule = { phase: 'FAILED', errorType: null, predicate: null, status: 418 } as const

  test('is its output', async () => {
    expect(await answer(anEnd('Success'))).toEqual({ status: 200, body: { score: 7 }, isProblem: false })
  })

  test.each([
    ['Timeout', 504],
    ['Fail', 500],
    ['RuntimeError', 500],
  ] as const)('is a problem after %s, with status %i unless a rule says otherwise', async (kind, status) => {
    const { body, isProblem } = await answer(anEnd(kind))
    expect(isProblem).toBe(true)
    expect(body).toMatchObject({ status, code: anEnd(kind).error?.code, type: anEnd(kind).error?.code })
  })

  test('takes the status of the first rule that matches, and says the same in its body', async () => {
    const rules = ruled(
      { ...rule, errorType: 'OTHER', status: 400 },
      { ...rule, errorType: 'ORDER_TIMEOUT', status: 503 },
      rule,
    )
    const found = await answer(anEnd('Timeout'), rules)
    expect(found).toMatchObject({ status: 503, body: { status: 503, code: 'ORDER_TIMEOUT' } })
    expect(await answer(anEnd('Fail'), rules)).toMatchObject({ status: 418 })
    expect(await answer(anEnd('Success'), rules)).toMatchObject({ status: 201 })
  })

  test('asks predicates and expressions for a status; one that fails or gives no status does not count', async () => {
    const made = { ...rule, predicate: jsonata('context.tier = "gold"'), status: jsonata('error.status - 2') }
    expect(await answer(anEnd('Timeout'), ruled(made), { tier: 'gold' })).toMatchObject({ status: 502 })
    expect(await answer(anEnd('Timeout'), ruled(made), {})).toMatchObject({ status: 504 })
    for (const status of ['"x"', '200.5', '600', '101', '200', '302', '$error("no")', 'null'])
      expect(await answer(anEnd('Timeout'), ruled({ ...rule, status: jsonata(status) }))).toMatchObject({ status: 504 })
    expect(await answer(anEnd('Timeout'), ruled({ ...rule, status: 101 }))).toMatchObject({ status: 504 })
  })

  test('takes the default of the definition where no rule matches', async () => {
    const apiResponses = { rules: [], succeeded: 202, failed: 422 }
    expect(await answer(anEnd('Success'), { apiResponses })).toMatchObject({ status: 202 })
    expect(await answer(anEnd('Timeout'), { apiResponses })).toMatchObject({ status: 422, body: { status: 422 } })
  })

  test('never tells a failure as a success, whatever an older server has accepted', async () => {
    for (const status of [150, 200, 302]) {
      const apiResponses = { rules: [], succeeded: 200, failed: status }
      expect(await answer(anEnd('Timeout'), { apiResponses })).toMatchObject({ status: 504, body: { status: 504 } })
      expect(await answer(anEnd('Timeout'), ruled({ ...rule, status }))).toMatchObject({ status: 504 })
    }
  })

  test('has the shape its definition gives to errors, and the usual one where that fails', async () => {
    const custom = (expr: string) => ({ envelope: { format: 'custom', mapper: jsonata(expr) } as const })
    const rules = ruled({ ...rule, status: 409 })
    expect(
      await answer(anEnd('Fail'), { ...rules, ...custom('{"failed": error.code, "http": error.status}') }),
    ).toEqual({
      status: 409,
      body: { failed: 'ORDER_NOT_FOUND', http: 409 },
      isProblem: false,
    })
    expect(await answer(anEnd('Fail'), custom('$error("no")'))).toMatchObject({ status: 500, isProblem: true })
  })
})
