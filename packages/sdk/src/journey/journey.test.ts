import { expect, test } from 'vitest'
import { parse } from 'yaml'
import { defineJob } from '../job/define-job.ts'
import { InputError } from '../errors.ts'
import { jsonata, mapperRef } from './journey-expression.ts'
import { state } from './journey-states.ts'
import { api, graph, journey, schema } from './journey.ts'

const anything = schema({ type: 'object' })

test('every state becomes what one would write in YAML', () => {
  const made = journey('order-screening', '1.0.0', {
    description: 'Is this order all right?',
    tags: ['orders'],
    execution: { maxDuration: '30s', onTimeout: { errorCode: 'ORDER_TIMEOUT', reason: 'took too long' } },
    lifecycle: { startMode: 'async', cancellable: true },
    defaults: { http: { timeout: '4s', headers: { Accept: 'application/json' } } },
    input: schema<{ orderId: string }>({ type: 'object', required: ['orderId'] }),
    mappers: { summary: jsonata`{ "order": context.orderId }` },
    resilience: {
      default: 'calm',
      definitions: {
        calm: {
          maxAttempts: 3,
          retryOn: ['NETWORK_ERROR', 'HTTP_5XX'],
          backoff: { kind: 'exponential', baseDelay: '100ms', maxDelay: '2s', jitter: 'full' },
        },
      },
    },
    start: 'load',
    states: {
      load: state.httpCall({
        method: 'GET',
        url: 'https://orders.example/orders/${context.orderId}',
        timeout: '2s',
        resultVar: 'order',
        errorMapping: { mapper: jsonata`payload.status`, resultVar: 'problem' },
        next: 'found',
      }),
      found: state.choice([{ when: jsonata`context.order.ok`, next: 'checks' }], 'missing'),
      checks: state.parallel({
        branches: {
          risk: graph('score', {
            score: state.job({
              type: 'risk.score',
              queue: 'risk',
              args: jsonata`[context.orderId]`,
              timeout: '5s',
              totalTimeout: '20s',
              gracePeriod: '1s',
              timeoutMode: 'retry',
              retry: { maxAttempts: 2 },
              mode: 'await',
              resultVar: 'score',
              next: 'done',
            }),
            done: state.succeed('score'),
          }),
          patience: graph('sleep', { sleep: state.timer({ duration: '10s', next: 'over' }), over: state.succeed() }),
        },
        strategy: 'anyOf',
        mapper: jsonata`{ "risk": branches.risk.result }`,
        resultVar: 'checks',
        next: 'approve',
      }),
      approve: state.wait({
        input: anything,
        response: { outputVar: 'hint', schema: anything },
        timeout: '8s',
        onTimeout: 'escalate',
        next: 'decided',
      }),
      escalate: state.webhook({ input: anything, next: 'decided' }),
      decided: state.transform({ mapper: mapperRef('summary'), next: 'placed' }),
      placed: state.transform({ mapper: jsonata`1`, path: 'a.b', next: 'tagged' }),
      tagged: state.transform({ mapper: jsonata`{ "orderId": context.orderId }`, attributes: true, next: 'ship' }),
      ship: state.subjourney({
        ref: 'shipping',
        input: jsonata`{ "id": context.orderId }`,
        resultVar: 'shipment',
        resultKind: 'outcome',
        onFailure: 'capture',
        next: 'late',
      }),
      late: state.timer({ until: new Date(0), next: 'finish' }),
      finish: state.succeed('shipment'),
      missing: state.fail('ORDER_NOT_FOUND', 'no order ${context.orderId}'),
    },
    subjourneys: {
      shipping: graph('book', {
        book: state.httpCall({
          method: 'POST',
          url: 'https://ship.example/book',
          mode: 'notify',
          body: { id: '${context.id}' },
          next: 'ok',
        }),
        ok: state.succeed(),
      }),
    },
    compensation: {
      ...graph('undo', {
        undo: state.httpCall({
          method: 'POST',
          url: 'https://orders.example/undo',
          body: jsonata`{ "because": outcome.terminationKind }`,
          next: 'end',
        }),
        end: state.succeed(),
      }),
      alsoFor: [{ predicate: jsonata`output.partial` }],
    },
    outcomes: { Degraded: { phase: 'SUCCEEDED', predicate: jsonata`$not($exists(context.decision))` } },
  })
  expect(made.toJSON()).toEqual(parse(ORDER_SCREENING))
  expect(JSON.parse(JSON.stringify(made))).toEqual(made.toJSON())
})

test('an Api has a route and answers of its own', () => {
  const made = api('price-quote', '1.0.0', {
    http: {
      route: { path: '/apis/price-quote', method: 'POST' },
      apiResponses: { default: { SUCCEEDED: 200, FAILED: 'fromProblemStatus' } },
    },
    errors: { envelope: { format: 'problemDetails' } },
    start: 'done',
    states: { done: state.succeed() },
  })
  expect(made.toJSON()).toEqual({
    apiVersion: 'v1',
    kind: 'Api',
    metadata: { name: 'price-quote', version: '1.0.0' },
    spec: {
      bindings: {
        http: {
          route: { path: '/apis/price-quote', method: 'POST' },
          apiResponses: { default: { SUCCEEDED: 200, FAILED: 'fromProblemStatus' } },
        },
      },
      errors: { envelope: { format: 'problemDetails' } },
      start: 'done',
      states: { done: { type: 'succeed' } },
    },
  })
})

test('a call may be by operation', () => {
  const made = journey('by-operation', '1.0.0', {
    apis: { users: { openApi: { servers: [{ url: 'https://users.example' }] } } },
    start: 'load',
    states: {
      load: state.httpCall({ operationRef: 'users.getUser', params: { path: { id: '7' } }, next: 'done' }),
      done: state.succeed(),
    },
  })
  expect(made.toJSON().spec).toMatchObject({
    apis: { users: { openApi: { servers: [{ url: 'https://users.example' }] } } },
    states: { load: { task: { kind: 'httpCall:v1', operationRef: 'users.getUser', params: { path: { id: '7' } } } } },
  })
})

test('what is filled into an expression is a value, never code', () => {
  const name = '" & $eval("1") & "'
  expect(jsonata`context.name = ${name} and context.tries < ${3}`).toMatchObject({
    lang: 'jsonata',
    expr: 'context.name = "\\" & $eval(\\"1\\") & \\"" and context.tries < 3',
  })
  expect(jsonata`$match(context.id, /^\d+$/)`.expr).toBe(String.raw`$match(context.id, /^\d+$/)`)
  const long = jsonata`
    $merge([
      context,
      { "a": 1 }
    ])
  `
  expect(long.expr).toBe('$merge([\n  context,\n  { "a": 1 }\n])')
})

test('a job of defineJob brings its type and its queue', () => {
  const render = defineJob('report.render', { queue: 'reports' })
  expect(state.job({ type: render, args: [1], next: 'x' })).toEqual({
    type: 'task',
    task: { kind: 'job:v1', type: 'report.render', queue: 'reports', args: [1] },
    next: 'x',
  })
})

test('seconds are whole where the definition counts in them, and ISO durations stay as they are', () => {
  expect(() => state.wait({ input: anything, timeout: '1500ms', onTimeout: 'a', next: 'b' })).toThrow(InputError)
  expect(() => state.job({ type: 'a.b', totalTimeout: '0s', next: 'b' })).toThrow(/totalTimeout/)
  expect(state.timer({ duration: 'PT10M', next: 'b' })).toMatchObject({ timer: { duration: 'PT10M' } })
  expect(state.timer({ duration: jsonata`context.pause`, next: 'b' })).toEqual({
    type: 'timer',
    timer: { duration: { mapper: { lang: 'jsonata', expr: 'context.pause' } } },
    next: 'b',
  })
})

test('what cannot travel as JSON is refused where it stands', () => {
  const call = state.httpCall({ method: 'POST', url: 'https://a.example', body: { at: new Date(0) }, next: 'end' })
  expect(() => journey('a', '1.0.0', { start: 'call', states: { call, end: state.succeed() } })).toThrow(
    /spec\/states\/call\/task\/body\/at/,
  )
})

const ORDER_SCREENING = String.raw`
apiVersion: v1
kind: Journey
metadata: { name: order-screening, version: 1.0.0, description: 'Is this order all right?', tags: [orders] }
spec:
  execution:
    maxDurationSec: 30
    onTimeout: { errorCode: ORDER_TIMEOUT, reason: took too long }
  lifecycle: { startMode: async, cancellable: true }
  defaults: { http: { timeoutMs: 4000, headers: { Accept: application/json } } }
  input: { schema: { type: object, required: [orderId] } }
  mappers:
    summary: { lang: jsonata, expr: '{ "order": context.orderId }' }
  policies:
    httpResilience:
      default: calm
      definitions:
        calm:
          maxAttempts: 3
          retryOn: [NETWORK_ERROR, HTTP_5XX]
          backoff: { kind: exponential, baseDelayMs: 100, maxDelayMs: 2000, jitter: full }
  start: load
  states:
    load:
      type: task
      task:
        kind: httpCall:v1
        method: GET
        url: 'https://orders.example/orders/${'$'}{context.orderId}'
        timeoutMs: 2000
        resultVar: order
        errorMapping:
          when: nonOk
          mapper: { lang: jsonata, expr: payload.status }
          target: { kind: var }
          resultVar: problem
      next: found
    found:
      type: choice
      choices:
        - when: { predicate: { lang: jsonata, expr: context.order.ok } }
          next: checks
      default: missing
    checks:
      type: parallel
      parallel:
        branches:
          - name: risk
            start: score
            states:
              score:
                type: task
                task:
                  kind: job:v1
                  type: risk.score
                  queue: risk
                  args: { mapper: { lang: jsonata, expr: '[context.orderId]' } }
                  timeoutSec: 5
                  totalTimeoutSec: 20
                  gracePeriodSec: 1
                  timeoutMode: retry
                  retry: { max_attempts: 2 }
                  mode: await
                  resultVar: score
                next: done
              done: { type: succeed, outputVar: score }
          - name: patience
            start: sleep
            states:
              sleep: { type: timer, timer: { duration: PT10S }, next: over }
              over: { type: succeed }
        join:
          strategy: anyOf
          mapper: { lang: jsonata, expr: '{ "risk": branches.risk.result }' }
          resultVar: checks
      next: approve
    approve:
      type: wait
      wait:
        channel: manual
        input: { schema: { type: object } }
        response: { outputVar: hint, schema: { type: object } }
        timeoutSec: 8
        onTimeout: escalate
      next: decided
    escalate:
      type: webhook
      webhook: { input: { schema: { type: object } } }
      next: decided
    decided:
      type: transform
      transform: { mapperRef: summary, target: { kind: context } }
      next: placed
    placed:
      type: transform
      transform: { mapper: { lang: jsonata, expr: '1' }, target: { kind: context, path: a.b } }
      next: tagged
    tagged:
      type: transform
      transform:
        mapper: { lang: jsonata, expr: '{ "orderId": context.orderId }' }
        target: { kind: attributes }
      next: ship
    ship:
      type: subjourney
      subjourney:
        ref: shipping
        input: { mapper: { lang: jsonata, expr: '{ "id": context.orderId }' } }
        resultVar: shipment
        resultKind: outcome
        onFailure: { behavior: capture }
      next: late
    late: { type: timer, timer: { until: '1970-01-01T00:00:00.000Z' }, next: finish }
    finish: { type: succeed, outputVar: shipment }
    missing: { type: fail, errorCode: ORDER_NOT_FOUND, reason: 'no order ${'$'}{context.orderId}' }
  subjourneys:
    shipping:
      start: book
      states:
        book:
          type: task
          task:
            kind: httpCall:v1
            method: POST
            url: https://ship.example/book
            mode: notify
            body: { id: '${'$'}{context.id}' }
          next: ok
        ok: { type: succeed }
  compensation:
    mode: async
    start: undo
    alsoFor:
      - when: { predicate: { lang: jsonata, expr: output.partial } }
    states:
      undo:
        type: task
        task:
          kind: httpCall:v1
          method: POST
          url: https://orders.example/undo
          body: { mapper: { lang: jsonata, expr: '{ "because": outcome.terminationKind }' } }
        next: end
      end: { type: succeed }
  outcomes:
    Degraded: { when: { phase: SUCCEEDED, predicate: { lang: jsonata, expr: '$not($exists(context.decision))' } } }
`
