/** What a route is: a method and a path, the shapes of what it takes, words for the documentation, and its handler. */
import { badField, OjsError, readTenantHeader, whole, type Fields, type Shape } from '@curfew/core'
import type { Engine } from '../engine/engine.ts'
import type { Answer, HttpRequest } from './message.ts'

export interface ServerInfo {
  readonly version: string
  readonly conformance: boolean
  readonly backend: string
  readonly pid: number
}

export interface Call {
  readonly engine: Engine
  readonly info: ServerInfo
  readonly params: Readonly<Record<string, string>>
  readonly query: URLSearchParams
  readonly request: HttpRequest
  readonly requestId: string
  /** The body as it was written; empty when there was none. */
  readonly text: string
  /** The body parsed; undefined when there was none. */
  readonly json: unknown
}

export interface Route {
  readonly method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE'
  readonly path: string
  /** More paths (and methods) for the same thing: older dialects, official SDKs. */
  readonly aliases?: readonly string[]
  readonly tag: string
  readonly summary: string
  /** The body's shape; `optional` when it may be left out. Without it, a body is never looked at. */
  readonly body?: {
    readonly shape: Shape<unknown>
    readonly optional?: boolean
    /** Taken as text, in one of these forms; without them it is JSON, and parsed. */
    readonly media?: readonly string[]
  }
  readonly query?: Readonly<Record<string, Shape<unknown>>>
  /** Open even when a token is set. */
  readonly open?: boolean
  readonly answers?: Readonly<Record<number, string>>
  readonly handle: (call: Call) => Promise<Answer> | Answer
}

export function bodyOf<T>(call: Call, shape: Shape<T>): T {
  return shape.read(call.json ?? {}, '')
}

export function param(call: Call, name: string): string {
  const value = call.params[name]
  if (value === undefined) throw new OjsError('internal_error', `route without :${name}`)
  return value
}

/** The tenant this call speaks for; null: for none in particular. */
export function tenantOf(call: Call): string | null {
  return readTenantHeader(call.request.headers['x-ojs-tenant'])
}

export function queryText(call: Call, name: string): string | null {
  const value = call.query.get(name)
  return value === null || value === '' ? null : value
}

export function queryList(call: Call, name: string): string[] {
  return (call.query.get(name) ?? '')
    .split(',')
    .map((part) => part.trim())
    .filter((part) => part !== '')
}

export function queryWhole(call: Call, name: string, min: number, max: number): number | null {
  const text = queryText(call, name)
  if (text === null) return null
  if (!/^-?\d{1,15}$/.test(text)) throw badField(name, `${name} must be a whole number.`)
  return whole(min, Number.MAX_SAFE_INTEGER).read(Number(text), name) > max ? max : Number(text)
}

/** `limit`, `offset` and `cursor`, or `page` and `per_page`: both pairs are understood on every list. */
export interface Paging {
  readonly limit: number
  readonly offset: number
  readonly cursor: string | null
}

export function pagingOf(call: Call, byDefault: number): Paging {
  const perPage = queryWhole(call, 'per_page', 1, 100)
  const limit = queryWhole(call, 'limit', 1, 200) ?? perPage ?? byDefault
  const page = queryWhole(call, 'page', 1, 1_000_000)
  const offset = queryWhole(call, 'offset', 0, 100_000_000) ?? (page === null ? 0 : (page - 1) * limit)
  return { limit, offset, cursor: queryText(call, 'cursor') }
}

export function paginationOf(
  { limit, offset, cursor }: Paging,
  total: number,
  shown: number,
  nextCursor: string | null = null,
): Fields {
  // By cursor, the offset says nothing of how far one has come.
  const hasMore = nextCursor !== null || (cursor === null && offset + shown < total)
  return {
    total,
    limit,
    offset,
    has_more: hasMore,
    ...(nextCursor === null ? {} : { next_cursor: nextCursor }),
    page: Math.floor(offset / limit) + 1,
    per_page: limit,
  }
}
