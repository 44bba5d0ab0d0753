/** A server that answers with the bytes that a test has written down, whether or not they are HTTP. */
import { createServer, type AddressInfo, type Server, type Socket } from 'node:net'

export interface RawRequest {
  readonly socket: Socket
  readonly head: string
  readonly body: string
  /** Of all requests to this server, from 1 on. */
  readonly count: number
  /** Which connection brought it, from 1 on. */
  readonly connection: number
}

export type Script = (request: RawRequest) => void

export class RawServer {
  readonly requests: RawRequest[] = []
  readonly sockets: Socket[] = []
  readonly #server: Server
  #port = 0
  readonly #waiting: { readonly count: number; readonly resolve: () => void }[] = []

  private constructor(server: Server) {
    this.#server = server
  }

  /** `make` puts another server in front: one that speaks TLS. */
  static async open(
    script: Script,
    host = '127.0.0.1',
    make: (serve: (socket: Socket) => void) => Server = (serve) => createServer(serve),
  ): Promise<RawServer> {
    let raw: RawServer | null = null
    const server = make((socket) => raw?.serve(socket, script))
    raw = new RawServer(server)
    await new Promise<void>((resolve, reject) => {
      server.once('error', reject)
      server.listen(0, host, resolve)
    })
    raw.#port = (server.address() as AddressInfo).port
    return raw
  }

  get url(): string {
    return `http://127.0.0.1:${String(this.#port)}`
  }

  get port(): number {
    return this.#port
  }

  /** Resolves when so many requests have come. */
  async asked(count: number): Promise<void> {
    if (this.requests.length >= count) return
    await new Promise<void>((resolve) => this.#waiting.push({ count, resolve }))
  }

  serve(socket: Socket, script: Script): void {
    const connection = this.sockets.push(socket)
    let held = ''
    socket.on('error', () => {})
    socket.setEncoding('latin1')
    socket.on('data', (text: string) => {
      held += text
      for (let end = held.indexOf('\r\n\r\n'); end >= 0; end = held.indexOf('\r\n\r\n')) {
        const head = held.slice(0, end)
        const length = Number(/content-length: (\d+)/.exec(head)?.[1] ?? 0)
        if (held.length < end + 4 + length) return
        const body = Buffer.from(held.slice(end + 4, end + 4 + length), 'latin1').toString()
        held = held.slice(end + 4 + length)
        const request = { socket, head, body, connection, count: this.requests.length + 1 }
        this.requests.push(request)
        script(request)
        for (const waiting of this.#waiting) if (this.requests.length >= waiting.count) waiting.resolve()
      }
    })
  }

  close(): void {
    for (const socket of this.sockets) socket.destroy()
    this.#server.close()
  }
}

/** A plain answer. */
export function said(body: string, more = ''): string {
  return `HTTP/1.1 200 OK\r\n${more}content-length: ${String(Buffer.byteLength(body))}\r\n\r\n${body}`
}
