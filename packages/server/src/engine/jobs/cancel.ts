/** CANCEL and ACTIVATE: a person, or another service, decides about a job that is waiting or running. */
import {
  activate as activateJob,
  cancel as cancelJob,
  notFound,
  type CancelReason,
  type Job,
  type JobState,
} from '@curfew/core'
import type { Command } from '../kernel/command.ts'

export function cancel(jobId: string, reason: CancelReason = 'request'): Command<{ job: Job; previous: JobState }> {
  return {
    name: 'cancel',
    needs: { jobs: [jobId] },
    run: (unit) => {
      const job = unit.job(jobId)
      if (job === null) throw notFound('job', jobId)
      const step = cancelJob(job, unit.moment, { reason })
      unit.apply(step)
      return { job: step.job, previous: job.state }
    },
  }
}

export function activate(jobId: string): Command<Job> {
  return {
    name: 'activate',
    needs: { jobs: [jobId] },
    run: (unit) => {
      const job = unit.job(jobId)
      if (job === null) throw notFound('job', jobId)
      const step = activateJob(job, unit.moment)
      unit.apply(step)
      return step.job
    },
  }
}
