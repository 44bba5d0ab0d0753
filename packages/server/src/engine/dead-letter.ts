/** The dead-letter list, and retries by an operator's hand. */
import {
  givenLimits,
  isTerminal,
  jobEvent,
  notFound,
  OjsError,
  retryByHand,
  withoutExpiry,
  type Job,
} from '@curfew/core'
import type { Command } from './corridor.ts'
import type { Engine } from './engine.ts'
import { limitsToday } from './patch.ts'
import type { Unit } from './unit.ts'

/** `onlyDead`: a job that is not in the dead-letter list is not found there. */
export function retryDead(engine: Engine, jobId: string, onlyDead: boolean): Command<Job> {
  return { name: 'retry', needs: { jobs: [jobId] }, run: (unit) => retryOne(engine, unit, jobId, onlyDead) }
}

async function retryOne(engine: Engine, unit: Unit, jobId: string, onlyDead: boolean): Promise<Job> {
  const job = unit.job(jobId)
  if (job === null || (onlyDead && !job.deadLetter)) throw notFound(onlyDead ? 'dead letter' : 'job', jobId)
  const given = withoutExpiry(job.given)
  const step = retryByHand(job, await limitsToday(engine, unit, job, givenLimits(given)), given, unit.moment)
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
