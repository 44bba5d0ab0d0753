/**
 * One connection on the fast path. Plain requests are served as they arrive; their answers are sent in the order of the
 * requests, each in one write. At the first other message reading stops, the open calls are answered, and the connection
 * moves to `node:http` with all bytes that arrived since.
 */
import type { Socket } from 'node:net'
import type { Handler } from '../api/app.ts'
import { headText } from './answer-head.ts'
import type { HeldBytes } from './held-bytes.ts'
import { Incoming } from './incoming.ts'
import type { HttpResponse } from '../api/message.ts'
import { MAX_AT_ONCE, piecesOf } from './large-answer.ts'
import { MAX_PLAIN_BODY, MAX_PLAIN_HEAD, readPlainRequest } from './plain-request.ts'

/** What a connection needs of the lane it is on. */
export interface Lane {
  readonly handler: Handler
  /** Answers say so, and connections end with the last. */
  readonly isClosing: boolean
  /** What all connections hold of messages that were not served yet. */
  readonly held: HeldBytes
  /** The lines of a head that speak of the moment and the connection. */
  connectionLines(isLast: boolean): string
  /** The connection is over. */
  ended(connection: FastConnection): void
  /** It goes on with `node:http`. */
  handOver(connection: FastConnection, socket: Socket, firstByteMs: number | null): void
  /** For lengths only. */
  nowMs(): number
}

/** After this many checks without a request the connection is closed. */
const MAX_IDLE_LOOKS = 13
/** A message that is incomplete after this many checks or pieces goes to `node:http`, which has limits for slow senders. */
const MAX_PARTIAL_LOOKS = 1
const MAX_PIECES = 8
/** A caller that pipelines more bytes than this has to wait for answers. The largest plain message is far smaller. */
const MAX_OPEN = 100
const MAX_HELD = 2 * (MAX_PLAIN_HEAD + MAX_PLAIN_BODY)

const NOTHING = Buffer.alloc(0)

class Call extends Incoming {
  /** Waits for its turn to leave. */
  answer: HttpResponse | null = null
  #prepared: { readonly response: HttpResponse; readonly text: AnswerText } | null = null

  /** Written while the answer has to wait: then only the sending is left. */
  prepare(response: HttpResponse): void {
    if (typeof response.body === 'string') this.#prepared = { response, text: textOf(response, response.body) }
  }

  textOf(response: HttpResponse, body: string): AnswerText {
    return this.#prepared?.response === response ? this.#prepared.text : textOf(response, body)
  }
}

/** An answer in writing, but for the lines that speak of the moment and the connection: they go between the two. */
interface AnswerText {
  readonly head: string
  readonly body: string
  readonly encoding: 'latin1' | 'utf8'
}

function textOf({ status, headers, isBytes }: HttpResponse, body: string): AnswerText {
  const length = Buffer.byteLength(body, isBytes === true ? 'latin1' : 'utf8')
  const lengthLine = status === 204 ? '' : `Content-Length: ${String(length)}\r\n`
  return {
    head: headText(status, headers) + lengthLine,
    body: status === 204 || status === 304 ? '' : body,
    // As many bytes as characters: then it is all ASCII, and need not be encoded.
    encoding: length === body.length ? 'latin1' : 'utf8',
  }
}

export class FastConnection {
  readonly #lane: Lane
  readonly #socket: Socket
  readonly #open: Call[] = []
  /** What has come and was not served yet. */
  #held: Buffer = NOTHING
  /** As much of it as was counted. */
  #counted = 0
  /** In how many pieces. */
  #pieces = 0
  /** When the first of them came. */
  #firstByteMs = 0
  /** How often it was seen without an open call since something came. */
  #looks = 0
  #isStreaming = false
  #isLeaving = false

  constructor(lane: Lane, socket: Socket) {
    this.#lane = lane
    this.#socket = socket
    socket.on('data', this.#onData).on('end', this.#onEnd).on('drain', this.#onDrain)
    socket.on('error', this.#onError).on('close', this.#onClose)
  }

  readonly #onData = (bytes: Buffer): void => {
    if (this.#held.length === 0) {
      this.#looks = 0
      this.#firstByteMs = this.#lane.nowMs()
    }
    this.#held = this.#held.length === 0 ? bytes : Buffer.concat([this.#held, bytes])
    this.#pieces += 1
    this.#serveHeld()
  }

  #count(bytes: number): void {
    if (bytes === this.#counted) return
    this.#lane.held.change(bytes - this.#counted)
    this.#counted = bytes
  }

  /** A caller that ended its side counts as disconnected, as in `node:http`. */
  readonly #onEnd = (): void => {
    this.#socket.end()
  }

  readonly #onDrain = (): void => {
    this.#serveHeld()
  }

  readonly #onError = (): void => {
    // 'close' follows.
  }

  readonly #onClose = (): void => {
    this.#count(0)
    this.#lane.ended(this)
    for (const call of this.#open) call.abort()
  }

  get isIdle(): boolean {
    return this.#open.length === 0 && this.#held.length === 0
  }

  /** Called every few seconds: closes connections that wait too long for a request or the rest of one. */
  look(): void {
    if (this.#open.length > 0) return
    this.#looks += 1
    if (this.#held.length === 0 && this.#looks > MAX_IDLE_LOOKS) this.destroy()
    if (this.#held.length > 0 && this.#looks > MAX_PARTIAL_LOOKS) this.#leave()
  }

  destroy(): void {
    this.#socket.destroy()
  }

  #serveHeld(): void {
    let at = 0
    while (at < this.#held.length && !this.#isLeaving && this.#hasRoom) {
      const request = readPlainRequest(this.#held, at)
      if (request === 'partial') {
        // What is left came with the last piece.
        if (at > 0) [this.#pieces, this.#firstByteMs] = [1, this.#lane.nowMs()]
        // `node:http` judges a message by its head before it holds the rest.
        this.#isLeaving = this.#pieces >= MAX_PIECES || this.#lane.held.isFull
        break
      }
      if (request === 'other') this.#isLeaving = true
      else {
        at = request.end
        const call = new Call(request.method, request.url, request.headers, request.body)
        if (this.#pieces > 1) call.sinceFirstByteMs = this.#sinceFirstByte()
        void this.#serve(call)
      }
    }
    if (at > 0) this.#held = at === this.#held.length ? NOTHING : this.#held.subarray(at)
    if (this.#held.length === 0) this.#pieces = 0
    this.#count(this.#held.length)
    if (this.#isLeaving && this.#open.length === 0) this.#leave()
    else this.#pace()
  }

  #sinceFirstByte(): () => number {
    const firstMs = this.#firstByteMs
    return () => this.#lane.nowMs() - firstMs
  }

  async #serve(call: Call): Promise<void> {
    this.#open.push(call)
    try {
      call.answer = await this.#lane.handler(call)
      this.#answerInOrder()
    } catch {
      this.destroy()
    }
  }

  #answerInOrder(): void {
    for (let call = this.#open[0]; call?.answer != null && this.#canAnswer; call = this.#open[0]) {
      const { answer } = call
      const { body } = answer
      if (typeof body !== 'string') void this.#stream(answer, body)
      else if (body.length <= MAX_AT_ONCE) this.#write(call.textOf(answer, body))
      else void this.#stream(answer, piecesOf(body), Buffer.byteLength(body))
    }
    if (this.#held.length > 0) this.#serveHeld()
  }

  get #canAnswer(): boolean {
    return !this.#isStreaming && this.#socket.writable
  }

  #write({ head, body, encoding }: AnswerText): void {
    const isLast = this.#answered()
    this.#socket.write(`${head}${this.#lane.connectionLines(isLast)}\r\n${body}`, encoding)
    if (isLast) this.#socket.destroySoon()
  }

  /** `length`: how many bytes the body has, if that is known. */
  async #stream(
    { status, headers }: HttpResponse,
    body: AsyncIterable<string> | Iterable<string>,
    length: number | null = null,
  ): Promise<void> {
    const socket = this.#socket
    const framing = length === null ? 'Transfer-Encoding: chunked' : `Content-Length: ${String(length)}`
    this.#isStreaming = true
    try {
      socket.write(`${headText(status, headers)}${this.#lane.connectionLines(false)}${framing}\r\n\r\n`)
      for await (const chunk of body) {
        if (socket.destroyed) break
        const size = Buffer.byteLength(chunk)
        // An empty chunk would end the body.
        if (size === 0) continue
        const framed = length === null ? `${size.toString(16)}\r\n${chunk}\r\n` : chunk
        if (!socket.write(framed)) await drained(socket)
      }
      this.#isStreaming = false
      if (!socket.writable) return
      if (length === null) socket.write('0\r\n\r\n')
      if (this.#answered()) socket.destroySoon()
      this.#answerInOrder()
    } catch {
      this.destroy()
    }
  }

  /** The first open call has its answer. Tells whether it was the last. */
  #answered(): boolean {
    this.#open.shift()
    return this.#lane.isClosing && this.#open.length === 0
  }

  /** Not for a caller who is gone, does not read its answers, or is far ahead of them. */
  get #hasRoom(): boolean {
    return this.#socket.writable && !this.#socket.writableNeedDrain && this.#open.length < MAX_OPEN
  }

  /** Keeps reading where possible: that is how a disconnect is noticed. */
  #pace(): void {
    const most = this.#lane.held.isFull ? 0 : MAX_HELD
    if (this.#held.length > most || this.#socket.writableNeedDrain) this.#socket.pause()
    else if (this.#socket.isPaused()) this.#socket.resume()
  }

  #leave(): void {
    const socket = this.#socket
    if (socket.destroyed || socket.readableEnded) return
    socket.off('data', this.#onData).off('end', this.#onEnd).off('drain', this.#onDrain)
    socket.off('error', this.#onError).off('close', this.#onClose)
    this.#count(0)
    // Paused, so that what is put back waits for the next reader.
    socket.pause()
    socket.unshift(this.#held)
    this.#lane.handOver(this, socket, this.#held.length === 0 ? null : this.#firstByteMs)
    socket.resume()
  }
}

/** Until the reader has caught up, or is gone. */
function drained(socket: Socket): Promise<void> {
  return new Promise((resolve) => {
    const done = (): void => {
      socket.off('drain', done)
      socket.off('close', done)
      resolve()
    }
    socket.on('drain', done)
    socket.on('close', done)
  })
}
