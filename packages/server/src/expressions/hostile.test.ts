import { clockFrom, FakeClock } from '@curfew/core'
import { describe, expect, test } from 'vitest'
import { ExpressionError } from '../engine/expressions.ts'
import { nodeHost } from '../host.ts'
import { endsAs, HOSTILE, HOSTILE_DOCUMENT, THIRTEEN } from './hostile.suite.ts'
import { InProcessExpressions } from './in-process.ts'

const expressions = new InProcessExpressions({ host: nodeHost, clock: clockFrom(nodeHost), random: () => 0.5 })

interface Outcome {
  readonly code?: string
  readonly value?: unknown
  readonly cpuMs: number
}

async function outcomeOf(text: string): Promise<Outcome> {
  const before = process.cpuUsage()
  const cpuMs = (): number => {
    const { user, system } = process.cpuUsage(before)
    return (user + system) / 1_000
  }
  try {
    const value = await expressions.evaluate('jsonata', text, HOSTILE_DOCUMENT, { budgetMs: 1_000 })
    return { value, cpuMs: cpuMs() }
  } catch (error) {
    if (!(error instanceof ExpressionError)) throw error
    return { code: error.code, cpuMs: cpuMs() }
  }
}

test('there are thirteen that everybody thinks of first', () => {
  expect(THIRTEEN).toHaveLength(13)
})

describe('an expression that wants too much ends as it should', () => {
  const frozen = new FakeClock()
  const unhurried = new InProcessExpressions({ host: frozen, clock: frozen, random: () => 0.5 })

  for (const { name, text, ends } of HOSTILE) {
    test(
      name,
      async () => {
        const ended = unhurried.evaluate('jsonata', text, HOSTILE_DOCUMENT, { budgetMs: 1_000 })
        if (typeof ends === 'string') await expect(ended).rejects.toMatchObject({ code: ends })
        else expect(await ended).toEqual(ends.value)
      },
      30_000,
    )
  }
})

describe('an expression that wants too much ends, and soon', () => {
  for (const hostile of HOSTILE) {
    test(hostile.name, async () => {
      let outcome = await outcomeOf(hostile.text)
      // Not measured by the clock, which others use up too; and what is really slow is slow three times.
      for (let again = 0; again < 2 && outcome.cpuMs > 120; again++) outcome = await outcomeOf(hostile.text)
      expect(outcome, hostile.text).toSatisfy((found: Outcome) => endsAs(hostile, found))
      expect(outcome.cpuMs).toBeLessThan(120)
    })
  }
})

test('after all of them the functions are what they were', async () => {
  for (const { text } of HOSTILE) await outcomeOf(text)
  const text = '[$uppercase("a"), $sum([1, 2]), $string({"a": 1}), $clone({"a": 1}).a]'
  expect(await expressions.evaluate('jsonata', text, {}, { budgetMs: 1_000 })).toEqual(['A', 3, '{"a":1}', 1])
}, 60_000)
