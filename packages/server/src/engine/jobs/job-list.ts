/**
 * Jobs by filter, page by page: one selection for lists, bulk actions and their dry runs. The store finds what has an
 * index; metadata has none, so what a filter says of it is compared here, with a bounded number of jobs per page.
 */
import { cursorText, hasMetaFilter, matches, placeIn, type Job, type JobFilter } from '@curfew/core'
import { LOOK, type JobCount, type JobPage, type Page } from '../../store/store.ts'
import type { Context } from '../kernel/context.ts'
import { nextTurn } from '../kernel/turns.ts'

/** So many jobs are looked at for one page, in turns: other commands are decided between them. */
export const MAX_LOOKED_AT = 10_000

const PIECE = 500

export function selectJobs(context: Context, filter: JobFilter, cursor: string | null, page: Page): Promise<JobPage> {
  return hasMetaFilter(filter)
    ? selectByMeta(context, filter, cursor, page)
    : selectByStore(context, filter, cursor, page)
}

async function selectByStore(
  context: Context,
  filter: JobFilter,
  cursor: string | null,
  { limit, offset }: Page,
): Promise<JobPage> {
  const found: Job[] = []
  let next = cursor
  for (let looked = 0; looked < MAX_LOOKED_AT; looked += LOOK) {
    if (looked > 0) await nextTurn(context.host)
    const from = next
    const asked = { limit: limit - found.length, offset: found.length === 0 ? offset : 0 }
    const part = await context.read((reads) => reads.jobs(filter, from, asked))
    found.push(...part.jobs)
    next = part.next
    // How much of an offset is left is only known when it is used up.
    if (next === null || found.length === limit || (offset > 0 && found.length === 0)) break
  }
  return { jobs: found, next }
}

async function selectByMeta(
  context: Context,
  filter: JobFilter,
  cursor: string | null,
  { limit, offset }: Page,
): Promise<JobPage> {
  const wanted = offset + limit
  const found: Job[] = []
  let next = cursor
  for (let looked = 0; looked < MAX_LOOKED_AT; looked += PIECE) {
    if (looked > 0) await nextTurn(context.host)
    const from = next
    const piece = await context.read((reads) => reads.jobs(filter, from, { limit: PIECE, offset: 0 }))
    found.push(...piece.jobs.filter((job) => matches(filter, job)))
    next = piece.next
    const last = found[wanted - 1]
    if (last !== undefined) {
      if (found.length > wanted || next !== null) next = cursorText(placeIn(filter, last))
      break
    }
    if (next === null) break
  }
  return { jobs: found.slice(offset, wanted), next }
}

/** How many jobs are meant, at least those that are shown. Where metadata is asked for, no more than these are known. */
export async function countSelected(
  context: Context,
  filter: JobFilter,
  cursor: string | null,
  { offset }: Page,
  { jobs, next }: JobPage,
): Promise<JobCount> {
  const shown = jobs.length === 0 ? 0 : offset + jobs.length
  const isAll = cursor === null && next === null && (offset === 0 || shown > 0)
  if (isAll || hasMetaFilter(filter)) return { total: shown, isExact: isAll }
  const { total, isExact } = await context.read((reads) => reads.countJobs(filter))
  return { total: isExact ? total : Math.max(total, shown), isExact }
}
