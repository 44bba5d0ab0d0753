/** What single states mean: their limits, how long they rest, and when branches are joined. */
import type { Instant, Millis } from './clock.ts'
import { after } from './deadlines.ts'
import { LONGEST_MS, parseIsoDuration, parseMoment } from './durations.ts'
import { readEnqueue, type EnqueueRequest } from './envelope.ts'
import { OjsError } from './errors.ts'
import { RunFault } from './journey-faults.ts'
import type { Definition, HttpCall, JobTask, Parallel, State, TimerState, Wait } from './journey.ts'
import { DEFAULT_CALL_TIMEOUT_MS } from './journey-call.ts'
import { readyAt } from './journey-frames.ts'
import { pathOf, type Data, type Frame, type Run } from './journey-run.ts'

export function callTimeout({ timeoutMs }: HttpCall, { http }: Definition): Millis {
  return timeoutMs ?? http.timeoutMs ?? DEFAULT_CALL_TIMEOUT_MS
}

/** The limit a state sets itself, for whoever looks at it later. */
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

/** Open for a submission. What was submitted before is nobody's business any more. */
export function openFor(frame: Frame, { timeoutMs, onTimeout, next }: Wait, now: Instant): Frame {
  const context: Data = Object.fromEntries(Object.entries(frame.context).filter(([name]) => name !== 'payload'))
  const timeoutAt = timeoutMs === null ? null : after(now, timeoutMs)
  return { ...frame, context, rest: { kind: 'waiting', timeoutAt, onTimeout, next } }
}

/** When a timer is due; null if its text is none. */
export function dueOf(kind: TimerState['kind'], text: string, now: Instant): Instant | null {
  if (kind === 'until') return text.startsWith('+') ? null : (parseMoment(text, now, false)?.at ?? null)
  const lengthMs = parseIsoDuration(text)
  return lengthMs === null || lengthMs > LONGEST_MS ? null : after(now, lengthMs)
}

/** Every branch works on a copy of its own. */
export function fork(frame: Frame, { branches }: Parallel, by: string): Frame {
  const begin = ({ name, start }: Parallel['branches'][number]): [string, Frame] => [
    name,
    readyAt(`${pathOf(frame)}/${name}`, start, frame.context, by),
  ]
  return { ...frame, rest: { kind: 'forked', frames: Object.fromEntries(branches.map(begin)) } }
}

/** Whether enough branches are over for the run to go on. */
export function isJoined({ join }: Parallel, frames: Readonly<Record<string, Frame>>): boolean {
  const ends = Object.values(frames).map(({ rest }) => (rest.kind === 'over' ? rest.end.phase : null))
  const areAllOver = ends.every((phase) => phase !== null)
  switch (join.strategy) {
    case 'allOf':
      return areAllOver || (join.errorPolicy === 'failFast' && ends.includes('FAILED'))
    case 'anyOf':
      return areAllOver || ends.includes('SUCCEEDED')
    case 'firstCompleted':
      return ends.some((phase) => phase !== null)
  }
}

/** The job a state asks for, as any client would ask for it. */
export function jobRequest({ id }: Run, state: JobTask, args: readonly unknown[], now: Instant): EnqueueRequest {
  const fields = { ...state.request, type: state.jobType, args, x_parent: { journey_id: id } }
  try {
    return readEnqueue(JSON.stringify(fields), fields, now)
  } catch (error) {
    if (!(error instanceof OjsError)) throw error
    throw new RunFault('RUNTIME_JOB_REFUSED', error.message, error)
  }
}
