/**
 * Sockets: node:http in front of the handler, and a fast lane in front of node:http. Reads bodies within bounds, streams
 * answers with backpressure.
 */
import { isUtf8 } from 'node:buffer'
import { randomUUID } from 'node:crypto'
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { once } from 'node:events'
import { LARGEST_BODY, OjsError, type Host } from '@curfew/core'
import { REQUEST_ID, type Handler } from './app.ts'
import { refusal } from './errors.ts'
import { FastLane, KEEP_ALIVE_MS } from './fast-lane.ts'
import { Incoming } from './incoming.ts'
import { isTimed, OJS_MEDIA, type HttpRequest, type HttpResponse } from './message.ts'

type Headers = HttpResponse['headers']

export interface Listener {
  readonly host: string
  readonly port: number
  /** Takes no new connections; ends idle ones; answers what is under way; after `graceMs` closes the rest. */
  close(graceMs: number): Promise<void>
}

export async function listen(handler: Handler, machine: Host, host: string, port: number): Promise<Listener> {
  const server = nodeServer(handler)
  const lane = new FastLane(server, handler, machine)
  server.listen(port, host)
  await once(server, 'listening').catch((error: unknown) => {
    // Its timer would keep the process alive.
    lane.close()
    throw error
  })
  const address = server.address() as AddressInfo
  return { host, port: address.port, close: (graceMs) => close(server, lane, machine, graceMs) }
}

/** Serves every request there is, by node:http alone. */
export function nodeServer(handler: Handler): Server {
  const server = createServer({ keepAliveTimeout: KEEP_ALIVE_MS, headersTimeout: 60_000, requestTimeout: 120_000 })
  // No list of open calls: a Map that every call enters and leaves grows old by its outgrown tables, which hold on to the
  // calls of their time; the collector then cost a tenth of every request.
  server.on('request', (request, response) => {
    const { method = 'GET', headers } = request
    const url = pathOf(request.url ?? '/')
    const incoming = new Incoming(method, url, headers as Record<string, string | undefined>)
    response.on('close', () => {
      // Not after an answer: an abort costs more than the rest of a request (it takes a stack trace).
      if (!response.writableFinished) incoming.abort()
    })
    if (isTimed(url)) {
      incoming.arriving = arriving(request)
      void serve(server, handler, incoming, '', response)
    } else readBody(request, (body) => void serve(server, handler, incoming, body, response))
  })
  return server
}

/** A target may also name the server, as it does towards a proxy (RFC 9112 §3.2.2). */
function pathOf(target: string): string {
  const path = target.replace(/^https?:\/\/[^/?]*/i, '')
  return path.startsWith('?') || path === '' ? `/${path}` : path
}

async function close(server: Server, lane: FastLane, machine: Host, graceMs: number): Promise<void> {
  const closed = once(server, 'close')
  server.close()
  server.closeIdleConnections()
  lane.close()
  // Streams have no end of their own: their readers are told to go, and come back elsewhere.
  const giveUp = machine.setTimer(graceMs, () => {
    server.closeAllConnections()
    lane.closeAll()
  })
  await closed
  giveUp.cancel()
}

async function serve(
  server: Server,
  handler: Handler,
  incoming: Incoming,
  read: string | OjsError,
  response: ServerResponse,
): Promise<void> {
  try {
    if (typeof read === 'string') incoming.body = read
    const { status, headers, body } = typeof read === 'string' ? await handler(incoming) : failed(read, incoming)
    // The connection may have ended meanwhile, be it by what the caller sent behind this request. Node fails an assertion
    // of its own, and the process with it, when such a request is answered while others wait behind it.
    if (!response.req.socket.writable) return
    // Node would keep the connection for a next request, and that would hold up a server that stops.
    // Nor is there a next request behind one of which a part is still to come.
    if (!server.listening || !response.req.complete) response.shouldKeepAlive = false
    const isHead = incoming.method === 'HEAD'
    if (typeof body === 'string') writeText(response, status, headers, body, isHead)
    else await writeStream(response, status, headers, body, isHead)
  } catch {
    response.destroy()
  }
}

/** The same as a promise, for those who begin without it. It never ends when the caller hangs up. */
function arriving(request: IncomingMessage): Promise<string> {
  const body = new Promise<string>((resolve, reject) => {
    readBody(request, (read) => {
      if (typeof read === 'string') resolve(read)
      else reject(read)
    })
  })
  // The call may be answered before, and then nobody asks.
  body.catch(() => {})
  return body
}

/** Gives the body as text, or a refusal; nothing when the caller hangs up before its end. */
function readBody(request: IncomingMessage, done: (body: string | OjsError) => void): void {
  const chunks: Buffer[] = []
  let size = 0
  request.on('data', (chunk: Buffer) => {
    size += chunk.length
    if (size <= LARGEST_BODY) chunks.push(chunk)
    else {
      chunks.length = 0
      // The rest is read and dropped, up to a bound, so that the refusal can be read by the sender.
      if (size > 4 * LARGEST_BODY) request.destroy()
    }
  })
  request.on('end', () => {
    if (size > LARGEST_BODY)
      done(new OjsError('payload_too_large', `The body is larger than ${String(LARGEST_BODY)} bytes.`))
    else done(decode(chunks))
  })
}

function decode(chunks: readonly Buffer[]): string | OjsError {
  const [first] = chunks
  if (first === undefined) return ''
  const bytes = chunks.length === 1 ? first : Buffer.concat(chunks)
  return isUtf8(bytes) ? bytes.toString('utf8') : new OjsError('invalid_payload', 'The body is not valid UTF-8.')
}

/** The application has not seen this call: what every answer has is added here. */
function failed(error: OjsError, { headers: sentHeaders }: HttpRequest): HttpResponse {
  const sent = sentHeaders['x-request-id']
  const requestId = sent !== undefined && REQUEST_ID.test(sent) ? sent : `req_${randomUUID()}`
  const { status = 500, headers = {}, body } = refusal(error, requestId, false)
  const always = { 'Content-Type': OJS_MEDIA, 'OJS-Version': '1.0', 'X-Request-Id': requestId, Connection: 'close' }
  return { status, headers: { ...always, ...headers }, body }
}

function writeText(response: ServerResponse, status: number, headers: Headers, body: string, isHead: boolean): void {
  const fields: string[] = []
  for (const name in headers) fields.push(name, headers[name] ?? '')
  if (status !== 204) fields.push('Content-Length', String(Buffer.byteLength(body)))
  response.writeHead(status, fields)
  if (status !== 204 && !isHead) {
    // Head and body leave as one text; `end(body)` would make two of it, which costs more than all of the above.
    response.cork()
    response.write(body)
    response.uncork()
  }
  response.end()
}

async function writeStream(
  response: ServerResponse,
  status: number,
  headers: Headers,
  body: AsyncIterable<string>,
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
