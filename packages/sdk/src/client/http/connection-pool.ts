/**
 * Connections to one server, kept between calls. The one that was used last is used next, so that as few as possible stay
 * open. Beyond the bound calls wait for a connection in the order in which they were made; their timeouts run meanwhile.
 */
import type { Socket } from 'node:net'
import type { Host } from '@curfew/core'
import { HttpConnection, type Carried, type ConnectionOwner } from './http-connection.ts'

/** Long polls and streams hold one each, so there may be many at a time. */
const MAX_OPEN = 1_000
/** Kept while nothing is to be sent. */
const MAX_IDLE = 64
/** A server that does not say how long it keeps an idle connection keeps it this long, at least. */
const KEEP_ALIVE_MS = 4_000
/** Given up this much before the server does, so that no request meets a closing connection. */
const KEEP_ALIVE_MARGIN_MS = 1_000

interface Idle {
  readonly connection: HttpConnection
  /** On the monotonic clock. */
  readonly untilMs: number
}

export class ConnectionPool implements ConnectionOwner {
  readonly #connect: () => Socket
  readonly #host: Host
  readonly #maxOpen: number
  #idle: Idle[] = []
  #waiting: Carried[] = []
  #open = 0
  #isClosed = false

  constructor(connect: () => Socket, host: Host, maxOpen = MAX_OPEN) {
    this.#connect = connect
    this.#host = host
    this.#maxOpen = maxOpen
  }

  carry(call: Carried): void {
    const connection = this.#take()
    if (connection === null) this.#waiting.push(call)
    else connection.carry(call)
  }

  /** The call is no longer wanted, and was waiting. */
  forget(call: Carried): void {
    this.#waiting = this.#waiting.filter((waiting) => waiting !== call)
  }

  /** One of them turned out to be closed: the others have most likely been closed with it. */
  dropIdle(): void {
    for (const { connection } of this.#idle.splice(0)) connection.destroy()
  }

  /** Idle connections are closed now, the others after their calls; calls that still come get one of their own. */
  close(): void {
    this.#isClosed = true
    this.dropIdle()
  }

  released(connection: HttpConnection, keepAliveMs: number | null): boolean {
    const next = this.#waiting.shift()
    if (next !== undefined) {
      connection.carry(next)
      return true
    }
    const keptMs = Math.max(0, (keepAliveMs ?? KEEP_ALIVE_MS + KEEP_ALIVE_MARGIN_MS) - KEEP_ALIVE_MARGIN_MS)
    if (this.#isClosed || keptMs === 0 || this.#idle.length >= MAX_IDLE) return false
    connection.rest()
    this.#idle.push({ connection, untilMs: this.#host.monotonicMs() + keptMs })
    return true
  }

  closed(connection: HttpConnection): void {
    this.#open -= 1
    this.#idle = this.#idle.filter((idle) => idle.connection !== connection)
    const next = this.#waiting[0]
    if (next === undefined) return
    const another = this.#take()
    if (another === null) return
    this.#waiting.shift()
    another.carry(next)
  }

  #take(): HttpConnection | null {
    if (this.#idle.length > 0) {
      const nowMs = this.#host.monotonicMs()
      for (let idle = this.#idle.pop(); idle !== undefined; idle = this.#idle.pop()) {
        if (nowMs < idle.untilMs && idle.connection.isUsable) return idle.connection
        idle.connection.destroy()
      }
    }
    if (this.#open >= this.#maxOpen) return null
    const connection = new HttpConnection(this.#connect(), this)
    this.#open += 1
    return connection
  }
}
