/**
 * One action on many jobs, by ids or by what they have in common. It is done in chunks, each a transaction of its own, so
 * that other commands wait for one chunk at most; within a chunk each job is decided on its own. `atomic`: all or none, which
 * is one transaction and therefore only for jobs that are named.
 */
import {
  atIndex,
  isTerminal,
  notFound,
  OjsError,
  retryNow,
  type Job,
  type JobFilter,
  type JobState,
} from '@curfew/core'
import { cancel } from './cancel.ts'
import { decideEach, needsOf, type Command, type Outcome } from '../kernel/command.ts'
import { deleteJob, retryDead } from './dead-letter.ts'
import type { Context } from '../kernel/context.ts'
import { selectJobs } from './job-list.ts'
import type { JobPage } from '../../store/store.ts'
import { nextTurn, Pace } from '../kernel/turns.ts'

export const BULK_ACTIONS = ['cancel', 'retry', 'delete'] as const
export type BulkAction = (typeof BULK_ACTIONS)[number]

/** Which jobs an action may meet: one in another state is refused, and one of another tenant, or list, is not there. */
export interface Rules {
  readonly states: readonly JobState[]
  readonly tenant: string | null
  /** Only members of the dead-letter list. */
  readonly deadOnly?: boolean
}

export interface BulkDone {
  readonly id: string
  readonly outcome: Outcome
}

const CHUNK = 500

/** Named jobs, in the order in which they were named. */
export async function actOnEach(
  context: Context,
  action: BulkAction,
  ids: readonly string[],
  rules: Rules,
): Promise<BulkDone[]> {
  const done: BulkDone[] = []
  for (let from = 0; from < ids.length; from += CHUNK)
    done.push(...(await actOnChunk(context, action, ids.slice(from, from + CHUNK), rules)))
  return done
}

/** All or none; the refusal names the entry. */
export async function actOnAll(
  context: Context,
  action: BulkAction,
  ids: readonly string[],
  rules: Rules,
): Promise<BulkDone[]> {
  const parts = ids.map((id) => actionOn(context, action, id, rules))
  return context.run<BulkDone[]>({
    name: action,
    needs: needsOf(parts),
    size: Math.min(parts.length, CHUNK),
    run: async (unit) => {
      for (const [index, part] of parts.entries()) {
        const pause = unit.pace.step()
        if (pause !== undefined) await pause
        try {
          await part.run(unit)
        } catch (error) {
          throw atIndex(error, index, 'job_ids')
        }
      }
      return ids.map((id) => ({ id, outcome: { ok: true, value: undefined } }))
    },
  })
}

/**
 * Jobs that a filter means, newest first, page by page; at most so many. Each is looked at again when it is acted on: one
 * that has changed meanwhile is refused. Stops between two chunks when the asker is gone.
 */
export async function actOnMatching(
  context: Context,
  action: BulkAction,
  filter: JobFilter,
  most: number,
  rules: Rules,
  gone: AbortSignal,
): Promise<BulkDone[]> {
  const done: BulkDone[] = []
  for await (const jobs of matching(context, filter, most, rules, gone)) {
    const ids = jobs.map(({ id }) => id)
    done.push(...(await actOnChunk(context, action, ids, rules)))
  }
  return done
}

/** What an action would do at this moment. */
export interface DryRun {
  readonly matched: number
  /** Those it would be refused for. */
  readonly skipped: number
  readonly byState: Readonly<Partial<Record<JobState, number>>>
  readonly byQueue: Readonly<Record<string, number>>
  /** The first of those it would act on. */
  readonly ids: readonly string[]
}

/** The jobs that `actOnMatching` would act on. Changes nothing. */
export async function tryMatching(
  context: Context,
  filter: JobFilter,
  most: number,
  rules: Rules,
  gone: AbortSignal,
): Promise<DryRun> {
  const trial = new Trial(rules)
  for await (const jobs of matching(context, filter, most, rules, gone)) for (const job of jobs) trial.add(job)
  return trial
}

/** The jobs that `actOnEach` would act on. Changes nothing. */
export async function tryEach(context: Context, ids: readonly string[], rules: Rules): Promise<DryRun> {
  const trial = new Trial(rules)
  const pace = new Pace(context.host)
  for (const id of ids) {
    const pause = pace.step()
    if (pause !== undefined) await pause
    trial.add(await context.read((reads) => reads.job(id)))
  }
  return trial
}

/** A dry run names no more than this one by one; its numbers are of all. */
const MAX_IDS = 1_000

class Trial implements DryRun {
  readonly #rules: Rules
  matched = 0
  skipped = 0
  readonly byState: Partial<Record<JobState, number>> = {}
  readonly byQueue: Record<string, number> = {}
  readonly ids: string[] = []

  constructor(rules: Rules) {
    this.#rules = rules
  }

  add(job: Job | null): void {
    this.matched += 1
    if (job === null || isForeign(job, this.#rules) || !this.#rules.states.includes(job.state)) {
      this.skipped += 1
      return
    }
    this.byState[job.state] = (this.byState[job.state] ?? 0) + 1
    this.byQueue[job.queue] = (this.byQueue[job.queue] ?? 0) + 1
    if (this.ids.length < MAX_IDS) this.ids.push(job.id)
  }
}

/** In chunks: state by state, each newest first. */
async function* matching(
  context: Context,
  filter: JobFilter,
  most: number,
  { tenant, deadOnly = false }: Rules,
  gone: AbortSignal,
): AsyncGenerator<Job[], void, undefined> {
  let left = most
  for (const state of filter.states) {
    const meant = { ...filter, states: [state], tenant, deadOnly: filter.deadOnly || deadOnly }
    for (let cursor: string | null = null, more = true; more && left > 0 && !gone.aborted;) {
      const page: JobPage = await selectJobs(context, meant, cursor, { limit: Math.min(CHUNK, left), offset: 0 })
      left -= page.jobs.length
      if (page.jobs.length > 0) yield page.jobs
      // SQLite answers at once: without this, all pages are read in one turn.
      await nextTurn(context.host)
      cursor = page.next
      more = cursor !== null
    }
  }
}

async function actOnChunk(
  context: Context,
  action: BulkAction,
  ids: readonly string[],
  rules: Rules,
): Promise<BulkDone[]> {
  if (ids.length === 0) return []
  const parts = ids.map((id) => actionOn(context, action, id, rules))
  const outcomes = await context.run<Outcome[]>({
    name: action,
    needs: needsOf(parts),
    size: parts.length,
    run: (unit) => decideEach(unit, parts),
  })
  return ids.map((id, index) => ({
    id,
    outcome: outcomes[index] ?? { ok: false, error: new OjsError('internal_error', 'The job was not processed.') },
  }))
}

function actionOn(context: Context, action: BulkAction, id: string, rules: Rules): Command<unknown> {
  const plain: Command<unknown> =
    action === 'cancel' ? cancel(id, 'bulk') : action === 'delete' ? deleteJob(id, false) : retryOf(context, id)
  return {
    name: action,
    needs: plain.needs ?? {},
    run: (unit) => {
      const job = unit.job(id)
      if (job === null || isForeign(job, rules)) throw notFound('job', id)
      const allowed = rules.states
      if (!allowed.includes(job.state)) {
        throw new OjsError('conflict', `A job that is ${job.state} cannot be changed by a bulk ${action}.`, {
          details: { job_id: id, current_state: job.state, expected_state: allowed.join(' or ') },
        })
      }
      return plain.run(unit)
    },
  }
}

const isForeign = (job: Job, { tenant, deadOnly = false }: Rules): boolean =>
  (tenant !== null && job.tenant !== tenant) || (deadOnly && !job.deadLetter)

/** One that waits for its retry need not wait any longer; one that is over gets a second life. */
function retryOf(context: Context, id: string): Command<unknown> {
  const again = retryDead(context, id, { onlyDead: false })
  return {
    name: 'retry',
    needs: again.needs ?? {},
    run: (unit) => {
      const job = unit.job(id)
      if (job === null || isTerminal(job.state)) return again.run(unit)
      unit.apply(retryNow(job, unit.moment))
      return undefined
    },
  }
}
