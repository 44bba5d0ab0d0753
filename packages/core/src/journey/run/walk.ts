/**
 * How a run goes on: from where its frames are ready until every one of them rests, or ends.
 *
 *   ready ─→ enter ─┬→ choice, transform ─────────→ ready, at the next state
 *                   ├→ call ─→ calling ─ answer ──→ ready
 *                   ├→ wait, timer, job ──────────→ rests; time or an event takes it on (journey/run/life.ts)
 *                   ├→ parallel, subjourney ──────→ frames of its own; when they are over: ready
 *                   └→ succeed, fail, a fault ────→ over
 *
 * A walk is thought out apart from the store, and then saved as one step, if the run is still as it was. It asks for what
 * it cannot know (`Ask`): what an expression gives, whether a value fits a schema. Before it enters a state it looks at
 * the clock: with nothing left it stops, and the run's deadline ends it. Every few states it asks for a turn of others, and
 * after so many it stops to be saved (journey/limits.ts). One walk costs as much as the run has branches and enters states,
 * never one times the other: nothing that is done for one branch looks at the others.
 */
import { call, enqueue, hear, schedule, sleep } from './walk-acts.ts'
import { WalkState } from './walk-state.ts'
import { checkedContext } from '../api-key.ts'
import { configProblems } from '../config.ts'
import { stateTypeOf, type Definition, type Graph, type Parallel, type State, type Subjourney } from '../definition.ts'
import { RunFault } from '../faults.ts'
import { interpolate } from '../interpolation.ts'
import { MAX_BRANCHES } from '../limits.ts'
import { graphOf, graphWithin, readyAt, stateOf } from './frames.ts'
import { changed, endRun, failure } from './life.ts'
import { leaves, pathOf, type End, type Frame, type Run } from './run.ts'
import { beginBranch, count, isJoined, limitOf, openFor, tallyOf } from './states.ts'
import { isData, memberOf } from './values.ts'
import type { Walk, Walked, WalkTerms } from './walk-terms.ts'
import type { Instant } from '../../time/clock.ts'
import { isDue } from '../../time/sums.ts'

const MAX_SUBJOURNEY_DEPTH = 32

export function* walk(run: Run, definition: Definition, terms: WalkTerms): Walk<Walked> {
  return yield* new Walker(run, definition, terms).walk()
}

class Walker {
  readonly #walk: WalkState

  constructor(run: Run, definition: Definition, terms: WalkTerms) {
    this.#walk = new WalkState(run, definition, terms)
  }

  *walk(): Walk<Walked> {
    const root = yield* this.#go(this.#walk.run.root, graphOf(this.#walk.run, this.#walk.definition), 0)
    const now = this.#walk.terms.now()
    const walked = changed(this.#walk.run, now, {
      root,
      visits: this.#walk.visits,
      attributes: this.#walk.attributes,
      ...this.#walk.trail.trimmed(this.#walk.run.omitted),
    })
    const over = root.rest.kind === 'over' ? yield* this.#checked(root.rest.end) : null
    const calling = new Set(
      this.#walk.calls.size === 0
        ? []
        : leaves(root).flatMap(({ rest, visit }) => (rest.kind === 'calling' ? [visit] : [])),
    )
    return {
      run: over === null ? walked : endRun(walked, over, now),
      jobs: [...this.#walk.jobs.values()],
      schedules: this.#walk.schedules,
      lostJobs: [...this.#walk.lost],
      calls: [...this.#walk.calls.values()].filter(({ isNotice, visit }) => isNotice || calling.has(visit)),
      compensate: over?.phase === 'SUCCEEDED' && (yield* this.#isToBeCompensated(over, root)),
      isLate: this.#walk.isLate,
    }
  }

  /** A success must be what the definition promises. */
  *#checked(end: End): Walk<End> {
    const { schema } = this.#walk.definition.output
    if (end.phase !== 'SUCCEEDED' || schema === null || this.#walk.run.kind === 'Compensation') return end
    const misfit = yield { ask: 'misfit', schema, value: end.output }
    if (typeof misfit !== 'string') return end
    const reason = `the output does not fit spec.output.schema: ${misfit}`
    return failure(end.terminatedAtState, 'RuntimeError', 'RUNTIME_INVALID_OUTPUT', reason)
  }

  *#isToBeCompensated(end: End, frame: Frame): Walk<boolean> {
    const { compensation } = this.#walk.definition
    if (compensation === null || this.#walk.run.kind === 'Compensation') return false
    const { phase, terminationKind, error, terminatedAtState } = end
    const { id: journeyId, name: journeyName } = this.#walk.run
    const outcome = { phase, terminationKind, error, terminatedAtState, journeyId, journeyName }
    for (const { predicate } of compensation.alsoFor) {
      if (predicate === null) return true
      try {
        if (yield* this.#walk.holds(predicate, frame, { output: end.output, outcome })) return true
      } catch (error) {
        // It succeeded; a rule that cannot be read does not change that, and does not match.
        if (!(error instanceof RunFault)) throw error
      }
    }
    return false
  }

  // ---- Frames ----

  *#go(start: Frame, graph: Graph, depth: number): Walk<Frame> {
    let frame = start
    for (;;) {
      const before = frame
      try {
        if (this.#walk.isTurnOver()) yield { ask: 'turn' }
        frame = yield* this.#step(frame, graph, depth)
      } catch (error) {
        frame = this.#broken(frame, error)
      }
      if (frame === before || frame.rest.kind === 'over') return frame
    }
  }

  /** One step on; the frame itself if it rests. */
  *#step(frame: Frame, graph: Graph, depth: number): Walk<Frame> {
    const { rest } = frame
    switch (rest.kind) {
      case 'ready':
        return rest.by === this.#walk.terms.server ? yield* this.#enter(frame, graph, depth) : frame
      case 'calling':
        return rest.by === this.#walk.terms.server ? yield* hear(this.#walk, frame, stateOf(graph, frame.state)) : frame
      case 'inside':
        return yield* this.#goInside(frame, rest.frame, stateOf(graph, frame.state), depth)
      case 'forked':
        return yield* this.#goBranches(frame, rest.frames, stateOf(graph, frame.state), depth)
      default:
        return frame
    }
  }

  *#enter(waiting: Frame, graph: Graph, depth: number): Walk<Frame> {
    if (this.#walk.isLate || this.#walk.isToBeSaved()) return waiting
    const now = this.#walk.terms.now()
    if (isDue(this.#walk.run.deadlineAt, now)) {
      this.#walk.isLate = true
      return waiting
    }
    const visit = this.#walk.countEntry()
    const [problem] = visit === 1 ? configProblems(this.#walk.definition.config, this.#walk.terms.config) : []
    if (problem !== undefined)
      return this.#walk.over(waiting, failure(pathOf(waiting), 'RuntimeError', 'RUNTIME_CONFIG', problem))
    const state = stateOf(graph, waiting.state)
    const steps = (waiting.steps ?? 0) + 1
    const frame: Frame = { ...waiting, visit, type: stateTypeOf(state), steps }
    this.#walk.trail.entered(frame, now, limitOf(state, this.#walk.definition))
    try {
      this.#walk.checkSteps(steps)
      return yield* this.#act(frame, state, now, depth)
    } catch (error) {
      return this.#broken(frame, error)
    }
  }

  /** A fault ends the frame it happens in. */
  #broken(frame: Frame, error: unknown): Frame {
    if (!(error instanceof RunFault)) throw error
    return this.#walk.over(frame, failure(pathOf(frame), 'RuntimeError', error.code, error.message))
  }

  *#act(frame: Frame, state: State, now: Instant, depth: number): Walk<Frame> {
    switch (state.type) {
      case 'choice': {
        for (const { predicate, next } of state.choices)
          if (yield* this.#walk.holds(predicate, frame)) return this.#walk.leave(frame, next)
        if (state.default !== null) return this.#walk.leave(frame, state.default)
        throw new RunFault('RUNTIME_NO_CHOICE', 'no choice holds, and there is no default')
      }
      case 'transform': {
        const value = yield* this.#walk.value(state.mapper, frame)
        return this.#walk.leave(frame, state.next, this.#walk.written(frame, state.target, value))
      }
      case 'httpCall':
        return yield* call(this.#walk, frame, state)
      case 'job':
        return yield* enqueue(this.#walk, frame, state)
      case 'schedule':
        return yield* schedule(this.#walk, frame, state, now)
      case 'apiKeyCheck':
        return this.#walk.leave(frame, state.next, checkedContext(state, this.#walk.run.keys ?? {}, frame.context))
      case 'wait':
      case 'webhook':
        return openFor(frame, state, now)
      case 'timer':
        return yield* sleep(this.#walk, frame, state, now)
      case 'parallel':
        return yield* this.#fork(frame, state)
      case 'subjourney':
        return yield* this.#goDown(frame, state, depth)
      case 'succeed': {
        const { context } = frame
        const output = state.outputVar === null ? context : (memberOf(context, state.outputVar) ?? null)
        return this.#walk.over(frame, {
          phase: 'SUCCEEDED',
          terminationKind: 'Success',
          output,
          error: null,
          terminatedAtState: pathOf(frame),
        })
      }
      case 'fail': {
        const reason = interpolate(state.reason, frame.context, 'text')
        return this.#walk.over(frame, failure(pathOf(frame), 'Fail', state.errorCode, reason))
      }
    }
  }

  // ---- What is inside ----

  *#goDown(frame: Frame, state: Subjourney, depth: number): Walk<Frame> {
    if (depth === MAX_SUBJOURNEY_DEPTH)
      throw new RunFault('RUNTIME_TOO_DEEP', `subjourneys are nested deeper than ${String(MAX_SUBJOURNEY_DEPTH)}`)
    const context = state.input === null ? {} : yield* this.#walk.value(state.input, frame)
    if (!isData(context)) throw new RunFault('RUNTIME_TYPE_MISMATCH', 'the input of a subjourney must be an object')
    const { start } = graphWithin(this.#walk.definition, state, null)
    const inner = readyAt(pathOf(frame), start, context, this.#walk.terms.server, frame.steps)
    return { ...frame, rest: { kind: 'inside', frame: inner } }
  }

  *#goInside(frame: Frame, inner: Frame, state: State, depth: number): Walk<Frame> {
    const after = yield* this.#go(inner, graphWithin(this.#walk.definition, state, null), depth + 1)
    if (state.type !== 'subjourney' || after.rest.kind !== 'over')
      return after === inner ? frame : { ...frame, rest: { kind: 'inside', frame: after } }
    const { end } = after.rest
    const { phase, terminationKind, output, error } = end
    if (phase === 'FAILED' && state.onFailure === 'propagate') return this.#walk.over(frame, end)
    const result = state.resultKind === 'outcome' ? { phase, terminationKind, output, error } : output
    const context = state.resultVar === null ? frame.context : { ...frame.context, [state.resultVar]: result }
    return this.#walk.leave({ ...frame, steps: after.steps ?? 0 }, state.next, context)
  }

  *#fork(frame: Frame, state: Parallel): Walk<Frame> {
    const width = this.#walk.widthWith(state.branches.length)
    if (width > MAX_BRANCHES)
      throw new RunFault(
        'RUNTIME_TOO_WIDE',
        `the run would have ${String(width)} branches side by side; at most ${String(MAX_BRANCHES)} are allowed`,
      )
    this.#walk.widen(width)
    const frames: [string, Frame][] = []
    for (const branch of state.branches) {
      if (this.#walk.isTurnOver()) yield { ask: 'turn' }
      frames.push([branch.name, beginBranch(frame, branch, this.#walk.terms.server)])
    }
    return { ...frame, rest: { kind: 'forked', frames: Object.fromEntries(frames) } }
  }

  *#goBranches(frame: Frame, branches: Readonly<Record<string, Frame>>, state: State, depth: number): Walk<Frame> {
    if (state.type !== 'parallel') throw new RunFault('RUNTIME_INTERNAL', 'a state has branches that is not parallel')
    const frames = { ...branches }
    const tally = tallyOf(Object.values(frames))
    let hasMoved = false
    for (const branch of state.branches) {
      const before = frames[branch.name]
      if (before === undefined) throw new RunFault('RUNTIME_INTERNAL', 'a branch is missing')
      const after = yield* this.#go(before, branch, depth + 1)
      if (after !== before) {
        frames[branch.name] = after
        hasMoved = true
        if (before.rest.kind !== 'over') count(tally, after)
      }
      if (isJoined(state, tally)) return yield* this.#join(frame, frames, state)
    }
    return hasMoved ? { ...frame, rest: { kind: 'forked', frames } } : frame
  }

  *#join(frame: Frame, frames: Readonly<Record<string, Frame>>, { join, next }: Parallel): Walk<Frame> {
    const [branches, outcomes]: [Record<string, unknown>, Record<string, unknown>] = [{}, {}]
    let steps = Infinity
    for (const [name, branch] of Object.entries(frames)) {
      if (this.#walk.isTurnOver()) yield { ask: 'turn' }
      if (branch.rest.kind !== 'over') {
        this.#walk.lose(branch)
        this.#walk.trail.lost(branch, this.#walk.terms.now())
        continue
      }
      steps = Math.min(steps, branch.steps ?? 0)
      const { phase, terminationKind, output, error } = branch.rest.end
      if (join.mapper !== null) outcomes[name] = { phase, terminationKind, error }
      if (phase === 'SUCCEEDED') branches[name] = output
    }
    const value = join.mapper === null ? branches : yield* this.#walk.value(join.mapper, frame, { branches, outcomes })
    const context = join.resultVar === null ? frame.context : { ...frame.context, [join.resultVar]: value }
    this.#walk.narrow({ ...frame, rest: { kind: 'forked', frames } })
    this.#walk.endTurn()
    if (this.#walk.isTurnOver()) yield { ask: 'turn' }
    return this.#walk.leave({ ...frame, steps }, next, context)
  }
}
