/** The attempts a worker is running: each gets its handler, its guard and, at its end, its report. */
import { after, isDue, type Host, type Instant } from '@curfew/core'
import { Attempt, type AttemptPorts } from './attempt.ts'
import type { Context } from './context.ts'
import { defineHandler, inputFor, runHandler } from './define-handler.ts'
import { checkOutput } from './define-job.ts'
import { LostLeaseError } from './errors.ts'
import type { GuardNews, GuardOrder, StopOrder, Watched } from './guard/protocol.ts'
import type { Registered } from './handlers.ts'
import { errorData, errorFromData } from './error-data.ts'
import type { AttemptFacts, Ending, Stop } from './isolate/protocol.ts'
import { loadHandler } from './isolate/load-handler.ts'
import { jsonCopy } from './json-data.ts'
import type { Log } from './log.ts'
import { compose, type AttemptMiddleware } from './attempt-middleware.ts'
import { keyOf, reportOf, type Hold, type Report } from './report.ts'
import { monotonicNow, termsOf, type Asked, type Terms } from './terms.ts'
import type { HandedJob } from './wire.ts'

export interface AttemptsPorts {
  readonly host: Host
  readonly log: Log
  readonly handlers: ReadonlyMap<string, Registered>
  readonly middleware: readonly AttemptMiddleware[]
  readonly order: (order: GuardOrder) => void
  readonly report: (report: Report) => void
  /** A slot is free again. */
  readonly onFree: () => void
  readonly calls: Pick<AttemptPorts, 'saveCheckpoint' | 'saveProgress' | 'enqueue'>
}

/** A job that has a handler here, and for which the guard vouches. */
export interface Arrived {
  readonly job: HandedJob
  readonly hold: Hold
  readonly handler: Registered
  readonly terms: Terms
  readonly watched: Watched
}

interface Running {
  readonly attempt: Attempt
  readonly watched: Watched
  readonly ended: ((ending: Ending) => void) | null
}

export class Attempts {
  readonly #ports: AttemptsPorts
  readonly #running = new Map<string, Running>()
  #abandoned = 0
  #emptied: (() => void)[] = []

  constructor(ports: AttemptsPorts) {
    this.#ports = ports
  }

  get size(): number {
    return this.#running.size
  }

  /** Handlers that did not stop and could not be stopped. */
  get abandoned(): number {
    return this.#abandoned
  }

  get hasInline(): boolean {
    for (const { ended } of this.#running.values()) if (ended === null) return true
    return false
  }

  /** What a beat may vouch for: what is lost is not. */
  watched(): Watched[] {
    const counted = [...this.#running.values()].filter(({ attempt }) => attempt.stopped?.why !== 'lost')
    return counted.map(({ watched }) => watched)
  }

  /** Until nothing runs any more. */
  emptied(): Promise<void> {
    if (this.#running.size === 0) return Promise.resolve()
    return new Promise((resolve) => this.#emptied.push(resolve))
  }

  /** The guard is told of a job before any handler may block this thread; its end is told when its report has arrived. */
  arrive(job: HandedJob, asked: Asked): Arrived | null {
    const { handlers, report, order } = this.#ports
    const hold: Hold = { jobId: job.id, attempt: job.attempt, lease: job.x_lease ?? null }
    const handler = handlers.get(job.type)
    if (handler === undefined) {
      const message = `This worker has no handler for ${job.type}.`
      report({ kind: 'nack', hold, requeue: false, error: { type: 'handler_not_found', message } })
      return null
    }
    const terms = termsOf(job, asked, handler.limits)
    const watched: Watched = {
      key: keyOf(hold),
      jobId: hold.jobId,
      lease: hold.lease,
      manual: handler.isManual,
      stallMs: terms.stallMs,
      graceMs: terms.graceMs,
      hardAt: handler.isolation === 'inline' ? terms.hardAt : terms.killAt,
      softStop: terms.softStop,
    }
    order({ op: 'begin', attempt: watched })
    return { job, hold, handler, terms, watched }
  }

  begin({ job, hold, handler, terms, watched }: Arrived): void {
    const { host, report } = this.#ports
    if (isDue(terms.softAt, monotonicNow(host))) {
      const late = reportOf(hold, terms, terms.softStop, { kind: 'threw', error: NEVER_STARTED }, terms.softAt)
      if (late !== null) report(late)
      return
    }
    const { key } = watched
    const facts: AttemptFacts = {
      jobId: job.id,
      type: job.type,
      queue: job.queue,
      // A hand-back does not use up a try, so it does not count as one for the handler either.
      attempt: Math.max(1, job.attempt - (job.x_interruptions ?? 0)),
      maxAttempts: job.max_attempts ?? null,
      args: job.args,
      input: job.args,
      meta: job.meta ?? {},
      lastCheckpoint: job.last_checkpoint ?? null,
      workflowId: job.workflow_id ?? null,
      parentResults: job.parent_results ?? [],
      softAt: terms.softAt,
      softStop: terms.softStop,
      hardAt: watched.hardAt,
    }
    void this.#live(watched, handler, new Attempt(hold, terms, facts, handler.isManual, this.#portsOf(key, handler)))
  }

  /** What the guard has to tell of isolates. */
  hear(news: GuardNews & { op: 'call' | 'ended' }): void {
    const running = this.#running.get(news.key)
    if (news.op === 'ended') {
      running?.ended?.(news.ending)
      return
    }
    const reply = (answer: (GuardOrder & { op: 'reply' })['answer']): void => {
      this.#ports.order({ op: 'reply', key: news.key, id: news.id, answer })
    }
    const asked = running?.attempt.perform(news.call) ?? Promise.reject(new LostLeaseError())
    asked.then(
      (value) => {
        reply({ ok: true, value })
      },
      (error: unknown) => {
        reply({ ok: false, error: errorData(error) })
      },
    )
  }

  /** The server says which attempts must stop, and why. */
  obey({ job_id: jobId, reason, x_lease: lease }: StopOrder): void {
    const now = this.#now()
    for (const { attempt } of this.#running.values()) {
      if (attempt.hold.jobId !== jobId || (lease !== undefined && attempt.hold.lease !== lease)) continue
      const { softStop, hardAt, graceMs } = attempt.terms
      if (reason === 'timeout') attempt.stop(softStop, hardAt)
      else attempt.stop({ why: reason }, after(now, graceMs))
    }
    this.#disown()
  }

  /** Every attempt must stop; those that have not by then are given up. */
  stopAll(stop: Stop, giveUpAt: (attempt: Attempt) => Instant): void {
    for (const { attempt } of this.#running.values()) attempt.stop(stop, giveUpAt(attempt))
    this.#disown()
  }

  /** No beat may vouch for what is lost: it may be running elsewhere, or here anew. */
  #disown(): void {
    for (const [key, { attempt }] of this.#running)
      if (attempt.stopped?.why === 'lost') this.#ports.order({ op: 'end', key })
  }

  #now(): Instant {
    return monotonicNow(this.#ports.host)
  }

  #portsOf(key: string, { isolation }: Registered): AttemptPorts {
    const { host, log, order, calls } = this.#ports
    return {
      host,
      log,
      ...calls,
      sign: () => {
        order({ op: 'sign', key })
      },
      stopIsolate:
        isolation === 'inline'
          ? null
          : (stop, killAt) => {
              order({ op: 'stop', key, stop, killAt })
            },
    }
  }

  async #live(watched: Watched, handler: Registered, attempt: Attempt): Promise<void> {
    const { order, report, middleware, log } = this.#ports
    const { hold, terms } = attempt
    const { key } = watched
    let isolated: { promise: Promise<Ending>; ended: (ending: Ending) => void } | null = null
    if (handler.isolation !== 'inline') {
      let ended: (ending: Ending) => void = () => {}
      const promise = new Promise<Ending>((resolve) => (ended = resolve))
      isolated = { promise, ended }
    }
    this.#running.set(key, { attempt, watched, ended: isolated?.ended ?? null })

    const ending = await attempt.live(async (context) => {
      let forced: Ending | null = null
      let startMs: { startMs?: number } = {}
      try {
        const value = await compose(middleware, context, async () => {
          if (isolated === null) return runHere(handler, context)
          const { sent } = await inputFor(handler.job, context.args)
          const ended = await this.#runThere(
            key,
            handler,
            { ...attempt.facts, input: sent },
            terms.hardAt,
            isolated.promise,
          )
          if ('startMs' in ended && ended.startMs !== undefined) startMs = { startMs: ended.startMs }
          if (ended.kind === 'returned') return checkOutput(handler.job, ended.result)
          if (ended.kind !== 'threw') forced = ended
          throw endingError(ended)
        })
        // What cannot be written as JSON is found out here, where it can be told of, and not on the way.
        return { kind: 'returned', result: jsonCopy(value, 'The result') }
      } catch (error) {
        // What was killed stays killed, whatever the middleware makes of it.
        return forced ?? { kind: 'threw', error: errorData(error), ...startMs }
      }
    })

    if (ending.kind === 'abandoned') this.#abandoned += 1
    await attempt.flush()
    const told = reportOf(hold, terms, attempt.stopped, ending, this.#now())
    this.#running.delete(key)
    if (told === null) {
      order({ op: 'end', key })
      log.warn(
        { job_id: hold.jobId, attempt: hold.attempt, ended: ending.kind, stopped: attempt.stopped?.why ?? null },
        'an attempt ended that the server no longer counts on; its outcome is dropped',
      )
    } else report(told)
    if (this.#running.size === 0) for (const resolve of this.#emptied.splice(0)) resolve()
    this.#ports.onFree()
  }

  #runThere(
    key: string,
    handler: Registered,
    facts: AttemptFacts,
    serverEndsAt: number,
    ended: Promise<Ending>,
  ): Promise<Ending> {
    if (handler.isolation === 'inline' || handler.module === null) throw new Error('a handler without an isolate')
    this.#ports.order({
      op: 'run',
      task: {
        key,
        isolation: handler.isolation,
        module: handler.module,
        exportName: handler.exportName,
        memoryMb: handler.memoryMb,
        serverEndsAt,
        facts,
      },
    })
    return ended
  }
}

const NEVER_STARTED = { name: 'Error', message: 'The job arrived when its time was up; it was not started.' }

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
  return errorFromData(ending.error)
}
