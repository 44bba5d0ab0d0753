/** One table from error codes to HTTP statuses, and the shape of every error answer. */
import { OjsError, type ErrorCode } from '@curfew/core'
import { PROBLEM_MEDIA, type Answer } from './message.ts'

interface Known {
  readonly status: number
  readonly retryable: boolean
  readonly hint: string
}

export const STATUS_OF: Readonly<Record<ErrorCode, Known>> = {
  invalid_payload: {
    status: 400,
    retryable: false,
    hint: 'Send a JSON body that parses, nested no deeper than 64 levels.',
  },
  invalid_request: {
    status: 400,
    retryable: false,
    hint: 'Correct what the message names and send the request again.',
  },
  unauthenticated: { status: 401, retryable: false, hint: 'Send "Authorization: Bearer <token>".' },
  permission_denied: { status: 403, retryable: false, hint: 'Use a token that may do this.' },
  not_found: { status: 404, retryable: false, hint: 'Check the id or the path.' },
  method_not_allowed: { status: 405, retryable: false, hint: 'The Allow header lists the methods of this path.' },
  request_timeout: { status: 408, retryable: true, hint: 'Send the request again, or wait longer.' },
  conflict: {
    status: 409,
    retryable: false,
    hint: 'Read the current state of the resource; repeating the request will not help.',
  },
  duplicate: { status: 409, retryable: false, hint: 'The job already exists; see details.existing_job_id.' },
  gone: { status: 410, retryable: false, hint: 'It existed and has been removed.' },
  payload_too_large: { status: 413, retryable: false, hint: 'Store large data elsewhere and send a reference.' },
  result_too_large: {
    status: 413,
    retryable: false,
    hint: 'Store the result elsewhere and ACK with a reference to it.',
  },
  validation_error: {
    status: 422,
    retryable: false,
    hint: 'The value is well formed but not allowed; the message says what is.',
  },
  schema_validation: {
    status: 422,
    retryable: false,
    hint: 'details.validation_errors says what is wrong with args, and where.',
  },
  deadline_exceeded: { status: 422, retryable: false, hint: 'The deadline has passed, or leaves no time for this.' },
  unsupported: { status: 422, retryable: false, hint: 'See GET /ojs/manifest for what this server offers.' },
  queue_paused: { status: 422, retryable: true, hint: 'Try again when the queue accepts jobs.' },
  rate_limited: { status: 429, retryable: true, hint: 'Slow down; Retry-After says how long.' },
  QUEUE_FULL: { status: 429, retryable: true, hint: 'Send it again after the time in Retry-After.' },
  backend_error: { status: 500, retryable: true, hint: 'Try again.' },
  internal_error: { status: 500, retryable: true, hint: 'This is an error in the server; its log has the request id.' },
  unavailable: { status: 503, retryable: true, hint: 'Try again after the time in Retry-After.' },
  storage_damaged: {
    status: 503,
    retryable: false,
    hint:
      'Repeating the call does not help. An operator has to stop the server, copy its data, run "curfew check", and restore ' +
      'a backup; the server log lists the steps.',
  },
}

const DOCS = 'https://openjobspec.org'

/** The answer to an error. An error that is not an OjsError is a bug: its text goes to the log only. */
export function refusal(error: unknown, requestId: string, asProblem: boolean): Answer {
  const known =
    error instanceof OjsError
      ? error
      : new OjsError('internal_error', 'Something went wrong inside the server.', { cause: error })
  const { status, retryable, hint } = STATUS_OF[known.code]
  const headers: Record<string, string> = {}
  if ((status === 503 && retryable) || status === 429) headers['Retry-After'] = '1'
  if (known.code === 'QUEUE_FULL') Object.assign(headers, pressureHeaders(known.details))
  if (status === 401) headers['WWW-Authenticate'] = 'Bearer'
  const allow = known.details['allow']
  if (status === 405 && typeof allow === 'string') headers['Allow'] = allow
  const most = known.details['max_batch_size']
  if (status === 413 && typeof most === 'number') headers['X-OJS-Max-Batch-Size'] = String(most)
  if (asProblem) {
    const problem = {
      type: 'about:blank',
      title: known.code,
      status,
      detail: known.message,
      code: known.code,
      retryable,
      ...known.details,
      hint: known.hint ?? hint,
      request_id: requestId,
    }
    return { status, headers, body: JSON.stringify(problem), media: PROBLEM_MEDIA }
  }
  return { status, headers, body: JSON.stringify({ error: errorView(known, requestId) }) }
}

export function statusOf({ code }: OjsError): number {
  return STATUS_OF[code].status
}

export function errorView({ code, message, details, hint }: OjsError, requestId: string): Record<string, unknown> {
  return {
    code,
    type: code,
    message,
    retryable: STATUS_OF[code].retryable,
    details,
    request_id: requestId,
    hint: hint ?? STATUS_OF[code].hint,
    docs_url: DOCS,
  }
}

/** How deep a queue is, and how deep it may become (OJS backpressure §7.2). */
export function pressureHeaders({
  depth,
  bound,
}: {
  readonly depth?: unknown
  readonly bound?: unknown
}): Record<string, string> {
  return { 'X-OJS-Queue-Depth': String(depth), 'X-OJS-Queue-Bound': String(bound) }
}
