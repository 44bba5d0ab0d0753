/**
 * When the first byte of each request came, on a connection that `node:http` serves. It tells of a request only when its
 * head is complete, and a head may drip as a body may: the time of an Api runs from the first byte.
 */
import type { IncomingMessage } from 'node:http'
import type { Socket } from 'node:net'

const trackers = new WeakMap<Socket, FirstByte>()

export class FirstByte {
  readonly #nowMs: () => number
  #firstMs: number | null
  /** A request is being read; the next bytes belong to it. */
  #isReading = false

  /** `firstMs`: when the first byte came of what is handed over; null: nothing is. */
  constructor(socket: Socket, firstMs: number | null, nowMs: () => number) {
    this.#nowMs = nowMs
    this.#firstMs = firstMs
    trackers.set(socket, this)
    // Called after the listener of `node:http`: a head that arrives in one piece is announced before its piece is seen here.
    socket.on('data', () => {
      if (!this.#isReading) this.#firstMs ??= nowMs()
    })
  }

  /** How long ago the first byte of this request came, asked now or later. */
  static of(request: IncomingMessage): (() => number) | undefined {
    return trackers.get(request.socket)?.begin(request)
  }

  begin(request: IncomingMessage): () => number {
    const firstMs = this.#firstMs ?? this.#nowMs()
    this.#isReading = true
    this.#firstMs = null
    request.once('close', () => {
      this.#isReading = false
    })
    return () => this.#nowMs() - firstMs
  }
}
