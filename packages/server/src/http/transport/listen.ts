/**
 * Sockets: node:http in front of the handler, and a fast lane in front of node:http. Bounds the connections and what is
 * read from them, streams answers with backpressure. The handler is called when the head of a request is there, and asks
 * for the body itself: what it refuses by the head is never held.
 */
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import { createServer as createTlsServer } from 'node:https'
import type { AddressInfo, Socket } from 'node:net'
import { once } from 'node:events'
import type { Host, Timer } from '@curfew/core'
import type { Log } from '../../engine/kernel/context.ts'
import type { Handler } from '../api/app.ts'
import { FastLane, KEEP_ALIVE_MS } from './fast-lane.ts'
import { FirstByte } from './first-byte.ts'
import { HeldBytes } from './held-bytes.ts'
import { Incoming } from './incoming.ts'
import { MAX_AT_ONCE, piecesOf } from './large-answer.ts'
import type { HttpResponse } from '../api/message.ts'
import { refusedHead } from './odd-head.ts'
import { RequestBody } from './request-body.ts'

type Headers = HttpResponse['headers']

export interface Listener {
  readonly host: string
  readonly port: number
  /** Takes no new connections; ends idle ones; answers what is under way; after `graceMs` closes the rest. */
  close(graceMs: number): Promise<void>
}

export interface ListenOptions {
  readonly maxConnections: number
  readonly log: Pick<Log, 'warn'>
  /** Callers speak TLS, and are shown this certificate. */
  readonly certificate?: Certificate
}

/** A certificate with its key, which may be replaced while the server runs. */
export interface Certificate {
  readonly current: KeyPair
  /** Calls with each new one, until the returned function is called. */
  follow(apply: (pair: KeyPair) => void): () => void
}

/** As PEM. */
export interface KeyPair {
  readonly cert: Buffer
  readonly key: Buffer
}

/** Of all bodies that are being read at a time. */
const MAX_BODY_BYTES = 64 * 1024 * 1024
/** How long a caller that was answered early may be silent before its connection is closed. */
const LINGER_MS = 1_000
const DROPS_LOGGED_EVERY_MS = 10_000
/** Between the first byte of a connection and the end of its TLS handshake. */
const HANDSHAKE_MS = 10_000

export async function listen(
  handler: Handler,
  machine: Host,
  host: string,
  port: number,
  options: ListenOptions = { maxConnections: 10_000, log: { warn: () => {} } },
): Promise<Listener> {
  const { certificate } = options
  const server = nodeServer(handler, certificate)
  const lane = new FastLane(server, handler, machine)
  const handshakes = certificate === undefined ? null : new Handshakes(server)
  boundConnections(server, machine, options)
  server.listen(port, host)
  await once(server, 'listening').catch((error: unknown) => {
    // Its timer would keep the process alive.
    lane.close()
    throw error
  })
  const address = server.address() as AddressInfo
  return { host, port: address.port, close: (graceMs) => close(server, lane, handshakes, machine, graceMs) }
}

/** Serves every request there is, by node:http alone. */
export function nodeServer(handler: Handler, certificate?: Certificate): Server {
  const server = openServer(certificate)
  // No list of open calls: a Map that every call enters and leaves grows old by its outgrown tables, which hold on to the
  // calls of their time; the collector then cost a tenth of every request.
  const held = new HeldBytes(MAX_BODY_BYTES)
  const take = (request: IncomingMessage, response: ServerResponse, isAnnounced: boolean): void => {
    const { method = 'GET', headers } = request
    const body = new RequestBody(request, held)
    const target = request.url ?? '/'
    const incoming = new Incoming(method, pathOf(target), named(headers as Record<string, string>, target))
    incoming.sinceFirstByteMs = FirstByte.of(request)
    incoming.arriving = () => {
      if (isAnnounced) response.writeContinue()
      return body.text()
    }
    incoming.skipping = () => {
      if (isAnnounced) response.writeContinue()
      return body.skip()
    }
    response.on('close', () => {
      // Not after an answer: an abort costs more than the rest of a request (it takes a stack trace).
      if (!response.writableFinished) incoming.abort()
    })
    const refused = refusedHead(request)
    void serve(server, refused === null ? handler : () => Promise.resolve(refused), incoming, body, response)
  }
  server.on('request', (request, response) => {
    take(request, response, false)
  })
  server.on('checkContinue', (request, response) => {
    take(request, response, true)
  })
  return server
}

function openServer(certificate: Certificate | undefined): Server {
  const times = { keepAliveTimeout: KEEP_ALIVE_MS, headersTimeout: 60_000, requestTimeout: 120_000 }
  if (certificate === undefined) return createServer(times)
  const tls = { handshakeTimeout: HANDSHAKE_MS, minVersion: 'TLSv1.2', ALPNProtocols: ['http/1.1'] } as const
  const server = createTlsServer({ ...times, ...tls, ...certificate.current })
  server.on('listening', () => {
    // Connections that are open keep what they agreed on.
    const forget = certificate.follow((pair) => {
      server.setSecureContext({ ...pair, minVersion: tls.minVersion })
    })
    server.on('close', forget)
  })
  server.on('tlsClientError', (_, socket) => {
    socket.destroy()
  })
  return server
}

/** Connections whose handshake is not over: node:http does not know them yet, and would wait for them when it closes. */
class Handshakes {
  readonly #open = new Set<Socket>()

  constructor(server: Server) {
    server.on('connection', (socket: Socket) => {
      this.#open.add(socket)
      socket.on('close', () => this.#open.delete(socket))
    })
  }

  closeAll(): void {
    for (const socket of this.#open) socket.destroy()
  }
}

/** Connections beyond the bound are closed at once; the log reports their number from time to time. */
function boundConnections(server: Server, machine: Host, { maxConnections, log }: ListenOptions): void {
  server.maxConnections = maxConnections
  let closed = 0
  let timer: Timer | null = null
  const tell = (): void => {
    timer = null
    if (closed === 0) return
    log.warn({ maxConnections, closed }, 'connections beyond --max-connections were closed')
    closed = 0
    timer = machine.setTimer(DROPS_LOGGED_EVERY_MS, tell)
  }
  server.on('drop', () => {
    closed += 1
    if (timer === null) tell()
  })
  server.on('close', () => timer?.cancel())
}

const AUTHORITY = /^https?:\/\/([^/?]*)/i

/**
 * A target may also name the server, as it does towards a proxy (RFC 9112 §3.2.2). Where `Host` names another one, both
 * are kept, as one value that is the name of no server.
 */
function named(headers: Record<string, string | undefined>, target: string): Record<string, string | undefined> {
  const host = target.startsWith('/') ? undefined : AUTHORITY.exec(target)?.[1]
  if (host === undefined || host === headers['host']) return headers
  return { ...headers, host: headers['host'] === undefined ? host : `${host}, ${headers['host']}` }
}

function pathOf(target: string): string {
  const path = target.replace(AUTHORITY, '')
  return path.startsWith('?') || path === '' ? `/${path}` : path
}

async function close(
  server: Server,
  lane: FastLane,
  handshakes: Handshakes | null,
  machine: Host,
  graceMs: number,
): Promise<void> {
  const closed = once(server, 'close')
  server.close()
  server.closeIdleConnections()
  lane.close()
  // Streams do not end by themselves: they are closed, and their readers reconnect elsewhere.
  const giveUp = machine.setTimer(graceMs, () => {
    server.closeAllConnections()
    lane.closeAll()
    handshakes?.closeAll()
  })
  await closed
  giveUp.cancel()
}

async function serve(
  server: Server,
  handler: Handler,
  incoming: Incoming,
  sent: RequestBody,
  response: ServerResponse,
): Promise<void> {
  try {
    const { status, headers, body, isBytes = false } = await handler(incoming)
    // The connection may have ended meanwhile, be it by what the caller sent behind this request. Node fails an assertion
    // of its own, and the process with it, when such a request is answered while others wait behind it.
    if (!response.req.socket.writable) return
    const isEarly = !response.req.complete
    // Node would keep the connection for a next request, and that would hold up a server that stops.
    // Nor is there a next request behind one of which a part is still to come.
    if (!server.listening || isEarly) response.shouldKeepAlive = false
    const isHead = incoming.method === 'HEAD'
    if (typeof body !== 'string') return await writeStream(response, status, headers, body, isHead)
    if (body.length > MAX_AT_ONCE && !isEarly) {
      const sized = { ...headers, 'Content-Length': String(Buffer.byteLength(body)) }
      return await writeStream(response, status, sized, piecesOf(body), isHead)
    }
    writeText(response, status, headers, body, isHead, isBytes ? 'latin1' : 'utf8')
    if (isEarly) endEarly(response, sent)
    else response.end()
  } catch {
    response.destroy()
  }
}

/**
 * Ends our side of a connection on which a part of the request is still to come, and drops that part until the caller ends
 * its side. Closed at once, as Node does after a last answer, it would be reset, and the answer lost.
 */
function endEarly(response: ServerResponse, sent: RequestBody): void {
  const { req: request } = response
  const { socket } = request
  const close = socket.destroySoon.bind(socket)
  socket.destroySoon = () => {
    if (request.complete) return close()
    socket.end()
    socket.setTimeout(LINGER_MS, () => socket.destroy())
  }
  sent.drop(() => {
    if (response.writableFinished) socket.destroy()
  })
  response.end()
}

/** All of it but the end. */
function writeText(
  response: ServerResponse,
  status: number,
  headers: Headers,
  body: string,
  isHead: boolean,
  encoding: 'latin1' | 'utf8',
): void {
  const fields: string[] = []
  for (const name in headers) fields.push(name, headers[name] ?? '')
  if (status !== 204) fields.push('Content-Length', String(Buffer.byteLength(body, encoding)))
  response.writeHead(status, fields)
  if (status === 204 || isHead) return
  // Head and body leave as one text; `end(body)` would make two of it, which costs more than all of the above.
  response.cork()
  response.write(body, encoding)
  response.uncork()
}

async function writeStream(
  response: ServerResponse,
  status: number,
  headers: Headers,
  body: AsyncIterable<string> | Iterable<string>,
  isHead: boolean,
): Promise<void> {
  response.writeHead(status, headers)
  response.flushHeaders()
  if (!isHead) {
    for await (const chunk of body) {
      if (response.destroyed) break
      if (!response.write(chunk)) await drained(response)
    }
  }
  if (response.req.socket.writable) response.end()
}

/** Until the reader has caught up, or is gone. */
function drained(response: ServerResponse): Promise<void> {
  return new Promise((resolve) => {
    const done = (): void => {
      response.off('drain', done)
      response.off('close', done)
      resolve()
    }
    response.on('drain', done)
    response.on('close', done)
  })
}
