/**
 * Errors on their way between a handler and its worker. Whatever was thrown becomes plain data once, here; and what the
 * worker answers to a call becomes an error of the SDK again, so that a handler in a process may write
 * `error instanceof RequestError` as one in line does.
 */
import {
  CurfewError,
  InputError,
  LostLeaseError,
  NetworkError,
  NonRetryableError,
  RequestError,
  StepError,
  UnsupportedError,
  type StepErrorCode,
} from '../errors.ts'
import type { ErrorData } from './facts.ts'
import { jsonCopy } from './json-data.ts'
import { RetryAfter, revivedRetryAfter } from '../job/retry-after.ts'

/** Bounds what is stored and shown. */
const MAX_CHARACTERS = 16_384

export function errorData(thrown: unknown): ErrorData {
  try {
    return thrown instanceof Error ? ofError(thrown) : ofOther(thrown)
  } catch {
    return { name: 'Error', message: 'Something was thrown that cannot even be read.' }
  }
}

function ofError(error: Error): ErrorData {
  const { code, details, retryable, status, retryAt } = error as Error &
    Record<'code' | 'details' | 'retryable' | 'status' | 'retryAt', unknown>
  // An isolate may hold another copy of the SDK.
  const isPutOff = error instanceof RetryAfter || error.name === 'RetryAfter'
  const shownDetails = details === undefined ? undefined : jsonOrNothing(details)
  return {
    name: error.name,
    message: cut(error.message),
    ...(typeof code === 'string' ? { code } : {}),
    ...(shownDetails === undefined ? {} : { details: shownDetails }),
    ...(typeof error.stack === 'string' ? { stack: cut(stackWithCauses(error)) } : {}),
    ...(error instanceof NonRetryableError ? { retryable: false } : {}),
    ...(typeof retryable === 'boolean' ? { retryable } : {}),
    ...(typeof status === 'number' ? { status } : {}),
    ...(isPutOff && typeof retryAt === 'string' ? { retryAt } : {}),
  }
}

/** `throw 'no'`, `throw { code: 7 }`: not nice, but it happens. */
function ofOther(thrown: unknown): ErrorData {
  const text = typeof thrown === 'string' ? thrown : (JSON.stringify(jsonOrNothing(thrown)) ?? String(thrown))
  return { name: 'Error', message: cut(text) }
}

function stackWithCauses(error: Error): string {
  const told = [error.stack ?? '']
  let cause = error.cause
  for (let depth = 0; cause instanceof Error && depth < 5; depth += 1) {
    told.push(`Caused by: ${cause.stack ?? String(cause)}`)
    cause = cause.cause
  }
  return told.join('\n')
}

function jsonOrNothing(value: unknown): unknown {
  try {
    return jsonCopy(value, 'It')
  } catch {
    return undefined
  }
}

function cut(text: string): string {
  return text.length > MAX_CHARACTERS ? `${text.slice(0, MAX_CHARACTERS)}…` : text
}

/** The error as what it was, as far as it is one of the SDK's. */
export function errorFromData(data: ErrorData): Error {
  const error = revived(data)
  if (data.stack !== undefined) error.stack = data.stack
  return error
}

function revived(data: ErrorData): Error {
  const { name, message, code, status, retryAt } = data
  const details = typeof data.details === 'object' && data.details !== null ? { ...data.details } : {}
  const coded = { ...(code === undefined ? {} : { code }), details }
  if (retryAt !== undefined) return Object.assign(revivedRetryAfter(retryAt, message, coded), { name })
  switch (name) {
    case 'RequestError':
      return new RequestError({
        code: code ?? 'unknown',
        message,
        retryable: data.retryable ?? false,
        details,
        hint: null,
        requestId: null,
        status: status ?? 0,
        retryAfterMs: null,
      })
    case 'InputError':
      return new InputError(message, details)
    case 'NetworkError':
      return new NetworkError(message)
    case 'UnsupportedError':
      return new UnsupportedError(message, details)
    case 'LostLeaseError':
      return new LostLeaseError(message)
    case 'StepError': {
      const step = 'step' in details && typeof details.step === 'string' ? details.step : ''
      return new StepError((code ?? 'step_name') as StepErrorCode, step, message, {
        retryable: data.retryable ?? false,
      })
    }
    case 'NonRetryableError':
      return new NonRetryableError(message, coded)
    case 'TypeError':
      return new TypeError(message)
  }
  const error = code === undefined ? new Error(message) : new CurfewError(code, message, { details })
  error.name = name
  return error
}
