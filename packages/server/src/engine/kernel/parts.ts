/**
 * What a transaction writes, in parts. A write to SQLite is synchronous: all rows of a batch of ten thousand at once
 * would stop the event loop for its length. The parts belong to one transaction, which stays all or nothing.
 */
import { NO_CHANGES, type Changes } from '../../store/store.ts'

/** How many rows one part writes at most. */
export const MAX_ROWS = 250
/** Up to so many rows, each group of commands is written with its commit. */
const SHORT = 1_000
/** How much text one part writes, unless a single row is longer. */
const MAX_CHARS = 1024 * 1024

/** All but the documents, which are written out only when it is their turn: that takes as long as writing them. */
export type AllButDocs = Omit<Changes, 'docs'>
export type DocChange = Changes['docs'][number]

/** In their order; the last travels with the commit. One part, as a rule. */
export function* partsOf<Open>(
  changes: AllButDocs,
  docs: readonly Open[],
  written: (doc: Open) => DocChange,
): Generator<Changes> {
  if (isShort(changes, docs.length)) {
    yield { ...changes, docs: docs.map(written) }
    return
  }
  const { jobs, queues, events, ...rest } = changes
  for (const some of sliced(jobs, charsOfJob)) yield { ...NO_CHANGES, jobs: some }
  for (const some of sliced(queues, () => 0)) yield { ...NO_CHANGES, queues: some }
  for (const some of sliced(docs, () => 0)) yield { ...NO_CHANGES, docs: some.map(written) }
  for (const some of sliced(events, () => 0)) yield { ...NO_CHANGES, events: some }
  yield { ...rest, jobs: [], queues: [], docs: [], events: [] }
}

/** The body of a job is written once, with the job. */
const charsOfJob = ({ before, after }: Changes['jobs'][number]): number =>
  before === null ? (after?.body.length ?? 0) : 0

function isShort({ jobs, queues, events }: AllButDocs, docs: number): boolean {
  if (jobs.length + queues.length + docs + events.length > SHORT) return false
  let chars = 0
  for (const job of jobs) chars += charsOfJob(job)
  return chars <= MAX_CHARS
}

function sliced<Row>(rows: readonly Row[], charsOf: (row: Row) => number): Row[][] {
  const slices: Row[][] = []
  let chars = 0
  for (const row of rows) {
    const length = charsOf(row)
    const slice = slices.at(-1)
    if (slice === undefined || slice.length >= MAX_ROWS || chars + length > MAX_CHARS) {
      slices.push([row])
      chars = length
    } else {
      slice.push(row)
      chars += length
    }
  }
  return slices
}
