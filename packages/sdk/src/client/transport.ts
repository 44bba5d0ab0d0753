/**
 * How a call reaches a server: over HTTP, or straight into a server in the same process. Both are one function from a
 * call to an answer, so everything above works the same on either.
 */
import { NetworkError } from '../errors.ts'

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

/** A call that has been made. */
export interface Begun {
  /** Rejects with a NetworkError when there is no answer, and with the reason after `abort`. */
  readonly answer: Promise<TransportResponse>
  /** The caller gives up. Does nothing once the answer is there, unless that is a stream: it ends. */
  abort(reason: Error): void
}

export interface Transport {
  /** Throws an InputError where the call cannot be sent as it is. */
  begin(request: Omit<TransportRequest, 'signal'>): Begun
  /** Nothing is kept open any longer than the calls under way. */
  close(): void
}

/** A server in the same process: what `openServer()` of the package `curfew` gives. */
export interface InProcessServer {
  readonly handler: (request: TransportRequest) => Promise<TransportResponse>
}

export type Fetch = (url: string, init: RequestInit) => Promise<Response>

/** Through a `fetch` that the application has given: a proxy, certificates or a pool of its own. */
export function fetchTransport(baseUrl: string, fetch: Fetch): Transport {
  const base = baseUrl.replace(/\/+$/, '')
  return withSignals(async ({ method, url, headers, body, signal }) => {
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
  })
}

export function inProcessTransport(server: InProcessServer): Transport {
  return withSignals(async (request) => {
    if (request.signal.aborted) throw request.signal.reason
    const response = await answerOf(server, request)
    const headers: Record<string, string> = {}
    for (const [name, value] of Object.entries(response.headers)) headers[name.toLowerCase()] = value
    return { ...response, headers }
  })
}

/** Of something that is aborted by a signal. */
function withSignals(send: (request: TransportRequest) => Promise<TransportResponse>): Transport {
  return {
    begin: (request) => {
      const controller = new AbortController()
      return {
        answer: send({ ...request, signal: controller.signal }),
        abort: (reason) => {
          controller.abort(reason)
        },
      }
    },
    close: () => {},
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

export function unreachable(base: string, error: unknown): NetworkError {
  const reason = reasonIn(error)
  return new NetworkError(`No answer from ${base}: ${reason}. Is the server running, and is the address right?`, error)
}

/** A `fetch` hides the reason in its cause; where several addresses were tried, each has its own. */
function reasonIn(error: unknown): string {
  const cause = error instanceof Error && error.cause instanceof Error ? error.cause : error
  if (cause instanceof AggregateError && cause.message === '') return cause.errors.map(reasonIn).join('; ')
  return cause instanceof Error ? cause.message : String(cause)
}
