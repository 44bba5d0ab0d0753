/** Sockets: node:http in front of the handler. Reads bodies within bounds, streams answers with backpressure. */
import { isUtf8 } from 'node:buffer'
import { randomUUID } from 'node:crypto'
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { once } from 'node:events'
import { OjsError, type Host } from '@curfew/core'
import { REQUEST_ID, type Handler } from './app.ts'
import { refusal } from './errors.ts'
import { OJS_MEDIA, type HttpResponse } from './message.ts'

/** Bodies above this are refused. */
export const LARGEST_BODY = 10 * 1024 * 1024

export interface Listener {
  readonly host: string
  readonly port: number
  /** Takes no new connections; ends idle ones; answers what is under way; after `graceMs` closes the rest. */
  close(graceMs: number): Promise<void>
}

export async function listen(handler: Handler, machine: Host, host: string, port: number): Promise<Listener> {
  const server = createServer({ keepAliveTimeout: 65_000, headersTimeout: 60_000, requestTimeout: 120_000 })
  const open = new Map<ServerResponse, HangUp>()
  server.on('request', (request, response) => {
    const hangUp = new HangUp()
    open.set(response, hangUp)
    if (!server.listening) response.shouldKeepAlive = false
    response.on('close', () => {
      open.delete(response)
      // Not after an answer: an abort costs more than the rest of a request (it takes a stack trace).
      if (!response.writableFinished) hangUp.abort()
    })
    serve(handler, request, response, hangUp).catch(() => {
      response.destroy()
    })
  })
  server.listen(port, host)
  await once(server, 'listening')
  const address = server.address() as AddressInfo
  return { host, port: address.port, close: (graceMs) => close(server, machine, open, graceMs) }
}

/** Whether the caller has hung up. The signal is made only for those who ask: most calls are over before anybody would. */
class HangUp {
  #controller: AbortController | null = null
  #gone = false

  get signal(): AbortSignal {
    this.#controller ??= new AbortController()
    if (this.#gone) this.#controller.abort()
    return this.#controller.signal
  }

  abort(): void {
    this.#gone = true
    this.#controller?.abort()
  }
}

async function close(
  server: Server,
  machine: Host,
  open: ReadonlyMap<ServerResponse, HangUp>,
  graceMs: number,
): Promise<void> {
  const closed = once(server, 'close')
  server.close()
  server.closeIdleConnections()
  // Node keeps a connection that was busy just now for the next request, and that would hold us up.
  for (const response of open.keys()) response.shouldKeepAlive = false
  // Streams have no end of their own: their readers are told to go, and come back elsewhere.
  const giveUp = machine.setTimer(graceMs, () => {
    for (const hangUp of open.values()) hangUp.abort()
    server.closeAllConnections()
  })
  await closed
  giveUp.cancel()
}

async function serve(
  handler: Handler,
  request: IncomingMessage,
  response: ServerResponse,
  hangUp: HangUp,
): Promise<void> {
  const body = await readBody(request)
  if (body === null) return
  const answer =
    body instanceof OjsError
      ? failed(body, request)
      : await handler({
          method: request.method ?? 'GET',
          url: request.url ?? '/',
          headers: request.headers as Record<string, string | undefined>,
          body,
          get signal() {
            return hangUp.signal
          },
        })
  await write(answer, request, response)
}

/** The body as text, a refusal, or null when the caller hung up. */
function readBody(request: IncomingMessage): Promise<string | OjsError | null> {
  return new Promise((resolve) => {
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
        resolve(new OjsError('payload_too_large', `The body is larger than ${String(LARGEST_BODY)} bytes.`))
      else resolve(decode(chunks))
    })
    request.on('close', () => {
      resolve(null)
    })
    request.on('error', () => {
      resolve(null)
    })
  })
}

function decode(chunks: readonly Buffer[]): string | OjsError {
  const [first] = chunks
  if (first === undefined) return ''
  const bytes = chunks.length === 1 ? first : Buffer.concat(chunks)
  return isUtf8(bytes) ? bytes.toString('utf8') : new OjsError('invalid_payload', 'The body is not valid UTF-8.')
}

/** The application has not seen this call: what every answer has is added here. */
function failed(error: OjsError, request: IncomingMessage): HttpResponse {
  const sent = request.headers['x-request-id']
  const requestId = typeof sent === 'string' && REQUEST_ID.test(sent) ? sent : `req_${randomUUID()}`
  const { status = 500, headers = {}, body } = refusal(error, requestId, false)
  const always = { 'Content-Type': OJS_MEDIA, 'OJS-Version': '1.0', 'X-Request-Id': requestId, Connection: 'close' }
  return { status, headers: { ...always, ...headers }, body }
}

async function write(answer: HttpResponse, request: IncomingMessage, response: ServerResponse): Promise<void> {
  const { status, headers, body } = answer
  if (typeof body === 'string') {
    response.writeHead(
      status,
      status === 204 ? headers : { ...headers, 'Content-Length': String(Buffer.byteLength(body)) },
    )
    response.end(request.method === 'HEAD' || status === 204 ? undefined : body)
    return
  }
  response.writeHead(status, headers)
  response.flushHeaders()
  if (request.method === 'HEAD') {
    response.end()
    return
  }
  for await (const chunk of body) {
    if (response.destroyed) break
    if (!response.write(chunk)) await drained(response)
  }
  response.end()
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
