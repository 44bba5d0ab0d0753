/**
 * The body of a request on `node:http`, read only when it is asked for: by then the head has been judged. It is held
 * within two bounds, that of one body and that of all bodies which are being read. What exceeds them, and what is still
 * to come when the call is answered, is taken from the line and dropped, so that the sender gets to read its answer.
 */
import type { IncomingMessage } from 'node:http'
import { MAX_BODY_BYTES, OjsError } from '@curfew/core'
import { BodyText } from './body-text.ts'
import type { HeldBytes } from './held-bytes.ts'

/** More than this is not even dropped: the connection ends. */
const MAX_DROPPED = 4 * MAX_BODY_BYTES

export class RequestBody {
  readonly #request: IncomingMessage
  readonly #held: HeldBytes
  #bytes = new BodyText()
  #size = 0
  #isDropping = false
  #text: Promise<string> | null = null

  constructor(request: IncomingMessage, held: HeldBytes) {
    this.#request = request
    this.#held = held
  }

  /** Rejects with a refusal. Never ends when the caller hangs up. */
  text(): Promise<string> {
    this.#text ??= new Promise<string>((resolve, reject) => {
      const settle = (read: string | OjsError): void => {
        if (typeof read === 'string') resolve(read)
        else reject(read)
      }
      this.#request.on('data', (chunk: Buffer) => {
        const refused = this.#isDropping ? null : this.#add(chunk)
        if (refused !== null) settle(refused)
      })
      this.#request.on('end', () => {
        if (this.#isDropping) return
        const read = this.#bytes.end()
        this.#forget()
        settle(read)
      })
      this.#request.on('close', () => {
        this.#forget()
      })
    })
    // The call may be answered without it.
    this.#text.catch(() => {})
    return this.#text
  }

  /** Takes all of it from the line and keeps nothing; whether there was any. Rejects with a refusal. */
  skip(): Promise<boolean> {
    return new Promise((resolve, reject) => {
      let size = 0
      this.#request.on('data', (chunk: Buffer) => {
        size += chunk.length
        if (size > MAX_BODY_BYTES) reject(tooLarge())
      })
      this.#request.on('end', () => {
        resolve(size > 0)
      })
    })
  }

  /** Takes the rest from the line, as far as it may go; then calls. */
  drop(done: () => void): void {
    this.#forget()
    this.#isDropping = true
    let dropped = 0
    this.#request.on('data', (chunk: Buffer) => {
      dropped += chunk.length
      if (dropped > MAX_DROPPED) done()
    })
    this.#request.on('end', done)
  }

  #add(chunk: Buffer): OjsError | null {
    const isTooLarge = this.#size + chunk.length > MAX_BODY_BYTES
    if (!isTooLarge && this.#held.take(chunk.length)) {
      this.#size += chunk.length
      this.#bytes.add(chunk)
      return null
    }
    this.#forget()
    this.#isDropping = true
    return isTooLarge
      ? tooLarge()
      : new OjsError('unavailable', 'The server is reading as many bodies as it may hold at a time.')
  }

  #forget(): void {
    this.#held.change(-this.#size)
    this.#size = 0
    this.#bytes.drop()
  }
}

const tooLarge = (): OjsError =>
  new OjsError('payload_too_large', `The body is larger than ${String(MAX_BODY_BYTES)} bytes.`)
