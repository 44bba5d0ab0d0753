/** How often and how soon a failed attempt is tried again, as applications write it. */
import { formatIsoDuration } from '@curfew/core'
import { toMillis, type Duration } from '../durations.ts'

export interface RetryPolicy {
  /** All attempts, the first included. */
  readonly maxAttempts?: number
  readonly initialInterval?: Duration
  readonly maxInterval?: Duration
  readonly backoffCoefficient?: number
  readonly backoffStrategy?: 'none' | 'linear' | 'exponential' | 'polynomial'
  readonly jitter?: boolean
  /** Types or codes of errors that no retry would mend; `auth.*` means all that begin so. */
  readonly nonRetryableErrors?: readonly string[]
  readonly onExhaustion?: 'discard' | 'dead_letter'
}

export function retryOnWire(policy: RetryPolicy): Record<string, unknown> {
  const { initialInterval, maxInterval } = policy
  const wire: Record<string, unknown> = {
    max_attempts: policy.maxAttempts,
    initial_interval:
      initialInterval === undefined ? undefined : formatIsoDuration(toMillis(initialInterval, 'retry.initialInterval')),
    max_interval: maxInterval === undefined ? undefined : formatIsoDuration(toMillis(maxInterval, 'retry.maxInterval')),
    backoff_coefficient: policy.backoffCoefficient,
    backoff_strategy: policy.backoffStrategy,
    jitter: policy.jitter,
    non_retryable_errors: policy.nonRetryableErrors,
    on_exhaustion: policy.onExhaustion,
  }
  return Object.fromEntries(Object.entries(wire).filter(([, value]) => value !== undefined))
}
