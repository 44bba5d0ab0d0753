/**
 * An HTTP call of a journey: what is sent, what becomes of the answer, and whether it is tried again. Making the call is
 * `engine/journeys/call.ts`.
 *
 * Whatever the other side does is a result, and the run goes on with it: `ok` says whether the status was 2xx, `error`
 * why there is no status. Only a call that cannot be put together at all is a fault.
 */
import { millis, type Millis, type Random } from '../time/clock.ts'
import { canBeSent, encoded, interpolate, interpolateAll, placeholdersOf } from './interpolation.ts'
import { RunFault } from './faults.ts'
import type { CallAuth, Definition, HttpCall, Resilience } from './definition.ts'
import type { Data } from './run/run.ts'
import { MAX_JSON_DEPTH, depthExceeds } from '../wire/json/json-text.ts'

export interface PreparedCall {
  readonly method: string
  readonly url: string
  readonly headers: Readonly<Record<string, string>>
  readonly body: string | null
  /** What it is made with besides, once it is made. */
  readonly auth?: CallAuth | null
}

/** As it is stored under `resultVar`. */
export interface HttpResult {
  readonly status?: number
  readonly ok: boolean
  readonly headers: Readonly<Record<string, string>>
  readonly body: unknown
  readonly error?: { readonly type: 'TIMEOUT' | 'NETWORK'; readonly message: string }
}

/** Of a call whose author and whose definition say nothing. */
export const DEFAULT_CALL_TIMEOUT_MS = millis(10_000)

/** Bodies that are longer are not sent. */
const MAX_BODY_LENGTH = 1_048_576
const MAX_URL_LENGTH = 4_096

/** `mapped` is what the mapper of the body gave. */
export function prepareCall(
  call: HttpCall,
  defaults: Definition['http'],
  context: Data,
  mapped: unknown,
): PreparedCall {
  const body = bodyOf(call, context, mapped)
  const own = headersOf(call.headers, context)
  const prepared = {
    method: call.method,
    url: urlOf(call, context),
    headers: own,
    body: body?.text ?? null,
    auth: call.auth ?? null,
  }
  const isJson: Readonly<Record<string, string>> = body?.isJson === true ? { 'Content-Type': 'application/json' } : {}
  return withDefaults(withDefaults(prepared, headersOf(defaults.headers, context)), isJson)
}

/** The call with headers that it does not have yet. Names know no case. */
export function withDefaults(call: PreparedCall, headers: Readonly<Record<string, string>>): PreparedCall {
  const given = new Set(Object.keys(call.headers).map((name) => name.toLowerCase()))
  const missing = Object.entries(headers).filter(([name]) => !given.has(name.toLowerCase()))
  return missing.length === 0 ? call : { ...call, headers: { ...call.headers, ...Object.fromEntries(missing) } }
}

function headersOf(written: Readonly<Record<string, string>>, context: Data): Record<string, string> {
  return Object.fromEntries(
    Object.entries(written).map(([name, text]) => {
      const value = interpolate(text, context, 'header')
      if (canBeSent(value)) return [name, value]
      throw new RunFault('RUNTIME_BAD_HEADER', `the value of the header ${name} has characters that cannot be sent`)
    }),
  )
}

const HEADER_NAME = /^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/
const OF_THE_CONNECTION =
  /^(host|connection|content-length|transfer-encoding|keep-alive|upgrade|te|trailer|expect|proxy-.*)$/i

/** What is wrong with a header of a call; null: nothing. */
export function headerProblem(name: string): string | null {
  if (!HEADER_NAME.test(name)) return 'is not the name of a header'
  return OF_THE_CONNECTION.test(name) ? 'belongs to the connection, and cannot be set' : null
}

/** A string is sent as it is, everything else as JSON. Null is nothing to send. */
function bodyOf({ body }: HttpCall, context: Data, mapped: unknown): { text: string; isJson: boolean } | null {
  if (body === null) return null
  const value = 'literal' in body ? interpolateAll(JSON.parse(body.literal), context, MAX_BODY_LENGTH) : mapped
  if (value === null || value === undefined) return null
  const text = typeof value === 'string' ? value : JSON.stringify(value)
  if (text.length > MAX_BODY_LENGTH) throw new RunFault('RUNTIME_TOO_LARGE', 'the body is too large to be sent')
  return { text, isJson: typeof value !== 'string' }
}

// ---- The URL ----

/** Scheme, and who is called; up to the path. */
const ORIGIN = /^https?:\/\/[^/?#@\\\s${}]+(?=[/?#]|$)/i
/** `.` and `..` in each of their spellings: a path is shortened by them. */
const DOTS = /(?<=\/)(?:\.|%2e){1,2}(?=\/|$)/gi

/** What is wrong with a URL of a definition; null: nothing. Who is called is written down, and never comes from data. */
export function urlProblem(url: string): string | null {
  const [error] = placeholdersOf(url).errors
  if (error !== undefined) return error
  // eslint-disable-next-line no-control-regex
  if (/[\x00-\x20\x7f\\]/.test(url)) return 'must not contain blanks, control characters or backslashes'
  if (!/^https?:\/\//i.test(url)) return 'must be absolute, and begin with http:// or https://'
  const authority = /^https?:\/\/([^/?#]*)/i.exec(url)?.[1] ?? ''
  if (authority.includes('${')) return 'must name the host itself: a placeholder may not stand before the path'
  if (authority.includes('@')) return 'must not contain credentials; send them in a header'
  return ORIGIN.test(url) ? null : 'must name a host'
}

function urlOf({ url, params }: HttpCall, context: Data): string {
  const problem = urlProblem(url)
  if (problem !== null) throw new RunFault('RUNTIME_BAD_URL', `the url ${problem}`)
  const made = withoutFragment(interpolate(url, context, 'url'))
  if (dotSegments(made) > dotSegments(withoutFragment(url)))
    throw new RunFault('RUNTIME_BAD_URL', 'a value would change the path of the url: it makes a segment . or ..')
  const query = Object.entries(params).map(
    ([name, value]) =>
      `${encoded(name, name)}=${encoded(interpolate(value, context, 'text'), `the parameter ${name}`)}`,
  )
  const whole = query.length === 0 ? made : `${made}${made.includes('?') ? '&' : '?'}${query.join('&')}`
  if (whole.length > MAX_URL_LENGTH) throw new RunFault('RUNTIME_TOO_LARGE', 'the url becomes too long')
  return whole
}

const withoutFragment = (url: string): string => url.split('#', 1)[0] ?? ''

const dotSegments = (url: string): number => (url.split('?', 1)[0] ?? '').match(DOTS)?.length ?? 0

// ---- The answer ----

/** `headers` with names in lower case, and the text of the body. */
export interface CallAnswer {
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
  readonly body: string
}

export function resultOf({ status, headers, body }: CallAnswer): HttpResult {
  const isJson = /^\s*(application\/json|text\/json|[^;\s]+\+json)\s*(;|$)/i.test(headers['content-type'] ?? '')
  return {
    status,
    ok: status >= 200 && status < 300,
    headers: Object.fromEntries(Object.entries(headers).map(([name, value]) => [headerName(name), value])),
    body: isJson ? parsed(body) : body,
  }
}

/** `content-type` → `Content-Type`: one spelling for expressions to rely on, whatever the other side wrote. */
const headerName = (name: string): string =>
  name.toLowerCase().replace(/(^|-)([a-z])/g, (_, dash: string, letter: string) => dash + letter.toUpperCase())

/** What claims to be JSON and is not, or is nested too deeply to be carried along, stays text. */
function parsed(text: string): unknown {
  if (text.trim() === '') return null
  try {
    return depthExceeds(text, MAX_JSON_DEPTH) ? text : (JSON.parse(text) as unknown)
  } catch {
    return text
  }
}

export function failedResult(type: 'TIMEOUT' | 'NETWORK', message: string): HttpResult {
  return { ok: false, headers: {}, body: null, error: { type, message } }
}

// ---- Trying again ----

export function isRetryable({ status, error }: HttpResult, resilience: Resilience | null): boolean {
  const conditions = resilience?.retryOn ?? []
  if (error !== undefined) return conditions.includes(error.type === 'TIMEOUT' ? 'TIMEOUT' : 'NETWORK_ERROR')
  if (status === 429) return conditions.includes('HTTP_429')
  return status !== undefined && status >= 500 && conditions.includes('HTTP_5XX')
}

/** How long to rest before this attempt; the second is the first that has to. */
export function delayBefore(attempt: number, { backoff }: Resilience, random: Random): Millis {
  const { kind, baseDelayMs, maxDelayMs, jitter } = backoff
  const full = Math.min(maxDelayMs, kind === 'fixed' ? baseDelayMs : baseDelayMs * 2 ** Math.max(0, attempt - 2))
  return millis(Math.round(jitter === 'full' ? random() * full : full))
}
