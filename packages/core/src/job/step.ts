/**
 * A durable step: a part of an attempt whose result is stored, so that a later attempt does not run it again. Its name is
 * its identity. The steps of a job are kept with its checkpoint (`wire/job/steps.ts`); the SDK runs them.
 */
import type { Instant } from '../time/clock.ts'

export interface StoredStep {
  readonly name: string
  /** How many steps the attempt had called before this one. */
  readonly position: number
  /**
   * It ran with no other step beside it, and no step had failed before it: the same code reaches it at the same position,
   * before any step that comes later.
   */
  readonly isOrdered: boolean
  readonly attempt: number
  /** On the server's clock, as far as the worker knows it. */
  readonly from: Instant
  /** When it ended; of a sleep, when the job may go on. */
  readonly to: Instant
  readonly isSleep: boolean
  /** Absent: it gave nothing. */
  readonly result?: unknown
}

/** What `explain` and the timeline show of a step. */
export type StepSpan = Pick<StoredStep, 'name' | 'attempt' | 'from' | 'to' | 'isSleep'>

/** A job may store so many. */
export const MAX_DURABLE_STEPS = 1_000
export const MAX_STEP_NAME = 200
