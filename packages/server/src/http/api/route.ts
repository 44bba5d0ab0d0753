/** What a route is: a method and a path, the shapes of what it takes, words for the documentation, and its handler. */
import {
  cursorTime,
  iso,
  OjsError,
  readTenantHeader,
  type EnqueueMemory,
  type Fields,
  type JsonSchema,
  type Redaction,
  type Shape,
} from '@curfew/core'
import type { Caller } from '../../engine/access/caller.ts'
import type { Engine } from '../../engine/engine.ts'
import { MAX_LOOKED_AT } from '../../engine/jobs/job-list.ts'
import type { JobCount, JobPage } from '../../store/store.ts'
import type { Door } from './door.ts'
import type { Answer, HttpRequest } from './message.ts'
import { PAGES, type Query, type QueryRead, type QueryShapes } from './query.ts'

export interface ServerInfo {
  readonly version: string
  readonly conformance: boolean
  readonly backend: string
  readonly pid: number
}

export interface Call {
  readonly engine: Engine
  /** Who may call, and who does. */
  readonly door: Door
  readonly caller: Caller
  readonly info: ServerInfo
  readonly params: Readonly<Record<string, string>>
  /** What `Route.query` declares, read already; see `queryOf`. */
  readonly query: Query
  readonly request: HttpRequest
  readonly requestId: string
  /** The body as it was written; empty when there was none. */
  readonly text: string
  /** The body parsed; undefined when there was none. */
  readonly json: unknown
  /** Of all requests to enqueue that this app has read. */
  readonly memory: EnqueueMemory
  /** What this caller is not shown. The answer is blanked behind the route; only what is put into words is blanked by it. */
  readonly redaction: Redaction | null
}

export interface Route {
  readonly method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE'
  readonly path: string
  /** More paths (and methods) for the same thing: older dialects, official SDKs. */
  readonly aliases?: readonly string[]
  /** Paths that a bug of a widespread client produces: served, but not described. */
  readonly quirks?: readonly string[]
  readonly tag: string
  readonly summary: string
  /** The body's shape; `optional` when it may be left out. Without it, a body is never looked at. */
  readonly body?: {
    readonly shape: Shape<unknown>
    readonly optional?: boolean
    /** Taken as text, in one of these forms; without them it is JSON, and parsed. */
    readonly media?: readonly string[]
    /** How many values it may hold, if not `MAX_VALUES`. */
    readonly maxValues?: number
    /** What it is in one of them, where that is not what `shape` says. */
    readonly described?: Readonly<Record<string, JsonSchema>>
  }
  /** Every query parameter there is; the app refuses all others. */
  readonly query?: QueryShapes
  /** Definitions may bind more of them: the handler compares `Query.others` with what its definition binds. */
  readonly bindsQuery?: boolean
  /** Follows `Prefer: return=minimal`. */
  readonly prefersReturn?: boolean
  /** Open even when a token is set. */
  readonly open?: boolean
  readonly answers?: Readonly<Record<number, string>>
  readonly handle: (call: Call) => Promise<Answer> | Answer
}

export function bodyOf<T>(call: Call, shape: Shape<T>): T {
  return shape.read(call.json === undefined ? {} : call.json, '')
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

/** The query as it was declared; `shapes` are those of the route, or some of them. */
export function queryOf<S extends QueryShapes>(call: Call, shapes: S): QueryRead<S> {
  for (const name of Object.keys(shapes)) declaredValue(call, name)
  return call.query.values as QueryRead<S>
}

/** A handler that reads a parameter its route does not declare would never see it: that is a bug. */
function declaredValue({ query }: Call, name: string): unknown {
  if (!Object.hasOwn(query.declared, name))
    throw new OjsError('internal_error', `the route does not declare the query parameter ${name}`)
  return query.values[name]
}

export function queryText(call: Call, name: string): string | null {
  const value = declaredValue(call, name)
  return typeof value === 'string' ? value : null
}

export function queryList(call: Call, name: string): readonly string[] {
  return (declaredValue(call, name) ?? []) as readonly string[]
}

export function queryWhole(call: Call, name: string, min: number, max: number): number | null {
  const value = declaredValue(call, name)
  return typeof value === 'number' ? Math.min(Math.max(value, min), max) : null
}

export interface Paging {
  readonly limit: number
  readonly offset: number
  readonly cursor: string | null
}

/** By those of `limit`, `offset`, `page`, `per_page` and `cursor` that the route declares. */
export function pagingOf({ query }: Call, byDefault: number): Paging {
  const read = query.values as QueryRead<typeof PAGES & { readonly cursor: Shape<string> }>
  const limit = read.limit ?? read.per_page ?? byDefault
  const offset = read.offset ?? ((read.page ?? 1) - 1) * limit
  return { limit, offset, cursor: read.cursor ?? null }
}

export function paginationOf(
  { limit, offset, cursor }: Paging,
  total: number,
  shown: number,
  nextCursor: string | null = null,
): Fields {
  // With a cursor the offset does not say how many items came before.
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

/** Of a list that is searched for: it may be long, and a page may end before it is full. */
export function listPaginationOf(paging: Paging, { total, isExact }: JobCount, { jobs, next }: JobPage): Fields {
  return {
    ...paginationOf(paging, total, jobs.length, next),
    // What is left is known by the cursor alone.
    has_more: next !== null,
    ...(isExact ? {} : { total_is_lower_bound: true }),
    ...(next !== null && jobs.length < paging.limit
      ? { x_looked_at: MAX_LOOKED_AT, x_looked_back_to: iso(cursorTime(next)) }
      : {}),
  }
}
