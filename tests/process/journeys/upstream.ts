/** A service that runs call, on real sockets, which answers as badly as a test wants. Closed when its test is done. */
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo, Socket } from 'node:net'
import { onTestFinished } from 'vitest'

export interface Seen {
  readonly method: string
  readonly path: string
  readonly headers: Readonly<Record<string, string>>
  readonly body: string
  readonly at: number
  /** When the caller was gone, before it had all of the answer. */
  hungUpAt: number | null
}

export type React = (response: ServerResponse, seen: Seen, socket: Socket) => void

export class Upstream {
  readonly seen: Seen[] = []
  readonly url: string
  readonly port: number

  private constructor(port: number) {
    this.port = port
    this.url = `http://127.0.0.1:${String(port)}`
  }

  static async open(react: React): Promise<Upstream> {
    let upstream: Upstream | null = null
    const server = createServer((request, response) => {
      void bodyOf(request).then((body) => {
        const { method = '', url: path = '', headers } = request
        const seen: Seen = {
          method,
          path,
          headers: headers as Record<string, string>,
          body,
          at: Date.now(),
          hungUpAt: null,
        }
        response.on('close', () => {
          if (!response.writableFinished) seen.hungUpAt = Date.now()
        })
        upstream?.seen.push(seen)
        react(response, seen, request.socket)
      })
    })
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    onTestFinished(async () => {
      server.closeAllConnections()
      await new Promise((resolve) => server.close(resolve))
    })
    upstream = new Upstream((server.address() as AddressInfo).port)
    return upstream
  }
}

async function bodyOf(request: IncomingMessage): Promise<string> {
  let body = ''
  request.setEncoding('utf8')
  for await (const chunk of request) body += chunk as string
  return body
}

export const json =
  (value: unknown, status = 200): React =>
  (response) =>
    response.writeHead(status, { 'Content-Type': 'application/json' }).end(JSON.stringify(value))

/** An answer that begins at once, and never ends. */
export const drips: React = (response) => {
  response.writeHead(200, { 'Content-Type': 'application/json' })
  const timer = setInterval(() => response.write(' '), 20)
  response.on('close', () => {
    clearInterval(timer)
  })
}

/** Not even an answer that begins. */
export const silent: React = () => {}

/** Headers without end. */
export const dripsHeaders: React = (_, seen, socket) => {
  socket.write('HTTP/1.1 200 OK\r\n')
  const timer = setInterval(() => socket.write('X-A: b\r\n'), 20)
  socket.on('error', () => {})
  socket.on('close', () => {
    clearInterval(timer)
    seen.hungUpAt = Date.now()
  })
}

/** As many bytes as the caller takes. */
export const floods: React = (response) => {
  response.writeHead(200, { 'Content-Type': 'text/plain' })
  const chunk = 'x'.repeat(65_536)
  const more = (): void => {
    if (response.destroyed) return
    if (response.write(chunk)) setImmediate(more)
    else response.once('drain', more)
  }
  more()
}
