/** Bytes to the server as they are, and the answers as they come: for what no decent HTTP client would send. */
import { connect, type Socket } from 'node:net'
import { until, within, type ServerProcess } from './server-process.ts'

export class RawSocket {
  received = ''
  /** Resolves when the server has closed the connection. */
  readonly closed: Promise<void>
  reset = false
  readonly #socket: Socket

  private constructor(socket: Socket) {
    this.#socket = socket
    socket.setEncoding('latin1').on('data', (chunk: string) => (this.received += chunk))
    socket.on('error', (error: NodeJS.ErrnoException) => {
      this.reset ||= error.code === 'ECONNRESET' || error.code === 'EPIPE'
    })
    this.closed = new Promise((resolve) => socket.once('close', () => resolve()))
  }

  static open(server: ServerProcess): Promise<RawSocket> {
    return new Promise((resolve, reject) => {
      const socket = connect(server.port, '127.0.0.1')
      socket.once('error', reject)
      socket.once('connect', () => {
        socket.off('error', reject)
        resolve(new RawSocket(socket))
      })
    })
  }

  /** Answers when the bytes have been handed on. */
  send(bytes: string | Buffer): Promise<void> {
    return new Promise((resolve) => void this.#socket.write(bytes, () => resolve()))
  }

  /** As a reader who has other things to do. */
  pause(): void {
    this.#socket.pause()
  }

  resume(): void {
    this.#socket.resume()
  }

  /** The status codes answered so far, in order. */
  get statuses(): number[] {
    return [...this.received.matchAll(/HTTP\/1\.1 (\d{3}) [A-Z]/g)].map(([, code]) => Number(code))
  }

  answers(count: number): Promise<number[]> {
    return until(`${String(count)} answers on a raw socket`, () =>
      this.statuses.length >= count ? this.statuses : null,
    )
  }

  async hangUp(): Promise<void> {
    this.#socket.destroy()
    await within('a socket closes', this.closed)
  }
}

export function requestText(method: string, path: string, body: string | Buffer = '', headers = ''): Buffer {
  const bytes = Buffer.from(body)
  const head = `${method} ${path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: ${String(bytes.length)}\r\n${headers}\r\n`
  return Buffer.concat([Buffer.from(head), bytes])
}
