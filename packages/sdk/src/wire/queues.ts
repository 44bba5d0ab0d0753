/** Queues, limiters, pools and types, field by field as the server writes them. */
import type { JobState } from './jobs.ts'

export interface QueueView {
  readonly name: string
  readonly status: 'active' | 'paused' | 'draining'
  readonly paused: boolean
  readonly counts?: Readonly<Record<JobState, number>>
  readonly created_at?: string
  readonly paused_at?: string
  /** Of a queue that drains: whether nothing is left in it that is not over. */
  readonly drained?: boolean
  readonly [field: string]: unknown
}

/** How many jobs of each state, and how fast they went lately. */
export interface QueueStats extends Readonly<Partial<Record<JobState, number>>> {
  readonly name: string
  readonly paused: boolean
  readonly stats?: Readonly<Record<string, unknown>>
  readonly [field: string]: unknown
}

/** The configuration of a queue, by the names of the wire. */
export type QueueConfigView = Readonly<Record<string, unknown>>

/** A limiter: its terms, who holds it, who waits, and when its window opens. */
export interface LimiterView {
  readonly key?: string
  readonly queue?: string
  readonly concurrency: Readonly<Record<string, unknown>> | null
  readonly active: number
  readonly waiting: number
  readonly window: Readonly<Record<string, unknown>>
  readonly [field: string]: unknown
}

export interface PoolView {
  readonly name: string
  readonly strategy: string
  readonly queues: readonly string[]
  readonly created_at: string
  readonly updated_at: string
  readonly [field: string]: unknown
}

export interface TypePolicyView {
  readonly type: string
  readonly caps?: Readonly<Record<string, number>>
  readonly updated_at: string
  readonly [field: string]: unknown
}
