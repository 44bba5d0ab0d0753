/**
 * Runs under way on this server. A run is a document, and whatever changes it is a command like any other; here it is
 * taken on: thought out (`core/journey-walk.ts`), saved if it is still as it was, and then its calls are made.
 *
 *   saved ─→ something of it is ours ─→ walk ─→ save ─┬→ saved …
 *                                        ↑            └→ calls ─→ their answers ─┐
 *                                        └──────────────────────────────────────┘
 *
 * Nothing here is the truth: if this server dies, another one finds in the store what it was doing, and does it again
 * (journey-keepers.ts). A call is aborted as soon as nobody waits for it: the run is over, or its branch has lost.
 */
import {
  broken,
  failedResult,
  instant,
  isAtRest,
  keepersOf,
  leaves,
  OjsError,
  openSteps,
  uuidV7,
  withDefaults,
  type Definition,
  type HttpResult,
  type Run,
  type Walked,
  type WantedCall,
} from '@curfew/core'
import type { Command } from './corridor.ts'
import { definitionOf } from './definitions.ts'
import type { Engine } from './engine.ts'
import { performCall } from './journey-call.ts'
import { Keepers } from './journey-keepers.ts'
import { findRun } from './journey-runs.ts'
import { takeStep } from './journey-steps.ts'
import { Thinking } from './journey-thought.ts'
import { RunWatch } from './journey-watch.ts'
import { restAfterTrouble } from './trouble.ts'

const MOST_TURNS = 10_000

interface Underway {
  run: Run
  /** Calls that are made, or will be once what asks for them is saved; by their visit. */
  readonly calls: Map<number, AbortController>
  readonly results: Map<number, HttpResult>
  isWalking: boolean
  again: boolean
}

export class Journeys {
  /** What this server is called in the documents of runs. */
  readonly server: string
  readonly #engine: Engine
  readonly #keepers: Keepers
  readonly #underway = new Map<string, Underway>()
  readonly #watch: RunWatch
  readonly #thinking: Thinking
  /** Headers of the request that is being served, for the calls made meanwhile; never stored. */
  readonly #passedOn = new Map<string, Readonly<Record<string, string>>>()
  readonly #busy = new Set<Promise<unknown>>()

  constructor(engine: Engine) {
    this.#engine = engine
    this.server = uuidV7(instant(engine.host.wallMs()), engine.random)
    this.#keepers = new Keepers(engine, () => this.isKeeping)
    this.#thinking = new Thinking(engine)
    this.#watch = new RunWatch(engine, (run) => {
      this.#abortOrphans(run)
    })
  }

  get isKeeping(): boolean {
    return this.#underway.size > 0
  }

  /** A run is being taken on, or a call is being made for one. */
  get isBusy(): boolean {
    return this.#busy.size > 0
  }

  /** Goes on with what was under way when the server went down. */
  open(): void {
    this.#track(this.#keepers.takeUp())
  }

  /** Calls are broken off; what was under way is taken up by another server, or after the restart. */
  async close(): Promise<void> {
    for (const underway of this.#underway.values()) for (const call of underway.calls.values()) call.abort()
    await Promise.allSettled(this.#busy)
    await this.#keepers.close()
  }

  /** Everything was removed (test bench only). */
  forget(): void {
    for (const underway of this.#underway.values()) for (const call of underway.calls.values()) call.abort()
    for (const { run } of [...this.#underway.values()]) this.#letGo(run)
  }

  async definitionOf({ name, version }: Pick<Run, 'name' | 'version'>): Promise<Definition> {
    const found = await definitionOf(this.#engine, name, version)
    if (found === null) throw broken(`the definition ${name} ${version} is gone`)
    return found.definition
  }

  /** Runs a command of a request whose headers are passed on to the calls that follow from it. */
  async passingOn(runId: string, headers: Readonly<Record<string, string>>, command: Command<Run>): Promise<Run> {
    // Known before the run is saved: its calls begin right after.
    if (Object.keys(headers).length > 0) this.#passedOn.set(runId, headers)
    try {
      return await this.#engine.run(command)
    } catch (error) {
      this.#passedOn.delete(runId)
      throw error
    }
  }

  /** A server is taken for dead. */
  abandoned(server: string): void {
    this.#track(this.#keepers.takeOver(server))
  }

  /** Answers when it is over, or somebody can submit to it. */
  untilPause(id: string, signal: AbortSignal): Promise<Run> {
    return this.#watch.until(id, signal, (run) => run.phase !== 'RUNNING' || openSteps(run).length > 0)
  }

  /** Answers when it is over, or nothing is under way for it. */
  untilRest(id: string, signal: AbortSignal): Promise<Run> {
    return this.#watch.until(id, signal, (run) => run.phase !== 'RUNNING' || isAtRest(run))
  }

  // ---- Taking on ----

  /** A run was saved here, and is on disk. */
  saved(run: Run): void {
    this.#watch.tell(run)
    this.#abortOrphans(run)
    if (isAtRest(run) || run.phase !== 'RUNNING') this.#passedOn.delete(run.id)
    if (!keepersOf(run).has(this.server)) return
    const underway = this.#underway.get(run.id) ?? this.#begin(run)
    if (run.revision >= underway.run.revision) underway.run = run
    this.#goOn(underway)
  }

  #begin(run: Run): Underway {
    const underway: Underway = { run, calls: new Map(), results: new Map(), isWalking: false, again: false }
    this.#underway.set(run.id, underway)
    this.#watch.watch(run.id)
    this.#keepers.keeping()
    return underway
  }

  #letGo({ id }: Run): void {
    this.#underway.delete(id)
    this.#watch.unwatch(id)
  }

  #abortOrphans(run: Run): void {
    const underway = this.#underway.get(run.id)
    if (underway === undefined || run.revision < underway.run.revision) return
    const wanted = new Set(run.phase === 'RUNNING' ? leaves(run.root).map(({ visit }) => visit) : [])
    for (const [visit, call] of underway.calls) if (!wanted.has(visit)) call.abort()
    if (run.phase !== 'RUNNING') underway.run = run
  }

  #goOn(underway: Underway): void {
    underway.again = true
    if (underway.isWalking) return
    underway.isWalking = true
    this.#track(this.#walkOn(underway))
  }

  async #walkOn(underway: Underway): Promise<void> {
    const { closing } = this.#engine
    while (underway.again && !closing.aborted) {
      underway.again = false
      try {
        await this.#walkOnce(underway)
      } catch (error) {
        if (!(error instanceof OjsError)) this.#engine.log.error({ err: error }, 'a run could not be taken on')
        await restAfterTrouble(this.#engine)
        underway.again = true
      }
    }
    underway.isWalking = false
    const isOurs = keepersOf(underway.run).has(this.server)
    if (!isOurs && underway.calls.size === 0) this.#letGo(underway.run)
  }

  /** Answers once no run is being taken on; at the latest after a while, since some never rest. */
  async walked(): Promise<void> {
    const isWalking = (): boolean => [...this.#underway.values()].some((underway) => underway.isWalking)
    for (let turns = 0; turns < MOST_TURNS && isWalking(); turns += 1)
      await new Promise<void>((resolve) => {
        this.#engine.host.defer(resolve)
      })
  }

  async #walkOnce(underway: Underway): Promise<void> {
    const { run, results, calls } = underway
    if (!keepersOf(run).has(this.server)) return
    const terms = { server: this.server, results, underway: new Set(calls.keys()) }
    const walked = await this.#thinking.walk(run, await this.definitionOf(run), terms)
    if (walked.isLate) {
      await findRun(this.#engine, run.id)
      return
    }
    if (walked.run.root === run.root && walked.run.end === null && walked.calls.length === 0) return
    for (const { visit, isNotice } of walked.calls) if (!isNotice) calls.set(visit, new AbortController())
    const taken = await this.#engine.run(takeStep(this.#engine, run, walked)).catch((error: unknown) => {
      this.#release(underway, walked)
      throw error
    })
    if (!taken.isDone) {
      this.#release(underway, walked)
      if (taken.run !== null && taken.run.revision > underway.run.revision) underway.run = taken.run
      underway.again = true
      return
    }
    for (const visit of results.keys()) if (!isWanted(walked.run, visit)) results.delete(visit)
    for (const wanted of walked.calls) this.#track(this.#call(underway, wanted))
  }

  #release({ calls }: Underway, walked: Walked): void {
    for (const { visit, isNotice } of walked.calls) if (!isNotice) calls.delete(visit)
  }

  // ---- Calls ----

  async #call(underway: Underway, { path, visit, call, timeoutMs, resilience, isNotice }: WantedCall): Promise<void> {
    const { id, deadlineAt } = underway.run
    const controller = (isNotice ? undefined : underway.calls.get(visit)) ?? new AbortController()
    const prepared = withDefaults(call, this.#passedOn.get(id) ?? {})
    const abort = (): void => {
      controller.abort()
    }
    this.#engine.closing.addEventListener('abort', abort, { once: true })
    try {
      const terms = { timeoutMs, resilience: isNotice ? null : resilience, deadlineAt, signal: controller.signal }
      const idempotencyKey = `${id}/${path}/${String(visit)}`
      const result = await performCall(this.#engine, prepared, { ...terms, idempotencyKey })
      if (!isNotice && result !== null) underway.results.set(visit, result)
    } catch (error) {
      // Of ours, and no reason to keep the run waiting. What it says may quote what was sent.
      this.#engine.log.error({ error: error instanceof Error ? error.name : 'unknown' }, 'a call of a run broke')
      if (!isNotice) underway.results.set(visit, failedResult('NETWORK', 'the call could not be made'))
    } finally {
      this.#engine.closing.removeEventListener('abort', abort)
      if (!isNotice) underway.calls.delete(visit)
    }
    if (!isNotice) this.#goOn(underway)
  }

  #track(work: Promise<unknown>): void {
    const busy: Promise<unknown> = work
      .catch((error: unknown) => {
        if (!(error instanceof OjsError)) this.#engine.log.error({ err: error }, 'a run met an error')
      })
      .finally(() => this.#busy.delete(busy))
    this.#busy.add(busy)
  }
}

function isWanted(run: Run, visit: number): boolean {
  return leaves(run.root).some((frame) => frame.visit === visit && frame.rest.kind === 'calling')
}
