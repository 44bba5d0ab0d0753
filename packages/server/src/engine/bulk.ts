/**
 * One action on many jobs, by ids or by what they have in common. It is done in chunks, each a transaction of its own, so
 * that nobody waits for more than one of them; within a chunk each job stands or falls alone. `atomic`: all or none, which
 * is one transaction and therefore only for jobs that are named.
 */
import {
  atIndex,
  isTerminal,
  matches,
  notFound,
  OjsError,
  retryNow,
  type BulkFilter,
  type Job,
  type JobState,
} from '@curfew/core'
import { cancel } from './cancel.ts'
import { decideEach, needsOf, type Command, type Outcome } from './corridor.ts'
import { deleteJob, retryDead } from './dead-letter.ts'
import type { Engine } from './engine.ts'

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
  engine: Engine,
  action: BulkAction,
  ids: readonly string[],
  rules: Rules,
): Promise<BulkDone[]> {
  const done: BulkDone[] = []
  for (let from = 0; from < ids.length; from += CHUNK)
    done.push(...(await actOnChunk(engine, action, ids.slice(from, from + CHUNK), rules)))
  return done
}

/** All or none; the refusal names the entry. */
export async function actOnAll(
  engine: Engine,
  action: BulkAction,
  ids: readonly string[],
  rules: Rules,
): Promise<BulkDone[]> {
  const parts = ids.map((id) => actionOn(engine, action, id, rules))
  return engine.run<BulkDone[]>({
    name: action,
    needs: needsOf(parts),
    size: Math.min(parts.length, CHUNK),
    run: async (unit) => {
      for (const [index, part] of parts.entries()) {
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
 * Jobs that have something in common, newest first, page by page; at most so many. Each is looked at again when it is
 * acted on: one that has changed meanwhile is refused. Stops between two chunks when the asker is gone.
 */
export async function actOnMatching(
  engine: Engine,
  action: BulkAction,
  filter: BulkFilter,
  most: number,
  rules: Rules,
  gone: AbortSignal,
): Promise<BulkDone[]> {
  const done: BulkDone[] = []
  for (const state of filter.states) {
    for (let before: string | null = null, more = true; more && done.length < most && !gone.aborted;) {
      const page: { jobs: Job[] } = await engine.read((reads) =>
        reads.jobs({ queue: filter.queue, state, type: null, tenant: rules.tenant }, before, {
          limit: CHUNK,
          offset: 0,
        }),
      )
      const meant = page.jobs
        .filter((job) => matches(filter, job) && !isForeign(job, rules))
        .slice(0, most - done.length)
      done.push(
        ...(await actOnChunk(
          engine,
          action,
          meant.map(({ id }) => id),
          rules,
        )),
      )
      before = page.jobs.at(-1)?.id ?? null
      more = page.jobs.length === CHUNK
    }
  }
  return done
}

async function actOnChunk(
  engine: Engine,
  action: BulkAction,
  ids: readonly string[],
  rules: Rules,
): Promise<BulkDone[]> {
  if (ids.length === 0) return []
  const parts = ids.map((id) => actionOn(engine, action, id, rules))
  const outcomes = await engine.run<Outcome[]>({
    name: action,
    needs: needsOf(parts),
    size: parts.length,
    run: (unit) => decideEach(unit, parts),
  })
  return ids.map((id, index) => ({
    id,
    outcome: outcomes[index] ?? { ok: false, error: new OjsError('internal_error', 'The job was not decided about.') },
  }))
}

function actionOn(engine: Engine, action: BulkAction, id: string, rules: Rules): Command<unknown> {
  const plain: Command<unknown> =
    action === 'cancel' ? cancel(id) : action === 'delete' ? deleteJob(id, false) : retryOf(engine, id)
  return {
    name: action,
    needs: plain.needs ?? {},
    run: (unit) => {
      const job = unit.job(id)
      if (job === null || isForeign(job, rules)) throw notFound('job', id)
      const allowed = rules.states
      if (!allowed.includes(job.state)) {
        throw new OjsError('conflict', `A job that is ${job.state} is not meant by a bulk ${action}.`, {
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
function retryOf(engine: Engine, id: string): Command<unknown> {
  const again = retryDead(engine, id, { onlyDead: false })
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
