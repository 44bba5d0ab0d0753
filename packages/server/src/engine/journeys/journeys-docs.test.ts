/** What docs/journeys.md says of definitions is so: every one in it is right, and so is every state, set into one. */
import { clockFrom, days } from '@curfew/core'
import { readdirSync, readFileSync } from 'node:fs'
import { describe, expect, test } from 'vitest'
import { parse, stringify } from 'yaml'
import { InProcessExpressions } from '../../expressions/in-process.ts'
import { nodeHost } from '../../host.ts'
import { checksWith, judge } from '../definitions/verdict.ts'

const page = readFileSync(new URL('../../../../../docs/journeys.md', import.meta.url), 'utf8')
const expressions = new InProcessExpressions({ host: nodeHost, clock: clockFrom(nodeHost), random: () => 0.5 })
const checks = checksWith(expressions, { defaultMs: days(1), capMs: days(7) })
const blocks = [...page.matchAll(/```yaml\n([\s\S]*?)```/g)].map(([, text = '']) => text)
const mistakesIn = async (text: string): Promise<readonly unknown[]> =>
  (await judge(text, checks, () => Promise.resolve())).errors

type States = Readonly<Record<string, Readonly<Record<string, unknown>>>>

/** A definition of these states, in which every way that leads out of them ends well. */
function around(states: States): string {
  const outside = [...stringify(states).matchAll(/^ {2,6}(?:- )?(?:next|default|onTimeout): (\w+)$/gm)].map(
    ([, id]) => id ?? '',
  )
  const ends = outside.filter((id) => !Object.hasOwn(states, id)).map((id) => [id, { type: 'succeed' }] as const)
  return stringify({
    apiVersion: 'v1',
    kind: 'Journey',
    metadata: { name: 'example', version: '1.0.0' },
    spec: {
      policies: { httpResilience: { definitions: { calm: { maxAttempts: 2 } } } },
      start: Object.keys(states)[0],
      states: { ...states, ...Object.fromEntries(ends) },
    },
  })
}

describe('the examples of docs/journeys.md', () => {
  const whole = blocks.filter((text) => text.startsWith('apiVersion:'))
  const parts = blocks.filter((text) => !text.startsWith('apiVersion:'))

  test('there are some of both kinds', () => {
    expect(whole.length).toBeGreaterThan(5)
    expect(parts.length).toBeGreaterThan(5)
  })
  test.each(whole)('a whole one: %#', async (text) => {
    expect(await mistakesIn(text)).toEqual([])
  })
  test.each(parts)('states: %#', async (text) => {
    expect(await mistakesIn(around(parse(text) as States))).toEqual([])
  })
  test('show every type of state', () => {
    const types = new Set([...page.matchAll(/\btype: ([a-z]+)\b/g)].map(([, type]) => type))
    const all = ['task', 'choice', 'transform', 'wait', 'webhook', 'timer', 'parallel', 'subjourney', 'succeed', 'fail']
    expect([...types]).toEqual(expect.arrayContaining(all))
  })
})

describe('the table of what JourneyForge has', () => {
  const rows = page
    .slice(page.indexOf('## Definitions of JourneyForge'))
    .split('\n')
    .filter((line) => /^\| [^|]*[a-z]/.test(line))
    .map((line) => line.split('|').map((cell) => cell.trim()))
    .map(([, feature = '', is = '', note = '']) => ({ feature, is, note }))

  test('has rows, each with one of four verdicts', () => {
    expect(rows.length).toBeGreaterThan(15)
    expect(new Set(rows.map(({ is }) => is))).toEqual(new Set(['yes', 'partly', 'no', 'more']))
  })
  test('does not say yes where its note names something that is missing', () => {
    expect(rows.filter(({ is, note }) => is === 'yes' && /\b(no|not|without)\b/i.test(note))).toEqual([])
  })
  test('gives a reason for everything that is missing as a whole', () => {
    expect(rows.filter(({ is, note }) => is === 'no' && note === '')).toEqual([])
  })
})

test('every code that can be told is explained there, and no other', () => {
  const explained = [...page.matchAll(/^\| `([A-Z]+-\d)` \|/gm)].map(([, code]) => code ?? '')
  const folders = ['../../../../core/src/', '../../../../core/src/journey/', './', '../definitions/']
  const sources = folders.flatMap((path) => {
    const folder = new URL(path, import.meta.url)
    const inside = path.endsWith('/src/') ? ['diagnostics.ts'] : readdirSync(folder, { recursive: true }).map(String)
    return inside
      .filter((name) => name.endsWith('.ts') && !/\.(test|suite)\.ts$/.test(name))
      .map((name) => readFileSync(new URL(name, folder), 'utf8'))
  })
  const told = new Set(sources.flatMap((text) => [...text.matchAll(/'([A-Z]+-\d)'/g)].map(([, code]) => code ?? '')))
  expect(explained.sort()).toEqual([...told].sort())
})
