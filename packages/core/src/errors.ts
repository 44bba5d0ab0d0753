/**
 * What can go wrong, as a closed list. A refusal is an `OjsError` with one of these codes; `http/api/errors.ts` turns codes
 * into statuses, and nothing ever matches on message text.
 */

export const ERROR_CODES = [
  'invalid_payload',
  'invalid_request',
  'unauthenticated',
  'permission_denied',
  'not_found',
  'method_not_allowed',
  'request_timeout',
  'conflict',
  'duplicate',
  'gone',
  'payload_too_large',
  'result_too_large',
  'validation_error',
  'schema_validation',
  'deadline_exceeded',
  'unsupported',
  'queue_paused',
  'rate_limited',
  'QUEUE_FULL',
  'backend_error',
  'internal_error',
  'unavailable',
  'storage_damaged',
] as const

export type ErrorCode = (typeof ERROR_CODES)[number]

export class OjsError extends Error {
  readonly code: ErrorCode
  readonly details: Readonly<Record<string, unknown>>
  readonly hint: string | undefined

  constructor(
    code: ErrorCode,
    message: string,
    options: { details?: Record<string, unknown>; hint?: string; cause?: unknown } = {},
  ) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause })
    this.name = 'OjsError'
    this.code = code
    this.details = options.details ?? {}
    this.hint = options.hint
  }
}

/** A field of a request is missing or has the wrong form (400). */
export function badField(field: string, message: string): OjsError {
  return new OjsError('invalid_request', message, { details: { field } })
}

/** A field has the right form but asks for something that cannot be (422). */
export function badPolicy(field: string, message: string): OjsError {
  return new OjsError('validation_error', message, { details: { field } })
}

/** What is looked for by a name; all else has an id. */
const NAMED = ['queue', 'cron entry', 'pool', 'definition', 'schema', 'rate limit', 'job type policy']

/** For what time removes: it may have been there before. */
const REMOVED: Readonly<Record<string, string>> = {
  job: 'finished jobs',
  'dead letter': 'dead letters',
  workflow: 'finished workflows',
  journey: 'finished journeys',
  delivery: 'finished deliveries',
}

export function notFound(what: string, id: string): OjsError {
  const key = NAMED.includes(what) ? 'name' : 'id'
  const removed = REMOVED[what]
  return new OjsError('not_found', `There is no ${what} with this ${key}.`, {
    details: { resource_type: what === 'cron entry' ? 'cron' : what, resource_id: id },
    hint: `Check the ${key}${removed === undefined ? '' : `; ${removed} are removed after their retention time`}.`,
  })
}

/** A row that cannot exist, a state that was ruled out: a bug of ours. It fails loudly. */
export function broken(message: string): Error {
  return new Error(`broken promise: ${message}`)
}
