/**
 * Durable steps, on the handler's side: which of them are stored, which may run, until when, and how often.
 *
 * Names are the identity of steps. A step that an earlier attempt stored gives its result and does not run. Before a new
 * step runs, every stored step that came at this position or before it must have been reached: if one has not, the code
 * has changed since. Steps that ran beside others, or after one that failed, are left out of that rule, because their
 * positions may differ from attempt to attempt.
 */
import {
  after,
  backoffMs,
  DEFAULT_RETRY,
  endsAfter,
  isNonRetryable,
  leftUntil,
  MAX_STEP_NAME,
  MAX_DURABLE_STEPS,
  type Host,
  type Instant,
  type RetryPolicy as BackoffPolicy,
  type StoredStep,
} from '@curfew/core'
import type { AsJson } from '../as-json.ts'
import { Budget } from './budget.ts'
import type { ContextPorts } from './context.ts'
import { toMillis, type Duration } from '../durations.ts'
import {
  DeadlineError,
  InputError,
  NonRetryableError,
  SleepingError,
  StepDeadlineError,
  StepError,
  StopError,
  UnsupportedError,
} from '../errors.ts'
import type { AttemptFacts, StepFacts } from './facts.ts'
import { jsonCopy } from './json-data.ts'
import type { LazyAbort } from './lazy-abort.ts'
import type { RetryPolicy } from '../job/retry.ts'
import { serverNow } from './server-clock.ts'
import { sleep } from '../waiting.ts'

export type StepRun<T> = (signal: AbortSignal) => T | Promise<T>

/** How often and how soon a step is run again within its attempt. `onExhaustion` is the job's. */
export type StepRetry = Omit<RetryPolicy, 'onExhaustion'>

export interface StepRunOptions {
  /** How long one run of it may take; what is left of the attempt when it is left out. */
  readonly timeout?: Duration
  /** One run when it is left out: the job's own retry policy then decides about another attempt. */
  readonly retry?: StepRetry
}

/** Hears of every run of a step before it begins; what it throws the step throws. */
export type StepProbe = (
  step: { readonly jobId: string; readonly type: string; readonly attempt: number; readonly name: string },
  signal: AbortSignal,
) => Promise<void>

const NO_STEPS: StepFacts = { stored: [], serverOffsetMs: null, totalAt: null, totalMs: null, totalSource: '' }

export class Steps {
  readonly #facts: AttemptFacts
  readonly #known: StepFacts
  readonly #stored: ReadonlyMap<string, StoredStep>
  readonly #stop: LazyAbort
  readonly #ports: ContextPorts
  readonly #host: Host
  readonly #called = new Set<string>()
  readonly #running = new Set<Promise<unknown>>()
  /** How many new ones this attempt has begun. */
  #begun = 0
  #hasFailed = false
  #sleeping: SleepingError | null = null

  constructor(facts: AttemptFacts, stop: LazyAbort, ports: ContextPorts) {
    this.#facts = facts
    this.#known = facts.steps ?? NO_STEPS
    this.#stored = new Map(this.#known.stored.map((step) => [step.name, step]))
    this.#stop = stop
    this.#ports = ports
    this.#host = ports.host
  }

  async step<T>(name: string, options: StepRunOptions, run: StepRun<T>): Promise<AsJson<T>> {
    if (typeof run !== 'function')
      throw new InputError(`Step ${shown(name)} needs a function: ctx.step('name', (signal) => …).`, { field: 'run' })
    const timeoutMs = options.timeout === undefined ? Infinity : toMillis(options.timeout, 'timeout')
    const policy = policyOf(options.retry)
    const { position, stored } = this.#enter(name, false)
    // The result was JSON when it was stored, and is what the step gave then.
    if (stored !== null) return stored.result as AsJson<T>
    const work = this.#perform(name, position, timeoutMs, policy, run)
    this.#running.add(work)
    try {
      return await work
    } catch (error) {
      this.#hasFailed = true
      throw error
    } finally {
      this.#running.delete(work)
    }
  }

  async sleep(name: string, duration: Duration): Promise<void> {
    const lengthMs = toMillis(duration, 'sleep')
    if (this.#known.serverOffsetMs === null)
      throw new UnsupportedError('ctx.sleep needs a Curfew server: this one cannot hold a job back until a moment.')
    const { position, stored } = this.#enter(name, true)
    const from = this.#now()
    if (stored !== null && stored.to <= this.#leastNow()) return
    this.#refuseWithoutBudget(name)
    const to = stored?.to ?? after(from, lengthMs)
    this.#refuseBeyondTotal(name, lengthMs, to)
    if (stored === null) {
      const isOrdered = this.#running.size === 0 && !this.#hasFailed
      const { attempt } = this.#facts
      await this.#ports.call({ op: 'step', step: { name, position, isOrdered, attempt, from, to, isSleep: true } })
    }
    // What runs beside it must be stored before the attempt ends, or it would run again.
    const sleeping = new SleepingError(name, new Date(to))
    this.#sleeping ??= sleeping
    await Promise.allSettled(this.#running)
    await this.#ports.call({ op: 'sleep', name, until: to })
    throw sleeping
  }

  /** The step is called here. Gives what is stored of it; null: it has to run. */
  #enter(name: string, isSleep: boolean): { position: number; stored: StoredStep | null } {
    if (typeof name !== 'string' || name === '' || name.length > MAX_STEP_NAME)
      throw new StepError(
        'step_name',
        String(name).slice(0, MAX_STEP_NAME),
        `The name of a step is a text of 1 to ${String(MAX_STEP_NAME)} characters; this was ${shown(name)}.`,
      )
    if (this.#sleeping !== null) throw this.#sleeping
    if (this.#called.has(name))
      throw new StepError(
        'step_repeated',
        name,
        `Two steps of this attempt have the name "${name}". The name is what a result is found by: give each its own, in a ` +
          `loop for example \`${name}-\${index}\`.`,
      )
    const position = this.#called.size
    this.#called.add(name)
    const stored = this.#stored.get(name) ?? null
    if (stored !== null && stored.isSleep !== isSleep)
      throw new StepError(
        'step_order_changed',
        name,
        `"${name}" was a ${stored.isSleep ? 'sleep' : 'step'} when an earlier attempt stored it, and is a ` +
          `${isSleep ? 'sleep' : 'step'} now: the code has changed. Give it another name.`,
        { retryable: true },
      )
    if (stored === null) this.#admit(name, position)
    return { position, stored }
  }

  /** A new step may run here, as far as the order and the number of steps are concerned. */
  #admit(name: string, position: number): void {
    const missed = this.#known.stored.find(
      (step) => step.isOrdered && step.position <= position && !this.#called.has(step.name),
    )
    if (missed !== undefined)
      throw new StepError(
        'step_order_changed',
        name,
        `Step "${missed.name}" was stored by attempt ${String(missed.attempt)} before "${name}" came, and the code does not ` +
          `reach it any more: it was renamed, removed or moved while the job was open. "${name}" was not run. Keep the ` +
          `names and the order of steps, and add new ones at the end, until the jobs that were open have ended.`,
        { retryable: true },
      )
    this.#begun += 1
    if (this.#stored.size + this.#begun > MAX_DURABLE_STEPS)
      throw new StepError(
        'too_many_steps',
        name,
        `A job stores at most ${String(MAX_DURABLE_STEPS)} steps, and "${name}" would be one more. Do several things in one step, ` +
          `or enqueue a job for each part.`,
      )
  }

  async #perform<T>(
    name: string,
    position: number,
    timeoutMs: number,
    policy: BackoffPolicy,
    run: StepRun<T>,
  ): Promise<AsJson<T>> {
    this.#refuseWithoutBudget(name)
    const isAlone = this.#running.size === 0 && !this.#hasFailed
    const calledBefore = this.#called.size
    const from = this.#now()
    const value = await this.#tries(name, timeoutMs, policy, run)
    const result = resultOf(name, value)
    const step: StoredStep = {
      name,
      position,
      isOrdered: isAlone && this.#called.size === calledBefore,
      attempt: this.#facts.attempt,
      from,
      to: this.#now(),
      isSleep: false,
      ...(result === undefined ? {} : { result }),
    }
    await this.#ports.call({ op: 'step', step })
    return result as AsJson<T>
  }

  async #tries<T>(name: string, timeoutMs: number, policy: BackoffPolicy, run: StepRun<T>): Promise<T> {
    for (let tries = 1; ; tries += 1) {
      const { outcome, ended } = this.#once(name, timeoutMs, run)
      try {
        return await outcome
      } catch (error) {
        if (this.#stop.aborted || tries >= policy.maxAttempts || !mayHelp(policy, error)) throw error
        const delayMs = backoffMs(policy, tries, this.#ports.random ?? MIDDLE)
        // The next run could not begin any more.
        if (delayMs >= this.#remainingMs()) throw error
        await this.#pause(name, delayMs, ended)
        this.#refuseWithoutBudget(name)
      }
    }
  }

  /** One run. `ended`: when the function has really come to its end, which may be after its time. */
  #once<T>(name: string, timeoutMs: number, run: StepRun<T>): { outcome: Promise<T>; ended: Promise<unknown> } {
    const startedAt = this.#host.monotonicMs()
    const { softAt } = this.#facts
    const ownEndAt = endsAfter(startedAt, timeoutMs)
    const isOwn = ownEndAt < softAt
    const reason = isOwn ? new StepDeadlineError(name, 'step', timeoutMs, 'the step') : this.#outOfBudget(name, true)
    let ended: Promise<unknown> = Promise.resolve()
    const began = (signal: AbortSignal): Promise<T> => {
      const running = (async () => {
        const { jobId, type, attempt } = this.#facts
        await this.#ports.probe?.({ jobId, type, attempt, name }, signal)
        return run(signal)
      })()
      ended = running.catch(() => {})
      return running
    }
    const budget = new Budget(this.#host, isOwn ? ownEndAt : softAt, reason)
    const outcome = budget.runUntil(this.#stop.signal, (stopped) => inStep(name, stopped), began)
    return { outcome, ended }
  }

  /** The time between two runs. The next one waits for the end of the one before, so that they never overlap. */
  async #pause(name: string, delayMs: number, ended: Promise<unknown>): Promise<void> {
    const budget = new Budget(this.#host, this.#facts.softAt, this.#outOfBudget(name, true))
    await budget.runUntil(
      this.#stop.signal,
      (stopped) => inStep(name, stopped),
      (signal) => Promise.all([ended, sleep(this.#host, delayMs, signal)]),
    )
  }

  #refuseWithoutBudget(name: string): void {
    if (this.#stop.aborted) throw inStep(name, this.#stop.signal.reason as Error, false)
    if (this.#remainingMs() <= 0) throw this.#outOfBudget(name, false)
  }

  #outOfBudget(name: string, isStarted: boolean): StepDeadlineError {
    const { softStop } = this.#facts
    if (softStop.why !== 'deadline') return new StepDeadlineError(name, 'execution', 0, 'default', isStarted)
    return new StepDeadlineError(name, softStop.kind, softStop.limitMs, softStop.source, isStarted)
  }

  #refuseBeyondTotal(name: string, lengthMs: number, to: Instant): void {
    const { totalAt, totalMs, totalSource } = this.#known
    if (totalAt === null || to < totalAt) return
    throw new StepError(
      'sleep_beyond_total',
      name,
      `Sleep "${name}" of ${String(lengthMs)} ms would end at ${new Date(to).toISOString()}, and the job is out of time at ` +
        `${new Date(totalAt).toISOString()} (total_timeout ${String(totalMs ?? 0)} ms, set by ${totalSource}). Sleep for a ` +
        `shorter time, or give the job a longer total timeout.`,
    )
  }

  #remainingMs(): number {
    return leftUntil(this.#facts.softAt, this.#host.monotonicMs())
  }

  /** On the server's clock, and never ahead of it: a sleep must not end early. */
  #leastNow(): Instant {
    const { leastOffsetMs = this.#known.serverOffsetMs } = this.#known
    return serverNow(this.#host, { serverOffsetMs: leastOffsetMs })
  }

  /** On the server's clock, as far as it is known. */
  #now(): Instant {
    return serverNow(this.#host, this.#known)
  }
}

const MIDDLE = (): number => 0.5

function policyOf(retry: StepRetry | undefined): BackoffPolicy {
  if (retry === undefined) return { ...DEFAULT_RETRY, maxAttempts: 1 }
  const { maxAttempts = DEFAULT_RETRY.maxAttempts, initialInterval, maxInterval, backoffStrategy } = retry
  if (!Number.isInteger(maxAttempts) || maxAttempts < 1)
    throw new InputError(`retry.maxAttempts must be a whole number from 1; this was ${String(maxAttempts)}.`, {
      field: 'retry.maxAttempts',
    })
  return {
    ...DEFAULT_RETRY,
    maxAttempts,
    initialMs:
      initialInterval === undefined ? DEFAULT_RETRY.initialMs : toMillis(initialInterval, 'retry.initialInterval'),
    maxMs: maxInterval === undefined ? DEFAULT_RETRY.maxMs : toMillis(maxInterval, 'retry.maxInterval'),
    coefficient: retry.backoffCoefficient ?? DEFAULT_RETRY.coefficient,
    jitter: retry.jitter ?? DEFAULT_RETRY.jitter,
    nonRetryable: retry.nonRetryableErrors ?? [],
    strategy: backoffStrategy === 'none' ? 'constant' : (backoffStrategy ?? DEFAULT_RETRY.strategy),
  }
}

/** Whether another run might end otherwise. */
function mayHelp(policy: BackoffPolicy, error: unknown): boolean {
  if (error instanceof NonRetryableError || error instanceof StepError) return false
  // A step within the step, or the attempt itself, has ended; a step that was only too slow is run again.
  if (error instanceof StopError && !(error instanceof DeadlineError)) return false
  if (typeof error !== 'object' || error === null) return true
  const { name, code, retryable } = error as { name?: unknown; code?: unknown; retryable?: unknown }
  if (retryable === false) return false
  return ![name, code].some((word) => typeof word === 'string' && isNonRetryable(policy, word))
}

/** Why the attempt was stopped, with the step where it is a limit that ended it. */
function inStep(name: string, stopped: Error, isStarted = true): Error {
  if (!(stopped instanceof DeadlineError) || stopped instanceof StepDeadlineError) return stopped
  return new StepDeadlineError(name, stopped.kind, stopped.limitMs, stopped.source, isStarted)
}

function resultOf(name: string, value: unknown): unknown {
  try {
    return jsonCopy(value, `The result of step "${name}"`)
  } catch (error) {
    const said = error instanceof Error ? error.message : String(error)
    throw new StepError(
      'step_result',
      name,
      `${said} It was run, and its result cannot be stored. Return plain JSON, or nothing.`,
      { cause: error },
    )
  }
}

function shown(name: unknown): string {
  return typeof name === 'string' ? JSON.stringify(name.slice(0, 60)) : typeof name
}
