/** Thrown by a handler that knows when it is worth another try: a service that answered 429, a file that is not there yet. */
import { formatDelay, type Duration } from '../durations.ts'
import { CurfewError, InputError } from '../errors.ts'

/**
 * The job is tried again then, in place of its backoff. It uses an attempt like any other failure, and no limit moves: after
 * the last attempt, or where the time lies behind the total, the job is discarded at once.
 */
export class RetryAfter extends CurfewError {
  /** A moment, or a length from the report on: `+PT30S`. */
  readonly retryAt: string

  constructor(
    when: Duration | Date,
    message = 'The handler asked to be tried again later.',
    options: { code?: string; details?: Record<string, unknown>; cause?: unknown } = {},
  ) {
    super(options.code ?? 'retry_after', message, options)
    this.retryAt = momentOf(when)
  }
}

function momentOf(when: Duration | Date): string {
  if (!(when instanceof Date)) return formatDelay(when, 'RetryAfter')
  if (Number.isNaN(when.getTime())) throw new InputError('RetryAfter was given an invalid Date.', { field: 'when' })
  return when.toISOString()
}

/** The same error in another thread. */
export function revivedRetryAfter(
  at: string,
  ...[message, options]: readonly [string, { code?: string; details: Record<string, unknown> }]
): RetryAfter {
  const error = new RetryAfter({ ms: 0 }, message, options)
  return Object.assign(error, { retryAt: at })
}
