/**
 * Handlers that take many jobs at a time. Each job is an attempt of its own and waits here for others of its type, for `wait`
 * at most; that wait counts against its timeout like any other time of the attempt. What ends one job of a batch (a deadline, a cancel) ends
 * that job alone.
 */
import type { Host, Timer } from '@curfew/core'
import type { Context } from '../attempt/context.ts'
import { toMillis, type Duration } from '../durations.ts'
import { InputError } from '../errors.ts'
import type { HandlerOptions } from './handlers.ts'
import { deferred, onAbort, reasonOf, type Deferred } from '../waiting.ts'

export interface BatchOptions extends Omit<HandlerOptions, 'isolation' | 'module' | 'exportName' | 'memory'> {
  /** At most so many jobs at a time. */
  readonly size: number
  /** How long the first job of a batch waits for others: 50 ms unless it is given. */
  readonly wait?: Duration
}

/** One job of a batch. */
export interface BatchItem<Input> {
  readonly ctx: Context
  readonly input: Input
}

/**
 * A result for each item, in their order; an Error in its place fails that job alone. Nothing returned: all are done. What it
 * throws fails all of them. The signal is aborted when every job of the batch has been asked to stop.
 */
export type BatchFunction<Input, Returned> = (
  items: readonly BatchItem<Input>[],
  signal: AbortSignal,
) => BatchResults<Returned> | Promise<BatchResults<Returned>>

export type BatchResults<Returned> = readonly (Returned | Error)[] | void

const DEFAULT_WAIT: Duration = { ms: 50 }

interface Waiting<Input> extends BatchItem<Input> {
  readonly outcome: Deferred<unknown>
}

export function batchOf(
  { size, wait = DEFAULT_WAIT, ...handler }: BatchOptions,
  concurrency: number,
): { size: number; waitMs: number; handler: HandlerOptions } {
  if (!Number.isInteger(size) || size < 1)
    throw new InputError('size must be a whole number from 1 on.', { field: 'size' })
  if (size > concurrency) {
    throw new InputError(
      `A batch of ${String(size)} never fills: each of its jobs takes a slot, and the worker has ${String(concurrency)}. ` +
        `Give the worker { concurrency: ${String(size)} } or more.`,
      { field: 'size' },
    )
  }
  return { size, waitMs: toMillis(wait, 'wait'), handler }
}

export class Batches<Input, Returned> {
  readonly #host: Host
  readonly #size: number
  readonly #waitMs: number
  readonly #run: BatchFunction<Input, Returned>
  #waiting: Waiting<Input>[] = []
  #timer: Timer | null = null

  constructor(host: Host, size: number, waitMs: number, run: BatchFunction<Input, Returned>) {
    this.#host = host
    this.#size = size
    this.#waitMs = waitMs
    this.#run = run
  }

  /** What becomes of this job of a batch. */
  add(ctx: Context, input: Input): Promise<Returned> {
    const outcome = deferred<unknown>()
    const waiting = { ctx, input, outcome }
    this.#waiting.push(waiting)
    if (this.#waiting.length >= this.#size) this.#begin()
    else
      this.#timer ??= this.#host.setTimer(this.#waitMs, () => {
        this.#begin()
      })
    return outcome.promise as Promise<Returned>
  }

  #begin(): void {
    this.#timer?.cancel()
    this.#timer = null
    const arrived = this.#waiting
    this.#waiting = []
    // Nothing begins for a job that was asked to stop while it waited.
    for (const { ctx, outcome } of arrived) if (ctx.signal.aborted) outcome.reject(reasonOf(ctx.signal))
    const items = arrived.filter(({ ctx }) => !ctx.signal.aborted)
    if (items.length > 0) void this.#settle(items)
  }

  async #settle(items: readonly Waiting<Input>[]): Promise<void> {
    const { signal, unlink } = abortedWithAll(items.map(({ ctx }) => ctx.signal))
    try {
      const given = items.map(({ ctx, input }) => ({ ctx, input }))
      const results = await this.#run(given, signal)
      if (results !== undefined && results.length !== items.length) {
        const [asked, got] = [String(items.length), String(results.length)]
        throw new InputError(`The handler of a batch of ${asked} gave ${got} results: one for each job is needed.`, {})
      }
      items.forEach(({ outcome }, index) => {
        const result: unknown = results?.[index]
        if (result instanceof Error) outcome.reject(result)
        else outcome.resolve(result)
      })
    } catch (error) {
      for (const { outcome } of items) outcome.reject(error)
    } finally {
      unlink()
    }
  }
}

/** A signal that is aborted when all of the others are, with the reason of the last. */
function abortedWithAll(signals: readonly AbortSignal[]): { signal: AbortSignal; unlink: () => void } {
  const controller = new AbortController()
  let left = signals.length
  const unhooks = signals.map((signal) =>
    onAbort([signal], () => {
      left -= 1
      if (left === 0) controller.abort(signal.reason)
    }),
  )
  return {
    signal: controller.signal,
    unlink: () => {
      for (const unhook of unhooks) unhook()
    },
  }
}
