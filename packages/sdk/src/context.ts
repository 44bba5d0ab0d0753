/**
 * What a handler sees of its attempt. The same in line, in a thread and in a process: only `ports.call`, the way to the
 * worker, differs.
 *
 * A promise of a call may be left alone: when it fails nobody is told, but the process does not fall over it either.
 * Who needs to know awaits it.
 */
import type { Host } from '@curfew/core'
import { encodeInput, type AnyJob, type SentBy } from './define-job.ts'
import { toMillis, type Duration } from './durations.ts'
import type { EnqueueOptions } from './enqueue-options.ts'
import { DeadlineError, InputError } from './errors.ts'
import type { AttemptFacts, Call } from './isolate/protocol.ts'
import { jsonCopy } from './json-data.ts'
import { stopError } from './stop-error.ts'
import { timerAt } from './timer-at.ts'
import type { JobView } from './wire.ts'

/** What an enqueue from within a handler may say. It crosses to the worker as JSON; the parent is this job. */
export type ContextEnqueueOptions = Omit<EnqueueOptions, 'signal' | 'parent'>

export interface Context {
  readonly jobId: string
  readonly type: string
  readonly queue: string
  /** The number of this attempt, from 1. */
  readonly attempt: number
  readonly maxAttempts: number | null
  readonly args: readonly unknown[]
  readonly meta: Readonly<Record<string, unknown>>
  /** Aborted at the nearest deadline, on cancellation, on shutdown; the reason is a StopError and says which. */
  readonly signal: AbortSignal
  /** What the attempt before had saved when it was cut off; null when it had not. */
  readonly lastCheckpoint: unknown
  /** The workflow this job is a step of; null when it is none. */
  readonly workflowId: string | null
  /** The results of the steps before this one: see docs/workflows.md. Empty outside a workflow. */
  readonly parentResults: readonly unknown[]
  /** Whole milliseconds to the nearest deadline, never negative. */
  remaining(): number
  /**
   * Runs under the smaller of `duration` and what is left. The signal is aborted when that is over, and the promise
   * rejects with its reason, whether or not `run` listens: a DeadlineError of kind `budget`, or the attempt's own.
   */
  withBudget<T>(duration: Duration, run: (signal: AbortSignal) => T | Promise<T>): Promise<T>
  /** From 0 to 1. A sign of life, too. */
  progress(value: number, message?: string, data?: unknown): Promise<void>
  /** Saves where the next attempt should go on. Resolves when it is stored. */
  checkpoint(state: unknown): Promise<void>
  /** A sign of life, for handlers with a heartbeat timeout. */
  heartbeat(): Promise<void>
  enqueue<J extends AnyJob>(job: J, input: SentBy<J>, options?: ContextEnqueueOptions): Promise<JobView>
  enqueue(type: string, input: unknown, options?: ContextEnqueueOptions): Promise<JobView>
}

export interface ContextPorts {
  /** Rejects when the worker or the server refuses, and when the attempt is over. */
  call(call: Call): Promise<unknown>
  readonly host: Host
  /** When the attempt is ended by force, on the monotonic clock; it may move nearer. */
  endsAt?(): number
}

export function createContext(facts: AttemptFacts, signal: AbortSignal, ports: ContextPorts): Context {
  const { host } = ports
  const remaining = (): number => Math.max(0, Math.floor(facts.softAt - host.monotonicMs()))

  return {
    jobId: facts.jobId,
    type: facts.type,
    queue: facts.queue,
    attempt: facts.attempt,
    maxAttempts: facts.maxAttempts,
    args: facts.args,
    meta: facts.meta,
    lastCheckpoint: facts.lastCheckpoint,
    workflowId: facts.workflowId,
    parentResults: facts.parentResults,
    signal,
    remaining,

    async withBudget(duration, run) {
      const limitMs = toMillis(duration, 'withBudget')
      if (signal.aborted) throw signal.reason
      if (remaining() === 0) throw stopError(facts.softStop)
      return underBudget(limitMs, run, signal, host)
    },

    progress(value, message, data) {
      return mayBeLeftAlone(async () => {
        if (!(typeof value === 'number' && value >= 0 && value <= 1))
          throw new InputError(`Progress goes from 0 to 1; this was ${String(value)}.`, { field: 'value' })
        await ports.call({
          op: 'progress',
          value,
          ...(message === undefined ? {} : { message }),
          ...(data === undefined ? {} : { data: jsonCopy(data, 'The data of a progress') }),
        })
      })
    },

    checkpoint(state) {
      return mayBeLeftAlone(async () => {
        await ports.call({ op: 'checkpoint', state: jsonCopy(state, 'A checkpoint') ?? null })
      })
    },

    heartbeat() {
      return mayBeLeftAlone(async () => {
        await ports.call({ op: 'heartbeat' })
      })
    },

    enqueue(job: AnyJob | string, input: unknown, options: ContextEnqueueOptions = {}) {
      return mayBeLeftAlone(async () => {
        const { type, options: defaults } = typeof job === 'string' ? { type: job, options: {} } : job
        const args = await encodeInput({ type, options: defaults }, input)
        // Schemas are functions and stay here, where the input was checked.
        const { input: _in, output: _out, ...told } = defaults
        const answer = await ports.call({
          op: 'enqueue',
          type,
          input: jsonCopy(args, `The input of ${type}`),
          options: jsonCopy(options, 'The options of an enqueue'),
          defaults: jsonCopy(told, `The defaults of ${type}`),
        })
        return answer as JobView
      })
    },
  }
}

async function underBudget<T>(
  limitMs: number,
  run: (signal: AbortSignal) => T | Promise<T>,
  attempt: AbortSignal,
  host: Host,
): Promise<T> {
  const own = new AbortController()
  const endsAt = host.monotonicMs() + limitMs
  const isOver = (): void => {
    own.abort(new DeadlineError('budget', limitMs, 'withBudget'))
  }
  const timer = timerAt(host, endsAt, isOver)
  const follow = (): void => {
    own.abort(attempt.reason)
  }
  attempt.addEventListener('abort', follow, { once: true })
  try {
    const stopped = new Promise<never>((_, reject) => {
      own.signal.addEventListener('abort', () => {
        // The reason is always one of our own errors.
        reject(own.signal.reason as Error)
      })
    })
    const result = await Promise.race([(async () => run(own.signal))(), stopped])
    // A busy `run` lets no timer fire: late is late all the same.
    if (host.monotonicMs() >= endsAt) isOver()
    if (own.signal.aborted) throw own.signal.reason
    return result
  } finally {
    timer.cancel()
    attempt.removeEventListener('abort', follow)
  }
}

function mayBeLeftAlone<T>(work: () => Promise<T>): Promise<T> {
  const promise = work()
  promise.catch(() => {})
  return promise
}
