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
import { uuidV7 } from '../../ids.ts'
import { checkedContext } from '../api-key.ts'
import { prepareCall } from '../call.ts'
import { configFor, configProblems } from '../config.ts'
import {
  stateTypeOf,
  type Definition,
  type Expression,
  type Graph,
  type HttpCall,
  type JobTask,
  type Parallel,
  type ScheduleTask,
  type State,
  type Subjourney,
  type TimerState,
} from '../definition.ts'
import { RunFault } from '../faults.ts'
import { interpolate } from '../interpolation.ts'
import {
  MAX_BRANCHES,
  MAX_STEPS,
  MAX_STEPS_WITHOUT_REST,
  PASSED_PER_TURN,
  STEPS_PER_SAVE,
  STEPS_PER_TURN,
} from '../limits.ts'
import { graphOf, graphWithin, moved, readyAt, stateOf } from './frames.ts'
import { awaitedJobs, changed, endRun, failure } from './life.ts'
import { leaves, pathOf, type Data, type End, type Frame, type Run } from './run.ts'
import { newSchedule, readSubject, scheduleId } from './schedule.ts'
import { beginBranch, callTimeout, count, dueOf, isJoined, jobRequest, limitOf, openFor, tallyOf } from './states.ts'
import { surveyOf } from './survey.ts'
import { Trail } from './trail.ts'
import { documentFor, isData, memberOf, write } from './values.ts'
import type { Walk, Walked, WalkTerms, WantedCall, WantedJob, WantedSchedule } from './walk-terms.ts'
import { writtenBetween } from './written.ts'
import type { Instant } from '../../time/clock.ts'
import { isDue } from '../../time/sums.ts'

const MAX_SUBJOURNEY_DEPTH = 32

export function* walk(run: Run, definition: Definition, terms: WalkTerms): Walk<Walked> {
  return yield* new Walker(run, definition, terms).walk()
}

class Walker {
  readonly #run: Run
  readonly #definition: Definition
  readonly #terms: WalkTerms
  readonly #jobs = new Map<string, WantedJob>()
  readonly #calls = new Map<number, WantedCall>()
  readonly #lost = new Set<string>()
  readonly #schedules: WantedSchedule[] = []
  readonly #config: Data
  readonly #trail: Trail
  #attributes: Run['attributes']
  #visits: number
  /** Branches of the run, those that are over included. */
  #width: number
  /** How many branches it has had during this walk. */
  #widest: number
  #entered = 0
  /** Until the next turn of others. */
  #untilTurn = STEPS_PER_TURN
  #passed = 0
  #isFull = false
  #isLate = false

  constructor(run: Run, definition: Definition, terms: WalkTerms) {
    this.#run = run
    this.#definition = definition
    this.#terms = terms
    this.#attributes = run.attributes
    this.#trail = new Trail(run.trail)
    this.#visits = run.visits
    this.#config = configFor(definition.config, terms.config)
    this.#width = surveyOf(run.root).width
    this.#widest = this.#width
  }

  *walk(): Walk<Walked> {
    const root = yield* this.#go(this.#run.root, graphOf(this.#run, this.#definition), 0)
    const now = this.#terms.now()
    const walked = changed(this.#run, now, {
      root,
      visits: this.#visits,
      attributes: this.#attributes,
      ...this.#trail.trimmed(this.#run.omitted),
    })
    const over = root.rest.kind === 'over' ? yield* this.#checked(root.rest.end) : null
    const calling = new Set(
      this.#calls.size === 0 ? [] : leaves(root).flatMap(({ rest, visit }) => (rest.kind === 'calling' ? [visit] : [])),
    )
    return {
      run: over === null ? walked : endRun(walked, over, now),
      jobs: [...this.#jobs.values()],
      schedules: this.#schedules,
      lostJobs: [...this.#lost],
      calls: [...this.#calls.values()].filter(({ isNotice, visit }) => isNotice || calling.has(visit)),
      compensate: over?.phase === 'SUCCEEDED' && (yield* this.#isToBeCompensated(over, root)),
      isLate: this.#isLate,
    }
  }

  /** A success must be what the definition promises. */
  *#checked(end: End): Walk<End> {
    const { schema } = this.#definition.output
    if (end.phase !== 'SUCCEEDED' || schema === null || this.#run.kind === 'Compensation') return end
    const misfit = yield { ask: 'misfit', schema, value: end.output }
    if (typeof misfit !== 'string') return end
    const reason = `the output does not fit spec.output.schema: ${misfit}`
    return failure(end.terminatedAtState, 'RuntimeError', 'RUNTIME_INVALID_OUTPUT', reason)
  }

  *#isToBeCompensated(end: End, frame: Frame): Walk<boolean> {
    const { compensation } = this.#definition
    if (compensation === null || this.#run.kind === 'Compensation') return false
    const { phase, terminationKind, error, terminatedAtState } = end
    const { id: journeyId, name: journeyName } = this.#run
    const outcome = { phase, terminationKind, error, terminatedAtState, journeyId, journeyName }
    for (const { predicate } of compensation.alsoFor) {
      if (predicate === null) return true
      try {
        if (yield* this.#holds(predicate, frame, { output: end.output, outcome })) return true
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
        if (this.#isTurnOver()) yield { ask: 'turn' }
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
        return rest.by === this.#terms.server ? yield* this.#enter(frame, graph, depth) : frame
      case 'calling':
        return rest.by === this.#terms.server ? yield* this.#hear(frame, stateOf(graph, frame.state)) : frame
      case 'inside':
        return yield* this.#goInside(frame, rest.frame, stateOf(graph, frame.state), depth)
      case 'forked':
        return yield* this.#goBranches(frame, rest.frames, stateOf(graph, frame.state), depth)
      default:
        return frame
    }
  }

  *#enter(waiting: Frame, graph: Graph, depth: number): Walk<Frame> {
    if (this.#isLate || this.#isToBeSaved()) return waiting
    const now = this.#terms.now()
    if (isDue(this.#run.deadlineAt, now)) {
      this.#isLate = true
      return waiting
    }
    this.#entered += 1
    this.#untilTurn -= 1
    this.#visits += 1
    const [problem] = this.#visits === 1 ? configProblems(this.#definition.config, this.#terms.config) : []
    if (problem !== undefined)
      return this.#over(waiting, failure(pathOf(waiting), 'RuntimeError', 'RUNTIME_CONFIG', problem))
    const state = stateOf(graph, waiting.state)
    const steps = (waiting.steps ?? 0) + 1
    const frame: Frame = { ...waiting, visit: this.#visits, type: stateTypeOf(state), steps }
    this.#trail.entered(frame, now, limitOf(state, this.#definition))
    try {
      this.#checkSteps(steps)
      return yield* this.#act(frame, state, now, depth)
    } catch (error) {
      return this.#broken(frame, error)
    }
  }

  /** Once it has come far enough it enters no further state: what it came to is saved first. */
  #isToBeSaved(): boolean {
    this.#isFull ||=
      this.#entered >= STEPS_PER_SAVE &&
      (this.#entered >= STEPS_PER_SAVE + this.#widest || this.#terms.isLong?.() === true)
    return this.#isFull
  }

  #checkSteps(steps: number): void {
    if (this.#visits > MAX_STEPS)
      throw new RunFault('RUNTIME_TOO_MANY_STEPS', `the run has entered more than ${String(MAX_STEPS)} states`)
    if (steps > MAX_STEPS_WITHOUT_REST)
      throw new RunFault(
        'RUNTIME_TOO_MANY_STEPS',
        `more than ${String(MAX_STEPS_WITHOUT_REST)} states were entered without waiting for anything: a loop needs a timer, a call, a job or a wait`,
      )
  }

  /** After so much others have their turn, whether or not there was anything to ask. */
  #isTurnOver(): boolean {
    this.#passed += 1
    if (this.#untilTurn > 0 && this.#passed < PASSED_PER_TURN) return false
    this.#untilTurn = STEPS_PER_TURN
    this.#passed = 0
    return true
  }

  /** A fault ends the frame it happens in. */
  #broken(frame: Frame, error: unknown): Frame {
    if (!(error instanceof RunFault)) throw error
    return this.#over(frame, failure(pathOf(frame), 'RuntimeError', error.code, error.message))
  }

  *#act(frame: Frame, state: State, now: Instant, depth: number): Walk<Frame> {
    switch (state.type) {
      case 'choice': {
        for (const { predicate, next } of state.choices)
          if (yield* this.#holds(predicate, frame)) return this.#leave(frame, next)
        if (state.default !== null) return this.#leave(frame, state.default)
        throw new RunFault('RUNTIME_NO_CHOICE', 'no choice holds, and there is no default')
      }
      case 'transform': {
        const value = yield* this.#value(state.mapper, frame)
        return this.#leave(frame, state.next, this.#written(frame, state.target, value))
      }
      case 'httpCall':
        return yield* this.#call(frame, state)
      case 'job':
        return yield* this.#enqueue(frame, state)
      case 'schedule':
        return yield* this.#schedule(frame, state, now)
      case 'apiKeyCheck':
        return this.#leave(frame, state.next, checkedContext(state, this.#run.keys ?? {}, frame.context))
      case 'wait':
      case 'webhook':
        return openFor(frame, state, now)
      case 'timer':
        return yield* this.#sleep(frame, state, now)
      case 'parallel':
        return yield* this.#fork(frame, state)
      case 'subjourney':
        return yield* this.#goDown(frame, state, depth)
      case 'succeed': {
        const { context } = frame
        const output = state.outputVar === null ? context : (memberOf(context, state.outputVar) ?? null)
        return this.#over(frame, {
          phase: 'SUCCEEDED',
          terminationKind: 'Success',
          output,
          error: null,
          terminatedAtState: pathOf(frame),
        })
      }
      case 'fail': {
        const reason = interpolate(state.reason, frame.context, 'text')
        return this.#over(frame, failure(pathOf(frame), 'Fail', state.errorCode, reason))
      }
    }
  }

  #leave(frame: Frame, next: string, context: Data = frame.context, note: string | null = null): Frame {
    this.#trail.left(frame, this.#terms.now(), note, writtenBetween(frame.context, context))
    return moved(frame, next, context, this.#terms.server)
  }

  /** Whatever it still waited for is lost. */
  #over(frame: Frame, end: End): Frame {
    this.#lose(frame)
    this.#width -= surveyOf(frame).width - 1
    this.#trail.left(frame, this.#terms.now())
    return { ...frame, rest: { kind: 'over', end } }
  }

  #lose(frame: Frame): void {
    for (const jobId of awaitedJobs(frame)) {
      if (!this.#jobs.delete(jobId)) this.#lost.add(jobId)
    }
  }

  // ---- Asking ----

  *#value(expression: Expression, frame: Frame, more?: Data): Walk<unknown> {
    return yield { ask: 'value', expression, document: this.#document(frame, more) }
  }

  *#holds(expression: Expression, frame: Frame, more?: Data): Walk<boolean> {
    return (yield { ask: 'holds', expression, document: this.#document(frame, more) }) === true
  }

  #document(frame: Frame, more?: Data): Data {
    return documentFor(this.#run, frame, this.#config, more)
  }

  #written(frame: Frame, target: Parameters<typeof write>[0], value: unknown): Data {
    const { context, attributes } = write(target, value, { context: frame.context, attributes: this.#attributes })
    this.#attributes = attributes
    return context
  }

  // ---- Calls ----

  *#call(frame: Frame, state: HttpCall): Walk<Frame> {
    const { body } = state
    const mapped = body !== null && 'mapper' in body ? yield* this.#value(body.mapper, frame) : undefined
    const call = prepareCall(state, this.#definition.http, frame.context, mapped)
    const isNotice = state.mode === 'notify'
    const timeoutMs = callTimeout(state, this.#definition)
    const { visit } = frame
    this.#calls.set(visit, { path: pathOf(frame), visit, call, timeoutMs, resilience: state.resilience, isNotice })
    if (isNotice) return this.#leave(frame, state.next)
    return { ...frame, steps: 0, rest: { kind: 'calling', by: this.#terms.server } }
  }

  /** The answer of the call it waits for, if there is one. */
  *#hear(frame: Frame, state: State): Walk<Frame> {
    if (state.type !== 'httpCall')
      throw new RunFault('RUNTIME_INTERNAL', 'a frame waits for a call in a state that makes none')
    const result = this.#terms.results.get(frame.visit)
    if (result === undefined) {
      const isMade = this.#terms.underway.has(frame.visit) || this.#calls.has(frame.visit)
      if (!isMade) yield* this.#call(frame, state)
      return frame
    }
    const { resultVar, errorMapping } = state
    const context = resultVar === null ? frame.context : { ...frame.context, [resultVar]: result }
    const heard = { ...frame, context }
    const note = result.error === undefined ? null : result.error.type.toLowerCase()
    if (result.ok || errorMapping === null) return this.#leave(frame, state.next, context, note)
    const value = yield* this.#value(errorMapping.mapper, heard, { payload: result })
    return this.#leave(frame, state.next, this.#written(heard, errorMapping.target, value), note)
  }

  // ---- Jobs ----

  *#enqueue(frame: Frame, state: JobTask): Walk<Frame> {
    const { args, mode, detach: isDetached, resultVar, next } = state
    const given = 'mapper' in args ? yield* this.#value(args.mapper, frame) : (JSON.parse(args.literal) as unknown)
    if (!Array.isArray(given)) throw new RunFault('RUNTIME_TYPE_MISMATCH', 'the args of a job must be a list')
    const now = this.#terms.now()
    const jobId = uuidV7(now, this.#terms.random)
    const isAwaited = mode === 'await'
    this.#jobs.set(jobId, { jobId, request: jobRequest(this.#run, state, given, now), isAwaited, isDetached })
    return isAwaited ? { ...frame, steps: 0, rest: { kind: 'job', jobId, resultVar, next } } : this.#leave(frame, next)
  }

  // ---- Schedules ----

  *#schedule(frame: Frame, state: ScheduleTask, now: Instant): Walk<Frame> {
    const made = (part: string | number | Expression | null): Walk<unknown> => this.#made(part, frame)
    const asked = {
      startAt: yield* made(state.startAt),
      interval: yield* made(state.interval),
      maxRuns: yield* made(state.maxRuns),
      subjectId: yield* made(state.subjectId),
      context: (yield* made(state.context)) ?? frame.context,
    }
    const { name, version, kind, tags, execution, cancellable, compensation } = this.#definition
    const template = { name, version, kind, tags, execution, cancellable, start: state.start }
    const own = { ...template, compensation: compensation === null ? null : { start: compensation.start } }
    const common = scheduleId(own, readSubject(asked.subjectId))
    const id = state.onExisting === 'addAnother' ? `${common}~${uuidV7(now, this.#terms.random)}` : common
    const schedule = newSchedule(id, own, asked, this.#run, now)
    if (state.onExisting === 'fail' && (yield { ask: 'scheduled', id }) === true)
      throw new RunFault('RUNTIME_SCHEDULE_EXISTS', `there is a schedule ${id} already`)
    this.#schedules.push({ schedule, onExisting: state.onExisting })
    return this.#leave(frame, state.next)
  }

  /** Undefined: nothing is said. */
  *#made(part: string | number | Expression | null, frame: Frame): Walk<unknown> {
    if (part === null) return undefined
    return typeof part === 'object' ? yield* this.#value(part, frame) : part
  }

  // ---- Time ----

  *#sleep(frame: Frame, { kind, due, next }: TimerState, now: Instant): Walk<Frame> {
    const text = typeof due === 'string' ? due : yield* this.#value(due, frame)
    const until = typeof text === 'string' ? dueOf(kind, text, now) : null
    if (until === null) {
      const wanted = kind === 'until' ? 'an RFC 3339 instant' : 'an ISO 8601 duration'
      throw new RunFault('RUNTIME_BAD_TIMER', `the timer's ${kind} must be ${wanted}`)
    }
    return isDue(until, now)
      ? this.#leave(frame, next)
      : { ...frame, steps: 0, rest: { kind: 'sleeping', until, next } }
  }

  // ---- What is inside ----

  *#goDown(frame: Frame, state: Subjourney, depth: number): Walk<Frame> {
    if (depth === MAX_SUBJOURNEY_DEPTH)
      throw new RunFault('RUNTIME_TOO_DEEP', `subjourneys are nested deeper than ${String(MAX_SUBJOURNEY_DEPTH)}`)
    const context = state.input === null ? {} : yield* this.#value(state.input, frame)
    if (!isData(context)) throw new RunFault('RUNTIME_TYPE_MISMATCH', 'the input of a subjourney must be an object')
    const { start } = graphWithin(this.#definition, state, null)
    const inner = readyAt(pathOf(frame), start, context, this.#terms.server, frame.steps)
    return { ...frame, rest: { kind: 'inside', frame: inner } }
  }

  *#goInside(frame: Frame, inner: Frame, state: State, depth: number): Walk<Frame> {
    const after = yield* this.#go(inner, graphWithin(this.#definition, state, null), depth + 1)
    if (state.type !== 'subjourney' || after.rest.kind !== 'over')
      return after === inner ? frame : { ...frame, rest: { kind: 'inside', frame: after } }
    const { end } = after.rest
    const { phase, terminationKind, output, error } = end
    if (phase === 'FAILED' && state.onFailure === 'propagate') return this.#over(frame, end)
    const result = state.resultKind === 'outcome' ? { phase, terminationKind, output, error } : output
    const context = state.resultVar === null ? frame.context : { ...frame.context, [state.resultVar]: result }
    return this.#leave({ ...frame, steps: after.steps ?? 0 }, state.next, context)
  }

  *#fork(frame: Frame, state: Parallel): Walk<Frame> {
    const width = this.#width - 1 + state.branches.length
    if (width > MAX_BRANCHES)
      throw new RunFault(
        'RUNTIME_TOO_WIDE',
        `the run would have ${String(width)} branches side by side; at most ${String(MAX_BRANCHES)} are allowed`,
      )
    this.#width = width
    this.#widest = Math.max(this.#widest, width)
    const frames: [string, Frame][] = []
    for (const branch of state.branches) {
      if (this.#isTurnOver()) yield { ask: 'turn' }
      frames.push([branch.name, beginBranch(frame, branch, this.#terms.server)])
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
      if (this.#isTurnOver()) yield { ask: 'turn' }
      if (branch.rest.kind !== 'over') {
        this.#lose(branch)
        this.#trail.lost(branch, this.#terms.now())
        continue
      }
      steps = Math.min(steps, branch.steps ?? 0)
      const { phase, terminationKind, output, error } = branch.rest.end
      if (join.mapper !== null) outcomes[name] = { phase, terminationKind, error }
      if (phase === 'SUCCEEDED') branches[name] = output
    }
    const value = join.mapper === null ? branches : yield* this.#value(join.mapper, frame, { branches, outcomes })
    const context = join.resultVar === null ? frame.context : { ...frame.context, [join.resultVar]: value }
    this.#width -= surveyOf({ ...frame, rest: { kind: 'forked', frames } }).width - 1
    this.#untilTurn = 0
    if (this.#isTurnOver()) yield { ask: 'turn' }
    return this.#leave({ ...frame, steps }, next, context)
  }
}
