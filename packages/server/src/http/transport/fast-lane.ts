/**
 * A fast lane in front of `node:http`, which costs as much as all the rest of an answer. Every connection begins here.
 * Plain requests (`plain-request.ts`) are read from the bytes as they came, given to the same handler, and answered in
 * one write (`fast-connection.ts`). At the first message that is not plain, or is not complete soon, the
 * connection is handed over, and `node:http` serves it from there on as if it had always had it:
 *
 *   connection ─→ plain? ──yes──→ handler ─→ answer
 *                   └──no──→ node:http, for good ─→ handler ─→ answer
 *
 * So nothing is refused here: what is odd, large, slow or malformed is judged by `node:http` alone. A connection changes
 * hands between two messages, when no answer is pending, so neither side ever sees half a message.
 */
import type { Server } from 'node:http'
import { Server as TlsServer } from 'node:https'
import type { Socket } from 'node:net'
import type { Host, Timer } from '@curfew/core'
import type { Handler } from '../api/app.ts'
import { FastConnection, type Lane } from './fast-connection.ts'
import { FirstByte } from './first-byte.ts'
import { HeldBytes } from './held-bytes.ts'

/** How long a connection may be idle: in the answers, and for node:http. */
export const KEEP_ALIVE_MS = 65_000
/** How often every connection is checked. */
const LOOK_MS = 5_000

/** Of messages that are not complete, or have to wait, on all connections. More is for `node:http`, or left in the line. */
const MAX_HELD = 16 * 1024 * 1024

const KEPT = `keep-alive\r\nKeep-Alive: timeout=${String(KEEP_ALIVE_MS / 1000)}\r\n`

export class FastLane implements Lane {
  readonly handler: Handler
  readonly held = new HeldBytes(MAX_HELD)
  readonly #server: Server
  readonly #machine: Host
  /** How `node:http` takes a connection. */
  readonly #toNode: readonly ((socket: Socket) => void)[]
  readonly #connections = new Set<FastConnection>()
  #timer: Timer
  #isClosing = false
  #second = 0
  #lines = ''

  /** The server listens as ever; its connections come here first. */
  constructor(server: Server, handler: Handler, machine: Host) {
    this.handler = handler
    this.#server = server
    this.#machine = machine
    // Over TLS, a connection is one when its handshake is over.
    const event = server instanceof TlsServer ? 'secureConnection' : 'connection'
    this.#toNode = server.listeners(event) as ((socket: Socket) => void)[]
    server.removeAllListeners(event)
    server.on(event, (socket: Socket) => this.#connections.add(new FastConnection(this, socket)))
    this.#timer = this.#lookLater()
  }

  get isClosing(): boolean {
    return this.#isClosing
  }

  /** Ends idle connections; the others end with their last answer. */
  close(): void {
    this.#isClosing = true
    this.#timer.cancel()
    for (const connection of this.#connections) if (connection.isIdle) connection.destroy()
  }

  closeAll(): void {
    for (const connection of this.#connections) connection.destroy()
  }

  ended(connection: FastConnection): void {
    this.#connections.delete(connection)
  }

  handOver(connection: FastConnection, socket: Socket, firstByteMs: number | null): void {
    this.#connections.delete(connection)
    for (const take of this.#toNode) take.call(this.#server, socket)
    new FirstByte(socket, firstByteMs, () => this.nowMs())
  }

  nowMs(): number {
    return this.#machine.monotonicMs()
  }

  connectionLines(isLast: boolean): string {
    const second = Math.floor(this.#machine.wallMs() / 1000)
    if (second !== this.#second) {
      this.#second = second
      this.#lines = `Date: ${new Date(second * 1000).toUTCString()}\r\nConnection: `
    }
    return this.#lines + (isLast ? 'close\r\n' : KEPT)
  }

  #lookLater(): Timer {
    return this.#machine.setTimer(LOOK_MS, () => {
      for (const connection of this.#connections) connection.look()
      this.#timer = this.#lookLater()
    })
  }
}
