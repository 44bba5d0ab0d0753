import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { instant, millis, seconds } from '../../time/clock.ts'
import { mistakesIn, type Assumptions } from './assumptions.ts'
import { planJourney, type JourneyPlan, type PlannedVisit } from './plan.ts'
import { readDefinition } from '../read/reader.ts'
import type { Definition } from '../definition.ts'

const START = instant(Date.UTC(2026, 0, 1, 12))
const LIMITS = { defaultMs: seconds(60), capMs: seconds(3600) }
const expr = (text: string): object => ({ lang: 'jsonata', expr: text })
const call = (next: string, more: object = {}): object => ({
  type: 'task',
  task: { kind: 'httpCall:v1', method: 'GET', url: 'https://a.example/', resultVar: 'r', ...more },
  next,
})
const end = { type: 'succeed' }

async function read(states: object, more: object = {}): Promise<Definition> {
  const spec = {
    execution: { maxDurationSec: 10, onTimeout: { errorCode: 'LATE', reason: 'too late' } },
    start: Object.keys(states)[0],
    states,
    ...more,
  }
  const { definition, errors } = await readDefinition(
    JSON.parse(
      JSON.stringify({ apiVersion: 'v1', kind: 'Journey', metadata: { name: 'plan', version: '1.0.0' }, spec }),
    ),
    {
      expression: () => Promise.resolve(null),
      schema: () => null,
      limits: LIMITS,
    },
  )
  if (definition === null) throw new Error(JSON.stringify(errors))
  return definition
}

function plan(
  definition: Definition,
  takes: Assumptions['takes'] = {},
  chooses: Assumptions['chooses'] = {},
): JourneyPlan {
  return planJourney(definition, LIMITS, { takes, chooses }, START)
}

const seen = ({ visits }: JourneyPlan, path: string): PlannedVisit | undefined =>
  visits.find((visit) => visit.path === path)

describe('one after the other', () => {
  test('each state starts when the one before it has ended, with what is left', async () => {
    const definition = await read({ a: call('b', { timeoutMs: 4000 }), b: call('end', { timeoutMs: 9000 }), end })
    const made = plan(definition, { a: seconds(3), b: seconds(2) })
    expect(made.visits.map(({ path, startsAfterMs, endsAfterMs }) => [path, startsAfterMs, endsAfterMs])).toEqual([
      ['a', 0, 3000],
      ['b', 3000, 5000],
      ['end', 5000, 5000],
    ])
    expect(seen(made, 'a')).toMatchObject({ ownLimitMs: 4000, remainingMs: 10_000, effectiveMs: 4000, limit: 'own' })
    expect(seen(made, 'b')).toMatchObject({ ownLimitMs: 9000, remainingMs: 7000, effectiveMs: 7000, limit: 'run' })
    expect(made).toMatchObject({
      end: { kind: 'Success', path: 'end', afterMs: 5000 },
      neverStarts: [],
      wouldTakeMs: 5000,
    })
  })

  test('what is cut off by its own limit goes on; what is cut off by the deadline ends the run', async () => {
    const definition = await read({
      a: call('b', { timeoutMs: 4000 }),
      b: call('c', { timeoutMs: 7000 }),
      c: call('end'),
      end,
    })
    const made = plan(definition, { a: 'forever', b: seconds(6) })
    expect(seen(made, 'a')).toMatchObject({ endsAfterMs: 4000, endedBy: 'own limit' })
    expect(seen(made, 'b')).toMatchObject({ startsAfterMs: 4000, endsAfterMs: 10_000, endedBy: 'deadline' })
    expect(made.end).toEqual({
      kind: 'Timeout',
      path: 'b',
      afterMs: 10_000,
      error: { code: 'LATE', reason: 'too late' },
    })
    expect(made.neverStarts).toEqual(['c', 'end'])
    expect(made.wouldTakeMs).toBe(10_000)
  })

  test('on a tie the run loses', async () => {
    const definition = await read({ a: call('end', { timeoutMs: 10_000 }), end })
    expect(plan(definition, { a: seconds(10) }).end).toMatchObject({ kind: 'Timeout', path: 'a' })
    expect(plan(definition, { a: millis(9999) }).end).toMatchObject({ kind: 'Success', afterMs: 9999 })
  })

  test('a call that times out is made again as its policy says, as long as the rest fits', async () => {
    const calm = {
      maxAttempts: 3,
      retryOn: ['TIMEOUT'],
      backoff: { kind: 'fixed', baseDelayMs: 500, maxDelayMs: 500, jitter: 'none' },
    }
    const policies = { httpResilience: { default: 'calm', definitions: { calm } } }
    const definition = await read({ a: call('end', { timeoutMs: 2000 }), end }, { policies })
    expect(seen(plan(definition, { a: 'forever' }), 'a')).toMatchObject({ attempts: 3, endsAfterMs: 7000 })
    const slow = await read({ a: call('end', { timeoutMs: 4600 }), end }, { policies })
    expect(seen(plan(slow, { a: 'forever' }), 'a')).toMatchObject({
      attempts: 2,
      endedBy: 'own limit',
      endsAfterMs: 9700,
    })
  })

  test('waits go to onTimeout, jobs end by their total, timers take what they say', async () => {
    const schema = { type: 'object' }
    const definition = await read({
      nap: { type: 'timer', timer: { duration: 'PT1S' }, next: 'later' },
      later: { type: 'timer', timer: { until: '2026-01-01T12:00:03Z' }, next: 'ask' },
      ask: { type: 'wait', wait: { input: { schema }, timeoutSec: 2, onTimeout: 'job' }, next: 'end' },
      job: { type: 'task', task: { kind: 'job:v1', type: 'a.b', totalTimeoutSec: 3 }, next: 'end' },
      end,
    })
    const made = plan(definition, { '*': 'forever' })
    expect(made.visits.map(({ path, endsAfterMs, endedBy }) => [path, endsAfterMs, endedBy])).toEqual([
      ['nap', 1000, 'itself'],
      ['later', 3000, 'itself'],
      ['ask', 5000, 'own limit'],
      ['job', 8000, 'own limit'],
      ['end', 8000, 'itself'],
    ])
    expect(plan(definition, { '*': 'forever', ask: seconds(1) }).notOnTheWay).toEqual(['job'])
    expect(plan(definition, { nap: 'forever' })).toMatchObject({
      end: { kind: 'Timeout', path: 'nap' },
      wouldTakeMs: null,
    })
  })
})

describe('choices and loops', () => {
  const looping = {
    a: call('good'),
    good: { type: 'choice', choices: [{ when: { predicate: expr('context.r.ok') }, next: 'end' }], default: 'a' },
    end,
  }

  test('a choice goes where it is assumed to go, visit by visit, and else to its default', async () => {
    const definition = await read(looping)
    const made = plan(definition, { a: seconds(2) }, { good: ['a', 'a', 'end'] })
    expect(made.visits.filter(({ path }) => path === 'a')).toHaveLength(3)
    expect(made.end).toMatchObject({ kind: 'Success', afterMs: 6000 })
    expect(plan(definition, { a: seconds(2) }).end).toMatchObject({ kind: 'Timeout', path: 'a', afterMs: 10_000 })
  })

  test('a loop in which no time passes is reported, not followed for ever', async () => {
    const made = plan(await read(looping))
    expect(made.end.kind).toBe('Loop')
    expect(made.wouldTakeMs).toBeNull()
  })
})

describe('several at once', () => {
  const branch = (name: string, ending: object = { type: 'succeed' }): object => ({
    name,
    start: 'ask',
    states: { ask: call('done', { timeoutMs: 20_000 }), done: ending },
  })
  const fork = (strategy: string, branches: object[], more: object = {}): Promise<Definition> =>
    read({ fan: { type: 'parallel', parallel: { branches, join: { strategy, ...more } }, next: 'end' }, end })
  const failed = { type: 'fail', errorCode: 'NO', reason: 'no' }

  test.each([
    ['allOf', {}, 5000],
    ['anyOf', {}, 2000],
    ['firstCompleted', {}, 2000],
  ])('%s joins when it should', async (strategy, more, at) => {
    const made = plan(await fork(strategy, [branch('x'), branch('y')], more), {
      'fan/x/ask': seconds(2),
      ask: seconds(5),
    })
    expect(seen(made, 'end')).toMatchObject({ startsAfterMs: at })
    expect(seen(made, 'fan/y/ask')).toMatchObject({ endsAfterMs: at, endedBy: at === 5000 ? 'itself' : 'lost' })
    expect(made.visits.some(({ path }) => path === 'fan/y/done')).toBe(at === 5000)
    expect(made.neverStarts).toEqual([])
  })

  test('anyOf passes over a branch that failed; firstCompleted does not', async () => {
    const branches = [branch('x', failed), branch('y')]
    const takes = { 'fan/x/ask': seconds(2), ask: seconds(5) }
    expect(seen(plan(await fork('anyOf', branches), takes), 'end')).toMatchObject({ startsAfterMs: 5000 })
    expect(seen(plan(await fork('firstCompleted', branches), takes), 'end')).toMatchObject({ startsAfterMs: 2000 })
  })

  test('the deadline ends all of them; with one open branch it says which', async () => {
    const both = plan(await fork('allOf', [branch('x'), branch('y')]), { ask: 'forever' })
    expect(both.end).toMatchObject({ kind: 'Timeout', path: 'fan', afterMs: 10_000 })
    const one = plan(await fork('allOf', [branch('x'), branch('y')]), { 'fan/x/ask': seconds(1), ask: 'forever' })
    expect(one.end).toMatchObject({ kind: 'Timeout', path: 'fan/y/ask' })
    expect(seen(one, 'fan')).toMatchObject({ endsAfterMs: 10_000, endedBy: 'deadline' })
  })
})

test('a subjourney shares the deadline, and its failure is the run’s unless it is captured', async () => {
  const states = (onFailure: object): object => ({
    sub: { type: 'subjourney', subjourney: { ref: 'inner', onFailure }, next: 'end' },
    end,
  })
  const subjourneys = {
    inner: { start: 'ask', states: { ask: call('no'), no: { type: 'fail', errorCode: 'NO', reason: 'no' } } },
  }
  const loud = await read(states({ behavior: 'propagate' }), { subjourneys })
  expect(plan(loud, { ask: seconds(2) }).end).toMatchObject({
    kind: 'Fail',
    path: 'sub',
    error: { code: 'NO' },
    afterMs: 2000,
  })
  const quiet = await read(states({ behavior: 'capture' }), { subjourneys })
  expect(plan(quiet, { 'sub/ask': seconds(2) })).toMatchObject({ end: { kind: 'Success', path: 'end' } })
  const late = await read(states({ behavior: 'capture' }), { subjourneys, defaults: { http: { timeoutMs: 60_000 } } })
  expect(plan(late, { ask: 'forever' }).end).toMatchObject({ kind: 'Timeout', path: 'sub/ask' })
})

test('without a budget of its own a run has the platform’s, and says so', async () => {
  const definition = await read({ a: call('end', { timeoutMs: 90_000 }), end }, { execution: undefined })
  expect(plan(definition, { a: 'forever' })).toMatchObject({
    budgetMs: 60_000,
    limitedBy: 'platform-default',
    end: { kind: 'Timeout', afterMs: 60_000, error: { code: 'JOURNEY_TIMEOUT' } },
  })
})

test('an assumption about a state that does not exist is reported', async () => {
  const definition = await read({
    a: call('good'),
    good: { type: 'choice', choices: [{ when: { predicate: expr('true') }, next: 'end' }], default: 'a' },
    end,
  })
  const mistakes = (takes: Assumptions['takes'], chooses: Assumptions['chooses'] = {}): readonly string[] =>
    mistakesIn(definition, { takes, chooses })
  expect(mistakes({ a: seconds(1), '*': 'forever' }, { good: ['end'] })).toEqual([])
  expect(mistakes({ b: seconds(1), good: seconds(1) }, { a: ['end'], good: ['nowhere'] })).toEqual([
    'b is not a state of plan.',
    'good takes no time of its own: it is a choice.',
    'a is not a choice of plan.',
    'good does not lead to nowhere.',
  ])
})

test('whatever is assumed, nothing goes past the deadline, and no state gets more than is left', async () => {
  const definition = await read({
    a: call('good', { timeoutMs: 3000 }),
    good: { type: 'choice', choices: [{ when: { predicate: expr('true') }, next: 'fan' }], default: 'a' },
    fan: {
      type: 'parallel',
      parallel: {
        branches: [
          { name: 'x', start: 'p', states: { p: call('e', { timeoutMs: 2000 }), e: { type: 'succeed' } } },
          {
            name: 'y',
            start: 'q',
            states: { q: { type: 'timer', timer: { duration: 'PT4S' }, next: 'e' }, e: { type: 'succeed' } },
          },
        ],
        join: { strategy: 'anyOf' },
      },
      next: 'end',
    },
    end,
  })
  const taking = fc.oneof(fc.constant('forever' as const), fc.integer({ min: 1, max: 12_000 }).map(millis))
  fc.assert(
    fc.property(taking, taking, taking, fc.array(fc.constantFrom('a', 'fan'), { minLength: 1 }), (a, p, q, good) => {
      const made = plan(definition, { a, p, q }, { good })
      for (const visit of made.visits) {
        expect(visit.endsAfterMs).toBeLessThanOrEqual(10_000)
        expect(visit.startsAfterMs).toBeLessThan(10_000)
        expect(visit.effectiveMs).toBe(Math.min(visit.ownLimitMs ?? Infinity, visit.remainingMs))
        expect(visit.startsAfterMs + visit.remainingMs).toBe(10_000)
      }
      expect(made.end.kind === 'Timeout').toBe(made.end.afterMs === 10_000)
      if (made.end.kind !== 'Timeout') expect(made.neverStarts).toEqual([])
    }),
  )
})
