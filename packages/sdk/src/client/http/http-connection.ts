/**
 * One connection and the call it carries. Requests are not pipelined: a call would wait behind a long poll, and when the
 * connection breaks, it would not be known which of several requests was served.
 *
 *   carry ──▶ answer complete ──▶ idle, for the next call
 *         ╰─▶ aborted, broken, or answered before it was sent: closed
 *
 * An idle connection does not keep the process alive. Bytes that come while it is idle answer nothing: it is closed.
 */
import type { Socket } from 'node:net'
import { NetworkError } from '../../errors.ts'
import type { TransportResponse } from '../transport.ts'
import { AnswerReader, BadAnswerError } from './answer-reader.ts'
import { BodyStream } from './body-stream.ts'
import type { RequestText } from './request-text.ts'

/** Answers above this are refused: a text in JavaScript holds about twice as much. */
export const MAX_BODY_BYTES = 256 * 1024 * 1024

/** A call on its way: what is sent, and where its outcome goes. */
export interface Carried {
  readonly request: RequestText
  readonly isHead: boolean
  /** The caller wants a stream of events in pieces; any other body is handed over whole. */
  readonly wantsStream: boolean
  readonly maxBodyBytes: number
  /** From here on this connection has to be closed to end the call. */
  carriedBy(connection: HttpConnection): void
  answered(response: TransportResponse): void
  failed(error: Error): void
}

/** What a connection needs of the pool that it belongs to. */
export interface ConnectionOwner {
  /** Free for another call. False: it is not kept. */
  released(connection: HttpConnection, keepAliveMs: number | null): boolean
  closed(connection: HttpConnection): void
}

/**
 * A connection that had been idle broke before the first byte of an answer. Most likely the server had closed it, and never
 * saw the request; that is not certain, so only calls that may be repeated are repeated.
 */
export class StaleConnectionError extends Error {
  override readonly name = 'StaleConnectionError'
}

export class HttpConnection {
  readonly #socket: Socket
  readonly #owner: ConnectionOwner
  #carried: Carried | null = null
  #reader: AnswerReader | null = null
  #stream: BodyStream | null = null
  /** Calls before the present one. */
  #served = 0
  #hasAnswerBytes = false

  constructor(socket: Socket, owner: ConnectionOwner) {
    this.#socket = socket
    this.#owner = owner
    socket.on('data', this.#onData).on('end', this.#onEnd).on('error', this.#onError).on('close', this.#onClose)
  }

  /** It can still be written to, as far as is known. */
  get isUsable(): boolean {
    return this.#socket.writable && !this.#socket.readableEnded
  }

  carry(call: Carried): void {
    call.carriedBy(this)
    this.#carried = call
    this.#reader = new AnswerReader(call.isHead, call.maxBodyBytes)
    this.#hasAnswerBytes = false
    if (this.#served > 0) this.#socket.ref()
    const { data, encoding } = call.request
    if (typeof data === 'string') this.#socket.write(data, encoding)
    else this.#socket.write(data)
  }

  /**
   * Nothing more is wanted from it. A call that it carries hears nothing; a stream ends. With `call`: only while it carries
   * that one.
   */
  destroy(call: Carried | null = null): void {
    if (call !== null && this.#carried !== call) return
    this.#carried = null
    this.#stream?.end()
    this.#stream = null
    this.#socket.destroy()
  }

  readonly #onData = (bytes: Buffer): void => {
    const reader = this.#reader
    if (this.#carried === null || reader === null) {
      this.#socket.destroy()
      return
    }
    this.#hasAnswerBytes = true
    try {
      reader.read(bytes)
      this.#advance(reader)
    } catch (error) {
      this.#fail(asError(error))
    }
  }

  readonly #onEnd = (): void => {
    const reader = this.#reader
    if (this.#carried === null || reader === null) {
      this.#socket.destroy()
      return
    }
    try {
      reader.end()
      this.#advance(reader)
    } catch (error) {
      this.#fail(asError(error))
    }
  }

  readonly #onError = (error: Error): void => {
    this.#fail(error)
  }

  readonly #onClose = (): void => {
    this.#fail(new BadAnswerError('the connection was closed before the answer was complete'))
    this.#owner.closed(this)
  }

  /** Hands on what has been read. */
  #advance(reader: AnswerReader): void {
    const call = this.#carried
    const { head } = reader
    if (call === null || head === null) return
    if (this.#stream === null && head.headers['content-encoding'] !== undefined)
      refuseEncoded(head.headers['content-encoding'])
    if (this.#stream === null && call.wantsStream && isStream(head.status, head.headers)) {
      const whileCarried = (act: () => unknown) => (): void => {
        if (this.#carried === call) act()
      }
      this.#stream = new BodyStream({
        pause: whileCarried(() => this.#socket.pause()),
        resume: whileCarried(() => this.#socket.resume()),
        cancel: whileCarried(() => {
          this.destroy()
        }),
      })
      call.answered({ ...head, body: this.#stream })
    }
    if (this.#stream !== null) {
      this.#stream.push(reader.take())
      reader.forgetSize()
    }
    if (!reader.isComplete) return
    const stream = this.#stream
    const body = stream === null ? textOf(reader.take()) : ''
    this.#release(reader)
    if (stream === null) call.answered({ ...head, body })
    else stream.end()
  }

  /** Kept if the server keeps it, and if all of the request has left: the rest of it would be read as the next one. */
  #release(reader: AnswerReader): void {
    this.#carried = null
    this.#stream = null
    this.#served += 1
    // The reader of a stream may have paused it.
    if (this.#socket.isPaused()) this.#socket.resume()
    const isWhole = reader.keepsAlive && this.#socket.writableLength === 0 && this.isUsable
    if (isWhole && this.#owner.released(this, reader.keepAliveMs)) return
    this.#socket.destroy()
  }

  /** Called by the owner before it keeps an idle connection. */
  rest(): void {
    this.#socket.unref()
  }

  #fail(error: Error): void {
    const call = this.#carried
    if (call === null) return
    const stream = this.#stream
    this.#carried = null
    this.#stream = null
    this.#socket.destroy()
    if (stream !== null) stream.fail(new NetworkError('The stream broke off.', error))
    else if (this.#served > 0 && !this.#hasAnswerBytes)
      call.failed(new StaleConnectionError(error.message, { cause: error }))
    else call.failed(error)
  }
}

function isStream(status: number, headers: Readonly<Record<string, string>>): boolean {
  return status >= 200 && status < 300 && headers['content-type']?.startsWith('text/event-stream') === true
}

/** None was asked for. */
function refuseEncoded(coding: string): void {
  if (coding.toLowerCase() !== 'identity') throw new BadAnswerError(`the answer is encoded (${coding})`)
}

/** As `Response.text()` reads it: UTF-8, without a mark at the beginning. */
function textOf(bytes: Buffer): string {
  const text = bytes.toString('utf8')
  return text.charCodeAt(0) === 0xfeff ? text.slice(1) : text
}

function asError(thrown: unknown): Error {
  return thrown instanceof Error ? thrown : new Error(String(thrown))
}
