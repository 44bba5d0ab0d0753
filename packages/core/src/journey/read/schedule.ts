/** `schedule:v1` as it is written, and the rule that scheduled runs cannot wait for a caller. */
import { instant } from '../../time/clock.ts'
import type { Field, Mapping } from '../../diagnostics.ts'
import { parseMoment } from '../../time/durations.ts'
import { successors } from './graph.ts'
import type { Definition, Expression, Graph, ScheduleTask, State, StateId } from '../definition.ts'
import { isMapped, needMapper, type Reading } from './reading.ts'
import { intervalProblem, MAX_RUNS } from '../run/schedule.ts'

const CODE = 'SCHED-1'
const KEYS = ['kind', 'start', 'startAt', 'interval', 'maxRuns', 'subjectId', 'context', 'onExisting']

export function readScheduleTask(reading: Reading, task: Mapping, next: StateId): ScheduleTask {
  task.at.members(KEYS, { code: CODE })
  const start = task.need('start', CODE)
  const id = start?.text(CODE, { expected: 'the name of a state in spec.states' }) ?? ''
  if (start !== null && id !== '') reading.schedules.push({ start: id, path: start.path })
  return {
    type: 'schedule',
    start: id,
    startAt: given(reading, task.get('startAt'), checkMoment),
    interval: given(reading, task.need('interval', CODE), checkInterval) ?? '',
    maxRuns: given(reading, task.need('maxRuns', CODE), checkCount) ?? 1,
    subjectId: mapped(reading, task.get('subjectId')),
    context: mapped(reading, task.get('context')),
    onExisting: task.get('onExisting')?.oneOf(['fail', 'upsert', 'addAnother'], CODE) ?? 'fail',
    next,
  }
}

/** A value of its own, or an expression that makes one. */
function given<T>(reading: Reading, field: Field | null, check: (field: Field) => T | null): T | Expression | null {
  if (field === null) return null
  return isMapped(field.value) ? mapped(reading, field) : check(field)
}

function mapped(reading: Reading, field: Field | null): Expression | null {
  const mapping = field?.members(['mapper', 'mapperRef'], { code: CODE }) ?? null
  return mapping === null ? null : needMapper(reading, mapping)
}

function checkMoment(field: Field): string | null {
  const text = field.text(CODE)
  if (text === null || (!text.startsWith('+') && parseMoment(text, instant(0), false) !== null)) return text
  return field.refuse(CODE, 'an instant such as "2030-12-31T23:59:00Z" (RFC 3339, with its zone)')
}

function checkInterval(field: Field): string | null {
  const text = field.text(CODE)
  const problem = text === null ? null : intervalProblem(text)
  return problem === null ? text : field.refuse(CODE, problem)
}

const checkCount = (field: Field): number | null => field.whole(CODE, 1, MAX_RUNS)

/** Scheduled runs begin at states of the definition itself, and nothing on their way waits for a person or a callback. */
export function checkSchedules({ found, schedules }: Reading, definition: Definition): void {
  for (const { start, path } of schedules) {
    if (!Object.hasOwn(definition.states, start)) {
      found.error('GRAPH-1', path, `start leads to ${JSON.stringify(start)}, which is not a state in spec.states.`)
      continue
    }
    const step = firstStep(definition, start)
    if (step !== null)
      found.error(
        CODE,
        path,
        `A scheduled run from ${start} would come to ${step}, which needs a caller; a scheduled run has none.`,
      )
  }
}

function firstStep(definition: Definition, start: StateId): string | null {
  const seen = new Set<Graph>()
  const inGraph = (graph: Graph, from: StateId): string | null => {
    const reached = new Set([from])
    for (const id of reached) {
      const state = Object.hasOwn(graph.states, id) ? graph.states[id] : undefined
      if (state === undefined) continue
      if (state.type === 'wait' || state.type === 'webhook') return id
      for (const inner of insideOf(definition, state)) {
        if (seen.has(inner)) continue
        seen.add(inner)
        const step = inGraph(inner, inner.start)
        if (step !== null) return step
      }
      for (const next of successors(state)) reached.add(next)
    }
    return null
  }
  return inGraph(definition, start)
}

function insideOf({ subjourneys }: Definition, state: State): readonly Graph[] {
  if (state.type === 'parallel') return state.branches
  const inner =
    state.type === 'subjourney' && Object.hasOwn(subjourneys, state.ref) ? subjourneys[state.ref] : undefined
  return inner === undefined ? [] : [inner]
}

export const scheduleStarts = (reading: Reading): ReadonlySet<StateId> =>
  new Set(reading.schedules.map(({ start }) => start))
