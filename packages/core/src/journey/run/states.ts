/** What single states mean: their limits, how long they rest, and when branches are joined. */
import type { Instant, Millis } from '../../time/clock.ts'
import { after } from '../../time/sums.ts'
import { MAX_DURATION_MS, parseIsoDuration, parseMoment } from '../../time/durations.ts'
import type { EnqueueRequest } from '../../wire/job/enqueue.ts'
import { readJobOfRun } from '../../wire/job-of-run.ts'
import { OjsError } from '../../errors.ts'
import { RunFault } from '../faults.ts'
import type { Definition, HttpCall, JobTask, Parallel, State, TimerState, Wait } from '../definition.ts'
import { DEFAULT_CALL_TIMEOUT_MS } from '../call.ts'
import { readyAt } from './frames.ts'
import { pathOf, type Data, type Frame, type Run } from './run.ts'

export function callTimeout({ timeoutMs }: HttpCall, { http }: Definition): Millis {
  return timeoutMs ?? http.timeoutMs ?? DEFAULT_CALL_TIMEOUT_MS
}

/** The limit a state sets itself, to be shown later. */
export function limitOf(state: State, definition: Definition): Millis | null {
  switch (state.type) {
    case 'httpCall':
      return callTimeout(state, definition)
    case 'wait':
    case 'webhook':
      return state.timeoutMs
    case 'timer':
      return state.kind === 'duration' && typeof state.due === 'string' ? parseIsoDuration(state.due) : null
    default:
      return null
  }
}

/** Open for a submission. An earlier submission is removed from the context. */
export function openFor(frame: Frame, { timeoutMs, onTimeout, next }: Wait, now: Instant): Frame {
  const context: Data = Object.fromEntries(Object.entries(frame.context).filter(([name]) => name !== 'payload'))
  const timeoutAt = timeoutMs === null ? null : after(now, timeoutMs)
  return { ...frame, context, steps: 0, rest: { kind: 'waiting', timeoutAt, onTimeout, next } }
}

/** When a timer is due; null if its text is none. */
export function dueOf(kind: TimerState['kind'], text: string, now: Instant): Instant | null {
  if (kind === 'until') return text.startsWith('+') ? null : (parseMoment(text, now, false)?.at ?? null)
  const lengthMs = parseIsoDuration(text)
  return lengthMs === null || lengthMs > MAX_DURATION_MS ? null : after(now, lengthMs)
}

/** Every branch works on a copy of its own. */
export function beginBranch(frame: Frame, { name, start }: Parallel['branches'][number], by: string): Frame {
  return readyAt(`${pathOf(frame)}/${name}`, start, frame.context, by, frame.steps)
}

/** How many branches there are, and how those ended that are over. */
export interface Tally {
  readonly all: number
  succeeded: number
  failed: number
}

export function tallyOf(frames: readonly Frame[]): Tally {
  const tally: Tally = { all: frames.length, succeeded: 0, failed: 0 }
  for (const frame of frames) count(tally, frame)
  return tally
}

export function count(tally: Tally, { rest }: Frame): void {
  if (rest.kind !== 'over') return
  if (rest.end.phase === 'SUCCEEDED') tally.succeeded += 1
  else tally.failed += 1
}

/** Whether enough branches are over for the run to go on. */
export function isJoined({ join }: Parallel, { all, succeeded, failed }: Tally): boolean {
  const areAllOver = succeeded + failed === all
  switch (join.strategy) {
    case 'allOf':
      return areAllOver || (join.errorPolicy === 'failFast' && failed > 0)
    case 'anyOf':
      return areAllOver || succeeded > 0
    case 'firstCompleted':
      return succeeded + failed > 0
  }
}

/** The job a state asks for, as any client would ask for it. */
export function jobRequest({ id }: Run, state: JobTask, args: readonly unknown[], now: Instant): EnqueueRequest {
  try {
    return readJobOfRun(id, { ...state.request, type: state.jobType, args }, now)
  } catch (error) {
    if (!(error instanceof OjsError)) throw error
    throw new RunFault('RUNTIME_JOB_REFUSED', error.message, error)
  }
}
