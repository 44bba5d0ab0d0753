/** What holds of every definition that is read. The codes, one by one: `server/src/engine/definition-verdict.test.ts`. */
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { days } from '../../time/clock.ts'
import { isDeeperThan } from '../../diagnostics.ts'
import { effectiveBudgetMs, readDefinition, type DefinitionChecks } from './reader.ts'
import { isSameJson, pathsOf } from '../registry.ts'
import { schemaProblem } from '../../schema/json-schema.ts'

const checks: DefinitionChecks = {
  expression: () => Promise.resolve(null),
  schema: schemaProblem,
  limits: { defaultMs: days(1), capMs: days(7) },
}
const read = (value: unknown) => readDefinition(value, checks)
const mapper = { lang: 'jsonata', expr: '1' }

/** One of everything. */
// prettier-ignore
const WHOLE = {
  apiVersion: 'v1',
  kind: 'Journey',
  metadata: { name: 'whole', version: '1.0.0', description: 'all there is', tags: ['a'] },
  spec: {
    execution: { maxDurationSec: 60, onTimeout: { errorCode: 'LATE', reason: 'late' } },
    lifecycle: { startMode: 'async', cancellable: false },
    httpSurface: { links: { enabled: false } },
    defaults: { http: { timeoutMs: 100, headers: { A: 'b' } }, tasks: { resiliencePolicyRef: 'calm' } },
    input: { schema: { type: 'object' } },
    output: { schema: true, response: { outputVar: 'x', schema: { properties: { price: true } } } },
    mappers: { m: mapper },
    errors: { envelope: { format: 'custom', mapper } },
    outcomes: { Fine: { when: { phase: 'SUCCEEDED', predicate: mapper } } },
    policies: { httpResilience: { definitions: { calm: { maxAttempts: 2 } } } },
    metadata: { bindings: { tags: { fromHeaders: [{ header: 'X-Tag' }] }, attributes: { fromPayload: { id: { path: 'a.b' } } } } },
    bindings: { http: { start: { headersToContext: { 'X-User': 'user' }, headersPassthrough: [{ from: 'Traceparent', to: 'traceparent' }] }, steps: { ask: { queryToContext: { q: 'q' } } } } },
    compensation: { start: 'undo', alsoFor: [{ when: { predicate: mapper } }], states: { undo: { type: 'succeed' } } },
    subjourneys: { sub: { start: 's', states: { s: { type: 'succeed', outputVar: 'x' } } } },
    start: 'load',
    states: {
      load: { type: 'task', task: { kind: 'httpCall:v1', method: 'POST', url: 'https://a.example/${context.id}', params: { query: { q: 'x' } }, headers: { B: 'c' }, body: { a: ['${context.id}'] }, errorMapping: { mapper, target: { kind: 'context', path: 'a.b' } }, resultVar: 'r' }, next: 'work' },
      work: { type: 'task', task: { kind: 'job:v1', type: 'a.b', queue: 'q', args: [1], timeoutSec: 5, totalTimeoutSec: 9, gracePeriodSec: 0, timeoutMode: 'discard', priority: 3, retry: { max_attempts: 2 }, mode: 'notify', detach: true }, next: 'decide' },
      decide: { type: 'choice', choices: [{ when: { predicate: mapper }, next: 'shape' }], default: 'no' },
      shape: { type: 'transform', transform: { mapperRef: 'm', target: { kind: 'context', path: '' } }, next: 'ask' },
      ask: { type: 'wait', wait: { channel: 'manual', input: { schema: true }, timeoutSec: 5, onTimeout: 'rest' }, next: 'hook' },
      hook: { type: 'webhook', webhook: { input: { schema: {} } }, next: 'rest' },
      rest: { type: 'timer', timer: { until: { mapper } }, next: 'both' },
      both: { type: 'parallel', parallel: { branches: [{ name: 'one', start: 'e', states: { e: { type: 'succeed' } } }], join: { strategy: 'firstCompleted', errorPolicy: 'failFast', mapperRef: 'm', resultVar: 'j' } }, next: 'inner' },
      inner: { type: 'subjourney', subjourney: { ref: 'sub', input: { mapper }, resultKind: 'outcome', onFailure: { behavior: 'capture' } }, next: 'yes' },
      yes: { type: 'succeed' },
      no: { type: 'fail', errorCode: 'NO', reason: '${context.why}' },
    },
  },
}

describe('one of everything', () => {
  test('is read, and is plain data', async () => {
    const { definition, errors, warnings } = await read(WHOLE)
    expect(errors).toEqual([])
    expect(warnings).toEqual([])
    expect(JSON.parse(JSON.stringify(definition))).toEqual(definition)
    expect(definition).toMatchObject({
      execution: { maxDurationMs: 60_000 },
      startMode: 'async',
      cancellable: false,
      links: false,
      starting: {
        headersToContext: { 'x-user': 'user' },
        headersPassthrough: [{ from: 'traceparent', to: 'traceparent' }],
      },
      submitting: { ask: { queryToContext: { q: 'q' } } },
      metadata: { tags: { fromHeaders: ['x-tag'] }, attributes: { fromPayload: { id: 'a.b' } } },
      states: {
        load: {
          body: { literal: '{"a":["${context.id}"]}' },
          resilience: { maxAttempts: 2 },
          errorMapping: { target: { kind: 'context', path: ['a', 'b'] } },
        },
        work: {
          request: {
            queue: 'q',
            priority: 3,
            timeout: 5,
            total_timeout: 9,
            grace_period: 0,
            x_on_timeout: 'discard',
            retry: { max_attempts: 2 },
          },
          args: { literal: '[1]' },
        },
        shape: { mapper, target: { kind: 'context', path: [] } },
        rest: { kind: 'until', due: mapper },
      },
    })
  })

  test('with any value in the place of any other, it is judged and nothing breaks', async () => {
    const places = paths(WHOLE)
    await fc.assert(
      fc.asyncProperty(fc.constantFrom(...places), fc.jsonValue({ maxDepth: 3 }), async (place, value) => {
        const { definition, errors } = await read(replaced(WHOLE, place, value))
        expect(definition === null).toBe(errors.length > 0)
      }),
      { numRuns: 500 },
    )
  })

  test('objects that cannot become a text are judged like any other, wherever they stand', async () => {
    for (const place of paths(WHOLE))
      for (const value of [{ toString: 1, valueOf: 1 }, [{ toString: 1, valueOf: 1 }]]) {
        const { definition, errors } = await read(replaced(WHOLE, place, value))
        expect(definition === null, place.join('/')).toBe(errors.length > 0)
      }
  })

  test('an unknown key is an error, wherever keys are ours', async () => {
    const open =
      /\/(schema|definitions|mappers|outcomes|states|subjourneys|headers|query|body|retry|args|steps|headersToContext|queryToContext|fromPayload|task|attributes)$/
    for (const place of paths(WHOLE).filter((path) => path.length > 0)) {
      const pointer = `/${place.join('/')}`
      const at = valueAt(WHOLE, place)
      if (typeof at !== 'object' || at === null || Array.isArray(at)) continue
      const { errors } = await read(replaced(WHOLE, place, { ...at, colour: 'red' }))
      if (open.test(pointer) || /\/(schema|body|retry)\//.test(pointer)) continue
      expect(
        errors.map(({ path }) => path),
        pointer,
      ).toContain(`${pointer}/colour`)
    }
  })
})

test('whatever JSON is read, nothing breaks', async () => {
  await fc.assert(
    fc.asyncProperty(fc.jsonValue(), async (value) => {
      expect((await read(value)).definition).toBeNull()
    }),
  )
})

test('nesting beyond what anybody writes is refused before it is walked through', async () => {
  let deep: unknown = 1
  for (let level = 0; level < 100_000; level += 1) deep = [deep]
  expect(isDeeperThan(deep, 64)).toBe(true)
  expect((await read(deep)).errors).toMatchObject([{ code: 'SHAPE-1', path: '' }])
})

test('a chain of thousands of states is judged', async () => {
  const states: Record<string, unknown> = { end: { type: 'succeed' } }
  const transform = { mapper, target: { kind: 'var' }, resultVar: 'x' }
  for (let index = 0; index < 5_000; index += 1)
    states[`s${String(index)}`] = {
      type: 'transform',
      transform,
      next: index === 4_999 ? 's0' : `s${String(index + 1)}`,
    }
  const { errors, warnings } = await read({ ...WHOLE, spec: { start: 's0', states } })
  expect(errors).toEqual([])
  expect(warnings.map(({ code, path }) => [code, path])).toEqual([
    ['GRAPH-1', '/spec/states/end'],
    ['GRAPH-2', '/spec/states/s0'],
  ])
})

describe('the budget', () => {
  const limits = { defaultMs: days(1), capMs: days(7) }
  const execution = (ms: number) => ({
    execution: { maxDurationMs: ms as never, onTimeout: { errorCode: 'A', reason: 'b' } },
  })
  test('is what the author says, or the default, and never more than the cap', () => {
    expect(effectiveBudgetMs(execution(5_000), limits)).toBe(5_000)
    expect(effectiveBudgetMs({ execution: null }, limits)).toBe(days(1))
    expect(effectiveBudgetMs(execution(days(8)), limits)).toBe(days(7))
    expect(effectiveBudgetMs({ execution: null }, { defaultMs: days(9), capMs: days(7) })).toBe(days(7))
  })
})

test('an Api answers at its name and at its route', () => {
  expect(pathsOf({ kind: 'Api', name: 'a', route: null })).toEqual(['/apis/a'])
  expect(pathsOf({ kind: 'Api', name: 'a', route: { path: '/apis/b', method: 'POST' } })).toEqual([
    '/apis/a',
    '/apis/b',
  ])
  expect(pathsOf({ kind: 'Api', name: 'a', route: { path: '/apis/a', method: 'POST' } })).toEqual(['/apis/a'])
  expect(pathsOf({ kind: 'Journey', name: 'a', route: null })).toEqual([])
})

test('JSON is the same however its members are ordered, and never otherwise', () => {
  fc.assert(
    fc.property(fc.jsonValue(), fc.jsonValue(), (a, b) => {
      expect(isSameJson(a, turned(a))).toBe(true)
      expect(isSameJson(a, b)).toBe(sorted(a) === sorted(b))
    }),
  )
})

// ---- Walking through JSON ----

type Place = readonly (string | number)[]

function paths(value: unknown, at: Place = []): Place[] {
  if (typeof value !== 'object' || value === null) return [at]
  const keys = Array.isArray(value) ? [...value.keys()] : Object.keys(value)
  return [at, ...keys.flatMap((key) => paths((value as Record<string | number, unknown>)[key], [...at, key]))]
}

const valueAt = (value: unknown, place: Place): unknown =>
  place.reduce((inner, key) => (inner as Record<string | number, unknown>)[key], value)

function replaced(value: unknown, [key, ...rest]: Place, by: unknown): unknown {
  if (key === undefined) return by
  const copy = (Array.isArray(value) ? [...(value as unknown[])] : { ...(value as object) }) as Record<
    string | number,
    unknown
  >
  copy[key] = replaced(copy[key], rest, by)
  return copy
}

const turned = (value: unknown): unknown =>
  Array.isArray(value)
    ? value.map(turned)
    : typeof value === 'object' && value !== null
      ? Object.fromEntries(
          Object.entries(value)
            .reverse()
            .map(([key, inner]) => [key, turned(inner)]),
        )
      : value

const sorted = (value: unknown): string =>
  JSON.stringify(value, (_, inner: unknown) =>
    typeof inner === 'object' && inner !== null && !Array.isArray(inner)
      ? Object.fromEntries(Object.entries(inner).sort(([a], [b]) => (a < b ? -1 : 1)))
      : inner,
  )
