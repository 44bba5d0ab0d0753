/** A job as the API answers it (written by render.ts and failure.ts), for those that read it: the board and the command line. */
import type { JobState } from '../../job/job.ts'
import type { LimitName } from '../../job/limits.ts'
import type { Failure } from './failure.ts'
import type { LimitsView } from './render.ts'

/** Errors that a worker reports have a type; what else they have is up to the worker. */
export type FailureAnswer = Pick<Failure, 'type'> & Partial<Omit<Failure, 'detailsText'>>

export interface JobAnswer {
  readonly id: string
  readonly type: string
  readonly queue: string
  readonly state: JobState
  readonly args: unknown
  readonly meta?: unknown
  readonly tags?: readonly string[]
  readonly result?: unknown
  readonly priority: number
  readonly attempt: number
  readonly max_attempts: number
  readonly created_at: string
  readonly enqueued_at?: string
  readonly scheduled_at?: string
  readonly started_at?: string
  readonly completed_at?: string
  readonly cancelled_at?: string
  readonly discarded_at?: string
  readonly next_retry_at?: string
  readonly worker_id?: string
  readonly workflow_id?: string
  readonly soft_deadline?: string
  readonly hard_deadline?: string
  readonly error?: FailureAnswer
  readonly errors?: readonly FailureAnswer[]
  readonly x_limits: LimitsView
  readonly progress?: number
  readonly x_log?: LogAnswer
}

export interface LogAnswer {
  readonly lines: readonly {
    readonly at: string
    readonly attempt: number
    readonly message: string
    readonly fields?: unknown
    readonly cut?: boolean
  }[]
  readonly dropped: number
}

/** The field of each limit in `x_limits`; its source stands in `sources` under its own name. */
export const LIMIT_ANSWERS = {
  timeout: 'timeout_ms',
  grace: 'grace_ms',
  total: 'total_ms',
  ttl: 'enqueue_ttl_ms',
  heartbeat: 'heartbeat_timeout_ms',
  visibility: 'visibility_ms',
} as const satisfies Readonly<Record<LimitName, keyof LimitsView>>
