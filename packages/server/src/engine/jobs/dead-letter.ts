/** The dead-letter list, and retries by an operator's hand. */
import {
  isTerminal,
  jobEvent,
  notFound,
  OjsError,
  overrideGiven,
  retryByHand,
  settleAtEnqueue,
  withoutExpiry,
  type Job,
} from '@curfew/core'
import type { Command } from '../kernel/command.ts'
import type { Context } from '../kernel/context.ts'
import { speakersToday } from './patch.ts'
import type { Unit } from '../kernel/unit.ts'

export interface ByHand {
  /** A job that is not in the dead-letter list is not found there. */
  readonly onlyDead: boolean
  /** Limits and a priority for the second life, instead of those of the first. */
  readonly override?: unknown
}

export function retryDead(context: Context, jobId: string, how: ByHand): Command<Job> {
  return { name: 'retry', needs: { jobs: [jobId] }, run: (unit) => retryOne(context, unit, jobId, how) }
}

async function retryOne(
  context: Context,
  unit: Unit,
  jobId: string,
  { onlyDead, override = {} }: ByHand,
): Promise<Job> {
  const job = unit.job(jobId)
  if (job === null || (onlyDead && !job.deadLetter)) throw notFound(onlyDead ? 'dead letter' : 'job', jobId)
  const { asked, given, priority } = overrideGiven(withoutExpiry(job.given), override, unit.now)
  const limits = settleAtEnqueue(await speakersToday(context, unit, job, asked))
  const step = retryByHand(job, { limits, given, priority: priority ?? job.priority }, unit.moment)
  unit.apply(step)
  return step.job
}

/** Removes the job for good. */
export function deleteJob(jobId: string, onlyDead: boolean): Command<void> {
  return {
    name: 'delete',
    needs: { jobs: [jobId] },
    run: (unit) => {
      const job = unit.job(jobId)
      if (job === null || (onlyDead && !job.deadLetter)) throw notFound(onlyDead ? 'dead letter' : 'job', jobId)
      if (!isTerminal(job.state)) {
        throw new OjsError('conflict', `A job that is ${job.state} cannot be deleted; cancel it first.`, {
          details: { job_id: jobId, current_state: job.state, expected_state: 'completed, cancelled or discarded' },
        })
      }
      unit.apply({
        before: job,
        job: null,
        events: job.deadLetter ? [jobEvent('dead_letter.deleted', job, unit.now)] : [],
      })
    },
  }
}
