/**
 * What a handler sees of its attempt. The same in line, in a thread and in a process: only `ports.call`, the way to the
 * worker, differs.
 *
 * A promise of a call may be left alone: a failure then goes unnoticed, and does not end the process as an unhandled rejection.
 * Who needs to know awaits it.
 */
import { endsAfter, leftUntil, type Host, type Random } from '@curfew/core'
import type { AsJson } from '../as-json.ts'
import { Budget } from './budget.ts'
import { encodeInput, type AnyJob, type SentBy } from '../job/define-job.ts'
import { toMillis, type Duration } from '../durations.ts'
import type { EnqueueOptions } from '../job/enqueue-options.ts'
import { DeadlineError, InputError } from '../errors.ts'
import type { AttemptFacts, Call } from './facts.ts'
import { jsonCopy } from './json-data.ts'
import { logLine, type LogFields } from './job-log.ts'
import type { LazyAbort } from './lazy-abort.ts'
import { serverNow } from './server-clock.ts'
import { Steps, type StepRunOptions, type StepProbe, type StepRun } from './steps.ts'
import { stopError } from './stop-error.ts'
import type { JobView } from '../wire/jobs.ts'

/** What an enqueue from within a handler may say. It crosses to the worker as JSON; the parent is this job. */
export type ContextEnqueueOptions = Omit<EnqueueOptions, 'signal' | 'parent'>

export interface Context {
  readonly jobId: string
  readonly type: string
  readonly queue: string
  /** The number of this attempt, from 1. */
  readonly attempt: number
  /**
   * Grows with each time this job is handed out, and never repeats: a fencing token for systems that the handler writes
   * to. It orders the attempts of one job, not of several. Null on servers that do not number their leases.
   */
  readonly lease: number | null
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
   * Whole milliseconds for clean-up. Until the handler is asked to stop: the length of the grace that will follow. After
   * that: what is left until the attempt is ended by force. 0 when it is over, or lost.
   */
  graceRemaining(): number
  /**
   * Runs under the smaller of `duration` and what is left. The signal is aborted when that is over, and the promise
   * rejects with its reason, whether or not `run` listens: a DeadlineError of kind `budget`, or the attempt's own.
   *
   * After the handler was asked to stop, what is left is `graceRemaining()`: `run` gets a signal that is not aborted
   * yet, and the kind is `grace` when it was the grace that ran out.
   */
  withBudget<T>(duration: Duration, run: (signal: AbortSignal) => T | Promise<T>): Promise<T>
  /**
   * Runs a part of the job once: its result is stored before the promise resolves, and a later attempt, on any worker, gets
   * that result without running it again. A result is JSON: the step returns its result as `JSON.stringify` writes it, the
   * first time as well.
   *
   * It runs under the smaller of its `timeout` and what is left of the attempt. When that is over its signal is aborted and
   * the promise rejects with a StepDeadlineError. A step for which nothing is left does not start. See docs/steps.md.
   */
  step<T>(name: string, run: StepRun<T>): Promise<AsJson<T>>
  step<T>(name: string, options: StepRunOptions, run: StepRun<T>): Promise<AsJson<T>>
  /**
   * Gives the job back until `duration` has passed, without using an attempt; then it goes on here. The attempt that falls
   * asleep ends with a SleepingError: let it pass. See docs/steps.md.
   */
  sleep(name: string, duration: Duration): Promise<void>
  /** From 0 to 1. A sign of life, too. */
  progress(value: number, message?: string, data?: unknown): Promise<void>
  /** Saves where the next attempt should go on. Resolves when it is stored. */
  checkpoint(state: unknown): Promise<void>
  /**
   * Writes a line into the log of the job, where operators and `client.get` see it: the newest 100 lines of all attempts,
   * 1 000 characters each, 16 384 in total. It makes no call, never fails, and goes along with what is sent anyway.
   */
  log(message: string, fields?: LogFields): void
  /** A sign of life, for handlers with a heartbeat timeout. */
  heartbeat(): Promise<void>
  enqueue<J extends AnyJob>(job: J, input: SentBy<J>, options?: ContextEnqueueOptions): Promise<JobView>
  enqueue(type: string, input: unknown, options?: ContextEnqueueOptions): Promise<JobView>
}

export interface ContextPorts {
  /** Rejects when the worker or the server refuses, and when the attempt is over. */
  call(call: Call): Promise<unknown>
  readonly host: Host
  /** For the jitter of retries of steps; the middle when it is left out. */
  readonly random?: Random
  /** The test kit looks at every step before it runs. */
  readonly probe?: StepProbe
  /**
   * When the attempt is ended by force, on the monotonic clock. May move nearer: by a cancel, by a shutdown. -Infinity
   * when it is over, or lost.
   */
  endsAt(): number
}

/** `stop` makes the signal when the handler asks for it. */
export function createContext(facts: AttemptFacts, stop: LazyAbort, ports: ContextPorts): Context {
  return new AttemptContext(facts, stop, ports)
}

type ContextCalls = Pick<
  Context,
  | 'remaining'
  | 'graceRemaining'
  | 'withBudget'
  | 'step'
  | 'sleep'
  | 'progress'
  | 'checkpoint'
  | 'log'
  | 'heartbeat'
  | 'enqueue'
>

/** Its functions are made when the handler first asks for one, and may be taken out of it: `({ log }) => log('…')`. */
class AttemptContext implements Context {
  readonly jobId: string
  readonly type: string
  readonly queue: string
  readonly attempt: number
  readonly lease: number | null
  readonly maxAttempts: number | null
  readonly args: readonly unknown[]
  readonly meta: Readonly<Record<string, unknown>>
  readonly lastCheckpoint: unknown
  readonly workflowId: string | null
  readonly parentResults: readonly unknown[]
  readonly #facts: AttemptFacts
  readonly #stop: LazyAbort
  readonly #ports: ContextPorts
  #made: ContextCalls | null = null

  constructor(facts: AttemptFacts, stop: LazyAbort, ports: ContextPorts) {
    this.jobId = facts.jobId
    this.type = facts.type
    this.queue = facts.queue
    this.attempt = facts.attempt
    this.lease = facts.lease
    this.maxAttempts = facts.maxAttempts
    this.args = facts.args
    this.meta = facts.meta
    this.lastCheckpoint = facts.lastCheckpoint
    this.workflowId = facts.workflowId
    this.parentResults = facts.parentResults
    this.#facts = facts
    this.#stop = stop
    this.#ports = ports
  }

  get signal(): AbortSignal {
    return this.#stop.signal
  }

  get remaining(): Context['remaining'] {
    return this.#calls.remaining
  }

  get graceRemaining(): Context['graceRemaining'] {
    return this.#calls.graceRemaining
  }

  get withBudget(): Context['withBudget'] {
    return this.#calls.withBudget
  }

  get step(): Context['step'] {
    return this.#calls.step
  }

  get sleep(): Context['sleep'] {
    return this.#calls.sleep
  }

  get progress(): Context['progress'] {
    return this.#calls.progress
  }

  get checkpoint(): Context['checkpoint'] {
    return this.#calls.checkpoint
  }

  get log(): Context['log'] {
    return this.#calls.log
  }

  get heartbeat(): Context['heartbeat'] {
    return this.#calls.heartbeat
  }

  get enqueue(): Context['enqueue'] {
    return this.#calls.enqueue
  }

  get #calls(): ContextCalls {
    this.#made ??= contextCalls(this.#facts, this.#stop, this.#ports)
    return this.#made
  }
}

function contextCalls(facts: AttemptFacts, stop: LazyAbort, ports: ContextPorts): ContextCalls {
  const { host } = ports
  // Most handlers have none.
  let made: Steps | null = null
  const steps = (): Steps => (made ??= new Steps(facts, stop, ports))
  const remaining = (): number => Math.floor(leftUntil(facts.softAt, host.monotonicMs()))
  const graceRemaining = (): number => {
    const [now, endsAt] = [host.monotonicMs(), ports.endsAt()]
    if (endsAt === Infinity) return Infinity
    return Math.floor(leftUntil(endsAt, stop.aborted ? now : Math.max(now, facts.softAt)))
  }

  return {
    remaining,
    graceRemaining,

    async withBudget(duration, run) {
      const limitMs = toMillis(duration, 'withBudget')
      const { signal } = stop
      const ownBudget = (): Budget =>
        new Budget(host, endsAfter(host.monotonicMs(), limitMs), new DeadlineError('budget', limitMs, 'withBudget'))
      if (signal.aborted) {
        if (graceRemaining() === 0) throw signal.reason
        const budget = ownBudget()
        budget.endWith(() => ports.endsAt())
        return budget.run(run)
      }
      // Not by `remaining`: in the last part of a millisecond the limit has not passed yet.
      if (leftUntil(facts.softAt, host.monotonicMs()) === 0) throw stopError(facts.softStop)
      return ownBudget().runUntil(signal, (reason) => reason, run)
    },

    step<T>(name: string, ...rest: [StepRun<T>] | [StepRunOptions, StepRun<T>]): Promise<AsJson<T>> {
      const [options, run] = rest.length === 1 ? [{}, rest[0]] : rest
      return mayBeLeftAlone(() => steps().step(name, options, run))
    },

    sleep(name, duration) {
      return mayBeLeftAlone(() => steps().sleep(name, duration))
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

    log(message, fields) {
      const lines = [logLine(serverNow(host, facts.steps), message, fields)]
      // A line that is written after the end of the attempt is lost.
      ports.call({ op: 'log', lines, dropped: 0 }).catch(() => {})
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

function mayBeLeftAlone<T>(work: () => Promise<T>): Promise<T> {
  const promise = work()
  promise.catch(() => {})
  return promise
}
