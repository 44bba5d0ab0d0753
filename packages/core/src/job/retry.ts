/**
 * Whether to try again, and after how long. Chance is a parameter. wire/retry.ts reads and writes policies.
 *
 * The order of the decision is the protocol's: the mode for timeouts, the code the handler chose (DISCARD, DEAD_LETTER,
 * RETRY), `retryable: false`, the policy's list, the budget of attempts, and last whether the next attempt still fits
 * into the total.
 */
import { fitsTotal } from './deadlines.ts'
import type { Job } from './job.ts'
import { millis, type Instant, type Millis, type Random } from '../time/clock.ts'

export type BackoffStrategy = 'constant' | 'linear' | 'exponential' | 'polynomial'

export interface RetryPolicy {
  readonly maxAttempts: number
  readonly initialMs: Millis
  readonly coefficient: number
  readonly maxMs: Millis
  readonly jitter: boolean
  readonly nonRetryable: readonly string[]
  readonly onExhaustion: 'discard' | 'dead_letter'
  readonly strategy: BackoffStrategy
}

export const DEFAULT_RETRY: RetryPolicy = {
  maxAttempts: 3,
  initialMs: millis(1_000),
  coefficient: 2,
  maxMs: millis(300_000),
  jitter: true,
  nonRetryable: [],
  onExhaustion: 'discard',
  strategy: 'exponential',
}

export function backoffMs(policy: RetryPolicy, failedAttempt: number, random: Random): Millis {
  const n = Math.max(1, failedAttempt)
  const raw = {
    constant: policy.initialMs,
    linear: policy.initialMs * n,
    exponential: policy.initialMs * policy.coefficient ** (n - 1),
    polynomial: policy.initialMs * n ** policy.coefficient,
  }[policy.strategy]
  const capped = Math.min(raw, policy.maxMs)
  return millis(Math.round(policy.jitter ? Math.min(capped * (0.5 + random()), policy.maxMs) : capped))
}

/** What ended the attempt, as far as the retry needs to know. */
export interface FailureFacts {
  readonly names: readonly string[]
  readonly retryable: boolean | undefined
  /** `error.code` of a FAIL: a handler may say DISCARD, FAIL, DEAD_LETTER or RETRY. */
  readonly word: string | undefined
  readonly isTimeout: boolean
  /** Lapsed reservations ignore the policy's list, and go straight back without backoff. */
  readonly lapsed: boolean
  /** How long the handler wants to wait for the next attempt, in place of the policy's backoff. */
  readonly retryAfterMs?: Millis | undefined
}

/** The reservation lapsed, or its worker left or died. */
export const LAPSED: FailureFacts = {
  names: [],
  retryable: undefined,
  word: undefined,
  isTimeout: false,
  lapsed: true,
}

/** An execution timeout that the server found. */
export const TIMED_OUT: FailureFacts = { ...LAPSED, names: ['timeout'], isTimeout: true, lapsed: false }

/** An attempt of which no sign of life came in time. */
export const STALLED: FailureFacts = { ...LAPSED, names: ['stalled'], lapsed: false }

/** Why a job is not tried again. */
export type NoRetry =
  /** `x_on_timeout: discard`. */
  | 'x_on_timeout'
  /** The handler said so with the code of its error: DISCARD, FAIL or DEAD_LETTER. */
  | 'error_code'
  /** `retryable: false`. */
  | 'not_retryable'
  | 'non_retryable_errors'
  | 'max_attempts'
  /** Another attempt could not have ended within the total. */
  | 'total_timeout'

export type Verdict =
  | { readonly kind: 'retry'; readonly delayMs: Millis }
  | { readonly kind: 'discard'; readonly deadLetter: boolean; readonly because: NoRetry }
  | { readonly kind: 'out-of-time'; readonly deadLetter: boolean; readonly delayMs: Millis }

export function verdictOn(job: Job, failure: FailureFacts, now: Instant, random: Random): Verdict {
  const discard = (because: NoRetry, deadLetter: boolean): Verdict => ({ kind: 'discard', deadLetter, because })
  const asPolicy = job.retry.onExhaustion === 'dead_letter'
  if (failure.isTimeout && job.hold?.onTimeout.mode === 'discard') return discard('x_on_timeout', false)
  if (failure.word === 'DISCARD' || failure.word === 'FAIL') return discard('error_code', false)
  if (failure.word === 'DEAD_LETTER') return discard('error_code', true)
  if (failure.retryable === false && failure.word !== 'RETRY') return discard('not_retryable', asPolicy)
  if (!failure.lapsed && failure.names.some((name) => isNonRetryable(job.retry, name)))
    return discard('non_retryable_errors', asPolicy)
  if (isSpent(job)) return discard('max_attempts', asPolicy)
  const delayMs = delayAfter(job, failure, random)
  if (!fitsTotal(job, now, delayMs)) return { kind: 'out-of-time', deadLetter: asPolicy, delayMs }
  return { kind: 'retry', delayMs }
}

/**
 * What a handler asks for takes the place of the backoff, `max_interval` included: it knows when the other side takes calls
 * again. It moves no limit: attempts and the total are asked all the same.
 */
function delayAfter(job: Job, failure: FailureFacts, random: Random): Millis {
  if (failure.lapsed) return millis(0)
  return failure.retryAfterMs ?? backoffMs(job.retry, attemptsUsed(job), random)
}

/** Hand-backs are refunded. */
export function attemptsUsed(job: Job): number {
  return job.attempt - job.interruptions
}

/** All attempts that the policy allows are used. */
export function isSpent(job: Job): boolean {
  return attemptsUsed(job) >= Math.max(1, job.retry.maxAttempts)
}

/** Equal, or a pattern ending in `.*` whose part before the star begins the name (`Auth.*`: `Auth.Expired`, not `AuthX`). */
export function isNonRetryable(policy: RetryPolicy, name: string): boolean {
  return policy.nonRetryable.some((pattern) =>
    pattern.endsWith('.*') ? name.startsWith(pattern.slice(0, -1)) : name === pattern,
  )
}
