/**
 * News for one reader of a stream: what was committed while the reader was busy with what came before. Only references are
 * kept, and the text is made when the reader takes it. All streams refer to the same news, and each to the newest, so many
 * slow readers cost no more than the slowest alone. A reader too far behind has its news dropped, and reads the log.
 */
import type { Announcement } from '../../engine/kernel/context.ts'

/** In characters of data, with something for each event and change. A batch of the largest size is well below. */
const MAX_WEIGHT = 16 * 1024 * 1024
const WEIGHT_OF_ONE = 200
/** About how much text is made at a time. */
export const MAX_PIECE = 16 * 1024

export const KEEP_ALIVE = ':heartbeat\n\n'

export class News {
  #waiting: Announcement[] = []
  /** How many of them are done, and how many parts of the next. */
  #done = 0
  #parts = 0
  #weight = 0
  #wake: (() => void) | null = null
  #isBeatDue = false
  #isCut = false
  #isEnded = false

  /** False when it was too much: everything was dropped. */
  add(told: Announcement): boolean {
    if (this.#isEnded) return true
    this.#weight += weightOf(told)
    this.#isCut = this.#weight > MAX_WEIGHT
    if (this.#isCut) this.clear()
    else this.#waiting.push(told)
    this.#wake?.()
    return !this.#isCut
  }

  clear(): void {
    this.#waiting = []
    this.#done = 0
    this.#parts = 0
    this.#weight = 0
  }

  beat(): void {
    this.#isBeatDue = this.#waiting.length === 0
    this.#wake?.()
  }

  /** What waits is still taken. */
  end(): void {
    this.#isEnded = true
    this.#wake?.()
  }

  /**
   * A piece of text, as soon as there is one; null at the end, and where news were dropped. `textOf` gives the text of a
   * part, or null after the last.
   */
  async take(textOf: (told: Announcement, part: number) => string | null): Promise<string | null> {
    for (;;) {
      const text = this.#pieceOf(textOf)
      if (text !== '') return text
      if (this.#isCut || this.#isEnded) {
        this.#isCut = false
        return null
      }
      await new Promise<void>((resolve) => {
        this.#wake = resolve
      })
      this.#wake = null
    }
  }

  #pieceOf(textOf: (told: Announcement, part: number) => string | null): string {
    let text = this.#isBeatDue ? KEEP_ALIVE : ''
    this.#isBeatDue = false
    for (let told = this.#waiting[this.#done]; told !== undefined; told = this.#waiting[this.#done]) {
      const part = textOf(told, this.#parts)
      if (part === null) this.#next(told)
      else {
        text += part
        this.#parts += 1
      }
      if (text.length >= MAX_PIECE) return text
    }
    this.clear()
    return text
  }

  #next(told: Announcement): void {
    this.#weight -= weightOf(told)
    this.#parts = 0
    this.#done += 1
    if (this.#done < 1_000) return
    this.#waiting = this.#waiting.slice(this.#done)
    this.#done = 0
  }
}

/** All streams ask for the same news. */
const weights = new WeakMap<Announcement, number>()

function weightOf(told: Announcement): number {
  const known = weights.get(told)
  if (known !== undefined) return known
  const { events, live, changes } = told
  let weight = WEIGHT_OF_ONE * (events.length + live.length + changes.length)
  for (const { data } of events) weight += data.length
  weights.set(told, weight)
  return weight
}
