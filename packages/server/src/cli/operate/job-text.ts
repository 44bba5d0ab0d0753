/** One job for people. */
import {
  lengthInWords,
  LIMIT_ANSWERS,
  LIMIT_NAMES,
  SOURCE_CHIPS,
  whoSet,
  type JobAnswer,
  type JobState,
} from '@curfew/core'
import { fieldsText } from '../frame/rows.ts'

/** As the search answers; what an error has nothing of is null. */
export interface FoundJob {
  readonly id: string
  readonly type: string
  readonly queue: string
  readonly state: JobState
  readonly attempt: number
  readonly max_attempts: number
  readonly created_at: string
  readonly started_at: string | null
  readonly ended_at: string | null
  readonly worker_id: string | null
  readonly error: {
    readonly type: string | null
    readonly limit_ms: number | null
    readonly source: string | null
  } | null
}

/** `timeout 3 s ●`: what ended the job or its last attempt. */
export function whyText({ error }: Pick<FoundJob, 'error'>): string {
  if (error === null) return '–'
  const { type, limit_ms: ms, source } = error
  const chip = source === null ? '' : ` ${SOURCE_CHIPS[source] ?? ''}`
  return `${type ?? 'error'}${ms === null ? '' : ` ${lengthInWords(ms)}`}${chip}`
}

export function jobText(job: JobAnswer, when: (time: string | undefined) => string): string {
  const at = (time: string | undefined): string | null => (time === undefined ? null : when(time))
  const { sources } = job.x_limits
  const limits = LIMIT_NAMES.flatMap((name) => {
    const ms = job.x_limits[LIMIT_ANSWERS[name]]
    return ms === undefined ? [] : [[name, `${lengthInWords(ms)} (${whoSet(sources[name] ?? 'default')})`] as const]
  })
  const error = job.error === undefined ? null : `${job.error.type}: ${job.error.message ?? ''}`
  return fieldsText([
    ['id', job.id],
    ['type', job.type],
    ['queue', job.queue],
    ['state', job.state],
    ['attempt', `${String(job.attempt)} of ${String(job.max_attempts)}`],
    ['worker', job.worker_id],
    ['args', JSON.stringify(job.args)],
    ['created', at(job.created_at)],
    ['scheduled', at(job.scheduled_at)],
    ['started', at(job.started_at)],
    ['next retry', at(job.next_retry_at)],
    ['completed', at(job.completed_at)],
    ['cancelled', at(job.cancelled_at)],
    ['discarded', at(job.discarded_at)],
    ['error', error],
    ['result', job.result === undefined ? null : JSON.stringify(job.result)],
    ...limits,
  ])
}

/** Exit code of a job that is over; null while it is not. */
export function endOf(job: Pick<JobAnswer, 'state' | 'error'>): 0 | 3 | 4 | null {
  if (job.state === 'completed') return 0
  if (job.state !== 'cancelled' && job.state !== 'discarded') return null
  return job.error?.timeout_kind === undefined ? 3 : 4
}
