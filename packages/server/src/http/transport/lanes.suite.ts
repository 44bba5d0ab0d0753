/**
 * One handler behind two servers: one with the fast lane, one with `node:http` alone. Whatever bytes they are sent, they
 * must give the same answers and have understood the same calls.
 */
import { EventEmitter, once } from 'node:events'
import type { Server } from 'node:http'
import { connect, type AddressInfo, type Socket } from 'node:net'
import type { Host } from '@curfew/core'
import { nodeHost } from '../../host.ts'
import type { Handler } from '../api/app.ts'
import { FastLane } from './fast-lane.ts'
import { nodeServer } from './listen.ts'
import type { HttpRequest } from '../api/message.ts'

/** What came of the bytes of one connection. */
export interface Outcome {
  /** Everything that was answered, but for the time of day and ids by chance. */
  readonly answers: string
  /** What the handler was called with, in order. */
  readonly calls: readonly Omit<HttpRequest, 'signal'>[]
  readonly isClosed: boolean
  /** How many calls came by way of `node:http`. */
  readonly byNode: number
}

/** Answers what it was told to by the path, and otherwise with what it was asked. */
export const echo: Handler = async ({ method, url, headers, body }) => {
  if (url === '/empty') return { status: 204, headers: { 'X-Mine': 'yes' }, body: 'ü' }
  if (url === '/unchanged') return { status: 304, headers: { 'X-Mine': 'yes' }, body: 'ü' }
  if (url === '/odd') return { status: 299, headers: {}, body: 'ä\u0000💥' }
  // Bytes that are no text: a compressed file.
  if (url === '/bytes') return { status: 200, headers: {}, body: '\u001f\u008b\u0000\u00ff', isBytes: true }
  if (url === '/broken') throw new Error('broken')
  if (url === '/split') return { status: 200, headers: { 'X-Mine': 'a\r\nSet-Cookie: b' }, body: '' }
  if (url === '/stream') return { status: 200, headers: { 'Content-Type': 'text/event-stream' }, body: words() }
  return { status: 200, headers: { 'X-Mine': 'yes' }, body: JSON.stringify({ method, url, headers, body }) }
}

async function* words(): AsyncIterable<string> {
  yield 'one\n'
  yield ''
  await Promise.resolve()
  yield 'zwölf 💥\n'
}

/** A server and a second connection to it, by which one knows that it has read what was sent on the first. */
export class TestLane {
  readonly server: Server
  readonly lane: FastLane | null
  readonly sockets: Socket[] = []
  /** Calls that `node:http` has read. */
  byNode = 0
  calls: Omit<HttpRequest, 'signal'>[] = []
  readonly #bell = new EventEmitter()
  #port = 0
  #barrier: Socket | null = null

  private constructor(handler: Handler, isFast: boolean, machine: Host) {
    const recording: Handler = async (request) => {
      if (request.url === '/barrier') return { status: 204, headers: {}, body: '' }
      const { method, url, headers } = request
      const body = request.arriving === undefined ? request.body : await request.arriving()
      Object.assign(request, { body })
      this.calls.push({ method, url, headers, body })
      this.#bell.emit('call')
      return handler(request)
    }
    this.server = nodeServer(recording)
    for (const event of ['request', 'checkContinue'] as const)
      this.server.on(event, ({ url }) => {
        if (url !== '/barrier') this.byNode += 1
      })
    this.lane = isFast ? new FastLane(this.server, recording, machine) : null
  }

  static async open(handler: Handler, isFast: boolean, machine: Host = nodeHost): Promise<TestLane> {
    const lane = new TestLane(handler, isFast, machine)
    lane.server.listen(0, '127.0.0.1')
    await once(lane.server, 'listening')
    lane.#port = (lane.server.address() as AddressInfo).port
    lane.#barrier = await lane.connect()
    return lane
  }

  async connect(): Promise<Socket> {
    const socket = connect({ port: this.#port, host: '127.0.0.1', noDelay: true })
    this.sockets.push(socket)
    socket.on('error', () => {})
    await once(socket, 'connect')
    return socket
  }

  async called(times: number): Promise<void> {
    while (this.calls.length < times) await once(this.#bell, 'call')
  }

  /** Answers when everything that was sent before has been read, and what was answered at once has come. */
  async settled(): Promise<void> {
    for (let turns = 0; turns < 3; turns += 1) {
      this.#barrier?.write('GET /barrier HTTP/1.1\r\nHost: a\r\n\r\n')
      await once(this.#barrier!, 'data')
    }
  }

  /** Sends the pieces so that each is read by itself. */
  async outcome(pieces: readonly Buffer[]): Promise<Outcome> {
    this.calls = []
    this.byNode = 0
    const socket = await this.connect()
    const received: Buffer[] = []
    socket.on('data', (bytes) => received.push(bytes))
    for (const piece of pieces) {
      if (socket.writable) socket.write(piece)
      await this.settled()
    }
    const isClosed = socket.readableEnded || socket.destroyed
    socket.destroy()
    const text = Buffer.concat(received).toString('latin1')
    const answers = text.replaceAll(/^Date: .*\r\n/gm, '').replaceAll(/req_[0-9a-f-]{36}/g, 'req_')
    return { answers, calls: this.calls, isClosed, byNode: this.byNode }
  }

  async close(): Promise<void> {
    this.lane?.close()
    this.lane?.closeAll()
    for (const socket of this.sockets) socket.destroy()
    if (!this.server.listening) return
    this.server.close()
    this.server.closeAllConnections()
    await once(this.server, 'close')
  }
}
