/** Frames that wait for one reader of progress. Each tells the newest, so a reader that does not take them needs few. */
import { KEEP_ALIVE } from './news.ts'

/** In characters. */
const MAX_WAITING = 256 * 1024

export class Outbox {
  #text = ''
  #wake: (() => void) | null = null
  #isEnded = false

  /** Drops what waits, where that is much. */
  push(text: string): void {
    if (this.#isEnded) return
    this.#text = this.#text.length > MAX_WAITING ? text : this.#text + text
    this.#wake?.()
  }

  beat(): void {
    if (this.#text === '') this.push(KEEP_ALIVE)
  }

  /** What waits is still taken. */
  end(): void {
    this.#isEnded = true
    this.#wake?.()
  }

  /** All that waits, as soon as there is something; null at the end. */
  async take(): Promise<string | null> {
    while (this.#text === '' && !this.#isEnded) {
      await new Promise<void>((resolve) => {
        this.#wake = resolve
      })
      this.#wake = null
    }
    const text = this.#text
    this.#text = ''
    return text === '' ? null : text
  }
}
