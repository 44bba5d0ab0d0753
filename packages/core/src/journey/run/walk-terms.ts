/** What a walk asks for, what it is given, and what it gives back. */
import type { HttpResult, PreparedCall } from '../call.ts'
import type { DataSchema, Expression, Resilience, ScheduleTask } from '../definition.ts'
import type { Data, Run } from './run.ts'
import type { RunSchedule } from './schedule.ts'
import type { Instant, Millis, Random } from '../../time/clock.ts'
import type { EnqueueRequest } from '../../wire/job/enqueue.ts'

/** What a walk asks for. The answer to `holds` is a boolean, to `misfit` what is wrong, or null. */
export type Ask =
  | { readonly ask: 'value' | 'holds'; readonly expression: Expression; readonly document: Data }
  | { readonly ask: 'misfit'; readonly schema: DataSchema; readonly value: unknown }
  /** Whether there is a schedule with this id. */
  | { readonly ask: 'scheduled'; readonly id: string }
  /** Others want their turn. The answer means nothing. */
  | { readonly ask: 'turn' }

export interface WantedJob {
  readonly jobId: string
  readonly request: EnqueueRequest
  readonly isAwaited: boolean
  readonly isDetached: boolean
}

export interface WantedCall {
  readonly path: string
  readonly visit: number
  readonly call: PreparedCall
  readonly timeoutMs: Millis
  readonly resilience: Resilience | null
  /** Its answer is not awaited. */
  readonly isNotice: boolean
}

export interface WantedSchedule {
  readonly schedule: RunSchedule
  readonly onExisting: ScheduleTask['onExisting']
}

export interface Walked {
  readonly run: Run
  readonly schedules: readonly WantedSchedule[]
  readonly jobs: readonly WantedJob[]
  /** Awaited jobs that are not needed any more. */
  readonly lostJobs: readonly string[]
  readonly calls: readonly WantedCall[]
  /** It succeeded, and is to be cleaned up after nevertheless. */
  readonly compensate: boolean
  /** The time was up before the next state could be entered. */
  readonly isLate: boolean
}

export interface WalkTerms {
  readonly now: () => Instant
  readonly random: Random
  /** The answers of calls, by the visit that asked for them. */
  readonly results: ReadonlyMap<number, HttpResult>
  /** The server's configuration, by key. */
  readonly config: Data
  /** The server that walks. What others are to do is left to them. */
  readonly server: string
  /** Calls it has under way, by their visit; others that its frames wait for are made again. */
  readonly underway: { has(visit: number): boolean }
  /** It has walked for long enough to be saved; asked only after `STEPS_PER_SAVE` states. */
  readonly isLong?: () => boolean
}

export type Walk<T> = Generator<Ask, T, unknown>
