/**
 * Whether to try again, and after how long. Chance is handed in.
 *
 * The order of the decision is the protocol's: the mode for timeouts, the handler's own word (DISCARD, DEAD_LETTER,
 * RETRY), `retryable: false`, the policy's list, the budget of attempts, and last whether the next attempt still fits
 * into the total.
 */
import { badPolicy } from './errors.ts'
import { millis, type Instant, type Millis, type Random } from './clock.ts'
import { formatIsoDuration, LONGEST_MS, parseIsoDuration } from './durations.ts'
import { fitsTotal } from './deadlines.ts'
import type { Job } from './job.ts'

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
}

/** Nobody spoke for the attempt any more. */
export const LAPSED: FailureFacts = {
  names: [],
  retryable: undefined,
  word: undefined,
  isTimeout: false,
  lapsed: true,
}

/** An execution timeout that the server found. */
export const TIMED_OUT: FailureFacts = { ...LAPSED, names: ['timeout'], isTimeout: true, lapsed: false }

export type Verdict =
  | { readonly kind: 'retry'; readonly delayMs: Millis }
  | { readonly kind: 'discard'; readonly deadLetter: boolean }
  | { readonly kind: 'out-of-time'; readonly deadLetter: boolean; readonly delayMs: Millis }

export function verdictOn(job: Job, failure: FailureFacts, now: Instant, random: Random): Verdict {
  const exhausted: Verdict = { kind: 'discard', deadLetter: job.retry.onExhaustion === 'dead_letter' }
  if (failure.isTimeout && job.hold?.onTimeout.mode === 'discard') return { kind: 'discard', deadLetter: false }
  if (failure.word === 'DISCARD' || failure.word === 'FAIL') return { kind: 'discard', deadLetter: false }
  if (failure.word === 'DEAD_LETTER') return { kind: 'discard', deadLetter: true }
  if (failure.retryable === false && failure.word !== 'RETRY') return exhausted
  if (!failure.lapsed && failure.names.some((name) => isNonRetryable(job.retry, name))) return exhausted
  if (attemptsUsed(job) >= Math.max(1, job.retry.maxAttempts)) return exhausted
  const delayMs = failure.lapsed ? millis(0) : backoffMs(job.retry, job.attempt - job.interruptions, random)
  if (!fitsTotal(job, now, delayMs)) return { kind: 'out-of-time', deadLetter: exhausted.deadLetter, delayMs }
  return { kind: 'retry', delayMs }
}

/** Hand-backs are refunded. */
export function attemptsUsed(job: Job): number {
  return job.attempt - job.interruptions
}

/** Equal, or a pattern ending in `.*` whose part before the star begins the name (`Auth.*`: `Auth.Expired`, not `AuthX`). */
export function isNonRetryable(policy: RetryPolicy, name: string): boolean {
  return policy.nonRetryable.some((pattern) =>
    pattern.endsWith('.*') ? name.startsWith(pattern.slice(0, -1)) : name === pattern,
  )
}

// ---- The wire form ----

type Fields = Readonly<Record<string, unknown>>

const STRATEGIES: Readonly<Record<string, BackoffStrategy>> = {
  none: 'constant',
  constant: 'constant',
  linear: 'linear',
  exponential: 'exponential',
  polynomial: 'polynomial',
}

const MOST_ATTEMPTS = 1_000_000
const MOST_COEFFICIENT = 1_000
const MOST_NAMES = 100
const LONGEST_NAME = 255

/** Reads a retry policy in either spelling; what is left out takes the default, what is unknown is ignored. */
export function readRetryPolicy(value: unknown, at = 'retry'): RetryPolicy {
  if (typeof value !== 'object' || value === null || Array.isArray(value))
    throw badPolicy(at, `${at} must be an object.`)
  const fields = value as Fields
  const pick = (...names: string[]): { name: string; value: unknown } | null => {
    for (const name of names)
      if (fields[name] !== undefined && fields[name] !== null) return { name, value: fields[name] }
    return null
  }
  const maxAttempts = pick('max_attempts', 'maxAttempts')
  if (
    maxAttempts !== null &&
    !(isWhole(maxAttempts.value) && maxAttempts.value >= 0 && maxAttempts.value <= MOST_ATTEMPTS)
  ) {
    const bounds = `a whole number from 0 to ${String(MOST_ATTEMPTS)}`
    throw badPolicy(`${at}.${maxAttempts.name}`, `${at}.max_attempts must be ${bounds}.`)
  }
  const coefficient = pick('backoff_coefficient', 'backoffCoefficient')
  if (
    coefficient !== null &&
    !(typeof coefficient.value === 'number' && coefficient.value >= 1 && coefficient.value <= MOST_COEFFICIENT)
  ) {
    const bounds = `a number from 1.0 to ${String(MOST_COEFFICIENT)}`
    throw badPolicy(`${at}.${coefficient.name}`, `${at}.backoff_coefficient must be ${bounds}.`)
  }
  const jitter = pick('jitter')
  if (jitter !== null && typeof jitter.value !== 'boolean')
    throw badPolicy(`${at}.jitter`, `${at}.jitter must be true or false.`)
  const nonRetryable = pick('non_retryable_errors', 'nonRetryableErrors')
  if (
    nonRetryable !== null &&
    !(
      Array.isArray(nonRetryable.value) &&
      nonRetryable.value.length <= MOST_NAMES &&
      nonRetryable.value.every((name) => typeof name === 'string' && name.length <= LONGEST_NAME)
    )
  ) {
    const bounds = `at most ${String(MOST_NAMES)} error types of at most ${String(LONGEST_NAME)} characters each`
    throw badPolicy(`${at}.${nonRetryable.name}`, `${at}.non_retryable_errors must be a list of ${bounds}.`)
  }
  const onExhaustion = pick('on_exhaustion', 'onExhaustion')
  if (onExhaustion !== null && onExhaustion.value !== 'discard' && onExhaustion.value !== 'dead_letter') {
    throw badPolicy(`${at}.${onExhaustion.name}`, `${at}.on_exhaustion must be "discard" or "dead_letter".`)
  }
  const strategy = pick('backoff_strategy', 'backoff_type', 'backoff', 'strategy')
  const known =
    strategy === null
      ? 'exponential'
      : typeof strategy.value === 'string' && Object.hasOwn(STRATEGIES, strategy.value)
        ? STRATEGIES[strategy.value]
        : undefined
  if (known === undefined) {
    throw badPolicy(
      `${at}.${strategy?.name ?? 'backoff_strategy'}`,
      `${at}.backoff_strategy must be one of ${Object.keys(STRATEGIES).join(', ')}.`,
    )
  }
  const initialMs = readInterval(
    pick('initial_interval', 'initialInterval', 'initial_interval_ms', 'initial_delay_ms'),
    at,
  )
  const givenMaxMs = readInterval(pick('max_interval', 'maxInterval', 'max_interval_ms'), at)
  if (initialMs !== null && givenMaxMs !== null && givenMaxMs < initialMs) {
    throw badPolicy(`${at}.max_interval`, `${at}.max_interval must not be shorter than initial_interval.`)
  }
  const first = initialMs ?? DEFAULT_RETRY.initialMs
  return {
    maxAttempts: maxAttempts === null ? DEFAULT_RETRY.maxAttempts : (maxAttempts.value as number),
    initialMs: givenMaxMs !== null && initialMs === null ? millis(Math.min(first, givenMaxMs)) : first,
    coefficient: coefficient === null ? DEFAULT_RETRY.coefficient : (coefficient.value as number),
    maxMs: givenMaxMs ?? millis(Math.max(DEFAULT_RETRY.maxMs, first)),
    jitter: jitter === null ? DEFAULT_RETRY.jitter : (jitter.value as boolean),
    nonRetryable: nonRetryable === null ? [] : (nonRetryable.value as string[]),
    onExhaustion:
      onExhaustion === null ? DEFAULT_RETRY.onExhaustion : (onExhaustion.value as 'discard' | 'dead_letter'),
    strategy: known,
  }
}

export function writeRetryPolicy(policy: RetryPolicy): Record<string, unknown> {
  return {
    max_attempts: policy.maxAttempts,
    initial_interval: formatIsoDuration(policy.initialMs),
    backoff_coefficient: policy.coefficient,
    max_interval: formatIsoDuration(policy.maxMs),
    jitter: policy.jitter,
    non_retryable_errors: policy.nonRetryable,
    on_exhaustion: policy.onExhaustion,
    backoff_strategy: policy.strategy,
  }
}

function readInterval(given: { name: string; value: unknown } | null, at: string): Millis | null {
  if (given === null) return null
  const { name, value } = given
  if (name.endsWith('_ms')) {
    if (!isWhole(value) || value <= 0 || value > LONGEST_MS) {
      const bounds = 'a positive whole number of milliseconds, at most ten years'
      throw badPolicy(`${at}.${name}`, `${at}.${name} must be ${bounds}.`)
    }
    return millis(value)
  }
  const ms = typeof value === 'string' ? parseIsoDuration(value) : null
  if (ms === null || ms <= 0 || ms > LONGEST_MS) {
    const bounds = 'a positive ISO 8601 duration such as "PT1S", at most ten years'
    throw badPolicy(`${at}.${name}`, `${at}.${name} must be ${bounds}.`)
  }
  return ms
}

function isWhole(value: unknown): value is number {
  return typeof value === 'number' && Number.isInteger(value)
}
