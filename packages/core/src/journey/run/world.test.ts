/**
 * Journeys of every shape, in a world where calls, people, jobs and time answer in any order: whatever happens, a run
 * keeps to its budget, ends once, and stays as it ended.
 */
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { instant, millis, type Instant } from '../../time/clock.ts'
import { isDue } from '../../time/sums.ts'
import type { NewEvent } from '../../events.ts'
import type { Definition, Graph, State } from '../definition.ts'
import { failedResult, type HttpResult } from '../call.ts'
import { journeyEnded, journeyStarted } from '../../wire/journey-events.ts'
import { RunFault } from '../faults.ts'
import { handedOn } from './frames.ts'
import { beginRun, cancelledRun, expireRun, jobsEnded, openStep, submitted } from './life.ts'
import { leaves, RUN, type Run } from './run.ts'
import type { Walked } from './walk-terms.ts'
import { walk } from './walk.ts'
import { seededRandom } from '../../seeded-random.ts'

const ME = 'server-1'
const START = instant(Date.UTC(2026, 0, 1))
const e = { lang: 'jsonata', expr: '1' }

// ---- Journeys ----

const IDS = ['a', 'b', 'c', 'd']
const next = fc.constantFrom(...IDS)

function stateOf(depth: number): fc.Arbitrary<State> {
  const simple: fc.Arbitrary<State>[] = [
    fc.record({
      type: fc.constant('choice' as const),
      choices: fc.array(
        next.map((to) => ({ predicate: e, next: to })),
        { maxLength: 2 },
      ),
      default: fc.option<string>(next),
    }),
    next.map((to) => ({
      type: 'transform' as const,
      mapper: e,
      target: { kind: 'var' as const, name: 'v' },
      next: to,
    })),
    fc
      .record({
        next,
        notice: fc.boolean(),
        url: fc.constantFrom('https://x.example/', 'https://x.example/${context.v}'),
      })
      .map(({ next: to, notice, url }) => ({
        type: 'httpCall' as const,
        method: 'GET',
        url,
        params: {},
        headers: {},
        body: null,
        timeoutMs: null,
        mode: notice ? ('notify' as const) : ('requestResponse' as const),
        resultVar: notice ? null : 'answer',
        resilience: null,
        errorMapping: null,
        next: to,
      })),
    fc.record({ next, awaited: fc.boolean() }).map(({ next: to, awaited }) => ({
      type: 'job' as const,
      jobType: 'x.y',
      request: {},
      args: { literal: '[]' },
      mode: awaited ? ('await' as const) : ('notify' as const),
      detach: false,
      resultVar: 'job',
      next: to,
    })),
    fc
      .record({ next, timeout: fc.option(fc.record({ ms: fc.integer({ min: 1_000, max: 40_000 }), to: next })) })
      .map(({ next: to, timeout }) => ({
        type: 'wait' as const,
        input: true,
        response: null,
        timeoutMs: timeout === null ? null : millis(timeout.ms),
        onTimeout: timeout?.to ?? null,
        next: to,
      })),
    fc.record({ next, s: fc.integer({ min: 0, max: 40 }) }).map(({ next: to, s }) => ({
      type: 'timer' as const,
      kind: 'duration' as const,
      due: `PT${String(s)}S`,
      next: to,
    })),
    fc.constant({ type: 'succeed' as const, outputVar: null }),
    fc
      .constantFrom('plain', 'no ${context.nothing}')
      .map((reason) => ({ type: 'fail' as const, errorCode: 'SAD', reason })),
  ]
  if (depth === 0) return fc.oneof(...simple)
  const branches = fc
    .array(graphOf(depth - 1), { minLength: 1, maxLength: 3 })
    .map((graphs) => graphs.map((graph, index) => ({ ...graph, name: `n${String(index)}` })))
  const parallel = fc
    .record({
      branches,
      next,
      strategy: fc.constantFrom('allOf' as const, 'anyOf' as const, 'firstCompleted' as const),
      policy: fc.constantFrom('collectAll' as const, 'failFast' as const),
    })
    .map(({ branches: all, next: to, strategy, policy }): State => ({
      type: 'parallel',
      branches: all,
      join: { strategy, errorPolicy: policy, mapper: e, resultVar: 'joined' },
      next: to,
    }))
  const inside = fc.record({ next, capture: fc.boolean() }).map(({ next: to, capture }): State => ({
    type: 'subjourney',
    ref: 'sub',
    input: null,
    resultVar: 'inner',
    resultKind: 'outcome',
    onFailure: capture ? 'capture' : 'propagate',
    next: to,
  }))
  return fc.oneof(
    { weight: 6, arbitrary: fc.oneof(...simple) },
    { weight: 2, arbitrary: parallel },
    { weight: 1, arbitrary: inside },
  )
}

function graphOf(depth: number): fc.Arbitrary<Graph> {
  return fc.tuple(...IDS.map(() => stateOf(depth))).map((states) => ({
    start: 'a',
    states: Object.fromEntries(IDS.map((id, index) => [id, states[index] as State])),
  }))
}

const journeys: fc.Arbitrary<Definition> = fc
  .record({ graph: graphOf(2), sub: graphOf(0), seconds: fc.integer({ min: 1, max: 60 }) })
  .map(({ graph, sub, seconds: s }) => ({
    ...graph,
    kind: 'Journey',
    name: 'any',
    version: '1',
    description: null,
    tags: [],
    execution: { maxDurationMs: millis(s * 1000), onTimeout: { errorCode: 'TOO_LATE', reason: 'too late' } },
    startMode: 'async',
    cancellable: true,
    links: true,
    http: { timeoutMs: null, headers: {} },
    input: null,
    output: { schema: null, response: null },
    envelope: { format: 'problemDetails' },
    outcomes: [],
    subjourneys: { sub },
    compensation: null,
    metadata: {
      tags: { fromPayload: [], fromHeaders: [], fromBaggage: [] },
      attributes: { fromPayload: {}, fromHeaders: {}, fromBaggage: {} },
    },
    starting: { headersToContext: {}, queryToContext: {}, headersPassthrough: [] },
    submitting: {},
    route: null,
    apiResponses: null,
    config: {},
    apiKeys: [],
  }))

// ---- What happens to them ----

/** Instead of a length: time passes to the very millisecond of the deadline. */
const TO_THE_DEADLINE = -1

type Happening = {
  readonly pass: number
  readonly what: 'walk' | 'answer' | 'submit' | 'job' | 'time' | 'cancel'
  readonly which: number
  readonly chance: number
}
const happenings: fc.Arbitrary<Happening[]> = fc.array(
  fc.record({
    pass: fc.oneof(
      { weight: 5, arbitrary: fc.constant(0) },
      { weight: 5, arbitrary: fc.integer({ min: 0, max: 20_000 }) },
      { weight: 1, arbitrary: fc.constant(TO_THE_DEADLINE) },
    ),
    what: fc.oneof(
      {
        weight: 20,
        arbitrary: fc.constantFrom(
          'walk' as const,
          'answer' as const,
          'submit' as const,
          'job' as const,
          'time' as const,
        ),
      },
      { weight: 1, arbitrary: fc.constant('cancel' as const) },
    ),
    which: fc.nat(7),
    chance: fc.nat(1_000),
  }),
  { minLength: 5, maxLength: 60 },
)

class World {
  now: Instant = START
  run: Run
  readonly events: NewEvent[] = []
  readonly walks: Walked[] = []
  readonly #definition: Definition
  readonly #results = new Map<number, HttpResult>()
  readonly #underway = new Set<number>()

  constructor(definition: Definition) {
    this.#definition = definition
    const asked = {
      id: 'run-1',
      definition,
      context: {},
      tags: [],
      attributes: {},
      parent: null,
      inheritedAt: null,
      startedAt: START,
    }
    this.run = this.#signed(beginRun(asked, { defaultMs: millis(1_000), capMs: millis(30_000) }))
    this.events.push(journeyStarted(this.run))
  }

  /** What is due comes first, as in a group commit. */
  happen({ pass, what, which, chance }: Happening): void {
    this.now = pass === TO_THE_DEADLINE ? instant(Math.max(this.now, this.run.deadlineAt)) : instant(this.now + pass)
    this.#save(expireRun(this.run, this.now, START)?.run ?? null)
    const pick = <T>(all: readonly T[]): T | undefined => all[which % Math.max(1, all.length)]
    if (what === 'walk') this.#walk(chance)
    if (what === 'cancel' && this.run.phase === 'RUNNING') this.#save(cancelledRun(this.run, this.now))
    if (what === 'answer') {
      const visit = pick([...this.#underway])
      if (visit === undefined) return
      this.#underway.delete(visit)
      this.#results.set(
        visit,
        chance % 2 === 0 ? { status: 200, ok: true, headers: {}, body: 1 } : failedResult('NETWORK', 'broken'),
      )
      this.#walk(chance)
    }
    if (what === 'submit') {
      const step = openStep(this.run, pick(IDS) ?? 'a')
      if (step !== null) this.#save(submitted(this.run, step, { chance }, {}, this.now))
    }
    if (what === 'job') {
      const jobs = leaves(this.run.root).flatMap(({ rest }) => (rest.kind === 'job' ? [rest.jobId] : []))
      this.#save(jobsEnded(this.run, new Map([[pick(jobs) ?? 'none', { ok: true }]]), this.now))
    }
  }

  #signed(run: Run): Run {
    return { ...run, root: handedOn(run.root, null, ME) }
  }

  #save(after: Run | null): void {
    if (after === null) return
    // A run that is over stays as it is, whatever comes.
    expect(this.run.phase).toBe('RUNNING')
    expect(after.revision).toBeGreaterThan(this.run.revision)
    if (after.phase !== 'RUNNING') this.events.push(journeyEnded(after))
    this.run = this.#signed(after)
  }

  #walk(chance: number): void {
    const before = this.run
    if (before.phase !== 'RUNNING') return
    const random = seededRandom(chance)
    const steps = walk(before, this.#definition, {
      now: () => this.now,
      random,
      server: ME,
      config: {},
      results: this.#results,
      underway: this.#underway,
    })
    let step = steps.next()
    while (step.done !== true) {
      // To think takes time as well.
      if (random() < 0.1) this.now = instant(this.now + Math.floor(random() * 2_000))
      if (random() < 0.05) step = steps.throw(new RunFault('JN_TYPE_MISMATCH', 'broken'))
      else
        step = steps.next(
          step.value.ask === 'holds' ? random() < 0.5 : step.value.ask === 'misfit' ? null : Math.floor(random() * 9),
        )
    }
    const walked = step.value
    // Nothing is entered with an empty budget, not even in thought.
    for (const visit of walked.run.trail) expect(isDue(before.deadlineAt, visit.from)).toBe(false)
    // What was thought out is saved with time settled first.
    const late = expireRun(before, this.now, START)
    if (late !== null) return void this.#save(late.run)
    if (walked.run.root === before.root) return
    this.walks.push(walked)
    for (const { visit, isNotice } of walked.calls) if (!isNotice) this.#underway.add(visit)
    this.#save(walked.run)
    for (const visit of this.#results.keys())
      if (!leaves(this.run.root).some((frame) => frame.visit === visit && frame.rest.kind === 'calling'))
        this.#results.delete(visit)
  }
}

function check({ run, walks, events, now }: World): void {
  // Nothing is entered, called or enqueued with an empty budget.
  for (const visit of run.trail) expect(isDue(run.deadlineAt, visit.from)).toBe(false)
  for (const walked of walks)
    if (walked.jobs.length + walked.calls.length > 0) expect(isDue(run.deadlineAt, walked.run.updatedAt)).toBe(false)
  // It is never shown running past its deadline, and something always wakes it by then.
  if (run.phase === 'RUNNING') {
    expect(now).toBeLessThan(run.deadlineAt)
    expect(RUN.wakeAt(run)).toBeLessThanOrEqual(run.deadlineAt)
  }
  const visits = leaves(run.root)
    .map(({ visit }) => visit)
    .filter((visit) => visit > 0)
  expect(new Set(visits).size).toBe(visits.length)
  // It starts once and ends at most once; what was told of it is what is stored.
  const told = events.reduce<Record<string, unknown>>(
    (known, { type, data }) => ({
      ...known,
      ...data,
      started: Number(known['started'] ?? 0) + Number(type === 'journey.started'),
      ended: Number(known['ended'] ?? 0) + Number(type !== 'journey.started'),
    }),
    { phase: 'RUNNING' },
  )
  expect(told).toMatchObject({ started: 1, ended: run.phase === 'RUNNING' ? 0 : 1, phase: run.phase })
  if (run.end !== null) {
    const { terminationKind, terminatedAtState, error } = run.end
    expect(told).toMatchObject({ termination_kind: terminationKind, terminated_at_state: terminatedAtState })
    expect(told['error'] ?? null).toEqual(error)
  }
}

test('a run keeps to its budget and ends once, whatever happens to it in whatever order', { timeout: 30_000 }, () => {
  fc.assert(
    fc.property(journeys, happenings, (definition, all) => {
      const world = new World(definition)
      for (const happening of all) {
        world.happen(happening)
        if (world.run.phase === 'RUNNING' && world.now >= world.run.deadlineAt)
          world.happen({ pass: 0, what: 'time', which: 0, chance: 0 })
        check(world)
      }
      world.happen({ pass: 60_000, what: 'time', which: 0, chance: 0 })
      check(world)
      expect(world.run.phase).not.toBe('RUNNING')
      expect(RUN.wakeAt(world.run)).toBe(world.run.purgeAt)
    }),
    { numRuns: 250 },
  )
})

test('what happened to a run, told again, leads to the same run', { timeout: 30_000 }, () => {
  fc.assert(
    fc.property(journeys, happenings, (definition, all) => {
      const told = [new World(definition), new World(definition)].map((world) => {
        for (const happening of all) world.happen(happening)
        return { run: world.run, events: world.events }
      })
      expect(told[1]).toEqual(told[0])
      // And it survives being written down.
      expect(JSON.parse(JSON.stringify(told[0]?.run))).toEqual(told[0]?.run)
    }),
    { numRuns: 100 },
  )
})
