import { clockFrom, days } from '@curfew/core'
import { describe, expect, test } from 'vitest'
import { alsoWrong, checksWith, judge } from '../engine/definitions/verdict.ts'
import { InProcessExpressions } from '../expressions/in-process.ts'
import { nodeHost } from '../host.ts'
import { judgeInThreads } from './judge-thread.ts'

const limits = { defaultMs: days(1), capMs: days(7) }
const expressions = new InProcessExpressions({ host: nodeHost, clock: clockFrom(nodeHost), random: () => 0.5 })
const here = (text: string) => judge(text, checksWith(expressions, limits), () => Promise.resolve())
const beside = judgeInThreads()

const GOOD = `apiVersion: v1
kind: Api
metadata: { name: a, version: 1.0.0 }
spec:
  bindings: { http: { route: { path: /apis/b } } }
  start: say
  states:
    say: { type: transform, transform: { mapper: { lang: jsonata, expr: '{ "__proto__": 1 }' } }, next: end }
    end: { type: succeed }
`

describe('judged in a thread', () => {
  test.each([
    ['a good definition', GOOD],
    ['a bad one', GOOD.replace('jsonata', 'dataweave').replace('next: end', 'next: edn')],
    ['no YAML at all', 'a: [1\nb: 2'],
    ['nesting without end', '['.repeat(100_000)],
  ])('%s is worth what it is worth here', async (_, text) => {
    const { locate: _here, ...expected } = await here(text)
    const { locate: _beside, ...verdict } = await beside(text, limits)
    expect(verdict).toEqual(expected)
  })

  test('an error that is found later is reported at its place', async () => {
    const taken = { code: 'ROUTE-1', path: '/spec/bindings/http/route/path', message: 'taken', on: 'value' as const }
    expect(alsoWrong(await beside(GOOD, limits), [taken])).toMatchObject({
      definition: null,
      errors: [{ code: 'ROUTE-1', line: 5, column: 38 }],
    })
  })

  test('the server goes on meanwhile', async () => {
    const states = Array.from(
      { length: 1_500 },
      (_, n) => `    s${String(n)}: { type: timer, timer: { duration: PT1S }, next: end }`,
    )
    let turns = 0
    let judging = true
    const turn = (): void => {
      turns += 1
      if (judging) nodeHost.defer(turn)
    }
    turn()
    const { errors, warnings } = await beside(
      `${GOOD.replace('Api', 'Journey').replace(/ {2}bindings.*\n/, '')}${states.join('\n')}\n`,
      limits,
    )
    judging = false
    expect(errors).toEqual([])
    expect(warnings.length).toBe(500)
    expect(turns).toBeGreaterThan(50)
  })
})
