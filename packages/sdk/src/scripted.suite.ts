/** A server that answers as a test has written it down, and remembers what it was asked. */
import { FakeClock, seededRandom } from '@curfew/core'
import { NetworkError } from './errors.ts'
import { isPassing } from './client/refusal.ts'
import type { InProcessServer, TransportRequest, TransportResponse } from './client/transport.ts'

export interface Asked {
  readonly method: string
  readonly url: string
  readonly headers: Readonly<Record<string, string>>
  readonly text: string
  /** The body parsed; undefined when there was none, or it is not JSON. */
  // eslint-disable-next-line @typescript-eslint/no-explicit-any
  readonly body: any
  readonly signal: AbortSignal
}

export interface Said {
  readonly status?: number
  readonly headers?: Readonly<Record<string, string>>
  /** JSON, text as it is, or a stream. */
  readonly body?: unknown
}

/** A stream a test speaks into. */
export class Channel implements AsyncIterable<string> {
  readonly #said: (string | Error | null)[] = []
  #heard: (() => void) | null = null

  say(text: string): void {
    this.#put(text)
  }

  end(): void {
    this.#put(null)
  }

  breakOff(): void {
    this.#put(new NetworkError('reset'))
  }

  #put(what: string | Error | null): void {
    this.#said.push(what)
    this.#heard?.()
  }

  async *[Symbol.asyncIterator](): AsyncIterator<string> {
    for (;;) {
      const next = this.#said.shift()
      if (next === null) return
      if (next instanceof Error) throw next
      if (next !== undefined) yield next
      else await new Promise<void>((resolve) => (this.#heard = resolve))
    }
  }
}

/** An answer; nothing at all (the line is dead); never (until the caller gives up). */
export type Line = Said | 'dead' | 'silent' | ((asked: Asked) => Said | Promise<Said>)

export class ScriptedServer implements InProcessServer {
  readonly asked: Asked[] = []
  readonly #rule: (asked: Asked, count: number) => Line

  /** Lines in the order of the calls (the last one again and again), or a rule. */
  constructor(script: readonly Line[] | ((asked: Asked, count: number) => Line)) {
    this.#rule = typeof script === 'function' ? script : (_, count) => script[Math.min(count, script.length) - 1] ?? {}
  }

  handler = async (request: TransportRequest): Promise<TransportResponse> => {
    const asked: Asked = {
      method: request.method,
      url: request.url,
      headers: request.headers,
      text: request.body,
      body: /^[[{]/.test(request.body) ? JSON.parse(request.body) : undefined,
      signal: request.signal,
    }
    this.asked.push(asked)
    const line = this.#rule(asked, this.asked.length)
    if (line === 'dead') throw new NetworkError('connection refused')
    if (line === 'silent') return new Promise(() => {})
    const said = typeof line === 'function' ? await line(asked) : line
    return {
      status: said.status ?? 200,
      headers: said.headers ?? {},
      body: typeof said.body === 'string' || said.body instanceof Channel ? said.body : JSON.stringify(said.body ?? {}),
    }
  }

  get urls(): string[] {
    return this.asked.map(({ method, url }) => `${method} ${url}`)
  }
}

/** As the server says no: what passes by itself is worth another try, unless `more` says otherwise. */
export function refused(status: number, code: string, more: Record<string, unknown> = {}): Said {
  return { status, body: { error: { code, message: code, retryable: isPassing(status), details: {}, ...more } } }
}

/** Lets everything that was promised so far come true. */
export function idle(): Promise<void> {
  return new Promise((resolve) => void setImmediate(resolve))
}

/** Turns the clock until what is waited for has happened, and gives its outcome. */
export async function turning<T>(clock: FakeClock, promised: Promise<T>, longestMs = 3_600_000): Promise<T> {
  let isOver = false
  const outcome = promised.finally(() => (isOver = true))
  outcome.catch(() => {})
  const end = clock.now() + longestMs
  for (await idle(); !isOver; await idle()) {
    const next = clock.nextTimerAt()
    if (next === null || next > end) throw new Error('nothing more will happen')
    clock.advance(Math.max(0, next - clock.now()))
  }
  return outcome
}

/** What every scripted test hands in: a clock turned by hand, and chance that repeats itself. */
export function world(): { host: FakeClock; random: () => number } {
  return { host: new FakeClock(), random: seededRandom(3) }
}
