/**
 * `schedule:v1`: runs of a journey that begin by themselves, one after the other, each with the context in which the one
 * before it ended.
 *
 *   state ─→ schedule ── nextAt ─→ run ── ends ─→ nextAt ─→ run … ── maxRuns ─→ gone
 *
 * A schedule has one run at a time. Instants that pass meanwhile, or while no server is up, are left out: the next run
 * begins at the next instant of the grid that `startAt` and `intervalMs` make.
 */
import { iso, millis, type Instant, type Millis } from '../../time/clock.ts'
import { docKind } from '../../doc.ts'
import { MAX_DURATION_MS, parseIsoDuration, parseMoment } from '../../time/durations.ts'
import { RunFault } from '../faults.ts'
import { beginRun, type RunTemplate } from './life.ts'
import type { Data, Run } from './run.ts'
import { nextOnGrid } from '../../time/sums.ts'
import type { RunLimits } from '../../time/budget.ts'

export interface RunSchedule {
  readonly id: string
  /** What a run of it begins with. */
  readonly template: RunTemplate
  readonly subjectId: string | null
  readonly startAt: Instant
  readonly intervalMs: Millis
  readonly maxRuns: number
  readonly runsEnded: number
  /** Of the next run; null while one is under way. */
  readonly nextAt: Instant | null
  readonly runId: string | null
  /** For the next run. */
  readonly context: Data
  readonly createdAt: Instant
  /** The run that made it. */
  readonly createdBy: string
}

export const RUN_SCHEDULE = docKind<RunSchedule>('schedule', ({ nextAt }) => nextAt)

export const MIN_INTERVAL_MS = 1_000
export const MAX_RUNS = 1_000_000
const MAX_SUBJECT_LENGTH = 256

/** What a state has made of its expressions. */
export interface AskedSchedule {
  readonly startAt: unknown
  readonly interval: unknown
  readonly maxRuns: unknown
  readonly subjectId: unknown
  readonly context: unknown
}

/** One schedule per journey, version, entry and subject, unless a definition asks for another. */
export function scheduleId({ name, version, start }: RunTemplate, subjectId: string | null): string {
  return [name, version, start, ...(subjectId === null ? [] : [subjectId])].map(encodeURIComponent).join('~')
}

export function readSubject(value: unknown): string | null {
  if (value === undefined) return null
  if (typeof value === 'string' && value !== '' && value.length <= MAX_SUBJECT_LENGTH) return value
  throw wrong('subjectId', `a text of 1 to ${String(MAX_SUBJECT_LENGTH)} characters`)
}

/** What there is to know of a new schedule; a fault names what cannot be used. */
export function newSchedule(
  id: string,
  template: RunTemplate,
  asked: AskedSchedule,
  run: Run,
  now: Instant,
): RunSchedule {
  const startAt = asked.startAt === undefined ? now : momentOf(asked.startAt, now)
  return {
    id,
    template,
    subjectId: readSubject(asked.subjectId),
    startAt,
    intervalMs: intervalOf(asked.interval),
    maxRuns: maxRunsOf(asked.maxRuns),
    runsEnded: 0,
    nextAt: startAt,
    runId: null,
    context: contextOf(asked.context),
    createdAt: now,
    createdBy: run.id,
  }
}

/** A schedule that is there takes over what the new one says. A run that is under way is not touched. */
export function replaced(before: RunSchedule, by: RunSchedule): RunSchedule {
  const { runsEnded, runId, createdAt, createdBy } = before
  return { ...by, runsEnded, runId, nextAt: runId === null ? by.nextAt : null, createdAt, createdBy }
}

/** The run that is due, and the schedule while it is under way. */
export function scheduledRun(schedule: RunSchedule, id: string, now: Instant, limits: RunLimits): [Run, RunSchedule] {
  const { template, subjectId, context } = schedule
  const attributes: Record<string, string> = subjectId === null ? {} : { subjectId }
  const asked = { id, definition: template, context, tags: template.tags, attributes, parent: null, inheritedAt: null }
  const run = { ...beginRun({ ...asked, startedAt: now }, limits), scheduleId: schedule.id }
  return [run, { ...schedule, runId: id, nextAt: null }]
}

/** After the end of its run; null: it was the last. */
export function afterRun(schedule: RunSchedule, { root, id }: Run, now: Instant): RunSchedule | null {
  if (schedule.runId !== id) return schedule
  const runsEnded = schedule.runsEnded + 1
  if (runsEnded >= schedule.maxRuns) return null
  return {
    ...schedule,
    runsEnded,
    runId: null,
    context: root.context,
    nextAt: nextOnGrid(schedule.startAt, schedule.intervalMs, now),
  }
}

export function scheduleView(schedule: RunSchedule): Data {
  const { id, template, subjectId, startAt, intervalMs, maxRuns, runsEnded, nextAt, runId } = schedule
  return {
    scheduleId: id,
    journeyName: template.name,
    journeyVersion: template.version,
    start: template.start,
    ...(subjectId === null ? {} : { subjectId }),
    startAt: iso(startAt),
    intervalMs,
    maxRuns,
    runsEnded,
    ...(nextAt === null ? {} : { nextAt: iso(nextAt) }),
    ...(runId === null ? {} : { runId }),
    createdAt: iso(schedule.createdAt),
    createdBy: schedule.createdBy,
  }
}

// ---- Reading what expressions gave ----

export function intervalProblem(text: string): string | null {
  const ms = parseIsoDuration(text)
  const fits = ms !== null && ms >= MIN_INTERVAL_MS && ms <= MAX_DURATION_MS
  return fits ? null : 'an ISO 8601 duration of at least one second, such as P1D'
}

function intervalOf(value: unknown): Millis {
  const problem = typeof value === 'string' ? intervalProblem(value) : 'an ISO 8601 duration'
  if (problem !== null) throw wrong('interval', problem)
  return millis(parseIsoDuration(String(value)) ?? MIN_INTERVAL_MS)
}

function momentOf(value: unknown, now: Instant): Instant {
  const moment = typeof value === 'string' && !value.startsWith('+') ? parseMoment(value, now, false) : null
  if (moment === null) throw wrong('startAt', 'an RFC 3339 instant')
  return moment.at
}

function maxRunsOf(value: unknown): number {
  if (typeof value === 'number' && Number.isInteger(value) && value >= 1 && value <= MAX_RUNS) return value
  throw wrong('maxRuns', `a whole number from 1 to ${String(MAX_RUNS)}`)
}

function contextOf(value: unknown): Data {
  if (typeof value === 'object' && value !== null && !Array.isArray(value)) return value as Data
  throw wrong('context', 'an object')
}

const wrong = (what: string, wanted: string): RunFault =>
  new RunFault('RUNTIME_BAD_SCHEDULE', `the ${what} of the schedule must be ${wanted}`)
