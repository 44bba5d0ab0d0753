/** How far a long command has come: a bar in a terminal, otherwise a line every few seconds. On stderr. */

const BAR_EVERY_MS = 100
const LINE_EVERY_MS = 5_000

/** What it needs of a stream. */
export interface Screen {
  readonly isTTY?: boolean
  readonly columns?: number
  write(text: string): unknown
}

export class Progress {
  readonly #doing: string
  readonly #total: number
  readonly #screen: Screen
  readonly #now: () => number
  readonly #beganAt: number
  #shownAt: number
  #done = 0
  #drawn = false

  /** `doing`: "exported", "imported". `total`: as far as it is known. */
  constructor(doing: string, total: number, screen: Screen = process.stderr, now = () => performance.now()) {
    this.#doing = doing
    this.#total = total
    this.#screen = screen
    this.#now = now
    this.#beganAt = now()
    this.#shownAt = this.#beganAt
  }

  advance(records: number): void {
    this.#done += records
    const now = this.#now()
    if (now - this.#shownAt < (this.#screen.isTTY === true ? BAR_EVERY_MS : LINE_EVERY_MS)) return
    this.#shownAt = now
    if (this.#screen.isTTY !== true) this.#screen.write(`${this.#text()}\n`)
    else this.#draw()
  }

  /** Takes the bar away. */
  clear(): void {
    if (this.#drawn) this.#screen.write('\r\u001b[K')
    this.#drawn = false
  }

  seconds(): string {
    return `${((this.#now() - this.#beganAt) / 1000).toFixed(1)} s`
  }

  #share(): number {
    return this.#total === 0 ? 1 : Math.min(1, this.#done / this.#total)
  }

  #text(): string {
    const percent = `${String(Math.floor(this.#share() * 100))} %`
    return `${this.#doing} ${grouped(this.#done)} of ${grouped(this.#total)} records, ${percent}, ${this.seconds()}`
  }

  #draw(): void {
    const text = this.#text()
    const width = Math.min(40, (this.#screen.columns ?? 80) - text.length - 4)
    const filled = Math.round(this.#share() * width)
    const bar = width < 5 ? '' : `[${'#'.repeat(filled)}${'.'.repeat(width - filled)}] `
    this.#screen.write(`\r${(bar + text).slice(0, (this.#screen.columns ?? 80) - 1)}\u001b[K`)
    this.#drawn = true
  }
}

/** 1234567 → 1 234 567 */
export function grouped(n: number): string {
  return String(n).replaceAll(/\B(?=(\d{3})+$)/g, ' ')
}
