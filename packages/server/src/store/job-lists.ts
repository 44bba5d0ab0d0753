/**
 * How a list of jobs is found, whatever the filter, without ever looking at more than a bounded number of them.
 *
 * A filter may name several things that have an index. Each of these indexes is a *way* to the jobs that are meant. If one
 * of them holds few jobs (at most `LOOK`), all of these are looked at and put in order. If all are longer, one that is
 * already in the order of the list is walked from the cursor on, `LOOK` jobs at a time: a page that is not full by then
 * ends there, and the next one goes on. What the way does not say of the filter is compared row by row.
 *
 * Totals are counted in the same way: exactly where all jobs of a way were looked at, and otherwise as "at least". Where
 * a way says all that the filter says, its entries are counted without a look at the rows, up to `MAX_COUNTED`. Numbers by
 * queue and state alone are kept by the store and always exact.
 */
import {
  ANY_JOB,
  cursorOf,
  cursorText,
  isAnyTime,
  keyOf,
  matches,
  meansAll,
  orderOf,
  placeIn,
  type Instant,
  type Job,
  type JobCursor,
  type JobFilter,
  type JobOrder,
  type JobState,
} from '@curfew/core'
import { LOOK, MAX_COUNTED, type JobCount, type JobPage, type Page } from './store.ts'

/** The order in which each way passes its jobs; null: in none that a list has, so that it must be taken whole. */
export const WAYS = {
  tag: 'id',
  timeout: 'id',
  error: 'id',
  worker: 'id',
  tenant: 'id',
  aside: 'id',
  held: null,
  claim: null,
  waiting: null,
  ended: 'ended',
  created: 'created',
  id: 'id',
} as const satisfies Record<string, JobOrder | null>
export type Way = keyof typeof WAYS

export interface Walk {
  readonly way: Way
  readonly filter: JobFilter
  /** Only what is listed after this. */
  readonly before: JobCursor | null
  /** Only the first so many on the way. */
  readonly look: number
}

/** What a store must be able to find. */
export interface JobFinder {
  /** The kept numbers of jobs by queue (null: any) and states (none: any), summed. */
  kept(queue: string | null, states: readonly JobState[]): Promise<number>
  /** How many jobs the walk passes, whatever else the filter says. */
  size(walk: Walk): Promise<number>
  /** How many of them the filter means. */
  count(walk: Walk): Promise<number>
  /** Those that the filter means, in the order of the way. */
  walked(walk: Walk, page: Page): Promise<Job[]>
  /** Those that the filter means, in the order of the filter. */
  sorted(walk: Walk, page: Page): Promise<Job[]>
  /** The last job that the walk passes; null when it passes fewer than it may look at. */
  last(walk: Walk): Promise<JobCursor | null>
}

export async function listJobs(
  finder: JobFinder,
  asked: JobFilter,
  cursor: string | null,
  { limit, offset }: Page,
): Promise<JobPage> {
  // No store knows what is in the metadata: the caller looks.
  const filter = { ...asked, meta: {} }
  const kept = await finder.kept(filter.queue, filter.states)
  const left = isKept(filter) && cursor === null ? Math.max(0, kept - offset) : Infinity
  if (kept === 0 || left === 0) return { jobs: [], next: null }
  const { way, isWhole } = await wayTo(finder, filter)
  const walk = {
    way,
    filter,
    before: cursor === null ? null : cursorOf(cursor),
    look: Math.max(LOOK, limit + 1) + (isWhole ? 0 : offset),
  }
  const page = { offset, limit: Math.min(limit + 1, left) }
  const found = await (WAYS[way] === orderOf(filter) ? finder.walked(walk, page) : finder.sorted(walk, page))
  const jobs = found.slice(0, limit)
  const [shown, isMore] = [jobs.at(-1), found.length > limit]
  const isAll = !isMore && (isWhole || found.length === left)
  const next = isAll ? null : isMore && shown !== undefined ? placeIn(filter, shown) : await finder.last(walk)
  // What an older server wrote may be found by what it was before.
  return { jobs: jobs.filter((job) => matches(filter, job)), next: next === null ? null : cursorText(next) }
}

export async function countJobs(finder: JobFinder, asked: JobFilter): Promise<JobCount> {
  const filter = { ...asked, meta: {} }
  const kept = await finder.kept(filter.queue, filter.states)
  if (kept === 0 || isKept(filter)) return { total: kept, isExact: true }
  const { way, isWhole } = await wayTo(finder, filter)
  const walk = { way, filter, before: null, look: LOOK }
  if (!saysAll(way, filter)) return { total: await finder.count(walk), isExact: isWhole }
  const size = await finder.size({ ...walk, look: MAX_COUNTED + 1 })
  return { total: Math.min(size, MAX_COUNTED), isExact: size <= MAX_COUNTED }
}

/** Whether the store keeps the number of these jobs. */
const isKept = ({ queue: _queue, states: _states, ...rest }: JobFilter): boolean =>
  rest.tenant === null && !rest.deadOnly && meansAll({ ...rest, queue: null, states: [] })

/** Whether the way alone finds what the filter means. */
function saysAll(way: Way, filter: JobFilter): boolean {
  const rest = { ...filter, ...SAID[way] }
  return rest.tenant === null && !rest.deadOnly && meansAll(rest)
}

const SAID: Readonly<Record<Way, Partial<JobFilter>>> = {
  tag: { tag: null },
  timeout: { timeoutKind: null },
  error: { errorType: null },
  worker: { worker: null },
  tenant: { tenant: null, states: [] },
  aside: { states: [] },
  held: { states: [] },
  claim: { states: [], queue: null },
  waiting: { states: [] },
  ended: { ended: ANY_JOB.ended },
  created: { created: ANY_JOB.created },
  id: {},
}

/** The shortest way; if all are long, the first that goes in the order of the list. */
async function wayTo(finder: JobFinder, filter: JobFilter): Promise<{ way: Way; isWhole: boolean }> {
  const ways = waysOf(filter)
  const sizes = await Promise.all(ways.map(async (way) => ({ way, size: await sizeOf(finder, way, filter) })))
  let best: { way: Way; size: number } | null = null
  for (const each of sizes) if (best === null || each.size < best.size) best = each
  if (best !== null && best.size <= LOOK) return { way: best.way, isWhole: true }
  return { way: ways.find((way) => WAYS[way] === orderOf(filter)) ?? 'id', isWhole: false }
}

function sizeOf(finder: JobFinder, way: Way, filter: JobFilter): Promise<number> {
  switch (way) {
    case 'id':
      return finder.kept(null, [])
    case 'held':
    case 'aside':
    case 'waiting':
      return finder.kept(null, filter.states)
    case 'claim':
      return finder.kept(filter.queue, filter.states)
    default:
      return finder.size({ way, filter, before: null, look: LOOK + 1 })
  }
}

function waysOf(filter: JobFilter): Way[] {
  const ways: Way[] = []
  if (filter.tag !== null) ways.push('tag')
  if (filter.timeoutKind !== null) ways.push('timeout')
  if (filter.errorType !== null) ways.push('error')
  if (filter.worker !== null) ways.push('worker')
  if (filter.tenant !== null) ways.push('tenant')
  ways.push(...waysOfState(filter))
  if (!isAnyTime(filter.ended)) ways.push('ended')
  if (!isAnyTime(filter.created)) ways.push('created')
  ways.push('id')
  return ways
}

function waysOfState({ states, queue }: JobFilter): Way[] {
  if (states.length !== 1) return []
  switch (states[0]) {
    case 'active':
      return ['held']
    case 'available':
      return [queue === null ? 'waiting' : 'claim']
    case 'completed':
    case undefined:
      return []
    default:
      return ['aside']
  }
}

// ---- What statements are given ----

/** Above every job id: a list without a cursor begins here. */
const ABOVE_ALL_IDS = '~'
/** Above every instant. */
const ABOVE_ALL_TIMES = 9e15

/** By the names that the statements of both stores use. `exact`: a text as the store can hold it. */
export function walkValues({ filter, before, look }: Walk, exact: (text: string) => string) {
  const text = (value: string | null): string | null => (value === null ? null : exact(value))
  const from = (instant: Instant | null): number => instant ?? -ABOVE_ALL_TIMES
  const to = (instant: Instant | null): number => instant ?? ABOVE_ALL_TIMES
  return {
    before: before === null ? ABOVE_ALL_IDS : exact(before.id),
    at: before?.at ?? ABOVE_ALL_TIMES,
    look,
    queue: text(filter.queue),
    type: text(filter.type),
    state: filter.states[0] ?? null,
    states: filter.states.length === 0 ? null : filter.states,
    tenant: text(filter.tenant),
    priority: filter.priority,
    error_type: filter.errorType === null ? null : exact(keyOf(filter.errorType)),
    timeout_kind: filter.timeoutKind,
    tag: filter.tag === null ? null : exact(keyOf(filter.tag)),
    worker: text(filter.worker),
    dead_only: filter.deadOnly,
    created_after: from(filter.created.after),
    created_before: to(filter.created.before),
    any_enqueued: isAnyTime(filter.enqueued),
    enqueued_after: from(filter.enqueued.after),
    enqueued_before: to(filter.enqueued.before),
    any_ended: isAnyTime(filter.ended),
    ended_after: from(filter.ended.after),
    ended_before: to(filter.ended.before),
  }
}

/** The way is taken whole; the cursor is compared when the jobs are in order. In a list by id all have the time 0. */
export function sortValues(walk: Walk, exact: (text: string) => string) {
  const { filter, before } = walk
  const order = orderOf(filter)
  return {
    ...walkValues({ ...walk, before: null }, exact),
    order,
    last: before === null ? ABOVE_ALL_IDS : exact(before.id),
    last_at: order === 'id' ? 0 : (before?.at ?? ABOVE_ALL_TIMES),
  }
}
