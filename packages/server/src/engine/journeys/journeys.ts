/**
 * Runs under way on this server. A run is a document, and whatever changes it is a command like any other; here it is
 * taken on: thought out (`core/journey/run/walk.ts`), saved if it is still as it was, and then its calls are made.
 *
 *   saved ─→ something of it is ours ─→ walk ─→ save ─┬→ saved …
 *                                        ↑            └→ calls ─→ their answers ─┐
 *                                        └──────────────────────────────────────┘
 *
 * Nothing here is the truth: if this server dies, another one finds in the store what it was doing, and does it again
 * (journeys/run-owners.ts). A call is aborted as soon as its result is not needed: the run is over, or its branch has lost.
 */
import {
  broken,
  failedResult,
  instant,
  isAtRest,
  isEntering,
  ownersOf,
  leaves,
  OjsError,
  openStep,
  openSteps,
  RUN,
  surveyOf,
  uuidV7,
  withDefaults,
  type Definition,
  type HttpResult,
  type Run,
  type Walked,
  type WantedCall,
} from '@curfew/core'
import { onAbort } from '../kernel/until.ts'
import type { Command } from '../kernel/command.ts'
import { definitionOf } from '../definitions/definitions.ts'
import type { JourneysContext } from './context.ts'
import { Aborts } from './aborts.ts'
import { performCall } from './call.ts'
import { RunOwners } from './run-owners.ts'
import { Pace } from './pace.ts'
import { findRun } from './runs.ts'
import { takeStep } from './steps.ts'
import { Thinking } from './thought.ts'
import { Turns } from './turns.ts'
import { RunWatch } from './watch.ts'
import { retryDelay } from '../kernel/retry-delay.ts'

const MAX_TURNS = 10_000
/** So many calls begin before others have a turn. */
const CALLS_A_TURN = 4

interface UnderwayCall {
  readonly controller: AbortController
  /** The revision of the run that asks for it. An older one, which may be read late, says nothing about it. */
  readonly sinceRevision: number
}

interface Underway {
  run: Run
  /** Calls that are made, or will be once what asks for them is saved; by their visit. */
  readonly calls: Map<number, UnderwayCall>
  readonly results: Map<number, HttpResult>
  readonly pace: Pace
  isWalking: boolean
  again: boolean
  /** Ends the rest before the next walk. */
  wake: () => void
}

export class Journeys {
  /** What this server is called in the documents of runs. */
  readonly server: string
  readonly #context: JourneysContext
  readonly #owners: RunOwners
  readonly #underway = new Map<string, Underway>()
  readonly #watch: RunWatch
  readonly #thinking: Thinking
  /** Headers of the request that is being served, for the calls made meanwhile; never stored. */
  readonly #passedOn = new Map<string, Readonly<Record<string, string>>>()
  readonly #turns: Turns
  readonly #aborts: Aborts
  /** Of every call that is being made. */
  readonly #open = new Set<AbortController>()
  readonly #busy = new Set<Promise<unknown>>()

  constructor(context: JourneysContext) {
    this.#context = context
    this.server = uuidV7(instant(context.host.wallMs()), context.random)
    this.#owners = new RunOwners(context, () => this.isOwner)
    this.#turns = new Turns(context.host, !context.hasManualClock)
    this.#aborts = new Aborts(context, this.#turns)
    this.#thinking = new Thinking(context, this.#turns)
    this.#watch = new RunWatch(context, (run) => {
      this.#heard(run)
    })
    onAbort([context.closing], () => {
      for (const call of this.#open) call.abort()
      for (const underway of this.#underway.values()) underway.wake()
    })
  }

  get isOwner(): boolean {
    return this.#underway.size > 0
  }

  /** A run is being taken on, or a call is being made for one. */
  get isBusy(): boolean {
    return this.#busy.size > 0
  }

  /** Goes on with what was under way when the server went down. */
  open(): void {
    this.#track(this.#takeUp())
  }

  /** What was left behind is found once, or not before the next start: a store that fails just then is asked again. */
  async #takeUp(): Promise<void> {
    const { closing, log } = this.#context
    while (!closing.aborted) {
      try {
        return await this.#owners.takeUp()
      } catch (error) {
        log.warn({ err: error }, 'runs that a stopped server owned could not be taken over; trying again')
        await retryDelay(this.#context)
      }
    }
  }

  /** Calls are broken off; what was under way is taken up by another server, or after the restart. */
  async close(): Promise<void> {
    this.#abortCalls()
    await Promise.allSettled(this.#busy)
    await this.#owners.close()
  }

  /** Everything was removed (test bench only). */
  forget(): void {
    this.#abortCalls()
    for (const { run } of [...this.#underway.values()]) this.#letGo(run)
  }

  #abortCalls(): void {
    for (const { calls } of this.#underway.values()) for (const { controller } of calls.values()) controller.abort()
  }

  async definitionOf({ name, version }: Pick<Run, 'name' | 'version'>): Promise<Definition> {
    const found = await definitionOf(this.#context, name, version)
    if (found === null) throw broken(`the definition ${name} ${version} is gone`)
    return found.definition
  }

  /** Runs a command of a request whose headers are passed on to the calls that follow from it. */
  async passingOn<T>(runId: string, headers: Readonly<Record<string, string>>, command: Command<T>): Promise<T> {
    // Known before the run is saved: its calls begin right after.
    if (Object.keys(headers).length > 0) this.#passedOn.set(runId, headers)
    try {
      return await this.#context.run(command)
    } catch (error) {
      this.#passedOn.delete(runId)
      throw error
    }
  }

  /** There is no such run after all. */
  passNothingOn(runId: string): void {
    this.#passedOn.delete(runId)
  }

  /** A server is taken for dead. */
  abandoned(server: string): void {
    this.#track(this.#owners.takeOver(server))
  }

  /** Answers when it is over, or open for a submission. */
  untilPause(id: string, signal: AbortSignal): Promise<Run> {
    return this.#watch.until(id, signal, (run) => run.phase !== 'RUNNING' || openSteps(run).length > 0)
  }

  /** Answers when it is over, or nothing is under way for it. */
  untilRest(id: string, signal: AbortSignal): Promise<Run> {
    return this.#watch.until(id, signal, (run) => run.phase !== 'RUNNING' || isAtRest(run))
  }

  /** Answers when the step is open, or no state of the run is about to be entered. */
  untilOpen(id: string, stepId: string, signal: AbortSignal): Promise<Run> {
    return this.#watch.until(id, signal, (run) => openStep(run, stepId) !== null || !isEntering(run))
  }

  // ---- Taking on ----

  /** A run was saved here, and is on disk. */
  saved(run: Run): void {
    this.#watch.tell(run)
    this.#heard(run)
    if (isAtRest(run) || run.phase !== 'RUNNING') this.#passedOn.delete(run.id)
    if (!ownersOf(run).has(this.server)) return
    const underway = this.#underway.get(run.id) ?? this.#begin(run)
    if (run.revision >= underway.run.revision) underway.run = run
    this.#goOn(underway)
    if (hasReady(run, this.server)) underway.wake()
  }

  #begin(run: Run): Underway {
    const underway: Underway = {
      run,
      calls: new Map(),
      results: new Map(),
      pace: new Pace(),
      isWalking: false,
      again: false,
      wake: () => {},
    }
    this.#underway.set(run.id, underway)
    this.#watch.watch(run.id)
    this.#owners.owning()
    return underway
  }

  #letGo({ id }: Run): void {
    this.#underway.delete(id)
    this.#watch.unwatch(id)
  }

  /** A run that is under way here was changed: calls that it does not wait for any more are broken off. */
  #heard(run: Run): void {
    const underway = this.#underway.get(run.id)
    if (underway === undefined || run.revision < underway.run.revision) return
    const isOver = run.phase !== 'RUNNING'
    if (underway.calls.size > 0) {
      const wanted = new Set(isOver ? [] : leaves(run.root).map(({ visit }) => visit))
      for (const [visit, { controller, sinceRevision }] of underway.calls)
        if (run.revision >= sinceRevision && !wanted.has(visit))
          this.#aborts.add(() => {
            controller.abort()
          })
    }
    if (!isOver) return
    underway.run = run
    underway.wake()
    this.#letGoIfDone(underway)
  }

  #letGoIfDone(underway: Underway): void {
    if (underway.isWalking || underway.calls.size > 0) return
    if (this.#underway.get(underway.run.id) === underway && !ownersOf(underway.run).has(this.server))
      this.#letGo(underway.run)
  }

  #goOn(underway: Underway): void {
    underway.again = true
    if (underway.isWalking) return
    underway.isWalking = true
    this.#track(this.#walkOn(underway))
  }

  async #walkOn(underway: Underway): Promise<void> {
    const { closing } = this.#context
    while (underway.again && !closing.aborted) {
      try {
        await this.#restBefore(underway)
        underway.again = false
        await this.#walkOnce(underway)
      } catch (error) {
        if (!(error instanceof OjsError))
          this.#context.log.error({ err: error }, 'a step of a run failed with an internal error; trying again')
        await retryDelay(this.#context)
        underway.again = true
      }
    }
    underway.isWalking = false
    this.#letGoIfDone(underway)
  }

  /** Neither faster than a run may go, nor for each of many answers alone. */
  async #restBefore(underway: Underway): Promise<void> {
    const { run, pace, calls } = underway
    const { host } = this.#context
    const nowMs = host.monotonicMs()
    const forAnswersMs =
      calls.size === 0 || hasReady(run, this.server) ? 0 : pace.untilAnswersMs(surveyOf(run.root).width, nowMs)
    const restMs = Math.max(pace.untilStepMs(nowMs), forAnswersMs)
    if (restMs === 0) return
    await new Promise<void>((resolve) => {
      const timer = host.setTimer(restMs, resolve)
      underway.wake = () => {
        // The rate holds whatever there is to do, unless there is nothing any more.
        if (
          pace.untilStepMs(host.monotonicMs()) > 0 &&
          underway.run.phase === 'RUNNING' &&
          !this.#context.closing.aborted
        )
          return
        timer.cancel()
        resolve()
      }
    })
    underway.wake = () => {}
  }

  /** Answers once no run is being taken on; at the latest after a while, since some never rest. */
  async walked(): Promise<void> {
    const isWalking = (): boolean => [...this.#underway.values()].some((underway) => underway.isWalking)
    for (let turns = 0; turns < MAX_TURNS && isWalking(); turns += 1)
      await new Promise<void>((resolve) => {
        this.#context.host.defer(resolve)
      })
  }

  async #walkOnce(underway: Underway): Promise<void> {
    const { run, results, calls } = underway
    if (!ownersOf(run).has(this.server)) return
    const terms = { server: this.server, results, underway: calls }
    const walked = await this.#thinking.walk(run, await this.definitionOf(run), terms)
    if (walked.isLate) {
      await findRun(this.#context, run.id)
      return
    }
    if (walked.run.root === run.root && walked.run.end === null && walked.calls.length === 0) return
    const sinceRevision = run.revision + 1
    for (const { visit, isNotice } of walked.calls)
      if (!isNotice) calls.set(visit, { controller: new AbortController(), sinceRevision })
    await this.#context.longDocs.prepare(RUN, run.id, walked.run)
    const taken = await this.#context.run(takeStep(this.#context, run, walked)).catch((error: unknown) => {
      this.#release(underway, walked)
      throw error
    })
    if (!taken.isDone) {
      this.#release(underway, walked)
      if (taken.run !== null && taken.run.revision > underway.run.revision) underway.run = taken.run
      underway.again = true
      return
    }
    const { width } = surveyOf(walked.run.root)
    underway.pace.saved(walked.run.visits - run.visits, width, this.#context.host.monotonicMs())
    if (results.size > 0) {
      const calling = new Set(
        leaves(walked.run.root).flatMap(({ rest, visit }) => (rest.kind === 'calling' ? [visit] : [])),
      )
      for (const visit of results.keys()) if (!calling.has(visit)) results.delete(visit)
    }
    for (const [index, wanted] of walked.calls.entries()) {
      if (index % CALLS_A_TURN === CALLS_A_TURN - 1) await this.#turns.later(Math.floor(index / CALLS_A_TURN))
      if (this.#context.closing.aborted) return
      this.#track(this.#call(underway, wanted))
    }
  }

  #release({ calls }: Underway, walked: Walked): void {
    for (const { visit, isNotice } of walked.calls) if (!isNotice) calls.delete(visit)
  }

  // ---- Calls ----

  async #call(underway: Underway, { path, visit, call, timeoutMs, resilience, isNotice }: WantedCall): Promise<void> {
    const { id, deadlineAt } = underway.run
    const controller = (isNotice ? undefined : underway.calls.get(visit)?.controller) ?? new AbortController()
    const prepared = withDefaults(call, this.#passedOn.get(id) ?? {})
    let isAnswered: boolean
    this.#open.add(controller)
    if (this.#context.closing.aborted) controller.abort()
    try {
      const terms = { timeoutMs, resilience: isNotice ? null : resilience, deadlineAt, signal: controller.signal }
      const idempotencyKey = `${id}/${path}/${String(visit)}`
      const result = await performCall(this.#context, prepared, { ...terms, idempotencyKey, cutOff: this.#aborts.add })
      isAnswered = result !== null
      if (!isNotice && result !== null) underway.results.set(visit, result)
    } catch (error) {
      // Of ours, and no reason to keep the run waiting. What it says may quote what was sent.
      this.#context.log.error(
        { error: error instanceof Error ? error.name : 'unknown' },
        'a call of a run failed with an internal error',
      )
      isAnswered = true
      if (!isNotice) underway.results.set(visit, failedResult('NETWORK', 'the call could not be made'))
    } finally {
      this.#open.delete(controller)
      if (!isNotice) underway.calls.delete(visit)
    }
    if (isNotice) return
    if (underway.calls.size === 0) underway.wake()
    // Without an answer there is nothing to go on with: time, or what was saved, has ended the call.
    if (isAnswered) this.#goOn(underway)
    else this.#letGoIfDone(underway)
  }

  #track(work: Promise<unknown>): void {
    const busy: Promise<unknown> = work
      .catch((error: unknown) => {
        if (!(error instanceof OjsError)) this.#context.log.error({ err: error }, 'a run failed with an internal error')
      })
      .finally(() => this.#busy.delete(busy))
    this.#busy.add(busy)
  }
}

/** A state is to be entered by this server. */
function hasReady(run: Run, server: string): boolean {
  return surveyOf(run.root).ready.has(server)
}
