/**
 * Jobs by anything an operator may know of them. What has an index is found by the store (`store/job-lists.ts`); the
 * beginning of an id is where the list begins; the source of the limit that ended a job has no index and is compared
 * here. A search looks at a bounded number of jobs, in turns, and says how far back it has looked and where to go on.
 */
import { cursorOf, cursorText, instant, orderOf, placeIn, type Instant, type Job, type JobFilter } from '@curfew/core'
import { LOOK, type JobCount } from '../../store/store.ts'
import type { Context } from '../kernel/context.ts'
import { nextTurn } from '../kernel/turns.ts'

export const MAX_EXAMINED = 20_000
/** Jobs that are compared here are read whole, which takes longer. */
export const MAX_COMPARED = 5_000
/** How many jobs are read at once where they are compared here. */
const A_TURN = 250

export interface Search {
  readonly filter: JobFilter
  /** The beginning of ids; empty: any. */
  readonly idPrefix: string
  /** Of the limit that ended the job, or its last attempt; null: any. */
  readonly source: string | null
}

export interface Found {
  readonly jobs: readonly Job[]
  /** At most so many jobs were looked at. */
  readonly examined: number
  /** Everything newer than this was looked at; null: everything. */
  readonly until: Instant | null
  /** Where to go on; null: there is nothing more. */
  readonly next: string | null
}

export async function searchJobs(
  context: Context,
  { filter, idPrefix, source }: Search,
  cursor: string | null,
  limit: number,
  most?: number,
): Promise<Found> {
  const isById = orderOf(filter) === 'id'
  const isCompared = source !== null || (idPrefix !== '' && !isById)
  const maxExamined = most ?? (isCompared ? MAX_COMPARED : MAX_EXAMINED)
  const found: Job[] = []
  // Ids are hexadecimal: all that begin with this come before it.
  let next = cursor ?? (isById && idPrefix !== '' ? `${idPrefix}g` : null)
  let examined = 0
  for (;;) {
    const from = next
    const wanted = isCompared ? A_TURN : limit - found.length
    const part = await context.read((reads) => reads.jobs(filter, from, { limit: wanted, offset: 0 }))
    // A page that is full may have been found early; one that is not has cost a whole look.
    examined += part.jobs.length === wanted ? wanted : Math.max(part.jobs.length, part.next === null ? 0 : LOOK)
    next = part.next
    for (const job of part.jobs) {
      if (isById && idPrefix !== '' && job.id < idPrefix) return { jobs: found, examined, until: null, next: null }
      if (!job.id.startsWith(idPrefix) || (source !== null && sourceOf(job) !== source)) continue
      found.push(job)
      if (found.length < limit) continue
      const isLast = job === part.jobs.at(-1) && part.next === null
      return { jobs: found, examined, ...(isLast ? END : placeAfter(filter, job)) }
    }
    if (next === null) return { jobs: found, examined, ...END }
    const place = cursorOf(next)
    if (isById && idPrefix !== '' && place.id < idPrefix) return { jobs: found, examined, ...END }
    if (examined >= maxExamined) return { jobs: found, examined, until: place.at ?? timeOf(place.id), next }
    await nextTurn(context.host)
  }
}

const END = { until: null, next: null } as const

/** How many jobs fit, at least; null: no count is kept of what is compared here. */
export async function countFound(
  context: Context,
  { filter, idPrefix, source }: Search,
  cursor: string | null,
  { jobs, next }: Pick<Found, 'jobs' | 'next'>,
): Promise<JobCount | null> {
  if (cursor === null && next === null) return { total: jobs.length, isExact: true }
  return idPrefix === '' && source === null ? context.read((reads) => reads.countJobs(filter)) : null
}

function placeAfter(filter: JobFilter, job: Job): Pick<Found, 'until' | 'next'> {
  const place = placeIn(filter, job)
  return { until: place.at ?? timeOf(place.id), next: cursorText(place) }
}

/** Ids begin with the time in which they were made. */
const timeOf = (id: string): Instant => instant(Number.parseInt(id.slice(0, 13).replace('-', ''), 16))

/** Who set the limit that ended it; null: no limit did. Only the server writes a source. */
export function sourceOf({ error }: Pick<Job, 'error'>): string | null {
  if (error === null || !error.includes('"source"')) return null
  const { source } = JSON.parse(error) as { source?: unknown }
  return typeof source === 'string' ? source : null
}
