import { expect, test } from 'vitest'
import { drained, NOON } from '../../builders.suite.ts'
import { readWorkflow } from './workflow-request.ts'
import { MAX_NESTING, MAX_DEPENDENCIES, MAX_JOBS } from './workflow-shapes.ts'
import { asked, job, refusalOf } from '../../workflow/workflow.suite.ts'

test('numbers the tree level by level, so that the children of a list are neighbours', () => {
  const { branch, steps, jobs } = asked({
    type: 'chain',
    steps: [job('a'), { type: 'group', jobs: [job('b'), { type: 'chain', steps: [job('c'), job('d')] }] }, job('e')],
  })
  expect(branch).toMatchObject({ kind: 'chain', first: 1, count: 3 })
  expect(steps.map(({ number, up, path, type }) => [number, up, path, type])).toEqual([
    [1, 0, '0', 'a'],
    [2, 0, '1', 'group'],
    [3, 0, '2', 'e'],
    [4, 2, '1/0', 'b'],
    [5, 2, '1/1', 'chain'],
    [6, 5, '1/1/0', 'c'],
    [7, 5, '1/1/1', 'd'],
  ])
  expect(steps[1]?.branch).toMatchObject({ kind: 'group', first: 4, count: 2 })
  expect(jobs).toBe(5)
})

test('a batch has its callbacks after its jobs, and they are no members', () => {
  const { branch, steps, jobs } = asked({
    type: 'batch',
    jobs: [job('a'), job('b')],
    callbacks: { on_failure: job('f'), on_complete: job('c') },
  })
  expect(branch.hooks).toEqual(['on_complete', 'on_failure'])
  expect(steps.map(({ path, hook }) => [path, hook])).toEqual([
    ['0', null],
    ['1', null],
    ['on_complete', 'on_complete'],
    ['on_failure', 'on_failure'],
  ])
  expect(jobs).toBe(2)
})

test('a DAG has no type, and knows who waits for whom', () => {
  const { branch, steps } = asked({
    steps: [
      job('a', { id: 'top', depends_on: [] }),
      job('b', { id: 'left', depends_on: ['top'] }),
      job('c', { id: 'right', depends_on: ['top'] }),
      job('d', { id: 'bottom', depends_on: ['right', 'left'] }),
    ],
  })
  expect(branch.kind).toBe('dag')
  expect(steps.map(({ id, after, next, missing }) => [id, after, next, missing])).toEqual([
    ['top', [], [2, 3], 0],
    ['left', [1], [4], 1],
    ['right', [1], [4], 1],
    ['bottom', [3, 2], [], 2],
  ])
})

test('keeps a step’s request as it was written, without what only the workflow understands', () => {
  const args = '[1.0, 9007199254740993, {"__proto__": 1}]'
  const text = `{"type":"chain","steps":[{"id":"s","type":"a","args":${args},"options":{"retry":{"maxAttempts":2}}}]}`
  const { steps, requests } = drained(readWorkflow(text, JSON.parse(text), NOON))
  const template = `{"type":"a","args":${args},"options":{"retry":{"maxAttempts":2}}}`
  expect(steps[0]).toMatchObject({ id: 's', template })
  expect(requests.get(1)).toMatchObject({ type: 'a', id: null, retry: { maxAttempts: 2 } })
  expect(requests.get(1)?.body).toContain(`"args":${args}`)
})

test('options of a list are defaults for all below it; a twin or another spelling counts as said', () => {
  const { requests } = asked({
    type: 'group',
    options: { queue: 'outer', timeout: 60, retry: { max_attempts: 7 }, tags: ['x'] },
    jobs: [
      job('a'),
      job('b', { timeout_ms: 5_000, options: { retry_policy: { max_attempts: 1 } } }),
      { type: 'chain', options: { queue: 'inner', timeout_ms: 1_000 }, steps: [job('c'), job('d', { queue: 'own' })] },
    ],
  })
  const [a, b, c, d] = [1, 2, 4, 5].map((number) => requests.get(number))
  expect(a).toMatchObject({ queue: 'outer', asked: { timeout: 60_000 }, retry: { maxAttempts: 7 } })
  expect(a?.body).toContain('"tags":["x"]')
  expect(b).toMatchObject({ queue: 'outer', asked: { timeout: 5_000 }, retry: { maxAttempts: 1 } })
  expect(c).toMatchObject({ queue: 'inner', asked: { timeout: 1_000 }, retry: { maxAttempts: 7 } })
  expect(d).toMatchObject({ queue: 'own', asked: { timeout: 1_000 } })
})

test('keeps fields it does not know, and the limits of the whole', () => {
  const request = asked({
    type: 'group',
    name: 'n',
    jobs: [job('a')],
    workflow_timeout: 60,
    workflow_timeout_ms: 60_000,
    meta: { a: 1 },
    x_mine: true,
    state: 'completed',
    metadata: {},
  })
  expect(request).toMatchObject({ name: 'n', limitMs: 60_000, more: '"meta":{"a":1},"x_mine":true' })
  expect(asked({ type: 'group', jobs: [job('a')], workflow_timeout_ms: 0 }).limitMs).toBeNull()
})

const one = [job('a')]
const nested = (depth: number): object => (depth === 0 ? job('a') : { type: 'chain', steps: [nested(depth - 1)] })

const REFUSED: [string, unknown, string, string][] = [
  ['an unknown type', { type: 'saga', steps: one }, 'invalid_request', 'type'],
  ['jobs without a type', { jobs: one }, 'invalid_request', 'type'],
  ['no list', { type: 'chain' }, 'invalid_request', 'steps'],
  ['an empty list', { type: 'group', jobs: [] }, 'invalid_request', 'jobs'],
  ['a list that is none', { type: 'group', jobs: { a: 1 } }, 'invalid_request', 'jobs'],
  ['the wrong list', { type: 'chain', jobs: one }, 'invalid_request', 'jobs'],
  ['an empty list inside', { type: 'chain', steps: [{ type: 'group', jobs: [] }] }, 'invalid_request', 'steps[0].jobs'],
  ['an entry that is not an object', { type: 'chain', steps: [job('a'), 7] }, 'invalid_request', 'steps[1]'],
  ['a batch without callbacks', { type: 'batch', jobs: one }, 'invalid_request', 'callbacks'],
  ['a batch with no callback', { type: 'batch', jobs: one, callbacks: {} }, 'invalid_request', 'callbacks'],
  [
    'an unknown callback',
    { type: 'batch', jobs: one, callbacks: { on_end: job('x') } },
    'invalid_request',
    'callbacks.on_end',
  ],
  [
    'a callback that is a list',
    { type: 'batch', jobs: one, callbacks: { on_success: { type: 'group', jobs: one } } },
    'invalid_request',
    'callbacks.on_success',
  ],
  [
    'callbacks of a group',
    { type: 'group', jobs: one, callbacks: { on_success: job('x') } },
    'invalid_request',
    'callbacks',
  ],
  [
    'depends_on in a chain',
    { type: 'chain', steps: [job('a'), job('b', { depends_on: ['x'] })] },
    'invalid_request',
    'steps[1].depends_on',
  ],
  ['a DAG step without an id', { steps: one }, 'invalid_request', 'steps[0].id'],
  [
    'two DAG steps of one name',
    { steps: [job('a', { id: 'x' }), job('b', { id: 'x' })] },
    'invalid_request',
    'steps[1].id',
  ],
  [
    'an unknown dependency',
    { steps: [job('a', { id: 'x', depends_on: ['y'] })] },
    'invalid_request',
    'steps[0].depends_on',
  ],
  [
    'a dependency on itself',
    { steps: [job('a', { id: 'x', depends_on: ['x'] })] },
    'invalid_request',
    'steps[0].depends_on',
  ],
  [
    'a dependency named twice',
    { steps: [job('a', { id: 'x' }), job('b', { id: 'y', depends_on: ['x', 'x'] })] },
    'invalid_request',
    'steps[1].depends_on',
  ],
  [
    'a dependency that is not a name',
    { steps: [job('a', { id: 'x', depends_on: [1] })] },
    'invalid_request',
    'steps[0].depends_on',
  ],
  [
    'a circle',
    { steps: [job('a', { id: 'x', depends_on: ['y'] }), job('b', { id: 'y', depends_on: ['x'] })] },
    'invalid_request',
    'steps',
  ],
  ['too much nesting', nested(MAX_NESTING + 1), 'invalid_request', ''],
  [
    'a workflow_timeout of 0',
    { type: 'chain', steps: one, workflow_timeout: 0 },
    'validation_error',
    'workflow_timeout',
  ],
  [
    'a workflow_timeout in words',
    { type: 'chain', steps: one, workflow_timeout: 'PT1M' },
    'validation_error',
    'workflow_timeout',
  ],
  [
    'twins that differ',
    { type: 'chain', steps: one, workflow_timeout: 1, workflow_timeout_ms: 2 },
    'validation_error',
    'workflow_timeout_ms',
  ],
  [
    'a workflow_timeout inside',
    { type: 'chain', steps: [{ type: 'group', jobs: one, workflow_timeout: 1 }] },
    'validation_error',
    'steps[0].workflow_timeout',
  ],
  [
    'a parent inside',
    { type: 'chain', steps: [job('a', { options: { x_parent: { job_id: 'x' } } })] },
    'validation_error',
    'steps[0].x_parent',
  ],
  [
    'a unique step',
    { type: 'chain', steps: [job('a', { unique: { key: 'x' } })] },
    'validation_error',
    'steps[0].unique',
  ],
  [
    'inheriting without a parent',
    { type: 'chain', steps: one, x_inherit_deadline: true },
    'validation_error',
    'x_inherit_deadline',
  ],
  ['a bad job type', { type: 'chain', steps: [job('A B')] }, 'invalid_request', 'steps[0].type'],
  ['a job without arguments', { type: 'chain', steps: [{ type: 'a' }] }, 'invalid_request', 'steps[0].args'],
  [
    'a bad option',
    { type: 'chain', steps: [job('a', { options: { priority: 'high' } })] },
    'invalid_request',
    'steps[0].priority',
  ],
  [
    'options that are none',
    { type: 'chain', steps: [job('a', { options: [] })] },
    'invalid_request',
    'steps[0].options',
  ],
  [
    'a bad limit deep inside',
    { type: 'chain', steps: [{ type: 'group', jobs: [job('a'), job('b', { timeout: -1 })] }] },
    'validation_error',
    'steps[0].jobs[1].timeout',
  ],
  [
    'a bad callback',
    { type: 'batch', jobs: one, callbacks: { on_success: job('x', { retry: 7 }) } },
    'validation_error',
    'callbacks.on_success.retry',
  ],
  ['a bad default', { type: 'chain', steps: one, options: { timeout: -1 } }, 'validation_error', 'steps[0].timeout'],
  ['an id that is not a UUIDv7', { type: 'chain', steps: one, id: 'wf_1' }, 'invalid_request', 'id'],
  ['a name that is none', { type: 'chain', steps: one, name: 7 }, 'invalid_request', 'name'],
  ['too large a meta', { type: 'chain', steps: one, meta: { a: 'x'.repeat(70_000) } }, 'payload_too_large', 'meta'],
]

test.each(REFUSED)('refuses %s and names the place', (_, body, code, field) => {
  expect(refusalOf(body)).toMatchObject({ code, field })
})

test('goes as deep as it says', () => {
  expect(asked(nested(MAX_NESTING)).jobs).toBe(1)
})

/** What takes quadratic time takes minutes. */
const SOON_MS = 10_000

test('takes as many jobs as it says, and refuses a hundred thousand without taking them apart', () => {
  const many = (count: number): object => ({ type: 'group', jobs: Array.from({ length: count }, () => job('a')) })
  expect(asked(many(MAX_JOBS)).jobs).toBe(MAX_JOBS)
  expect(refusalOf(many(MAX_JOBS + 1))).toMatchObject({ code: 'invalid_request', field: 'jobs' })
  const began = performance.now()
  expect(refusalOf(many(100_000)).message).toContain('at most 10000 jobs')
  expect(performance.now() - began).toBeLessThan(SOON_MS)
  const inside = { type: 'chain', steps: [many(6_000), many(6_000)] }
  expect(refusalOf(inside).message).toContain('at most 10000 jobs')
}, 30_000)

test('finds a circle of ten thousand in linear time, and names a part of it', () => {
  const steps = Array.from({ length: 10_000 }, (_, i) =>
    job('a', { id: `s${String(i)}`, depends_on: [`s${String((i + 1) % 10_000)}`] }),
  )
  const began = performance.now()
  expect(refusalOf({ steps }).message).toContain('wait for each other: "s0", "s1", "s2"')
  expect(performance.now() - began).toBeLessThan(SOON_MS)
}, 30_000)

test('a fan of ten thousand is connected in linear time; too many dependencies are refused', () => {
  const fan = [
    job('a', { id: 'hub' }),
    ...Array.from({ length: 9_999 }, (_, i) => job('a', { id: `s${String(i)}`, depends_on: ['hub'] })),
  ]
  const began = performance.now()
  expect(asked({ steps: fan }).steps[0]?.next).toHaveLength(9_999)
  expect(performance.now() - began).toBeLessThan(SOON_MS)
  const width = Math.ceil(Math.sqrt(MAX_DEPENDENCIES)) + 1
  const first = Array.from({ length: width }, (_, i) => job('a', { id: `f${String(i)}` }))
  const names = first.map(({ id }) => id)
  const second = Array.from({ length: width }, (_, i) => job('a', { id: `g${String(i)}`, depends_on: names }))
  expect(refusalOf({ steps: [...first, ...second] }).message).toContain('dependencies')
}, 30_000)
