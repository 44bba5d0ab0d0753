/**
 * The bytes of a body as they arrive, as text. A long body is decoded chunk by chunk: each chunk comes in a turn of its
 * own, so no turn decodes more than one.
 */
import { isAscii, isUtf8 } from 'node:buffer'
import { TextDecoder } from 'node:util'
import { OjsError } from '@curfew/core'

export class BodyText {
  /** A body that came in one chunk is decoded at once, which is the quickest way. */
  #first: Buffer | null = null
  #text = ''
  #decoder: TextDecoder | null = null
  #isInvalid = false
  /** The last byte may be part of a character that continues in the next chunk. */
  #isOpen = false

  add(chunk: Buffer): void {
    if (this.#first === null && this.#decoder === null) {
      this.#first = chunk
      return
    }
    if (this.#decoder === null) {
      this.#decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })
      if (this.#first !== null) this.#decode(this.#first)
      this.#first = null
    }
    this.#decode(chunk)
  }

  /** Nothing of it is wanted any more. */
  drop(): void {
    this.#first = null
    this.#text = ''
  }

  /** The whole of it, or why it cannot be read. */
  end(): string | OjsError {
    if (this.#first !== null) return isUtf8(this.#first) ? this.#first.toString('utf8') : notUtf8()
    this.#decode(undefined)
    return this.#isInvalid ? notUtf8() : this.#text
  }

  #decode(chunk: Buffer | undefined): void {
    if (this.#decoder === null || this.#isInvalid) return
    // The decoder uses two bytes per character; text that is all ASCII is kept in one.
    if (chunk !== undefined && !this.#isOpen && isAscii(chunk)) {
      this.#text += chunk.toString('latin1')
      return
    }
    this.#isOpen = chunk !== undefined && (chunk.at(-1) ?? 0) > 0x7f
    try {
      this.#text += chunk === undefined ? this.#decoder.decode() : this.#decoder.decode(chunk, { stream: true })
    } catch {
      this.#isInvalid = true
      this.#text = ''
    }
  }
}

const notUtf8 = (): OjsError => new OjsError('invalid_payload', 'The body is not valid UTF-8.')
