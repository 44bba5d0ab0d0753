import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { shownStates, workflowProgress } from './view.ts'
import { MAX_PARENT_RESULTS } from './results.ts'
import { FAILED, job, OK, Stage } from './workflow.suite.ts'
import type { WorkflowStep } from './workflow.ts'

const chain = (...steps: object[]): object => ({ type: 'chain', steps })
const group = (...jobs: object[]): object => ({ type: 'group', jobs })
const hooks = { on_complete: job('c'), on_success: job('s'), on_failure: job('f') }
const batch = (callbacks: object, ...jobs: object[]): object => ({ type: 'batch', jobs, callbacks })
const step = (id: string, ...depends_on: string[]): object => job(id, { id, depends_on })

const pathsOf = (stage: Stage): string[] => stage.started.map(({ path }) => path)
const given = (stage: Stage, path: string): unknown =>
  JSON.parse(stage.started.find((one) => one.path === path)?.results ?? 'null') as unknown
const shown = (stage: Stage): string[] => [
  ...shownStates({ workflow: stage.workflow, steps: [...stage.steps.values()], jobs: new Map() }).values(),
]

describe('a chain', () => {
  test('starts one step at a time and hands all earlier results on, in order', () => {
    const stage = new Stage(chain(job('a'), job('b'), job('c')))
    expect(pathsOf(stage)).toEqual(['0'])
    stage.done('0', { n: 1 })
    expect(pathsOf(stage)).toEqual(['0', '1'])
    stage.done('1', 'two').done('2', 3)
    expect([given(stage, '0'), given(stage, '1'), given(stage, '2')]).toEqual([[], [{ n: 1 }], [{ n: 1 }, 'two']])
    expect(stage.workflow).toMatchObject({ state: 'completed', jobsCompleted: 3, branch: { completed: 3, open: 0 } })
    expect(stage.events).toEqual([
      'workflow.started',
      'workflow.step_completed',
      'workflow.step_completed',
      'workflow.step_completed',
      'workflow.completed',
    ])
  })

  test('halts at a failure: nothing after it starts, and the rest is shown as cancelled', () => {
    const stage = new Stage(chain(job('a'), job('b'), group(job('c')))).done('0').fail('1')
    expect(pathsOf(stage)).toEqual(['0', '1'])
    expect(stage.workflow).toMatchObject({ state: 'failed', jobsCompleted: 1, jobsFailed: 1 })
    expect(JSON.parse(stage.workflow.error ?? '')).toMatchObject({
      type: 'step_failed',
      failed_step_index: 1,
      failed_step_id: 'step-1',
      failed_job_ids: ['job-1'],
      errors: [{ job_id: 'job-1', code: 'boom', message: 'It broke.', attempt: 1 }],
    })
    expect(shown(stage)).toEqual(['completed', 'failed', 'cancelled', 'cancelled'])
  })

  test('leaves out the oldest results when they grow too large, never the last', () => {
    const stage = new Stage(chain(job('a'), job('b'), job('c'), job('d')))
    const large = 'x'.repeat(MAX_PARENT_RESULTS / 2)
    stage.done('0', large).done('1', large).done('2', 'last')
    expect(given(stage, '3')).toEqual([null, large, 'last'])
  })
})

describe('a group', () => {
  test('starts all at once, in order, and is over when all are', () => {
    const stage = new Stage(group(job('a'), job('b'), job('c')))
    expect(pathsOf(stage)).toEqual(['0', '1', '2'])
    stage.done('2').done('0')
    expect(stage.workflow.state).toBe('running')
    expect(stage.done('1').workflow).toMatchObject({ state: 'completed', jobsCompleted: 3 })
  })

  test('fails only when all are over, and tells of each failure', () => {
    const stage = new Stage(group(job('a'), job('b'), job('c'))).fail('0').done('1')
    expect(stage.workflow.state).toBe('running')
    stage.fail('2')
    expect(stage.workflow).toMatchObject({ state: 'failed', jobsCompleted: 1, jobsFailed: 2 })
    expect(JSON.parse(stage.workflow.error ?? '')).toMatchObject({
      message: '2 of 3 jobs of the group failed.',
      failed_job_ids: ['job-0', 'job-2'],
    })
  })

  test('touches one document of its own for a member that ends, however many there are', () => {
    const stage = new Stage(group(...Array.from({ length: 1_000 }, () => job('a'))))
    expect(stage.done('500').looked).toBe(1)
    expect(stage.done('999').looked).toBe(1)
  })

  test('the error of the whole names ten failures at most', () => {
    const stage = new Stage(group(...Array.from({ length: 50 }, () => job('a'))))
    for (let index = 0; index < 50; index += 1) stage.fail(String(index))
    expect(stage.workflow.failures).toHaveLength(10)
    expect(stage.workflow.jobsFailed).toBe(50)
  })
})

describe('a batch', () => {
  test('calls on_complete and on_success when all succeeded, with the results by index', () => {
    const stage = new Stage(batch(hooks, job('a'), job('b'))).done('1', 'B').done('0', 'A')
    expect(pathsOf(stage)).toEqual(['0', '1', 'on_complete', 'on_success'])
    expect(given(stage, 'on_success')).toEqual(['A', 'B'])
    expect(stage.workflow.state).toBe('running')
    stage.done('on_success').done('on_complete')
    expect(stage.workflow).toMatchObject({ state: 'completed', jobs: 2, jobsCompleted: 2 })
  })

  test('calls on_complete and on_failure when any failed, with null for failures; and is completed if they are', () => {
    const stage = new Stage(batch(hooks, job('a'), job('b'))).fail('0').done('1', 'B')
    expect(pathsOf(stage)).toEqual(['0', '1', 'on_complete', 'on_failure'])
    expect(given(stage, 'on_failure')).toEqual([null, 'B'])
    expect(stage.done('on_failure').done('on_complete').workflow.state).toBe('completed')
    expect(stage.events.filter((type) => type === 'workflow.callback_fired')).toHaveLength(2)
  })

  test('fails when a callback fails', () => {
    const stage = new Stage(batch(hooks, job('a'))).done('0').fail('on_success').done('on_complete')
    expect(stage.workflow).toMatchObject({ state: 'failed', jobsCompleted: 1, jobsFailed: 0 })
    expect(JSON.parse(stage.workflow.error ?? '')).toMatchObject({ failed_step_id: 'on_success' })
  })

  test('fails when a job failed and no callback was for that', () => {
    const stage = new Stage(batch({ on_success: job('s') }, job('a'), job('b'))).fail('0').done('1')
    expect(pathsOf(stage)).toEqual(['0', '1'])
    expect(stage.workflow.state).toBe('failed')
  })
})

describe('a DAG', () => {
  test('a diamond: the bottom waits for both sides, and sees their results in the order they were named', () => {
    const stage = new Stage({ steps: [step('t'), step('l', 't'), step('r', 't'), step('b', 'r', 'l')] })
    expect(pathsOf(stage)).toEqual(['0'])
    stage.done('0', 'T')
    expect(pathsOf(stage)).toEqual(['0', '1', '2'])
    stage.done('1', 'L')
    expect(pathsOf(stage)).toHaveLength(3)
    stage.done('2', 'R')
    expect([given(stage, '1'), given(stage, '3')]).toEqual([['T'], ['R', 'L']])
    expect(stage.done('3').workflow.state).toBe('completed')
  })

  test('a failure keeps its dependents from starting, at any remove; other branches go on', () => {
    const stage = new Stage({
      steps: [step('a'), step('b', 'a'), step('c', 'b'), step('x'), step('y', 'x'), step('z', 'y', 'c')],
    })
    stage.fail('0')
    expect(stage.workflow.state).toBe('running')
    expect(shown(stage)).toEqual(['failed', 'cancelled', 'cancelled', 'pending', 'waiting', 'cancelled'])
    stage.done('3').done('4')
    expect(pathsOf(stage)).toEqual(['0', '3', '4'])
    expect(stage.workflow).toMatchObject({ state: 'failed', jobsCompleted: 2, jobsFailed: 1 })
  })
})

describe('nesting', () => {
  test('a group inside a chain sees what came before it, and its results are an array inside', () => {
    const stage = new Stage(chain(job('a'), group(job('b'), job('c')), job('d'))).done('0', 'A')
    expect([given(stage, '1/0'), given(stage, '1/1')]).toEqual([['A'], ['A']])
    stage.done('1/1', 'C').done('1/0', 'B')
    expect(given(stage, '2')).toEqual(['A', ['B', 'C']])
    expect(stage.done('2').workflow).toMatchObject({ state: 'completed', jobs: 4, branch: { count: 3, completed: 3 } })
  })

  test('a chain inside a group inside a chain: three levels, results of the inner chain are its last one', () => {
    const stage = new Stage(chain(job('a'), group(chain(job('b'), job('c')), job('d')), job('e'))).done('0', 'A')
    expect(pathsOf(stage)).toEqual(['0', '1/0/0', '1/1'])
    stage.done('1/0/0', 'B')
    expect(given(stage, '1/0/1')).toEqual(['B'])
    stage.done('1/1', 'D').done('1/0/1', 'C')
    expect(given(stage, '2')).toEqual(['A', ['C', 'D']])
  })

  test('a batch inside a chain: the chain goes on when its callbacks are over', () => {
    const stage = new Stage(chain(batch(hooks, job('a'), job('b')), job('z'))).fail('0/0').done('0/1', 'B')
    expect(pathsOf(stage)).toEqual(['0/0', '0/1', '0/on_complete', '0/on_failure'])
    stage.done('0/on_failure')
    expect(pathsOf(stage)).toHaveLength(4)
    stage.done('0/on_complete')
    expect(given(stage, '1')).toEqual([[null, 'B']])
  })

  test('a failed group fails the chain it is in, once it is over', () => {
    const stage = new Stage(chain(group(job('a'), job('b')), job('z'))).fail('0/0')
    expect(stage.workflow.state).toBe('running')
    stage.done('0/1')
    expect(stage.workflow).toMatchObject({ state: 'failed', jobsCompleted: 1, jobsFailed: 1, branch: { failed: 1 } })
  })

  test('a step of a DAG may be a list', () => {
    const stage = new Stage({
      steps: [{ id: 'g', ...group(job('a'), job('b')) }, step('end', 'g')],
    })
    stage.done('0/0', 1).done('0/1', 2)
    expect(given(stage, '1')).toEqual([[1, 2]])
  })

  test('every primitive inside every other, three deep, runs to its end', () => {
    const kinds = [
      (inner: object) => chain(inner, job('z')),
      (inner: object) => group(inner, job('z')),
      (inner: object) => batch(hooks, inner, job('z')),
      (inner: object) => ({ steps: [{ ...inner, id: 'in' }, step('z', 'in')] }),
    ]
    for (const a of kinds)
      for (const b of kinds)
        for (const c of kinds) {
          const stage = new Stage(a(b(c(job('x')))))
          for (let left = 50; left > 0 && stage.workflow.state === 'running'; left -= 1)
            stage.done(stage.running()[0] ?? '')
          expect(stage.workflow).toMatchObject({ state: 'completed', jobsCompleted: stage.workflow.jobs })
        }
  })
})

describe('the end of the whole', () => {
  test('the deadline strikes in its own millisecond, and names itself', () => {
    const stage = new Stage({ ...group(job('a')), workflow_timeout: 60 }).advance(59_999)
    expect(stage.expire()).toBe(false)
    expect(stage.advance(1).expire()).toBe(true)
    expect(JSON.parse(stage.workflow.error ?? '')).toEqual({
      type: 'workflow_timeout',
      code: 'workflow_timeout',
      message: 'The workflow was not over within 60 seconds.',
      limit_seconds: 60,
      limit_ms: 60_000,
      elapsed_seconds: 60,
      elapsed_ms: 60_000,
      source: 'publish',
      deadline: '2026-01-01T12:01:00.000Z',
      overshoot_ms: 0,
      late_ms: 0,
      downtime_ms: 0,
      occurred_at: '2026-01-01T12:01:00.000Z',
    })
    expect(stage.expire()).toBe(false)
  })

  test('after it nothing leads to anything: a member that ends is written down on its step', () => {
    const stage = new Stage({ ...batch(hooks, job('a'), job('b')), workflow_timeout_ms: 1 }).advance(1)
    stage.expire()
    stage.done('0', 'late').fail('1')
    expect(pathsOf(stage)).toEqual(['0', '1'])
    expect(stage.workflow).toMatchObject({ state: 'failed', jobsCompleted: 0, jobsFailed: 0 })
    expect(stage.step(1)).toMatchObject({ state: 'completed', result: '"late"' })
  })

  test('a step that is refused when its turn comes has failed', () => {
    const stage = new Stage(chain(job('a'), group(job('b'), job('c')), job('d')))
    stage.refused.add('1/0')
    stage.done('0')
    expect(stage.workflow.state).toBe('running')
    stage.done('1/1')
    expect(stage.workflow).toMatchObject({ state: 'failed', jobsCompleted: 2, jobsFailed: 1 })
    expect(stage.workflow.failures).toMatchObject([{ code: 'queue_paused', jobId: null }])
  })

  test('a member counts once, whatever comes after', () => {
    const stage = new Stage(group(job('a'), job('b'))).done('0').done('0').fail('0')
    expect(stage.workflow).toMatchObject({ state: 'running', jobsCompleted: 1, jobsFailed: 0 })
  })
})

test('progress: a chain by steps, a group by its mean, a batch by how many are over', () => {
  const progress = (stage: Stage): number =>
    workflowProgress({ workflow: stage.workflow, steps: [...stage.steps.values()], jobs: new Map() })
  const nested = chain(job('a'), group(job('b'), job('c')))
  expect(progress(new Stage(nested))).toBe(0)
  expect(progress(new Stage(nested).done('0'))).toBe(0.5)
  expect(progress(new Stage(nested).done('0').done('1/0'))).toBe(0.75)
  expect(progress(new Stage(batch(hooks, chain(job('a'), job('b')), job('c'))).done('0/0'))).toBe(0)
  expect(progress(new Stage(batch(hooks, chain(job('a'), job('b')), job('c'))).done('0/0').done('0/1'))).toBe(0.5)
})

// ---- Whatever the tree, whatever becomes of its jobs ----

interface DagPlan {
  kind: 'dag'
  inside: Plan[]
  edges: number[][]
}
type Plan =
  | { kind: 'job' }
  | { kind: 'chain'; inside: Plan[] }
  | { kind: 'group'; inside: Plan[] }
  | { kind: 'batch'; inside: Plan[] }
  | DagPlan

const plan: fc.Arbitrary<Plan> = fc.letrec<{ plan: Plan; list: Plan[] }>((tie) => ({
  list: fc.array(tie('plan'), { minLength: 1, maxLength: 4 }),
  plan: fc.oneof(
    { depthSize: 'small', maxDepth: 4, withCrossShrink: true },
    fc.constant<Plan>({ kind: 'job' }),
    fc.record({ kind: fc.constantFrom('chain' as const, 'group' as const, 'batch' as const), inside: tie('list') }),
    fc.record({
      kind: fc.constant('dag' as const),
      inside: tie('list'),
      edges: fc.array(fc.array(fc.nat(3), { maxLength: 3 }), { minLength: 4, maxLength: 4 }),
    }),
  ),
})).plan

function bodyOf(node: Plan): object {
  if (node.kind === 'job') return job('x')
  const inside = node.inside.map(bodyOf)
  if (node.kind === 'chain') return chain(...inside)
  if (node.kind === 'group') return group(...inside)
  if (node.kind === 'batch') return batch(hooks, ...inside)
  return {
    steps: inside.map((one, index) => ({
      ...one,
      id: `s${String(index)}`,
      depends_on: depsOf(node, index).map((i) => `s${String(i)}`),
    })),
  }
}

const depsOf = (node: DagPlan, index: number): number[] => [
  ...new Set((node.edges[index] ?? []).filter((other) => other < index)),
]

/** What the tree implies: by a second, simple reading of the rules, all at once. */
function implied(node: Plan, path: string, fate: (path: string) => boolean): { ok: boolean; ran: Set<string> } {
  if (node.kind === 'job') return { ok: fate(path), ran: new Set([path]) }
  const at = (index: number | string): string => (path === '' ? String(index) : `${path}/${String(index)}`)
  const ran = new Set<string>()
  const run = (index: number): boolean => {
    const inner = implied(node.inside[index] ?? { kind: 'job' }, at(index), fate)
    for (const one of inner.ran) ran.add(one)
    return inner.ok
  }
  const all = node.inside.keys()
  if (node.kind === 'chain') {
    for (const index of all) if (!run(index)) return { ok: false, ran }
    return { ok: true, ran }
  }
  if (node.kind === 'dag') {
    const done = new Set<number>()
    let failed = false
    for (const index of all) {
      if (!depsOf(node, index).every((other) => done.has(other))) continue
      if (run(index)) done.add(index)
      else failed = true
    }
    return { ok: !failed, ran }
  }
  const ok = [...all].map(run).every(Boolean)
  if (node.kind === 'group') return { ok, ran }
  const called = ['on_complete', ok ? 'on_success' : 'on_failure'].map(at)
  for (const hook of called) ran.add(hook)
  return { ok: called.every(fate), ran }
}

/** Whatever has started was allowed to. */
function expectInOrder(stage: Stage): void {
  const steps = [...stage.steps.values()]
  const isOver = ({ state }: WorkflowStep): boolean => state === 'completed' || state === 'failed'
  for (const one of steps.filter(({ state }) => state !== 'waiting')) {
    const branch = one.up === 0 ? stage.workflow.branch : stage.step(one.up).branch
    const siblings = steps.filter(({ up, hook }) => up === one.up && hook === null)
    const earlier =
      branch?.kind === 'chain' ? siblings.slice(0, one.index) : one.after.map((number) => stage.step(number))
    for (const { state } of earlier) expect(state).toBe('completed')
    if (one.hook !== null) expect(siblings.every(isOver)).toBe(true)
    if (one.up !== 0) expect(stage.step(one.up).state).not.toBe('waiting')
  }
}

test('every tree ends exactly once, as it implies, and every job starts after what it waits for has succeeded', () => {
  fc.assert(
    fc.property(plan, fc.infiniteStream(fc.nat()), fc.infiniteStream(fc.nat(9)), (tree, order, luck) => {
      const root = tree.kind === 'job' ? { kind: 'chain' as const, inside: [tree] } : tree
      const fates = new Map<string, boolean>()
      const fate = (path: string): boolean => {
        const known = fates.get(path) ?? (luck.next().value ?? 0) > 1
        fates.set(path, known)
        return known
      }
      const expected = implied(root, '', fate)
      const stage = new Stage(bodyOf(root))
      for (let running = stage.running(); running.length > 0; running = stage.running()) {
        expect(stage.workflow.state).toBe('running')
        expectInOrder(stage)
        const path = running[(order.next().value ?? 0) % running.length] ?? ''
        stage.end(path, fate(path) ? OK : FAILED)
      }
      expect(stage.workflow.state).toBe(expected.ok ? 'completed' : 'failed')
      expect(stage.events.filter((type) => /workflow\.(completed|failed)$/.test(type))).toHaveLength(1)
      expect(pathsOf(stage).sort()).toEqual([...expected.ran].sort())
      expect(new Set(pathsOf(stage)).size).toBe(stage.started.length)
      const { jobsCompleted, jobsFailed } = stage.workflow
      const members = pathsOf(stage).filter((path) => !path.includes('on_'))
      expect([jobsCompleted, jobsFailed]).toEqual([
        members.filter((path) => fates.get(path) === true).length,
        members.filter((path) => fates.get(path) === false).length,
      ])
      const final = shownStates({ workflow: stage.workflow, steps: [...stage.steps.values()], jobs: new Map() })
      for (const state of final.values()) expect(['completed', 'failed', 'cancelled']).toContain(state)
    }),
    { numRuns: 200 },
  )
}, 60_000)
