/** Retry policies on the wire, in both spellings (`max_attempts`, `maxAttempts`). */
import { badPolicy } from '../../errors.ts'
import { DEFAULT_RETRY, type BackoffStrategy, type RetryPolicy } from '../../job/retry.ts'
import { millis, type Millis } from '../../time/clock.ts'
import { formatIsoDuration, MAX_DURATION_MS, parseIsoDuration } from '../../time/durations.ts'
import { DURATION_SCHEMA } from '../time-schemas.ts'
import { fewFields } from '../few-fields.ts'
import { RETRY_ALIASES } from '../names/aliases.ts'
import { nearMissesAmong, vocabulary, type NearMiss } from '../names/near-miss.ts'
import { between, flag, list, named, object, oneOf, policy, text, whole, type Shape } from '../shape.ts'

type Fields = Readonly<Record<string, unknown>>

const STRATEGIES: Readonly<Record<string, BackoffStrategy>> = {
  none: 'constant',
  constant: 'constant',
  linear: 'linear',
  exponential: 'exponential',
  polynomial: 'polynomial',
}

const MAX_ATTEMPTS = 1_000_000
const MAX_COEFFICIENT = 1_000
const MAX_NAMES = 100
const MAX_NAME_LENGTH = 255

const PARTS = Object.keys(writeRetryPolicy(DEFAULT_RETRY))
const OTHER_SPELLINGS = (
  'maxAttempts backoffCoefficient nonRetryableErrors onExhaustion backoff_type backoff strategy initialInterval ' +
  'initial_interval_ms initial_delay_ms maxInterval max_interval_ms'
).split(' ')
const UNDERSTOOD = new Set([...PARTS, ...OTHER_SPELLINGS])
/** Those in camelCase are spellings of the parts. */
const NAMES = vocabulary([...PARTS, ...OTHER_SPELLINGS.filter((name) => !/[A-Z]/.test(name))], RETRY_ALIASES)

/** What a policy that was read holds besides, under names that are nearly those of its parts. `at`: where it lies. */
export function nearMissesInRetry(value: object, at: string): readonly NearMiss[] {
  const unknown = Object.entries(fewFields(value, at)).filter(([key, sent]) => !UNDERSTOOD.has(key) && sent !== null)
  return nearMissesAmong(
    unknown.map(([key]) => key),
    NAMES,
    `${at}.`,
  )
}
const INTERVAL: Shape<unknown> = { json: DURATION_SCHEMA, read: (value, at) => readInterval({ name: '', value }, at) }
const INTERVAL_MS = whole(1, MAX_DURATION_MS)
const STRATEGY = oneOf(...Object.keys(STRATEGIES))
const ERROR_NAMES = list(text({ maxLength: MAX_NAME_LENGTH }), 0, MAX_NAMES)

/** The documented form, in every spelling. */
export const RETRY_POLICY_SHAPE = named(
  'RetryPolicy',
  policy(
    object({
      max_attempts: whole(0, MAX_ATTEMPTS),
      maxAttempts: whole(0, MAX_ATTEMPTS),
      backoff_coefficient: between(1, MAX_COEFFICIENT),
      backoffCoefficient: between(1, MAX_COEFFICIENT),
      jitter: flag(),
      non_retryable_errors: ERROR_NAMES,
      nonRetryableErrors: ERROR_NAMES,
      on_exhaustion: oneOf('discard', 'dead_letter'),
      onExhaustion: oneOf('discard', 'dead_letter'),
      backoff_strategy: STRATEGY,
      backoff_type: STRATEGY,
      backoff: STRATEGY,
      strategy: STRATEGY,
      initial_interval: INTERVAL,
      initialInterval: INTERVAL,
      initial_interval_ms: INTERVAL_MS,
      initial_delay_ms: INTERVAL_MS,
      max_interval: INTERVAL,
      maxInterval: INTERVAL,
      max_interval_ms: INTERVAL_MS,
    }),
  ),
)

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
    !(isWhole(maxAttempts.value) && maxAttempts.value >= 0 && maxAttempts.value <= MAX_ATTEMPTS)
  ) {
    const bounds = `a whole number from 0 to ${String(MAX_ATTEMPTS)}`
    throw badPolicy(`${at}.${maxAttempts.name}`, `${at}.max_attempts must be ${bounds}.`)
  }
  const coefficient = pick('backoff_coefficient', 'backoffCoefficient')
  if (
    coefficient !== null &&
    !(typeof coefficient.value === 'number' && coefficient.value >= 1 && coefficient.value <= MAX_COEFFICIENT)
  ) {
    const bounds = `a number from 1.0 to ${String(MAX_COEFFICIENT)}`
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
      nonRetryable.value.length <= MAX_NAMES &&
      nonRetryable.value.every((name) => typeof name === 'string' && name.length <= MAX_NAME_LENGTH)
    )
  ) {
    const bounds = `at most ${String(MAX_NAMES)} error types of at most ${String(MAX_NAME_LENGTH)} characters each`
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
  // A spelling that another one outweighs is held to the same form.
  RETRY_POLICY_SHAPE.read(value, at)
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
    if (!isWhole(value) || value <= 0 || value > MAX_DURATION_MS) {
      const bounds = 'a positive whole number of milliseconds, at most ten years'
      throw badPolicy(`${at}.${name}`, `${at}.${name} must be ${bounds}.`)
    }
    return millis(value)
  }
  const ms = typeof value === 'string' ? parseIsoDuration(value) : null
  if (ms === null || ms <= 0 || ms > MAX_DURATION_MS) {
    const bounds = 'a positive ISO 8601 duration such as "PT1S", at most ten years'
    const field = name === '' ? at : `${at}.${name}`
    throw badPolicy(field, `${field} must be ${bounds}.`)
  }
  return ms
}

function isWhole(value: unknown): value is number {
  return typeof value === 'number' && Number.isInteger(value)
}
