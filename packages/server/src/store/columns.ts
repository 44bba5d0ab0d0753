/**
 * The columns of jobs and workers in the order of the tables of both stores, each with its name and the type of its values.
 * Rows are read by place, which is the cheapest; `placesOf` gives each place its name, once, when the server starts. A
 * column that a later version adds comes last, in the store's own list.
 */
import type { Instant, Job, JobState, Worker } from '@curfew/core'

/** A column whose values are of this type in both stores. The type is there for the compiler only. */
interface Column<Value> {
  readonly value?: Value
}
/** A boolean: each store has its own way to hold it. */
interface FlagColumn {
  readonly flag: true
}
/** A text that many rows share, or a reference to it. */
interface RefColumn {
  readonly ref: true
}

const column = <Value>(): Column<Value> => ({})
const text = column<string>()
const textOrNull = column<string | null>()
const number = column<number>()
const numberOrNull = column<number | null>()
const at = column<Instant>()
const atOrNull = column<Instant | null>()
const flag: FlagColumn = { flag: true }
const ref: RefColumn = { ref: true }

export const JOB_COLUMNS = {
  id: text,
  version: number,
  state: column<JobState>(),
  queue: text,
  type: text,
  priority: number,
  seq: number,
  wakeAt: atOrNull,
  workerId: textOrNull,
  deadLetter: flag,
  attempt: number,
  lease: number,
  interruptions: number,
  createdAt: at,
  anchorAt: at,
  limitsSetAt: at,
  scheduledAt: atOrNull,
  expiresAt: atOrNull,
  enqueuedAt: atOrNull,
  activatedAt: atOrNull,
  startedAt: atOrNull,
  completedAt: atOrNull,
  cancelledAt: atOrNull,
  discardedAt: atOrNull,
  reenqueuedAt: atOrNull,
  nextRetryAt: atOrNull,
  retryDelayMs: column<Job['retryDelayMs']>(),
  resultTtlMs: column<Job['resultTtlMs']>(),
  purgeAt: atOrNull,
  errorCount: number,
  checkpointSeq: number,
  limits: ref,
  retry: ref,
  ceiling: textOrNull,
  parent: textOrNull,
  hold: textOrNull,
  closedBy: textOrNull,
  progress: textOrNull,
  traceId: textOrNull,
  cancelReason: textOrNull,
  error: textOrNull,
  errors: text,
  result: textOrNull,
  given: text,
  life: text,
  owner: textOrNull,
  step: textOrNull,
  uniqueKey: textOrNull,
  limitKey: textOrNull,
  tenant: textOrNull,
}

export const WORKER_COLUMNS = {
  id: text,
  version: number,
  known: flag,
  lastSeenAt: at,
  wakeAt: atOrNull,
  diedAt: atOrNull,
  createdAt: at,
  lastBeatAt: atOrNull,
  state: column<Worker['state']>(),
  draining: flag,
  directive: column<Worker['directive']>(),
  registered: flag,
  activeJobs: number,
  beatSeq: numberOrNull,
  pid: numberOrNull,
  concurrency: numberOrNull,
  hostname: textOrNull,
  startedAt: textOrNull,
  queues: ref,
  labels: ref,
  handlers: ref,
  beat: textOrNull,
}

/** Where a column lies in a row. It knows the type of the column's values. */
export type Place<Value> = number & { readonly cell?: Value }

/** `Flag`: how the store holds a boolean. `Ref`: how it holds a reference to a text that many rows share. */
export type Places<Table, Flag, Ref> = {
  readonly [Name in keyof Table]: Place<
    Table[Name] extends FlagColumn
      ? Flag
      : Table[Name] extends RefColumn
        ? Ref
        : Table[Name] extends Column<infer Value>
          ? Value
          : never
  >
}

/** `before`: so many columns of the store's own come first. */
export function placesOf<Flag, Ref, Table extends object>(table: Table, before = 0): Places<Table, Flag, Ref> {
  const places = Object.keys(table).map((name, place) => [name, before + place])
  return Object.fromEntries(places) as Places<Table, Flag, Ref>
}

/** The value of a column. */
export const cell = <Value>(row: readonly unknown[], place: Place<Value>): Value => row[place] as Value
