/**
 * What clients sent and what they were answered, written down by each of them in a file of its own, line by line, as it
 * happens. `at` is the machine's monotonic clock, which all processes share; `wall` is the wall clock.
 *
 * A call that was sent and has no second line was not answered: what the server made of it is unknown.
 */
import { appendFileSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'

export type Op =
  | 'enqueue'
  | 'cancel'
  | 'fetch'
  | 'ack'
  | 'nack'
  | 'checkpoint'
  | 'beat'
  | 'register'
  | 'start-run'
  /** A handler of the SDK. */
  | 'handler'

export interface Line {
  readonly at: number
  readonly wall: number
  readonly who: string
  /** Together with `who` it names the call. */
  readonly n: number
  readonly event: 'sent' | 'answered' | 'broken'
  readonly op: Op
  /** What was sent, or what the answer says. */
  readonly data: Readonly<Record<string, unknown>>
}

/** A call as its client saw it. */
export interface Call {
  readonly who: string
  readonly op: Op
  readonly sentAt: number
  readonly sentWall: number
  readonly request: Readonly<Record<string, unknown>>
  /** Null: no answer arrived. */
  readonly answeredAt: number | null
  readonly status: number | null
  readonly answer: Readonly<Record<string, unknown>>
}

export function monotonicMs(): number {
  return Number(process.hrtime.bigint()) / 1e6
}

export class Journal {
  readonly #file: string
  readonly #who: string
  #calls = 0

  constructor(directory: string, who: string) {
    this.#file = join(directory, `${who}.jsonl`)
    this.#who = who
  }

  sent(op: Op, data: Line['data']): number {
    this.#calls += 1
    this.#write({ n: this.#calls, event: 'sent', op, data })
    return this.#calls
  }

  answered(n: number, op: Op, data: Line['data']): void {
    this.#write({ n, event: 'answered', op, data })
  }

  broken(n: number, op: Op, error: string): void {
    this.#write({ n, event: 'broken', op, data: { error } })
  }

  /** In place, so that a process that is killed has written all it knew. */
  #write(line: Pick<Line, 'n' | 'event' | 'op' | 'data'>): void {
    const full: Line = { at: monotonicMs(), wall: Date.now(), who: this.#who, ...line }
    appendFileSync(this.#file, `${JSON.stringify(full)}\n`)
  }
}

export function readJournals(directory: string): Line[] {
  return readdirSync(directory)
    .filter((name) => name.endsWith('.jsonl'))
    .flatMap((name) => parseLines(readFileSync(join(directory, name), 'utf8')))
    .sort((a, b) => a.at - b.at)
}

/** The last line of a process that was killed may be cut off. */
function parseLines(text: string): Line[] {
  const lines = text.split('\n')
  const isCut = lines.pop() !== ''
  return lines.slice(0, isCut ? -1 : undefined).map((line) => JSON.parse(line) as Line)
}

/** In the order in which they were sent. */
export function callsOf(lines: readonly Line[]): Call[] {
  const calls = new Map<string, Call>()
  for (const { who, n, event, op, at, wall, data } of lines) {
    const name = `${who}#${String(n)}`
    if (event === 'sent') {
      const open = { who, op, sentAt: at, sentWall: wall, request: data }
      calls.set(name, { ...open, answeredAt: null, status: null, answer: {} })
      continue
    }
    const call = calls.get(name)
    if (call === undefined || event === 'broken') continue
    calls.set(name, { ...call, answeredAt: at, status: Number(data['status'] ?? 200), answer: data })
  }
  return [...calls.values()]
}
