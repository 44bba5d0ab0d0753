/**
 * A call and its answer as plain data. The handler of the whole API is a function from one to the other; sockets are
 * one way to reach it (`listen.ts`), a direct call in the same process is another.
 */
import type { Json } from '@curfew/core'

export interface HttpRequest {
  readonly method: string
  /** Path and query, as in the request line. */
  readonly url: string
  /** Names in lower case. */
  readonly headers: Readonly<Record<string, string | undefined>>
  /** The body as text; empty when there was none. */
  readonly body: string
  /** Reads the body of a call that is served before it is there; `body` is empty then. Rejects with a refusal. */
  readonly arriving?: () => Promise<string>
  /** Reads it as well, but keeps nothing: whether there was one. Rejects with a refusal. */
  readonly skipping?: () => Promise<boolean>
  /** How long ago its first byte came; not known of a call in the same process. */
  readonly sinceFirstByteMs?: (() => number) | undefined
  /** Aborted when the caller hangs up. */
  readonly signal: AbortSignal
  /** Calls this if the caller hangs up before the answer was written. Only sockets know. */
  ifUndelivered?(act: () => void): void
  /** Called with the answer before it may be sent, so that the caller can prepare. */
  prepare?(response: HttpResponse): void
}

/** Calls whose budget starts with the request line: the time their body takes to arrive counts. */
export function isTimed(url: string): boolean {
  return url.startsWith('/api/v1/apis/')
}

export interface HttpResponse {
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
  /** Text, or a stream of text. */
  readonly body: string | AsyncIterable<string>
  /** `body` is bytes, one in each sign: a file that was compressed when it was built. */
  readonly isBytes?: boolean
}

/** The whole API as one function. */
export type Handler = (request: HttpRequest) => Promise<HttpResponse>

/** What a route answers; the application adds the headers every answer has. */
export interface Answer {
  readonly status?: number
  readonly headers?: Readonly<Record<string, string>>
  /** JSON text, or the chunks of a stream. */
  readonly body: Json | AsyncIterable<string>
  readonly media?: string
  readonly isBytes?: boolean
  /** The answer is sent only after this resolves, and not at all if it rejects. */
  readonly durable?: Promise<void>
}

export const OJS_MEDIA = 'application/openjobspec+json'
export const JSON_MEDIA = 'application/json'
/** For clients that read an answer only if its content type has the words `application/json` in it. */
export const ALIASED_MEDIA = `${OJS_MEDIA}; alias="${JSON_MEDIA}"`
export const PROBLEM_MEDIA = 'application/problem+json'

/** One object of all these members, in their order; their values are JSON text already. */
export function objectOf(...members: readonly Readonly<Record<string, Json | undefined>>[]): Json {
  let text = ''
  for (const some of members) {
    for (const key in some) {
      const value = some[key]
      if (value !== undefined) text += `${text === '' ? '' : ','}${JSON.stringify(key)}:${value}`
    }
  }
  return `{${text}}`
}

export function arrayOf(values: readonly Json[]): Json {
  return `[${values.join(',')}]`
}
