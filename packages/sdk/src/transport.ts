/**
 * How a call reaches a server: over HTTP, or straight into a server in the same process. Both are one function from a
 * call to an answer, so everything above works the same on either.
 */
import { NetworkError } from './errors.ts'

export interface TransportRequest {
  readonly method: string
  /** Path and query. */
  readonly url: string
  readonly headers: Readonly<Record<string, string>>
  /** Text; empty when there is none. */
  readonly body: string
  readonly signal: AbortSignal
}

export interface TransportResponse {
  readonly status: number
  /** Names in lower case. */
  readonly headers: Readonly<Record<string, string>>
  /** Text, or the chunks of a stream of events. */
  readonly body: string | AsyncIterable<string>
}

/** Rejects with a NetworkError when nobody answered, and with the signal's reason when the caller gave up. */
export type Transport = (request: TransportRequest) => Promise<TransportResponse>

/** A server in the same process: what `openServer()` of the package `curfew` gives. */
export interface InProcessServer {
  readonly handler: (request: TransportRequest) => Promise<TransportResponse>
}

export type Fetch = (url: string, init: RequestInit) => Promise<Response>

export function httpTransport(baseUrl: string, fetch: Fetch = globalThis.fetch): Transport {
  const base = baseUrl.replace(/\/+$/, '')
  return async ({ method, url, headers, body, signal }) => {
    try {
      const response = await fetch(`${base}${url}`, {
        method,
        headers,
        signal,
        // A job must not be lost on the way to another address: a redirect is an answer, and a refusal.
        redirect: 'manual',
        ...(body === '' ? {} : { body }),
      })
      const streams = response.headers.get('content-type')?.startsWith('text/event-stream') === true
      return {
        status: response.status,
        headers: Object.fromEntries(response.headers),
        body: streams && response.body !== null ? textOf(response.body, signal) : await response.text(),
      }
    } catch (error) {
      if (signal.aborted) throw signal.reason
      throw unreachable(base, error)
    }
  }
}

export function inProcessTransport(server: InProcessServer): Transport {
  return async (request) => {
    if (request.signal.aborted) throw request.signal.reason
    const response = await answerOf(server, request)
    const headers: Record<string, string> = {}
    for (const [name, value] of Object.entries(response.headers)) headers[name.toLowerCase()] = value
    return { ...response, headers }
  }
}

async function answerOf(server: InProcessServer, request: TransportRequest): Promise<TransportResponse> {
  try {
    return await server.handler(request)
  } catch (error) {
    if (error instanceof NetworkError) throw error
    throw new NetworkError('The server in this process broke.', error)
  }
}

async function* textOf(bytes: ReadableStream<Uint8Array>, signal: AbortSignal): AsyncGenerator<string> {
  const decoder = new TextDecoder()
  try {
    for await (const chunk of bytes as unknown as AsyncIterable<Uint8Array>)
      yield decoder.decode(chunk, { stream: true })
  } catch (error) {
    if (signal.aborted) return
    throw new NetworkError('The stream broke off.', error)
  }
}

function unreachable(base: string, error: unknown): NetworkError {
  const cause = error instanceof Error && error.cause instanceof Error ? error.cause : error
  const reason = cause instanceof Error ? cause.message : String(cause)
  return new NetworkError(`No answer from ${base}: ${reason}. Is the server running, and is the address right?`, error)
}
