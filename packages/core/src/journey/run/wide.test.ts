/** Wide runs and loops: what a walk costs grows with what there is to do, and what never ends is ended. */
import { describe, expect, test } from 'vitest'
import { NOON } from '../../builders.suite.ts'
import { hours, millis, type Instant } from '../../time/clock.ts'
import { after } from '../../time/sums.ts'
import type { Definition, Graph, Parallel, State } from '../definition.ts'
import type { HttpResult } from '../call.ts'
import { beginRun, expireRun, jobsEnded } from './life.ts'
import { MAX_BRANCHES, MAX_STEPS_WITHOUT_REST, PASSED_PER_TURN, STEPS_PER_SAVE, STEPS_PER_TURN } from '../limits.ts'
import { leaves, type Run } from './run.ts'
import { aDefinition, RUN_ID } from './runs.suite.ts'
import type { Walked } from './walk-terms.ts'
import { walk } from './walk.ts'
import { seededRandom } from '../../seeded-random.ts'

const ME = 'server-1'
const e = { lang: 'jsonata', expr: '1' }

const compute: Graph = {
  start: 'a',
  states: {
    a: { type: 'transform', mapper: e, target: { kind: 'var', name: 'v' }, next: 'z' },
    z: { type: 'succeed', outputVar: 'v' },
  },
}
const calling: Graph = {
  start: 'a',
  states: {
    a: {
      type: 'httpCall',
      method: 'GET',
      url: 'https://x.example/',
      params: {},
      headers: {},
      body: null,
      timeoutMs: null,
      mode: 'requestResponse',
      resultVar: 'answer',
      resilience: null,
      errorMapping: null,
      next: 'z',
    },
    z: { type: 'succeed', outputVar: null },
  },
}
const working: Graph = {
  start: 'a',
  states: {
    a: {
      type: 'job',
      jobType: 'x.y',
      request: {},
      args: { literal: '[]' },
      mode: 'await',
      detach: false,
      resultVar: 'job',
      next: 'z',
    },
    z: { type: 'succeed', outputVar: null },
  },
}
const sleeping: Graph = {
  start: 'a',
  states: {
    a: { type: 'timer', kind: 'duration', due: 'PT1S', next: 'z' },
    z: { type: 'succeed', outputVar: null },
  },
}

function parallel(branches: number, graph: Graph, next = 'done'): Parallel {
  return {
    type: 'parallel',
    branches: Array.from({ length: branches }, (_, n) => ({ name: `b${String(n)}`, ...graph })),
    join: { strategy: 'allOf', errorPolicy: 'collectAll', mapper: null, resultVar: 'all' },
    next,
  }
}

const definitionOf = (states: Record<string, State>, more: Partial<Definition> = {}): Definition =>
  aDefinition({ start: Object.keys(states)[0] ?? '', states, ...more })

/** A run that is walked to its end, with a count of the work. */
class Walking {
  run: Run
  now: Instant = NOON
  /** How often a branch of the definition was looked up. */
  lookups = 0
  saves = 0
  /** Characters written, all saves together. */
  written = 0
  /** The most looks at the clock between two turns of others: one as a state is entered, one as it is left. */
  longestTurn = 0
  readonly results = new Map<number, HttpResult>()
  readonly #definition: Definition
  readonly #underway = new Set<number>()

  constructor(definition: Definition) {
    this.#definition = this.#counting(definition)
    const more = { tags: [], attributes: {}, parent: null, inheritedAt: null, startedAt: NOON }
    const limits = { defaultMs: hours(1), capMs: hours(1) }
    this.run = beginRun({ id: RUN_ID, definition, context: {}, ...more }, limits)
    this.run = { ...this.run, root: { ...this.run.root, rest: { kind: 'ready', by: ME } } }
  }

  #counting(definition: Definition): Definition {
    const states = Object.entries(definition.states).map(([id, state]): [string, State] => {
      if (state.type !== 'parallel') return [id, state]
      const branches = new Proxy(state.branches, {
        get: (all, key): unknown => {
          if (typeof key === 'string' && /^\d+$/.test(key)) this.lookups += 1
          return Reflect.get(all, key) as unknown
        },
      })
      return [id, { ...state, branches }]
    })
    return { ...definition, states: Object.fromEntries(states) }
  }

  once(): Walked {
    // The clock is looked at before each state is entered.
    let looks = 0
    const now = (): Instant => {
      looks += 1
      return this.now
    }
    const terms = {
      now,
      random: seededRandom(1),
      server: ME,
      results: this.results,
      config: {},
      underway: this.#underway,
    }
    const steps = walk(this.run, this.#definition, terms)
    let step = steps.next()
    while (step.done !== true) {
      if (step.value.ask === 'turn') {
        this.longestTurn = Math.max(this.longestTurn, looks)
        looks = 0
      }
      step = steps.next(step.value.ask === 'holds' ? false : step.value.ask === 'value' ? 7 : null)
    }
    const walked = step.value
    for (const { visit } of walked.calls) this.#underway.add(visit)
    if (walked.run.root !== this.run.root) this.save(walked.run)
    return walked
  }

  save(run: Run): void {
    this.run = run
    this.saves += 1
    this.written += JSON.stringify(run).length
  }

  /** Until nothing moves any more. */
  toRest(): void {
    for (let before: Run | null = null; before !== this.run && this.run.phase === 'RUNNING';) {
      before = this.run
      this.once()
    }
  }
}

describe('a run of four times the branches', () => {
  const SMALL = 300
  const LARGE = 4 * SMALL

  function cost(branches: number, graph: Graph, then: (walking: Walking) => void = () => {}): Walking {
    const done: State = { type: 'succeed', outputVar: null }
    const walking = new Walking(definitionOf({ fan: parallel(branches, graph), done }))
    walking.toRest()
    then(walking)
    walking.toRest()
    expect(walking.run.phase).toBe('SUCCEEDED')
    return walking
  }

  function expectLinear(small: Walking, large: Walking): void {
    expect(large.saves).toBeLessThanOrEqual(small.saves + 1)
    // The names of branches become a little longer.
    expect(large.written / small.written).toBeLessThan(4.5)
    expect(large.lookups / small.lookups).toBeLessThan(4.5)
  }

  test('looks up and writes four times as much, not sixteen times', () => {
    expectLinear(cost(SMALL, compute), cost(LARGE, compute))
  })

  test('also when each branch makes a call, and all are answered', () => {
    const answer = (walking: Walking): void => {
      for (const { visit } of leaves(walking.run.root))
        walking.results.set(visit, { status: 200, ok: true, headers: {}, body: 1 })
    }
    expectLinear(cost(SMALL, calling, answer), cost(LARGE, calling, answer))
  })

  test('also when each branch awaits a job, and all end', () => {
    const end = (walking: Walking): void => {
      const jobs = leaves(walking.run.root).flatMap(({ rest }) => (rest.kind === 'job' ? [rest.jobId] : []))
      const after = jobsEnded(walking.run, new Map(jobs.map((id) => [id, { ok: true }])), walking.now)
      walking.save(signed(after ?? walking.run))
    }
    expectLinear(cost(SMALL, working, end), cost(LARGE, working, end))
  })

  test('also when each branch sleeps, and all wake', () => {
    const wake = (walking: Walking): void => {
      walking.now = after(NOON, millis(1_000))
      walking.save(signed(expireRun(walking.run, walking.now, NOON)?.run ?? walking.run))
    }
    expectLinear(cost(SMALL, sleeping, wake), cost(LARGE, sleeping, wake))
  })

  test('gives others their turn as often', () => {
    const walking = cost(LARGE, compute)
    expect(walking.longestTurn).toBeGreaterThan(0)
    expect(walking.longestTurn).toBeLessThanOrEqual(2 * STEPS_PER_TURN + 2)
  })

  test('gives others their turn while it passes branches that rest', () => {
    const done: State = { type: 'succeed', outputVar: null }
    const walking = new Walking(definitionOf({ fan: parallel(3 * PASSED_PER_TURN, calling), done }))
    walking.toRest()
    const steps = walk(walking.run, definitionOf({ fan: parallel(3 * PASSED_PER_TURN, calling), done }), {
      now: () => NOON,
      random: seededRandom(1),
      server: ME,
      results: new Map(),
      config: {},
      underway: { has: () => true },
    })
    let turns = 0
    for (let step = steps.next(); step.done !== true; step = steps.next()) turns += 1
    expect(turns).toBeGreaterThanOrEqual(3)
  })
})

/** What rests nowhere is to be taken on by this server. */
function signed(run: Run): Run {
  const { rest } = run.root
  if (rest.kind !== 'forked') return run
  const frames = Object.fromEntries(
    Object.entries(rest.frames).map(([name, frame]) => [name, { ...frame, rest: { kind: 'ready' as const, by: ME } }]),
  )
  return { ...run, root: { ...run.root, rest: { kind: 'forked', frames } } }
}

describe('how wide a run may be', () => {
  const done: State = { type: 'succeed', outputVar: null }

  test('as many branches as are allowed', () => {
    const walking = new Walking(definitionOf({ fan: parallel(MAX_BRANCHES, compute), done }))
    walking.toRest()
    expect(walking.run.phase).toBe('SUCCEEDED')
  })

  test('one more is a fault that says how many there would be', () => {
    const walking = new Walking(definitionOf({ fan: parallel(MAX_BRANCHES + 1, compute), done }))
    walking.toRest()
    expect(walking.run.end?.error).toEqual({
      code: 'RUNTIME_TOO_WIDE',
      reason: 'the run would have 5001 branches side by side; at most 5000 are allowed',
    })
  })

  test('branches within branches count together', () => {
    const inner: Graph = { start: 'fan', states: { fan: parallel(100, calling), done } }
    const walking = new Walking(definitionOf({ fan: parallel(51, inner), done }))
    walking.toRest()
    const { rest } = walking.run.root
    const frames = rest.kind === 'forked' ? Object.values(rest.frames) : []
    const codes = frames.map(({ rest: inside }) => (inside.kind === 'over' ? inside.end.error?.code : inside.kind))
    expect(codes.filter((code) => code === 'forked')).toHaveLength(49)
    expect(new Set(codes.slice(49))).toEqual(new Set(['RUNTIME_TOO_WIDE']))
    expect(leaves(walking.run.root).length).toBeLessThanOrEqual(MAX_BRANCHES)
  })

  test('branches that were joined do not count any more', () => {
    // Without a result: each branch of the second carries what the first has left in the context.
    const forgetful = (state: Parallel): Parallel => ({ ...state, join: { ...state.join, resultVar: null } })
    const fan = forgetful(parallel(MAX_BRANCHES, compute, 'again'))
    const walking = new Walking(definitionOf({ fan, again: forgetful(parallel(MAX_BRANCHES, compute)), done }))
    walking.toRest()
    expect(walking.run.phase).toBe('SUCCEEDED')
  })
})

describe('a loop', () => {
  const done: State = { type: 'succeed', outputVar: null }
  const spin: State = { type: 'choice', choices: [{ predicate: e, next: 'done' }], default: 'spin' }

  test('that never rests is ended, and the reason says what it lacks', () => {
    const walking = new Walking(definitionOf({ spin, done }))
    walking.toRest()
    expect(walking.run.end).toMatchObject({
      terminationKind: 'RuntimeError',
      terminatedAtState: 'spin',
      error: {
        code: 'RUNTIME_TOO_MANY_STEPS',
        reason:
          'more than 10000 states were entered without waiting for anything: a loop needs a timer, a call, a job or a wait',
      },
    })
    expect(walking.run.visits).toBe(MAX_STEPS_WITHOUT_REST + 1)
    expect(walking.saves).toBeGreaterThan(MAX_STEPS_WITHOUT_REST / (STEPS_PER_SAVE + 2))
  })

  test('is ended as well when it leads through a subjourney and a parallel', () => {
    const sub: Graph = { start: 'fan', states: { fan: parallel(2, compute), done } }
    const inside: State = {
      type: 'subjourney',
      ref: 'sub',
      input: null,
      resultVar: null,
      resultKind: 'output',
      onFailure: 'propagate',
      next: 'inside',
    }
    const walking = new Walking(definitionOf({ inside, done }, { subjourneys: { sub } }))
    walking.toRest()
    expect(walking.run.end?.error?.code).toBe('RUNTIME_TOO_MANY_STEPS')
  })

  test('that rests each time may turn more often', () => {
    const sleep: State = { type: 'timer', kind: 'duration', due: 'PT0.001S', next: 'sleep' }
    const walking = new Walking(definitionOf({ sleep, done }))
    walking.run = { ...walking.run, root: { ...walking.run.root, steps: MAX_STEPS_WITHOUT_REST - 1 } }
    for (let n = 0; n < 10; n += 1) {
      walking.once()
      walking.now = after(walking.now, millis(1))
      const woken = expireRun(walking.run, walking.now, NOON)
      if (woken === null) throw new Error('nothing was due')
      walking.run = { ...woken.run, root: { ...woken.run.root, rest: { kind: 'ready', by: ME } } }
    }
    expect(walking.run.phase).toBe('RUNNING')
    expect(walking.run.visits).toBe(10)
  })
})
