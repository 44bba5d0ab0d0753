/** The body of a stream of events, in the pieces in which it arrives. A reader that is slow slows the server down. */

export interface BodySource {
  pause(): void
  resume(): void
  /** The reader has left. */
  cancel(): void
}

/** Characters that may wait for the reader before the source is paused. */
const MAX_WAITING = 64 * 1024

interface Reader {
  readonly resolve: (step: IteratorResult<string, undefined>) => void
  readonly reject: (error: Error) => void
}

export class BodyStream implements AsyncIterableIterator<string, undefined> {
  readonly #source: BodySource
  readonly #decoder = new TextDecoder()
  readonly #pieces: string[] = []
  readonly #readers: Reader[] = []
  #waiting = 0
  #isPaused = false
  #isOver = false
  #error: Error | null = null

  constructor(source: BodySource) {
    this.#source = source
  }

  push(bytes: Buffer): void {
    if (!this.#isOver) this.#give(this.#decoder.decode(bytes, { stream: true }))
  }

  end(): void {
    if (this.#isOver) return
    this.#give(this.#decoder.decode())
    this.#isOver = true
    for (const { resolve } of this.#readers.splice(0)) resolve({ done: true, value: undefined })
  }

  fail(error: Error): void {
    if (this.#isOver) return
    this.#isOver = true
    const [first, ...others] = this.#readers.splice(0)
    if (first === undefined) this.#error = error
    else first.reject(error)
    for (const { resolve } of others) resolve({ done: true, value: undefined })
  }

  #give(text: string): void {
    if (text === '') return
    const reader = this.#readers.shift()
    if (reader !== undefined) {
      reader.resolve({ done: false, value: text })
      return
    }
    this.#pieces.push(text)
    this.#waiting += text.length
    if (this.#waiting <= MAX_WAITING || this.#isPaused) return
    this.#isPaused = true
    this.#source.pause()
  }

  next(): Promise<IteratorResult<string, undefined>> {
    const piece = this.#pieces.shift()
    if (piece !== undefined) {
      this.#waiting -= piece.length
      if (this.#isPaused && this.#waiting <= MAX_WAITING) {
        this.#isPaused = false
        this.#source.resume()
      }
      return Promise.resolve({ done: false, value: piece })
    }
    if (this.#error !== null) {
      const error = this.#error
      this.#error = null
      return Promise.reject(error)
    }
    if (this.#isOver) return Promise.resolve({ done: true, value: undefined })
    return new Promise((resolve, reject) => {
      this.#readers.push({ resolve, reject })
    })
  }

  return(): Promise<IteratorResult<string, undefined>> {
    this.#pieces.length = 0
    this.end()
    this.#source.cancel()
    return Promise.resolve({ done: true, value: undefined })
  }

  [Symbol.asyncIterator](): this {
    return this
  }
}
