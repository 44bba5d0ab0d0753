/** Runs handlers, inline or in isolates, and tells the session how each one ended. It decides nothing. */
import { readStepDocument, type Host, type Instant, type Random, type StoredStep } from '@curfew/core'
import { Attempt, type AttemptPorts } from '../attempt/attempt.ts'
import { compose, type AttemptMiddleware } from './attempt-middleware.ts'
import type { Context } from '../attempt/context.ts'
import { defineHandler, inputFor, runHandler, type AnyHandlerFunction } from '../attempt/define-handler.ts'
import { checkOutput } from '../job/define-job.ts'
import { errorData, errorFromData } from '../attempt/error-data.ts'
import { LostLeaseError, SleepingError } from '../errors.ts'
import type { GuardNews, GuardOrder } from '../guard/protocol.ts'
import type { Registered } from './handlers.ts'
import { loadHandler } from '../isolate/load-handler.ts'
import type { AttemptFacts, Ending, StepFacts, Stop } from '../attempt/facts.ts'
import { jsonCopy } from '../attempt/json-data.ts'
import { keyOf } from '../attempt/report.ts'
import type { StepProbe } from '../attempt/steps.ts'
import { monotonicNow, type Terms } from '../attempt/terms.ts'
import type { HandedJob } from '../wire/jobs.ts'
import type { Input } from './inputs.ts'

export interface RunnerPorts {
  readonly host: Host
  readonly random: Random
  readonly probe?: StepProbe
  readonly handlers: ReadonlyMap<string, Registered>
  readonly middleware: readonly AttemptMiddleware[]
  readonly order: (order: GuardOrder) => void
  readonly hear: (input: Input & { in: 'settled' | 'sign' | 'lost' }) => void
  readonly calls: Pick<AttemptPorts, 'saveCheckpoint' | 'saveProgress' | 'enqueue' | 'log'>
}

interface Running {
  readonly attempt: Attempt
  /** How its isolate ends it; null for an inline handler. */
  readonly isolate: IsolateEnd | null
}

interface IsolateEnd {
  readonly ending: Promise<Ending>
  readonly end: (ending: Ending) => void
}

export class Runner {
  readonly #ports: RunnerPorts
  readonly #attemptPorts: AttemptPorts
  readonly #running = new Map<string, Running>()

  constructor(ports: RunnerPorts) {
    this.#ports = ports
    const { host, random, probe, calls, hear, order } = ports
    this.#attemptPorts = {
      host,
      random,
      ...(probe === undefined ? {} : { probe }),
      ...calls,
      onSign: (isBare, hold) => {
        const key = keyOf(hold)
        hear({ in: 'sign', key })
        if (isBare) order({ op: 'sign', key })
      },
      onLost: (hold) => {
        hear({ in: 'lost', key: keyOf(hold) })
      },
    }
  }

  get hasInline(): boolean {
    for (const { isolate } of this.#running.values()) if (isolate === null) return true
    return false
  }

  /** Code of its handler may be running. */
  has(key: string): boolean {
    return this.#running.has(key)
  }

  start(key: string, job: HandedJob, terms: Terms): void {
    const handler = this.#ports.handlers.get(job.type)
    if (handler === undefined) throw new Error(`a job of type ${job.type} was started without a handler`)
    const hold = { jobId: job.id, attempt: job.attempt, lease: job.x_lease ?? null }
    const isolate = handler.isolation === 'inline' ? null : isolateEnd()
    const attempt = new Attempt(hold, factsOf(job, terms, handler, monotonicNow(this.#ports.host)), this.#attemptPorts)
    const running: Running = { attempt, isolate }
    this.#running.set(key, running)
    void this.#live(key, handler, running, terms)
  }

  /** Aborts the handler's signal; in an isolate it is killed at `endsAt`. */
  abort(key: string, stop: Stop, endsAt: Instant, isLost: boolean): void {
    const running = this.#running.get(key)
    if (running === undefined) return
    if (running.isolate !== null) this.#ports.order({ op: 'stop', key, stop, killAt: endsAt })
    running.attempt.abort(stop, endsAt, isLost)
  }

  /** The handler may go on, but nothing it asks for counts. */
  abandon(key: string): void {
    this.#running.get(key)?.attempt.giveUp()
  }

  /** What the guard has to tell of isolates. */
  hear(news: GuardNews & { op: 'call' | 'ended' }): void {
    const running = this.#running.get(news.key)
    if (news.op === 'ended') {
      running?.isolate?.end(news.ending)
      return
    }
    const reply = (answer: (GuardOrder & { op: 'reply' })['answer']): void => {
      this.#ports.order({ op: 'reply', key: news.key, id: news.id, answer })
    }
    const asked = running?.attempt.call(news.call) ?? Promise.reject(new LostLeaseError())
    asked.then(
      (value) => {
        reply({ ok: true, value })
      },
      (error: unknown) => {
        reply({ ok: false, error: errorData(error) })
      },
    )
  }

  /** The guard is gone, and with it everything that ran in isolates. */
  loseIsolates(): void {
    const error = { name: 'IsolateError', code: 'isolate_lost', message: 'The thread that ran the isolate ended.' }
    for (const { isolate } of this.#running.values()) isolate?.end({ kind: 'died', error })
  }

  async #live(key: string, handler: Registered, { attempt, isolate }: Running, { hardAt }: Terms): Promise<void> {
    let ending: Ending
    if (isPlain(handler, this.#ports.middleware)) {
      const { context } = attempt
      try {
        const value: unknown = await handler.run(context, context.args)
        ending = value === undefined ? NO_RESULT : { kind: 'returned', result: jsonCopy(value, 'The result') }
      } catch (error) {
        ending = { kind: 'threw', error: errorData(error) }
      }
    } else ending = await this.#execute(key, handler, attempt, isolate, hardAt)
    attempt.close()
    if (attempt.isSaving) await attempt.flush()
    this.#running.delete(key)
    this.#ports.hear({ in: 'settled', key, ending: asleep(attempt, ending) })
  }

  async #execute(
    key: string,
    handler: Registered,
    attempt: Attempt,
    isolate: IsolateEnd | null,
    serverEndsAt: number,
  ): Promise<Ending> {
    const { context } = attempt
    let forced: Ending | null = null
    let startMs: { startMs?: number } = {}
    try {
      const value = await compose(this.#ports.middleware, context, async () => {
        if (isolate === null) return runHere(handler, context)
        const { sent } = await inputFor(handler.job, context.args)
        this.#runThere(key, handler, { ...attempt.facts, input: sent }, serverEndsAt)
        const ended = await isolate.ending
        if ('startMs' in ended && ended.startMs !== undefined) startMs = { startMs: ended.startMs }
        if (ended.kind === 'returned') return checkOutput(handler.job, ended.result)
        if (ended.kind !== 'threw') forced = ended
        throw endingError(ended)
      })
      // What cannot be written as JSON is found out here, where it can be reported, and not on the way.
      return { kind: 'returned', result: jsonCopy(value, 'The result') }
    } catch (error) {
      // What was killed stays killed, whatever the middleware makes of it.
      return forced ?? { kind: 'threw', error: errorData(error), ...startMs }
    }
  }

  /** `serverEndsAt`: when the server ends the attempt by itself. */
  #runThere(key: string, handler: Registered, facts: AttemptFacts, serverEndsAt: number): void {
    const { isolation, module, exportName, memoryMb } = handler
    if (isolation === 'inline' || module === null) throw new Error('a handler without an isolate')
    this.#ports.order({ op: 'run', task: { key, isolation, module, exportName, memoryMb, serverEndsAt, facts } })
  }
}

/** A handler that gave the job back has ended with that, whatever it made of the SleepingError. */
function asleep({ sleep }: Attempt, ending: Ending): Ending {
  return sleep !== null && (ending.kind === 'threw' || ending.kind === 'returned')
    ? { kind: 'slept', ...sleep }
    : ending
}

function isolateEnd(): IsolateEnd {
  let end: (ending: Ending) => void = () => {}
  const ending = new Promise<Ending>((resolve) => (end = resolve))
  return { ending, end }
}

/** What the handler sees of its job. Hand-backs are refunded, so they do not count as attempts here. */
function factsOf(job: HandedJob, terms: Terms, { isolation }: Registered, now: Instant): AttemptFacts {
  const { steps, state } = readStepDocument(job.last_checkpoint ?? null)
  return {
    jobId: job.id,
    type: job.type,
    queue: job.queue,
    attempt: Math.max(1, job.attempt - (job.x_interruptions ?? 0)),
    lease: job.x_lease ?? null,
    maxAttempts: job.max_attempts ?? null,
    args: job.args,
    input: job.args,
    meta: job.meta ?? {},
    lastCheckpoint: state,
    steps: stepFacts(job, terms, steps, now),
    workflowId: job.workflow_id ?? null,
    parentResults: job.parent_results ?? [],
    softAt: terms.softAt,
    softStop: terms.softStop,
    hardAt: isolation === 'inline' ? terms.hardAt : terms.killAt,
  }
}

/** The server tells its own clock by the claim: the worker counts from when it asked, which was no later than the claim. */
function stepFacts(job: HandedJob, { startedAt }: Terms, stored: readonly StoredStep[], now: Instant): StepFacts {
  const { started_at: started, x_lease: lease, x_limits: limits } = job
  const isOurs = lease !== undefined && started !== undefined
  return {
    stored,
    serverOffsetMs: isOurs ? Date.parse(started) - startedAt : null,
    ...(isOurs ? { leastOffsetMs: Date.parse(started) - now } : {}),
    totalAt: limits?.total_deadline === undefined ? null : Date.parse(limits.total_deadline),
    totalMs: limits?.total_ms ?? null,
    totalSource: limits?.sources['total'] ?? 'default',
  }
}

interface PlainHandler extends Registered {
  readonly run: AnyHandlerFunction
}

/** A function in this thread without schemas and middleware: nothing stands between the job and the function. */
function isPlain(handler: Registered, middleware: readonly AttemptMiddleware[]): handler is PlainHandler {
  const { isolation, run, job } = handler
  if (isolation !== 'inline' || run === null || middleware.length > 0) return false
  return job.options.input === undefined && job.options.output === undefined
}

const NO_RESULT: Ending = { kind: 'returned', result: undefined }

/** In the worker's own thread. */
async function runHere({ job, run, module, exportName }: Registered, context: Context): Promise<unknown> {
  if (run !== null) return runHandler(defineHandler(job, run), context, context.args)
  const loaded = await loadHandler(module ?? '', exportName)
  if (!loaded.ok) throw errorFromData(loaded.error)
  const { sent } = await inputFor(job, context.args)
  return checkOutput(job, await runHandler(loaded.handler, context, sent))
}

function endingError(ending: Exclude<Ending, { kind: 'returned' }>): Error {
  if (ending.kind === 'killed') return new LostLeaseError('The handler was killed.')
  if (ending.kind === 'not_begun')
    return new LostLeaseError('The isolate was still starting; the handler had not begun.')
  // An isolate throws when it falls asleep.
  if (ending.kind === 'slept') return new SleepingError(ending.name, new Date(ending.until))
  return errorFromData(ending.error)
}
