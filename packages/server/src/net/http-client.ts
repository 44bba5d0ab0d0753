/**
 * The one way this server calls others over HTTP.
 *
 *   URL ─→ http(s), no credentials ─→ resolved once ─→ every address checked ─→ connected to what was checked
 *
 * Names are resolved inside the connection (undici asks `lookup`), so there is no second look that could answer
 * differently. An address written into the URL is never looked up, and is checked before. Connections are kept for a
 * few seconds; a kept one leads to an address that was checked. Redirects are not followed, answers are not unpacked, and
 * at most so many bytes are read of one: the rest is dropped with its connection. Proxies named in the environment are
 * not used.
 */
import { lookup as systemLookup, type LookupAddress } from 'node:dns'
import { isIP, type LookupFunction } from 'node:net'
import { headerProblem } from '@curfew/core'
import { Agent, errors, request } from 'undici'
import {
  BLOCKED,
  BLOCKED_METADATA,
  CallFailed,
  CallRefused,
  type OutgoingAnswer,
  type OutgoingCall,
  type Send,
} from '../engine/outgoing.ts'
import { isMetadataAddress, isPublicAddress } from './private-network.ts'

export interface HttpClientOptions {
  /** Allows every address but those of metadata services. */
  readonly allowPrivateNetwork: boolean
  /** How names become addresses; the system's way, if it is left out. */
  readonly resolve?: (host: string) => Promise<readonly LookupAddress[]>
}

export interface HttpClient {
  readonly send: Send
  /** Calls under way fail. */
  close(): void
}

/** A host that takes no connection within this time will not. */
const CONNECT_MS = 10_000
const KEPT_MS = 4_000
/** To one origin. Who waits for one has his time running: a few slow answers must not hold up everybody else. */
const MAX_CONNECTIONS = 256
const MAX_URL = 4_096

export function openHttpClient({ allowPrivateNetwork, resolve = resolveBySystem }: HttpClientOptions): HttpClient {
  const guard: Guard = (address) => {
    if (isMetadataAddress(address)) return BLOCKED_METADATA
    return allowPrivateNetwork || isPublicAddress(address) ? null : BLOCKED
  }
  const agent = new Agent({
    connections: MAX_CONNECTIONS,
    pipelining: 1,
    keepAliveTimeout: KEPT_MS,
    keepAliveMaxTimeout: KEPT_MS,
    // One deadline for all of it: the signal.
    headersTimeout: 0,
    bodyTimeout: 0,
    connect: { timeout: CONNECT_MS, lookup: checkedLookup(resolve, guard) },
  })
  return {
    send: (call) => exchange(agent, guard, call),
    // Not waited for: a name that is still being looked up would hold it for as long as that takes.
    close: () => void agent.destroy(),
  }
}

/** Why this address is not called; null when it may be. */
type Guard = (address: string) => string | null

async function exchange(agent: Agent, guard: Guard, call: OutgoingCall): Promise<OutgoingAnswer> {
  const url = callable(call.url)
  const host = url.hostname.replace(/^\[|\]$/g, '')
  const refused = isIP(host) === 0 ? null : guard(host)
  if (refused !== null) throw new CallRefused(refused)
  checkHeaders(call.headers)
  try {
    const { signal } = call
    const answer = request(url, {
      dispatcher: agent,
      method: call.method as 'POST',
      headers: call.headers,
      body: call.body,
      signal,
    })
    const { statusCode, headers, body } = await untilAborted(answer, signal)
    const { text, truncated } = await readAtMost(body, call.mostBytes)
    return { status: statusCode, headers: joined(headers), body: text, truncated }
  } catch (error) {
    throw told(error, call.signal)
  }
}

/** undici hears the signal only once it is connected; a request that is aborted before is not sent afterwards. */
async function untilAborted<T>(answer: Promise<T>, signal: AbortSignal): Promise<T> {
  let abort = (): void => {}
  const aborted = new Promise<never>((_, reject) => {
    abort = () => {
      reject(new Error('aborted'))
    }
    signal.addEventListener('abort', abort, { once: true })
    if (signal.aborted) abort()
  })
  try {
    return await Promise.race([answer, aborted])
  } finally {
    signal.removeEventListener('abort', abort)
    // The outcome of the loser is dropped.
    answer.catch(() => {})
    aborted.catch(() => {})
  }
}

/** Only what can be called at all; whether it may be is decided by its addresses. */
export function callable(text: string): URL {
  if (text.length > MAX_URL || !URL.canParse(text)) throw new CallRefused('the URL cannot be read')
  const url = new URL(text)
  if (url.protocol !== 'http:' && url.protocol !== 'https:') throw new CallRefused('only http and https can be called')
  if (url.username !== '' || url.password !== '') throw new CallRefused('credentials do not belong into a URL')
  url.hash = ''
  return url
}

const HEADER_VALUE = /^[\t\x20-\x7e\x80-\xff]*$/

export function checkHeaders(headers: Readonly<Record<string, string>>): void {
  for (const [name, value] of Object.entries(headers)) {
    if (headerProblem(name) !== null)
      throw new CallRefused(`the header ${JSON.stringify(name.slice(0, 100))} cannot be sent`)
    if (!HEADER_VALUE.test(value))
      throw new CallRefused(`the value of the header ${name} has characters that cannot be sent`)
  }
}

function checkedLookup(resolve: Required<HttpClientOptions>['resolve'], guard: Guard): LookupFunction {
  return (host, options, callback) => {
    resolve(host).then(
      (found) => {
        const wanted = found.filter(({ family }) =>
          options.family === 4 || options.family === 6 ? family === options.family : true,
        )
        const [first] = wanted
        // One address that must not be called is enough: the next answer might begin with it.
        const refused = found.map(({ address }) => guard(address)).find((reason) => reason !== null)
        if (refused !== undefined) callback(new CallRefused(refused), '')
        else if (first === undefined)
          callback(Object.assign(new Error(`${host} has no address`), { code: 'ENOTFOUND' }), '')
        else if (options.all === true) callback(null, [...wanted])
        else callback(null, first.address, first.family)
      },
      (error: unknown) => {
        callback(error as NodeJS.ErrnoException, '')
      },
    )
  }
}

function resolveBySystem(host: string): Promise<readonly LookupAddress[]> {
  return new Promise((resolve, reject) => {
    systemLookup(host, { all: true }, (error, addresses) => {
      if (error === null) resolve(addresses)
      else reject(error)
    })
  })
}

async function readAtMost(
  body: AsyncIterable<Buffer> & { destroy(): unknown },
  most: number,
): Promise<{ text: string; truncated: boolean }> {
  const chunks: Buffer[] = []
  let size = 0
  for await (const chunk of body) {
    chunks.push(chunk)
    size += chunk.length
    // Leaving the loop destroys the body, and with it the connection.
    if (size > most) break
  }
  const text = new TextDecoder().decode(Buffer.concat(chunks).subarray(0, most))
  return { text, truncated: size > most }
}

function joined(headers: Readonly<Record<string, string | string[] | undefined>>): Record<string, string> {
  const read: Record<string, string> = {}
  for (const [name, value] of Object.entries(headers))
    if (value !== undefined) read[name] = typeof value === 'string' ? value : value.join(', ')
  return read
}

/** Refusals pass as they are; everything else becomes a word for people. */
function told(error: unknown, signal: AbortSignal): Error {
  if (error instanceof CallRefused) return error
  if (signal.aborted) return new CallFailed('the time was up', error)
  if (error instanceof errors.ConnectTimeoutError) return new CallFailed('no connection within the time', error)
  if (error instanceof errors.HeadersOverflowError)
    return new CallFailed('the headers of the answer are too long', error)
  const code = codeOf(error)
  return new CallFailed(
    code === null ? 'the connection broke' : (WORDS[code] ?? `the connection broke (${code})`),
    error,
  )
}

const WORDS: Readonly<Record<string, string>> = {
  ENOTFOUND: 'the host is not known',
  EAI_AGAIN: 'the host could not be looked up',
  ECONNREFUSED: 'the connection was refused',
  ECONNRESET: 'the connection was reset',
  EHOSTUNREACH: 'the host cannot be reached',
  ENETUNREACH: 'the network cannot be reached',
  UND_ERR_SOCKET: 'the other side closed the connection',
}

function codeOf(error: unknown): string | null {
  const code: unknown = typeof error === 'object' && error !== null && 'code' in error ? error.code : null
  return typeof code === 'string' && /^[A-Z0-9_]{1,64}$/.test(code) ? code : null
}
