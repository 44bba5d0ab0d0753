/**
 * Waiting for a job, a workflow or a run to end. The server is asked to hold its answer until then, in pieces short enough for any proxy; one
 * that cannot do that is asked again and again. With a timeout the waiting outlasts an outage of the server; without one
 * an outage ends it, because nothing else would.
 */
import type { Connection } from './connection.ts'
import { toMillis, type Duration } from '../durations.ts'
import { DeadlineError, JobFailedError, NetworkError } from '../errors.ts'
import { isFine, isPassing } from './refusal.ts'
import { backoffMs, linked, sleep } from '../waiting.ts'
import type { JobErrorView, JobState, JobView } from '../wire/jobs.ts'

export interface WaitOptions {
  /** How long to wait; as long as the job takes unless set. */
  readonly timeout?: Duration
  readonly signal?: AbortSignal
}

interface Outcome {
  readonly state: JobState
  readonly result?: unknown
  readonly error?: JobErrorView
}

/** One question. Idle connections are cut by common proxies after a minute. */
const MAX_ASK_MS = 30_000
/** What a held answer may be late by. */
const LATE_MS = 10_000
const FIRST_POLL_MS = 250
const MAX_POLL_MS = 5_000

/** Something that ends: where to ask for its end, where to look at it, and how to read the answers. */
export interface Ending<T> {
  readonly askPath: string
  readonly lookPath: string
  readAsked(body: unknown): T
  readLooked(body: unknown): T
  isOver(seen: T): boolean
  /** A refusal that only means: not yet. */
  isNotYet?(status: number): boolean
}

/** What the job gave. Throws a JobFailedError when it ended without a result, a DeadlineError when the timeout is up. */
export async function waitForEnd(
  connection: Connection,
  id: string,
  options: WaitOptions,
  closing: AbortSignal,
): Promise<unknown> {
  const { state, result, error } = await untilOver(connection, jobEnding(id), options, closing, 'waitForResult')
  if (state === 'cancelled' || state === 'discarded') throw new JobFailedError(id, state, error ?? null)
  return result
}

function jobEnding(id: string): Ending<Outcome> {
  const path = `/ojs/v1/jobs/${encodeURIComponent(id)}`
  return {
    askPath: `${path}/result`,
    lookPath: path,
    readAsked: (body) => body as Outcome,
    readLooked: (body) => (body as { job: JobView }).job,
    isOver: ({ state }) => state === 'completed' || state === 'cancelled' || state === 'discarded',
  }
}

/** `source` is named by the DeadlineError when the timeout is up first. */
export async function untilOver<T>(
  connection: Connection,
  ending: Ending<T>,
  options: WaitOptions,
  closing: AbortSignal,
  source: string,
): Promise<T> {
  const { host } = connection
  const limitMs = options.timeout === undefined ? null : toMillis(options.timeout, 'timeout')
  const { controller, unlink } = linked(options.signal, closing)
  const timer =
    limitMs === null
      ? null
      : host.setTimer(limitMs, () => {
          controller.abort(new DeadlineError('budget', limitMs, source))
        })
  const startedMs = host.monotonicMs()
  const leftMs = (): number | null => (limitMs === null ? null : limitMs - (host.monotonicMs() - startedMs))
  try {
    return await new Watch(connection, ending, controller.signal, leftMs).end()
  } finally {
    timer?.cancel()
    unlink()
  }
}

class Watch<T> {
  readonly #connection: Connection
  readonly #ending: Ending<T>
  readonly #signal: AbortSignal
  readonly #leftMs: () => number | null
  /** The server holds answers back. */
  #holds = true

  constructor(connection: Connection, ending: Ending<T>, signal: AbortSignal, leftMs: () => number | null) {
    this.#connection = connection
    this.#ending = ending
    this.#signal = signal
    this.#leftMs = leftMs
  }

  async end(): Promise<T> {
    const { host, random } = this.#connection
    let failures = 0
    for (let looks = 1; ; looks += 1) {
      let waitMs = 0
      const askedMs = host.monotonicMs()
      try {
        const seen = this.#holds ? await this.#ask() : await this.#look()
        if (seen !== null && this.#ending.isOver(seen)) return seen
        failures = 0
        // An answer that came at once was not held back: ask more gently.
        const wasHeld = host.monotonicMs() - askedMs >= 500
        if (!wasHeld) waitMs = Math.min(MAX_POLL_MS, Math.floor(FIRST_POLL_MS * 1.5 ** (looks - 1)))
      } catch (error) {
        if (!(error instanceof NetworkError) || this.#leftMs() === null) throw error
        waitMs = backoffMs((failures += 1), random)
      }
      if (waitMs > 0) await sleep(host, waitMs, this.#signal)
    }
  }

  /** Null: not over yet. A server in trouble counts as one that did not answer. */
  async #ask(): Promise<T | null> {
    const left = this.#leftMs()
    const askMs = left === null ? MAX_ASK_MS : Math.min(MAX_ASK_MS, left)
    const answer = await this.#connection.send({
      method: 'GET',
      path: this.#ending.askPath,
      query: { wait: true, timeout: Math.max(1, Math.ceil(askMs / 1000)) },
      idempotent: true,
      signal: this.#signal,
      timeoutMs: askMs + LATE_MS,
    })
    if (answer.status === 408 || this.#ending.isNotYet?.(answer.status) === true) return null
    if (isFine(answer.status)) return this.#ending.readAsked(this.#connection.read(answer))
    if (isPassing(answer.status)) throw new NetworkError('The server is in trouble.', this.#connection.refusal(answer))
    if (answer.status !== 404) throw this.#connection.refusal(answer)
    // The job is gone, or the server does not know this call: a plain read tells which.
    const seen = await this.#look()
    this.#holds = false
    return seen
  }

  async #look(): Promise<T> {
    const call = { method: 'GET', path: this.#ending.lookPath, idempotent: true, signal: this.#signal } as const
    return this.#ending.readLooked(await this.#connection.call<unknown>(call))
  }
}
