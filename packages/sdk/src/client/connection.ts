/**
 * One server, and how to speak to it: headers, refusals, tries.
 *
 * A try ends by its answer, by its timeout or by the caller's signal. Only calls that may be repeated are repeated: after
 * no answer, and after 429, 502, 503 and 504 unless the answer says `retryable: false`; never after any other refusal. In
 * between they wait, longer each time and by chance, at least as long as Retry-After says. The server's manifest is read once, on first use.
 */
import { formatDuration, instant, uuidV7, type Host, type Random } from '@curfew/core'
import { toMillis, type Duration } from '../durations.ts'
import { InputError, NetworkError, RequestError, UnsupportedError } from '../errors.ts'
import { nodeHost, systemRandom } from '../host.ts'
import { silentLog, type Log } from '../log.ts'
import { isFine, isPassing, parsed, refusalOf } from './refusal.ts'
import { StaleConnectionError } from './http/http-connection.ts'
import { socketTransport } from './http/socket-transport.ts'
import {
  fetchTransport,
  inProcessTransport,
  type Begun,
  type Fetch,
  type InProcessServer,
  type Transport,
  type TransportRequest,
  type TransportResponse,
} from './transport.ts'
import { backoffMs, onAbort, reasonOf, sleep } from '../waiting.ts'
import type { Manifest } from '../wire/server.ts'

export interface ConnectionSettings {
  /** Clocks and timers; those of the machine unless a test brings its own. */
  readonly host?: Host
  readonly random?: Random
  readonly log?: Log
  /** How long one try may take: 30 s unless set. */
  readonly timeout?: Duration
  /** How often a call that may be repeated is tried again: 5 times unless set. */
  readonly retries?: number
  /** Speak for this tenant only: jobs are enqueued as its own, and those of others are not seen. */
  readonly tenant?: string
}

export interface HttpOptions extends ConnectionSettings {
  readonly url: string
  readonly token?: string
  readonly fetch?: Fetch
}

export interface InProcessOptions extends ConnectionSettings {
  /** A server in the same process. */
  readonly server: InProcessServer
  readonly token?: string
}

export type ConnectOptions = HttpOptions | InProcessOptions

export interface Call {
  readonly method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE'
  readonly path: string
  readonly query?: Readonly<Record<string, string | number | boolean | null | undefined>>
  readonly body?: unknown
  /** The body as JSON text already. */
  readonly json?: string
  /** Besides those that every call has, or in their place. */
  readonly headers?: Readonly<Record<string, string>>
  /** Saying it twice is the same as saying it once. */
  readonly idempotent: boolean
  readonly signal?: AbortSignal | undefined
  /** How long one try may take. */
  readonly timeoutMs?: number
}

/** What the server answered in the end, refusals included. */
export interface Answer extends TransportResponse {
  /** How often it was said. Above one, an earlier try may have been heard too. */
  readonly tries: number
}

/** What a server may announce besides the Open Job Spec. */
export type Feature =
  'exchange' | 'orders' | 'long-poll' | 'limits' | 'bulk-enqueue' | 'job-filters' | 'workflows' | 'inbox' | 'job-logs'

const EXTENSION = 'urn:curfew:ext:'
const OJS_MEDIA = 'application/openjobspec+json'
const JSON_MEDIA = 'application/json'
const DEFAULT_TIMEOUT_MS = 30_000
const DEFAULT_RETRIES = 5
/** A Retry-After longer than this is passed to the caller as an error. */
const MAX_RETRY_AFTER_MS = 30_000

/** A server that does not tell what it can do, can do nothing of ours. */
const SAYS_NOTHING: Manifest = { extensions: [], capabilities: {} }

export class Connection {
  readonly host: Host
  readonly random: Random
  readonly log: Log
  readonly #transport: Transport
  readonly #token: string | undefined
  readonly #tenant: string | undefined
  readonly #timeoutMs: number
  readonly #retries: number
  #manifest: Promise<Manifest> | null = null

  constructor(options: ConnectOptions) {
    this.host = options.host ?? nodeHost
    this.random = options.random ?? systemRandom
    this.log = options.log ?? silentLog
    this.#token = options.token
    this.#tenant = options.tenant
    this.#timeoutMs = options.timeout === undefined ? DEFAULT_TIMEOUT_MS : toMillis(options.timeout, 'timeout')
    this.#retries = options.retries ?? DEFAULT_RETRIES
    this.#transport = transportFor(options, this.host)
  }

  /** The answer's JSON. Throws a RequestError when the server refused, a NetworkError when there was no answer. */
  async call<T>(call: Call): Promise<T> {
    const answer = await this.send(call)
    if (!isFine(answer.status)) throw this.refusal(answer)
    return this.read<T>(answer)
  }

  /** As `call`, but a refusal is an answer too. */
  async send(call: Call): Promise<Answer> {
    const request = this.#requestFor(call)
    for (let tries = 1; ; tries += 1) {
      const isLast = !call.idempotent || tries > this.#retries
      let waitMs = 0
      try {
        const response = await this.#try(request, call.timeoutMs ?? this.#timeoutMs, call.signal)
        if (isLast || !isPassing(response.status)) return { ...response, tries }
        const { retryable, retryAfterMs } = this.refusal(response)
        if (!retryable) return { ...response, tries }
        if (retryAfterMs !== null && retryAfterMs > MAX_RETRY_AFTER_MS) return { ...response, tries }
        waitMs = retryAfterMs ?? 0
        this.log.debug({ path: call.path, tries, status: response.status }, 'the server asked for another try')
      } catch (error) {
        if (isLast || !(error instanceof NetworkError)) throw error
        this.log.debug({ path: call.path, tries, err: error.message }, 'no answer; trying again')
        // The server had closed the connection, as servers do with idle ones; opening a new one is cheap.
        if (error.cause instanceof StaleConnectionError) continue
      }
      // On top of what the server asked for, so that not all come back in the same instant.
      await sleep(this.host, waitMs + backoffMs(tries, this.random), call.signal)
    }
  }

  /** The chunks of a stream. It ends with the signal; a try to open it is one try. */
  async stream(
    path: string,
    headers: Readonly<Record<string, string>>,
    signal: AbortSignal,
  ): Promise<AsyncIterable<string>> {
    const request = this.#requestFor({ method: 'GET', path, idempotent: true })
    const asked = { ...request, headers: { ...request.headers, accept: 'text/event-stream', ...headers } }
    if (signal.aborted) throw reasonOf(signal)
    const begun = this.#transport.begin(asked)
    const unhook = onAbort([signal], () => {
      begun.abort(reasonOf(signal))
    })
    try {
      const response = await this.#answerTo(begun, this.#timeoutMs, signal)
      if (!isFine(response.status)) throw this.refusal(response)
      if (typeof response.body === 'string') throw new UnsupportedError('The server has no stream of events here.')
      return untilGone(response.body, unhook)
    } catch (error) {
      unhook()
      throw error
    }
  }

  refusal(answer: TransportResponse): RequestError {
    return refusalOf(answer, this.host.wallMs())
  }

  /** The JSON of an answer that should have some. */
  read<T>({ body, status }: TransportResponse): T {
    if (body === '') return undefined as T
    const value = typeof body === 'string' ? parsed(body) : undefined
    if (value === undefined)
      throw new NetworkError(`The answer (${String(status)}) is not JSON. Is this a Curfew server?`)
    return value as T
  }

  /** What the server says it can do. Asked once, however many want to know; asked again after a failure. */
  manifest(): Promise<Manifest> {
    this.#manifest ??= this.#askForManifest().catch((error: unknown) => {
      this.#manifest = null
      throw error
    })
    return this.#manifest
  }

  async supports(feature: Feature): Promise<boolean> {
    const { extensions } = await this.manifest()
    return extensions.includes(`${EXTENSION}${feature}`)
  }

  /** The server did not do what it had announced: another one may be answering now. */
  forgetManifest(): void {
    this.#manifest = null
  }

  /** Connections are closed: idle ones now, the others when their calls are over. A call that still comes is made. */
  close(): void {
    this.#transport.close()
  }

  /** A new id, in the order of time. */
  newId(): string {
    return uuidV7(instant(this.host.wallMs()), this.random)
  }

  async #askForManifest(): Promise<Manifest> {
    const answer = await this.send({ method: 'GET', path: '/ojs/manifest', idempotent: true })
    if (answer.status === 404) return SAYS_NOTHING
    if (!isFine(answer.status)) throw this.refusal(answer)
    const told = this.read<Partial<Manifest> | null>(answer)
    return { ...SAYS_NOTHING, ...told, extensions: Array.isArray(told?.extensions) ? told.extensions : [] }
  }

  #requestFor({ method, path, query, body, json, headers: own = {} }: Call): Omit<TransportRequest, 'signal'> {
    const media = path.startsWith('/api/') ? JSON_MEDIA : OJS_MEDIA
    const headers: Record<string, string> = {
      accept: media,
      'ojs-version': '1.0',
      'x-request-id': `req_${this.newId()}`,
    }
    if (method !== 'GET') headers['content-type'] = media
    if (this.#token !== undefined) headers['authorization'] = `Bearer ${this.#token}`
    if (this.#tenant !== undefined) headers['x-ojs-tenant'] = this.#tenant
    return {
      method,
      url: `${path}${queryText(query)}`,
      headers: { ...headers, ...lowerCased(own) },
      body: json ?? (body === undefined ? '' : JSON.stringify(body)),
    }
  }

  async #try(
    request: Omit<TransportRequest, 'signal'>,
    timeoutMs: number,
    signal: AbortSignal | undefined,
  ): Promise<TransportResponse> {
    if (signal?.aborted === true) throw reasonOf(signal)
    return this.#answerTo(this.#transport.begin(request), timeoutMs, signal)
  }

  #answerTo(begun: Begun, timeoutMs: number, signal: AbortSignal | undefined): Promise<TransportResponse> {
    return new Promise((resolve, reject) => {
      const timer = this.host.setTimer(timeoutMs, () => {
        giveUp(new NetworkError(`No answer within ${formatDuration(timeoutMs)}.`))
      })
      const unhook = onAbort([signal], () => {
        giveUp(reasonOf(signal))
      })
      const finish = (): void => {
        timer.cancel()
        unhook()
      }
      // A server in the same process may ignore the signal; its answer is dropped.
      const giveUp = (reason: Error): void => {
        finish()
        reject(reason)
        begun.abort(reason)
      }
      begun.answer.then(
        (response) => {
          finish()
          resolve(response)
        },
        (error: Error) => {
          finish()
          reject(error)
        },
      )
    })
  }
}

/** Sockets of our own, unless the application brings a `fetch`, which then does everything. */
function transportFor(options: ConnectOptions, host: Host): Transport {
  if ('server' in options) return inProcessTransport(options.server)
  const url = checkedUrl(options.url)
  return options.fetch === undefined ? socketTransport(url, host) : fetchTransport(url, options.fetch)
}

function checkedUrl(url: string): string {
  const given: unknown = url
  if (typeof given !== 'string' || !/^https?:\/\/[^\s]+$/.test(given)) {
    throw new InputError(`url must be an address such as 'http://127.0.0.1:8080'.`, { field: 'url' })
  }
  return given
}

const lowerCased = (headers: Readonly<Record<string, string>>): Record<string, string> =>
  Object.fromEntries(Object.entries(headers).map(([name, value]) => [name.toLowerCase(), value]))

function queryText(query: Call['query']): string {
  const text = new URLSearchParams()
  for (const [key, value] of Object.entries(query ?? {}))
    if (value !== undefined && value !== null) text.set(key, String(value))
  return text.size === 0 ? '' : `?${text.toString()}`
}

async function* untilGone(chunks: AsyncIterable<string>, over: () => void): AsyncGenerator<string> {
  try {
    yield* chunks
  } finally {
    over()
  }
}
