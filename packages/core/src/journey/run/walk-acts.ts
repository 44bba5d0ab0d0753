/** What single states do: make a call, hear its answer, enqueue a job, begin a schedule, sleep. */
import { uuidV7 } from '../../ids.ts'
import type { Instant } from '../../time/clock.ts'
import { isDue } from '../../time/sums.ts'
import { prepareCall } from '../call.ts'
import type { Expression, HttpCall, JobTask, ScheduleTask, State, TimerState } from '../definition.ts'
import { RunFault } from '../faults.ts'
import { pathOf, type Frame } from './run.ts'
import { newSchedule, readSubject, scheduleId } from './schedule.ts'
import { callTimeout, dueOf, jobRequest } from './states.ts'
import type { WalkState } from './walk-state.ts'
import type { Walk } from './walk-terms.ts'

export function* call(walk: WalkState, frame: Frame, state: HttpCall): Walk<Frame> {
  const { body } = state
  const mapped = body !== null && 'mapper' in body ? yield* walk.value(body.mapper, frame) : undefined
  const call = prepareCall(state, walk.definition.http, frame.context, mapped)
  const isNotice = state.mode === 'notify'
  const timeoutMs = callTimeout(state, walk.definition)
  const { visit } = frame
  walk.calls.set(visit, { path: pathOf(frame), visit, call, timeoutMs, resilience: state.resilience, isNotice })
  if (isNotice) return walk.leave(frame, state.next)
  return { ...frame, steps: 0, rest: { kind: 'calling', by: walk.terms.server } }
}

/** The answer of the call it waits for, if there is one. */
export function* hear(walk: WalkState, frame: Frame, state: State): Walk<Frame> {
  if (state.type !== 'httpCall')
    throw new RunFault('RUNTIME_INTERNAL', 'a frame waits for a call in a state that makes none')
  const result = walk.terms.results.get(frame.visit)
  if (result === undefined) {
    const isMade = walk.terms.underway.has(frame.visit) || walk.calls.has(frame.visit)
    if (!isMade) yield* call(walk, frame, state)
    return frame
  }
  const { resultVar, errorMapping } = state
  const context = resultVar === null ? frame.context : { ...frame.context, [resultVar]: result }
  const heard = { ...frame, context }
  const note = result.error === undefined ? null : result.error.type.toLowerCase()
  if (result.ok || errorMapping === null) return walk.leave(frame, state.next, context, note)
  const value = yield* walk.value(errorMapping.mapper, heard, { payload: result })
  return walk.leave(frame, state.next, walk.written(heard, errorMapping.target, value), note)
}

export function* enqueue(walk: WalkState, frame: Frame, state: JobTask): Walk<Frame> {
  const { args, mode, detach: isDetached, resultVar, next } = state
  const given = 'mapper' in args ? yield* walk.value(args.mapper, frame) : (JSON.parse(args.literal) as unknown)
  if (!Array.isArray(given)) throw new RunFault('RUNTIME_TYPE_MISMATCH', 'the args of a job must be a list')
  const now = walk.terms.now()
  const jobId = uuidV7(now, walk.terms.random)
  const isAwaited = mode === 'await'
  walk.jobs.set(jobId, { jobId, request: jobRequest(walk.run, state, given, now), isAwaited, isDetached })
  return isAwaited ? { ...frame, steps: 0, rest: { kind: 'job', jobId, resultVar, next } } : walk.leave(frame, next)
}

export function* schedule(walk: WalkState, frame: Frame, state: ScheduleTask, now: Instant): Walk<Frame> {
  const made = (part: string | number | Expression | null): Walk<unknown> => partOf(walk, part, frame)
  const asked = {
    startAt: yield* made(state.startAt),
    interval: yield* made(state.interval),
    maxRuns: yield* made(state.maxRuns),
    subjectId: yield* made(state.subjectId),
    context: (yield* made(state.context)) ?? frame.context,
  }
  const { name, version, kind, tags, execution, cancellable, compensation } = walk.definition
  const template = { name, version, kind, tags, execution, cancellable, start: state.start }
  const own = { ...template, compensation: compensation === null ? null : { start: compensation.start } }
  const common = scheduleId(own, readSubject(asked.subjectId))
  const id = state.onExisting === 'addAnother' ? `${common}~${uuidV7(now, walk.terms.random)}` : common
  const schedule = newSchedule(id, own, asked, walk.run, now)
  if (state.onExisting === 'fail' && (yield { ask: 'scheduled', id }) === true)
    throw new RunFault('RUNTIME_SCHEDULE_EXISTS', `there is a schedule ${id} already`)
  walk.schedules.push({ schedule, onExisting: state.onExisting })
  return walk.leave(frame, state.next)
}

/** Undefined: the definition does not give it. */
function* partOf(walk: WalkState, part: string | number | Expression | null, frame: Frame): Walk<unknown> {
  if (part === null) return undefined
  return typeof part === 'object' ? yield* walk.value(part, frame) : part
}

export function* sleep(walk: WalkState, frame: Frame, { kind, due, next }: TimerState, now: Instant): Walk<Frame> {
  const text = typeof due === 'string' ? due : yield* walk.value(due, frame)
  const until = typeof text === 'string' ? dueOf(kind, text, now) : null
  if (until === null) {
    const wanted = kind === 'until' ? 'an RFC 3339 instant' : 'an ISO 8601 duration'
    throw new RunFault('RUNTIME_BAD_TIMER', `the timer's ${kind} must be ${wanted}`)
  }
  return isDue(until, now) ? walk.leave(frame, next) : { ...frame, steps: 0, rest: { kind: 'sleeping', until, next } }
}
