/**
 * Calls to the server. One place knows who is signed in, when the server was last heard, and what its clock says: every answer
 * tells it in `Date`, the board's own answers to the millisecond.
 */
import { batch, signal } from '@preact/signals'
import { href } from './router.ts'
import { learnServerTime, monotonicMs } from './time.ts'

export class ApiError extends Error {
  readonly status: number
  readonly code: string
  readonly hint: string | null

  constructor(status: number, code: string, message: string, hint: string | null) {
    super(message)
    this.status = status
    this.code = code
    this.hint = hint
  }
}

/** When the last answer came, on the clock of this page; null: none yet. */
export const heardAt = signal<number | null>(null)
/** The server asks for a token, or refused the one it got. */
export const mustSignIn = signal(false)

/** Who the server takes this browser for. `roles` says what to show. */
export interface Session {
  readonly authenticated: boolean
  readonly token_required: boolean
  readonly name: string | null
  readonly roles: readonly string[]
}

export const session = signal<Session | null>(null)

/** What may not be done is not offered; the server refuses it in any case. */
export const may = (role: 'produce' | 'operate' | 'admin'): boolean => session.value?.roles.includes(role) === true

export async function learnSession(): Promise<void> {
  const told = await get<Session>('/api/v1/session')
  batch(() => {
    session.value = told
    mustSignIn.value = told.token_required && !told.authenticated
  })
}

/** Exchanges the token for a cookie that scripts cannot read; the token itself is kept nowhere. */
export async function signIn(token: string): Promise<void> {
  await ask('POST', '/api/v1/session', undefined, undefined, { Authorization: `Bearer ${token}` })
  await learnSession()
}

export async function signOut(): Promise<void> {
  await ask('DELETE', '/api/v1/session')
  await learnSession()
}

export type Method = 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE'

/** A call whose answer has not come after this is given up; the page says that the server is silent. */
const PATIENCE_MS = 15_000

export async function call(
  method: Method,
  path: string,
  body?: unknown,
  signal?: AbortSignal,
  more: Readonly<Record<string, string>> = {},
): Promise<Response> {
  const limit = AbortSignal.timeout(PATIENCE_MS)
  const response = await fetch(href(path), {
    method,
    headers: {
      Accept: 'application/json',
      // A page of another origin cannot send this: the server takes changes with a cookie only beside it.
      'X-Curfew-Request': 'board',
      ...more,
      ...(body === undefined ? {} : { 'Content-Type': 'application/json' }),
    },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    signal: signal === undefined ? limit : AbortSignal.any([signal, limit]),
    cache: 'no-store',
  })
  heardAt.value = monotonicMs()
  const date = Date.parse(response.headers.get('Date') ?? '')
  if (!Number.isNaN(date)) learnServerTime(date, 1_000)
  if (response.status === 401) mustSignIn.value = true
  return response
}

/** The answer, or an ApiError with the server's own words. */
export async function ask<T>(
  method: Method,
  path: string,
  body?: unknown,
  signal?: AbortSignal,
  more?: Readonly<Record<string, string>>,
): Promise<T> {
  const response = await call(method, path, body, signal, more)
  const text = await response.text()
  if (!response.ok) throw errorOf(response.status, text)
  return (text === '' ? {} : JSON.parse(text)) as T
}

export const get = <T>(path: string, signal?: AbortSignal): Promise<T> => ask<T>('GET', path, undefined, signal)

interface Refusal {
  readonly error?: { readonly code?: string; readonly message?: string; readonly hint?: string }
  readonly code?: string
  readonly title?: string
  readonly detail?: string
  readonly hint?: string
}

function errorOf(status: number, text: string): ApiError {
  try {
    const told = JSON.parse(text) as Refusal
    const { code, message, hint } = told.error ?? {
      code: told.code,
      message: told.detail ?? told.title,
      hint: told.hint,
    }
    return new ApiError(
      status,
      code ?? String(status),
      message ?? `The server answered ${String(status)}.`,
      hint ?? null,
    )
  } catch {
    return new ApiError(status, String(status), `The server answered ${String(status)}.`, null)
  }
}

/** A query string without what is empty. */
export function queryOf(parameters: Readonly<Record<string, string | number | null | undefined>>): string {
  const query = new URLSearchParams()
  for (const [name, value] of Object.entries(parameters))
    if (value !== null && value !== undefined && value !== '') query.set(name, String(value))
  const text = query.toString()
  return text === '' ? '' : `?${text}`
}

/** Frames of a stream of events, until it ends or is given up. */
export async function follow(
  path: string,
  signal: AbortSignal,
  heard: (event: string, data: string) => void,
): Promise<void> {
  const response = await fetch(href(path), {
    headers: {
      Accept: 'text/event-stream',
    },
    signal,
    cache: 'no-store',
  })
  if (!response.ok || response.body === null) throw errorOf(response.status, await response.text())
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader()
  let rest = ''
  for (;;) {
    const { done, value } = await reader.read()
    if (done) return
    heardAt.value = monotonicMs()
    const frames = (rest + value).split(/\r?\n\r?\n/)
    rest = frames.pop() ?? ''
    for (const frame of frames) {
      const lines = frame.split(/\r?\n/)
      const member = (name: string): string =>
        lines
          .filter((line) => line.startsWith(`${name}:`))
          .map((line) => line.slice(name.length + 1).replace(/^ /, ''))
          .join('\n')
      if (member('data') !== '') heard(member('event'), member('data'))
    }
  }
}
