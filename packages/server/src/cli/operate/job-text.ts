/** One job for people. */
import { lengthInWords, SOURCE_CHIPS, whoSet } from '@curfew/core'
import { fieldsText } from '../frame/rows.ts'

export interface ErrorView {
  readonly type: string
  readonly message?: string
  readonly timeout_kind?: string
  readonly limit_ms?: number
  readonly source?: string
  readonly overshoot_ms?: number
}

/** As the search answers. */
export interface FoundJob {
  readonly id: string
  readonly type: string
  readonly queue: string
  readonly state: string
  readonly attempt: number
  readonly max_attempts: number
  readonly created_at: string
  readonly started_at: string | null
  readonly ended_at: string | null
  readonly worker_id: string | null
  readonly error: ErrorView | null
}

export interface JobView {
  readonly id: string
  readonly type: string
  readonly queue: string
  readonly state: string
  readonly priority: number
  readonly attempt: number
  readonly max_attempts: number
  readonly args: unknown
  readonly created_at: string
  readonly scheduled_at?: string
  readonly started_at?: string
  readonly completed_at?: string
  readonly cancelled_at?: string
  readonly discarded_at?: string
  readonly next_retry_at?: string
  readonly worker_id?: string
  readonly error?: ErrorView
  readonly result?: unknown
  readonly x_limits: Readonly<Record<string, unknown>> & { readonly sources: Readonly<Record<string, string>> }
}

/** `timeout 3 s ●`: what ended the job or its last attempt. */
export function whyText({ error }: Pick<FoundJob, 'error'>): string {
  if (error === null) return '–'
  const { type, limit_ms: ms, source } = error
  const chip = source === undefined ? '' : ` ${SOURCE_CHIPS[source] ?? ''}`
  return `${type}${ms === undefined ? '' : ` ${lengthInWords(ms)}`}${chip}`
}

const LIMITS = ['timeout', 'grace', 'total', 'ttl', 'heartbeat', 'visibility'] as const

export function jobText(job: JobView, when: (time: string | undefined) => string): string {
  const at = (time: string | undefined): string | null => (time === undefined ? null : when(time))
  const { sources } = job.x_limits
  const limits = LIMITS.flatMap((name) => {
    const ms = job.x_limits[`${name}_ms`]
    return typeof ms === 'number'
      ? [[name, `${lengthInWords(ms)} (${whoSet(sources[name] ?? 'default')})`] as const]
      : []
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
export function endOf(job: Pick<JobView, 'state' | 'error'>): 0 | 3 | 4 | null {
  if (job.state === 'completed') return 0
  if (job.state !== 'cancelled' && job.state !== 'discarded') return null
  return job.error?.timeout_kind === undefined ? 3 : 4
}
