/** PATCH: the limits, priority and moments of a job that is waiting; in force at once. */
import {
  changeLimits,
  isTerminal,
  notFound,
  OjsError,
  patchGiven,
  queueLimits,
  settleAgain,
  type AskedLimits,
  type Job,
  type LimitSources,
} from '@curfew/core'
import type { Command } from '../kernel/command.ts'
import type { Context } from '../kernel/context.ts'
import type { Unit } from '../kernel/unit.ts'

export function patch(context: Context, jobId: string, sent: unknown): Command<Job> {
  return {
    name: 'patch',
    needs: { jobs: [jobId] },
    run: async (unit) => {
      const job = unit.job(jobId)
      if (job === null) throw notFound('job', jobId)
      if (job.state === 'active' || isTerminal(job.state)) {
        throw new OjsError('conflict', `A job that is ${job.state} cannot be changed.`, {
          details: {
            job_id: job.id,
            current_state: job.state,
            expected_state: 'scheduled, available, pending or retryable',
          },
        })
      }
      if (isEmpty(sent)) return job
      const patched = patchGiven(job.given, sent, unit.now)
      const step = changeLimits(
        job,
        {
          limits: settleAgain(job.limits, await speakersToday(context, unit, job, patched.asked), patched.named),
          given: patched.given,
          priority: patched.priority ?? job.priority,
          scheduledAt: patched.scheduled?.at ?? null,
          expiresAt: patched.expires?.at ?? null,
        },
        unit.moment,
      )
      unit.apply(step)
      return (await unit.settle(step.job)) ?? step.job
    },
  }
}

/** Who speaks for the limits of a job that is settled anew: what was published, then today's policies and defaults. */
export async function speakersToday(
  context: Context,
  unit: Unit,
  job: Job,
  publish: AskedLimits,
): Promise<LimitSources> {
  await unit.load({ types: [job.type], queues: [job.queue] })
  const [type, queue] = [unit.type(job.type), unit.queue(job.queue)]
  return {
    publish,
    type: type === null ? null : { ...type.asked, caps: type.caps },
    queue: queue === null ? null : queueLimits(queue.config),
    server: context.settings.limits,
  }
}

/** A PATCH that asks for nothing changes nothing. */
function isEmpty(sent: unknown): boolean {
  return typeof sent === 'object' && sent !== null && !Array.isArray(sent) && Object.keys(sent).length === 0
}
