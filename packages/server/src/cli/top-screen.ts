/** The screen of `curfew top`: what it shows, and what each key does. It knows no terminal and no timer. */
import { after, millis, type BoardJob, type Instant } from '@curfew/core'
import { explainText } from './explain-text.ts'
import { EXIT } from './frame/exit.ts'
import type { Paper } from './journey-chart.ts'
import { topLines, topRows, type TopModel, type TopRow } from './top-view.ts'

export interface Key {
  readonly name?: string | undefined
  readonly sequence?: string | undefined
  readonly ctrl?: boolean | undefined
}

export interface TopParts {
  readonly colour: boolean
  readonly isUtc: boolean
  /** Any clock that is never set. */
  readonly monotonicMs: () => number
  /** Answers how the server answered. */
  readonly pause: (queue: string) => Promise<{ readonly status: number }>
}

export class TopScreen {
  readonly #parts: TopParts
  #model: TopModel
  #heardMs: number
  /** The job that is selected, and its place, which counts when the job is gone. */
  #selected: string | null = null
  #place = 0
  #filter = ''
  #typing: string | null = null
  #asking: string | null = null
  #said: string | null = null
  #trouble: string | null = null
  #explained: BoardJob | null = null

  constructor(parts: TopParts, model: TopModel) {
    this.#parts = parts
    this.#model = model
    this.#heardMs = parts.monotonicMs()
  }

  /** The id of the job that is drawn alone. */
  get explained(): string | null {
    return this.#explained?.job.id ?? null
  }

  take(model: TopModel): void {
    this.#model = model
    this.#heardMs = this.#parts.monotonicMs()
    this.#trouble = null
    this.#explained = model.jobs.find(({ job }) => job.id === this.explained) ?? this.#explained
  }

  /** The server could not be asked; what is shown is old. */
  fail(why: string): void {
    this.#trouble = why
  }

  /** On the clock of the server. */
  now(): Instant {
    return after(this.#model.now, millis(this.#parts.monotonicMs() - this.#heardMs))
  }

  draw(columns: number, rows: number): string {
    const paper = { width: columns, colour: this.#parts.colour }
    const lines = this.#explained === null ? this.#table(paper, rows) : this.#explanation(this.#explained, paper, rows)
    return `\u001b[H${lines.map((line) => `${line}\u001b[K`).join('\n')}\u001b[J`
  }

  #table(paper: Paper, rows: number): string[] {
    const prompt =
      this.#typing !== null
        ? `filter: ${this.#typing}_   enter takes it, escape clears it`
        : this.#asking !== null
          ? `Pause queue ${this.#asking}? y/n`
          : (this.#trouble ?? this.#said)
    const selected = this.#placeIn(this.#rows())
    return topLines(this.#model, { now: this.now(), selected, filter: this.#filter, prompt, rows }, paper)
  }

  #explanation(document: BoardJob, paper: Paper, rows: number): string[] {
    const lines = explainText(document, this.now(), paper, this.#parts.isUtc).split('\n')
    return [...lines.slice(0, Math.max(1, rows - 2)), '', this.#trouble ?? 'any key goes back']
  }

  #rows(): TopRow[] {
    return topRows(this.#model, this.now(), this.#filter)
  }

  /** The selection stays on its job while the list moves. */
  #placeIn(rows: readonly TopRow[]): number {
    const found = rows.findIndex(({ job }) => job.job.id === this.#selected)
    return found >= 0 ? found : Math.max(0, Math.min(this.#place, rows.length - 1))
  }

  #select(rows: readonly TopRow[], place: number): void {
    this.#place = Math.max(0, Math.min(place, rows.length - 1))
    this.#selected = rows[this.#place]?.job.job.id ?? null
  }

  /** Null: goes on; otherwise the exit code. */
  async press(key: Key): Promise<number | null> {
    if (key.ctrl === true && key.name === 'c') return EXIT.interrupted
    this.#said = null
    if (this.#typing !== null) this.#type(this.#typing, key)
    else if (this.#asking !== null) await this.#answer(this.#asking, key)
    else if (this.#explained !== null) this.#explained = null
    else return this.#command(key)
    return null
  }

  #command({ name, sequence }: Key): number | null {
    if (name === 'q') return EXIT.fine
    const rows = this.#rows()
    const place = this.#placeIn(rows)
    const chosen = rows[place]?.job
    if (name === 'down' || name === 'j') this.#select(rows, place + 1)
    else if (name === 'up' || name === 'k') this.#select(rows, place - 1)
    else if (sequence === '/') this.#typing = this.#filter
    else if (name === 'return' && chosen !== undefined) this.#explained = chosen
    else if (name === 'p' && chosen !== undefined) this.#asking = chosen.job.queue
    return null
  }

  #type(text: string, { name, sequence = '' }: Key): void {
    if (name === 'return' || name === 'escape') {
      this.#filter = name === 'escape' ? '' : text
      this.#typing = null
      this.#selected = null
      this.#place = 0
    } else if (name === 'backspace') this.#typing = text.slice(0, -1)
    else if (/^[\x21-\x7e]$/.test(sequence)) this.#typing = text + sequence
  }

  async #answer(queue: string, { name }: Key): Promise<void> {
    this.#asking = null
    if (name !== 'y') return
    const { status } = await this.#parts.pause(queue)
    this.#said =
      status === 200
        ? `${queue} is paused; curfew queues resume ${queue} ends that`
        : `${queue} is not paused: the server answered ${String(status)}`
  }
}
