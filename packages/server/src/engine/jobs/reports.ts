/** ACK and FAIL: the holder of an attempt says how it ended. Late and stale reports are refused and change nothing. */
import {
  complete,
  fail,
  interrupt,
  notFound,
  OjsError,
  parseMoment,
  repeatsReport,
  staleError,
  snooze,
  staleReason,
  utf8Length,
  withLog,
  withSchedule,
  type Fence,
  type Job,
  type Json,
  type LogBatch,
  type Moment,
  type ReportedError,
  type Step,
} from '@curfew/core'
import type { Command } from '../kernel/command.ts'
import type { Context } from '../kernel/context.ts'
import type { Needs } from '../kernel/needs.ts'
import type { Unit } from '../kernel/unit.ts'
import { touch } from '../workers/workers.ts'

/** The job, if this report speaks for the attempt that is running. */
export function heldJob(context: Context, unit: Unit, jobId: string, fence: Fence): Job {
  const job = unit.job(jobId)
  if (job === null) throw notFound('job', jobId)
  const reason = staleReason(job, fence, context.settings.requireOwner)
  if (reason !== null) throw staleError(job, reason, fence)
  return job
}

/** The job after a report. `already`: the report was a repeat, and changed nothing. */
export type Reported = Job & { readonly already?: true }

export const isRepeat = (job: Reported): boolean => job.already === true

function repeated(unit: Unit, report: Fence & { readonly jobId: string }, verb: 'ack' | 'nack'): Reported | null {
  const job = unit.job(report.jobId)
  return job !== null && repeatsReport(job, report, verb) ? { ...job, already: true } : null
}

/** The job, and the worker that speaks of it. */
export function needsOf({ jobId, workerId }: Fence & { readonly jobId: string }): Needs {
  return { jobs: [jobId], workers: workerId === undefined || workerId === null ? [] : [workerId] }
}

export interface Ack extends Fence {
  readonly jobId: string
  /** What the attempt has logged since it was last heard of. */
  readonly log?: LogBatch | null
  readonly result: Json | null
}

export function ack(context: Context, report: Ack): Command<Reported> {
  return {
    name: 'ack',
    needs: needsOf(report),
    by: report.workerId,
    run: async (unit) => {
      const repeat = repeated(unit, report, 'ack')
      if (repeat !== null) return repeat
      const job = withLog(heldJob(context, unit, report.jobId, report), report.log, unit.now)
      const most = context.settings.largestResultBytes
      if (report.result !== null && (report.result.length > most || utf8Length(report.result) > most)) {
        throw new OjsError(
          'result_too_large',
          `The result is larger than ${String(most)} bytes; the job stays active.`,
          {
            details: { job_id: job.id, max_bytes: most },
            hint: 'Store the result elsewhere and ACK with a reference to it.',
          },
        )
      }
      const step = complete(job, report.result, unit.moment)
      unit.apply(step)
      await touch(unit, job.hold?.workerId)
      return step.job
    },
  }
}

export interface Nack extends Fence {
  readonly jobId: string
  readonly log?: LogBatch | null
  readonly error: ReportedError | null
  readonly requeue: boolean
  /** Of a hand-back: the job is not handed out before. An instant, or a length from now, as it was written. */
  readonly notBefore?: string
}

export function nack(context: Context, report: Nack): Command<Reported> {
  return {
    name: 'nack',
    needs: needsOf(report),
    by: report.workerId,
    run: async (unit) => {
      const repeat = repeated(unit, report, 'nack')
      if (repeat !== null) return repeat
      const job = withLog(heldJob(context, unit, report.jobId, report), report.log, unit.now)
      const step = stepFor(job, report, unit.moment)
      unit.apply(step)
      await touch(unit, job.hold?.workerId)
      return step.job
    },
  }
}

function stepFor(job: Job, { error, requeue, notBefore }: Nack, moment: Moment): Step {
  if (!requeue && error !== null) return fail(job, error, moment)
  const until = notBefore === undefined ? null : parseMoment(notBefore, moment.now, false)
  if (until === null) return interrupt(job, error, moment)
  return snooze(job, error, until.at, withSchedule(job.given, until.at), moment)
}
