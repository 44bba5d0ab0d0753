/** What a server said no with, in any of its forms, as one error. */
import type { ErrorCode } from '@curfew/core'
import { RequestError } from '../errors.ts'
import type { TransportResponse } from './transport.ts'

/** Worth another try, if the call may be repeated: too many requests, or the server is unavailable. */
const PASSING = new Set([429, 502, 503, 504])

/** Whatever is not, is a refusal: redirects too. */
export function isFine(status: number): boolean {
  return status >= 200 && status < 300
}

export function isPassing(status: number): boolean {
  return PASSING.has(status)
}

/** The statuses that go with codes, for answers about one of many, which have no status of their own. */
const STATUS_OF: Partial<Record<ErrorCode, number>> = {
  invalid_payload: 400,
  invalid_request: 400,
  permission_denied: 403,
  not_found: 404,
  conflict: 409,
  duplicate: 409,
  payload_too_large: 413,
  rate_limited: 429,
  QUEUE_FULL: 429,
  backend_error: 500,
  internal_error: 500,
  unavailable: 503,
}

export function refusalOf({ status, headers, body }: TransportResponse, wallMs: number): RequestError {
  const read = typeof body === 'string' ? parsed(body) : undefined
  return errorFrom(read, status, headers['x-request-id'] ?? null, retryAfterMs(headers['retry-after'], wallMs))
}

/** A refusal of one entry among many: `error` is the object itself. */
export function entryRefusal(error: unknown, requestId: string | null): RequestError {
  const code = isRecord(error) && typeof error['code'] === 'string' ? error['code'] : ''
  const given = isRecord(error) ? error['status'] : undefined
  const status = typeof given === 'number' ? given : (STATUS_OF[code as ErrorCode] ?? 422)
  return errorFrom({ error }, status, requestId, null)
}

/** `{error: {…}}` under /ojs, problem details (RFC 9457) under /api, and whatever a proxy in between may say. */
function errorFrom(read: unknown, status: number, requestId: string | null, waitMs: number | null): RequestError {
  const inner = isRecord(read) && isRecord(read['error']) ? read['error'] : null
  const problem = inner === null && isRecord(read) && typeof read['title'] === 'string' ? read : null
  const told = inner ?? problem ?? {}
  const text = (key: string): string | null => (typeof told[key] === 'string' ? told[key] : null)
  return new RequestError({
    code: text('code') ?? `http_${String(status)}`,
    message: text('message') ?? text('detail') ?? `The server answered ${String(status)}.`,
    retryable: typeof told['retryable'] === 'boolean' ? told['retryable'] : isPassing(status),
    details: problem === null ? recordOf(told['details']) : detailsOf(problem),
    hint: text('hint'),
    requestId: text('request_id') ?? requestId,
    status,
    retryAfterMs: waitMs,
  })
}

const PROBLEM_FIELDS = new Set(['type', 'title', 'status', 'detail', 'code', 'retryable', 'hint', 'request_id'])

function detailsOf(problem: Readonly<Record<string, unknown>>): Record<string, unknown> {
  return Object.fromEntries(Object.entries(problem).filter(([key]) => !PROBLEM_FIELDS.has(key)))
}

/** Seconds, or a date (RFC 9110 §10.2.3). */
function retryAfterMs(value: string | undefined, wallMs: number): number | null {
  if (value === undefined) return null
  if (/^\d{1,9}$/.test(value.trim())) return Number(value) * 1000
  const at = Date.parse(value)
  return Number.isNaN(at) ? null : Math.max(0, at - wallMs)
}

export function parsed(text: string): unknown {
  try {
    return JSON.parse(text) as unknown
  } catch {
    return undefined
  }
}

export function isRecord(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

function recordOf(value: unknown): Readonly<Record<string, unknown>> {
  return isRecord(value) ? value : {}
}
