/**
 * The engine: binds the verbs to store, clock and chance, keeps the one loop that sleeps until the nearest `wakeAt`, and
 * is the one place that logs, counts and tells others what was committed.
 */
import {
  clockFrom,
  instant,
  OjsError,
  type Clock,
  type Host,
  type Instant,
  type LimitSettings,
  type Millis,
  type Moment,
  type Outage,
  type Random,
  type Retention,
  type Timer,
} from '@curfew/core'
import { StoreUnavailable, type Reads, type Store } from '../store/store.ts'
import { Corridor, type Command, type Committed } from './corridor.ts'
import type { Meters } from './meters.ts'
import { Polls } from './polls.ts'

export interface EngineSettings {
  readonly limits: LimitSettings
  readonly retention: Retention
  readonly deadLetterMax: number
  readonly heartbeatIntervalMs: Millis
  /** Silence after which a known worker is declared dead. */
  readonly workerTimeoutMs: Millis
  /** Refuse ACK and FAIL that do not name their worker. */
  readonly requireOwner: boolean
  /** Turns on what only a test bench may use. */
  readonly conformance: boolean
  readonly largestResultBytes: number
  readonly largestCheckpointBytes: number
}

/** The few words of a logger the engine needs. Job text never goes into a message. */
export interface Log {
  info(fields: object, message: string): void
  warn(fields: object, message: string): void
  error(fields: object, message: string): void
}

/** A clock that stands still until it is turned (`--clock manual`). */
export interface ManualClock extends Clock {
  set(at: Instant): void
}

export interface EngineParts {
  readonly store: Store
  readonly host: Host
  readonly random: Random
  readonly settings: EngineSettings
  readonly log: Log
  readonly meters: Meters
  readonly manualClock?: ManualClock
}

/** Node timers above 2^31-1 ms fire at once; the loop never sleeps longer than this. */
const LONGEST_SLEEP_MS = 60_000
const STAMP_EVERY_MS = 1_000
const STAMP_AT_LATEST_MS = 4_000
/** A process that is alive and has active jobs stamps far more often than this. */
const STOOD_STILL_MS = 10_000
const RETRY_TROUBLE_MS = 1_000
const KEPT_OUTAGES = 100

export class Engine {
  readonly store: Store
  readonly settings: EngineSettings
  readonly random: Random
  readonly host: Host
  readonly clock: Clock
  readonly upAt: Instant
  readonly polls = new Polls()
  readonly #closing = new AbortController()
  readonly meters: Meters
  readonly log: Log
  readonly #corridor: Corridor
  readonly #manual: ManualClock | null
  #outages: readonly Outage[]
  readonly #listeners = new Set<(committed: Committed) => void>()
  #timer: Timer | null = null
  #stampedAt: Instant
  #activeJobs: number
  #trouble: string | null = null
  #troubledSince: Instant | null = null
  #closed = false

  private constructor(parts: EngineParts, clock: Clock, outages: readonly Outage[], activeJobs: number) {
    this.store = parts.store
    this.settings = parts.settings
    this.random = parts.random
    this.host = parts.host
    this.log = parts.log
    this.meters = parts.meters
    this.clock = clock
    this.upAt = clock.now()
    this.#manual = parts.manualClock ?? null
    this.#outages = outages
    this.#activeJobs = activeJobs
    this.#stampedAt = this.upAt
    this.#corridor = new Corridor({
      store: parts.store,
      host: parts.host,
      moment: () => this.moment(),
      outages: (now) => this.#outagesUntil(now),
      workerTimeoutMs: parts.settings.workerTimeoutMs,
      deadLetterMax: parts.settings.deadLetterMax,
      isPolling: (workerId) => this.polls.isOpen(workerId),
      shouldStamp: (now) => this.#shouldStamp(now),
      onCommit: (committed) => {
        this.#committed(committed)
      },
      onTrouble: (error) => {
        this.#troubled(error)
      },
    })
  }

  /** Opens the engine on its data: credits the outage, settles everything overdue, and starts the loop. */
  static async open(parts: EngineParts): Promise<Engine> {
    const { aliveAt, outages, activeJobs } = await parts.store.lastLife()
    const { last } = await parts.store.eventBounds()
    const newest = await parts.store.event(last)
    // Time goes on from the latest instant the data speaks of, even if the wall clock was set back meanwhile.
    const notBefore = instant(Math.max(aliveAt ?? 0, newest?.at ?? 0))
    const clock = parts.manualClock ?? clockFrom(parts.host, notBefore)
    const now = clock.now()
    const known =
      aliveAt !== null && aliveAt < now ? [...outages, { from: aliveAt, to: now }].slice(-KEPT_OUTAGES) : outages
    await parts.store.transaction((tx) => tx.save({ ...NO_CHANGES, aliveAt: now, outages: known }))
    const engine = new Engine(parts, clock, known, activeJobs)
    await engine.#corridor.settled()
    engine.#arm()
    return engine
  }

  now(): Instant {
    return this.clock.now()
  }

  moment(): Moment {
    return {
      now: this.clock.now(),
      upAt: this.upAt,
      random: this.random,
      limits: this.settings.limits,
      retention: this.settings.retention,
    }
  }

  get outages(): readonly Outage[] {
    return this.#outages
  }

  get activeJobs(): number {
    return this.#activeJobs
  }

  /** Why the store cannot serve at the moment, if so. */
  get trouble(): string | null {
    return this.#trouble
  }

  /** Aborted when the server begins to stop: waits and streams end. */
  get closing(): AbortSignal {
    return this.#closing.signal
  }

  /** Nothing new is waited for: open polls, waits and streams are answered. */
  beginClose(): void {
    this.#closing.abort()
    this.polls.dismissAll()
  }

  get hasListeners(): boolean {
    return this.#listeners.size > 0
  }

  async run<T>(command: Command<T>): Promise<T> {
    try {
      return await this.#corridor.run(command)
    } catch (error) {
      this.#refused(command.name, error)
      throw error
    }
  }

  /** Reads for people: what is due is settled first, so that no answer is stale by a tick. */
  async read<T>(look: (reads: Reads, now: Instant) => Promise<T>): Promise<T> {
    await this.#corridor.settled()
    try {
      return await look(this.store, this.clock.now())
    } catch (error) {
      if (!(error instanceof StoreUnavailable)) throw error
      this.#troubled(error)
      throw new OjsError('unavailable', `The server cannot read its data at the moment: ${error.reason}.`, {
        cause: error,
      })
    }
  }

  /** Hears of every commit, after it. */
  listen(listener: (committed: Committed) => void): () => void {
    this.#listeners.add(listener)
    return () => void this.#listeners.delete(listener)
  }

  /** Turns the manual clock, visiting every deadline in order so that decisions are stamped at their own instant. */
  async advance(byMs: number): Promise<Instant> {
    const clock = this.#manual
    if (clock === null) throw new OjsError('unsupported', 'The clock can be turned only with --clock manual.')
    const target = instant(clock.now() + byMs)
    await this.run({ name: 'settle', run: () => Promise.resolve() })
    for (let next = this.#corridor.nextWakeAt; next !== null && next <= target; next = this.#corridor.nextWakeAt) {
      clock.set(instant(Math.max(next, clock.now())))
      await this.#corridor.settled()
    }
    clock.set(target)
    await this.#corridor.settled()
    return target
  }

  /** Removes everything (test bench only). */
  async reset(): Promise<void> {
    await this.run({ name: 'reset', run: () => Promise.resolve() })
    await this.store.reset()
    this.#activeJobs = 0
    await this.run({ name: 'settle', run: () => Promise.resolve() })
  }

  /** Answers open polls, finishes what is waiting, closes the store. */
  async close(): Promise<void> {
    if (this.#closed) return
    this.#closed = true
    this.beginClose()
    this.#timer?.cancel()
    await this.#corridor.close()
    this.#timer?.cancel()
    await this.store.close()
  }

  /**
   * Besides the gap before the start: the time the store could not serve, and a time in which this very process stood
   * still (stopped, or suspended with its machine), which shows in the stamps it should have written and did not.
   */
  #outagesUntil(now: Instant): readonly Outage[] {
    if (this.#troubledSince !== null) return [...this.#outages, { from: this.#troubledSince, to: now }]
    const stoodStill = this.#manual === null && this.#activeJobs > 0 && now - this.#stampedAt > STOOD_STILL_MS
    if (stoodStill) this.#addOutage({ from: this.#stampedAt, to: now })
    return this.#outages
  }

  #addOutage(outage: Outage): void {
    this.#outages = [...this.#outages, outage].slice(-KEPT_OUTAGES)
    this.#stampedAt = outage.to
    const saved = this.store.transaction((tx) => tx.save({ ...NO_CHANGES, aliveAt: outage.to, outages: this.#outages }))
    saved.catch((error: unknown) => {
      this.log.warn({ err: error }, 'an outage could not be noted; it counts until the next start')
    })
  }

  #shouldStamp(now: Instant): boolean {
    if (now - this.#stampedAt < STAMP_EVERY_MS) return false
    this.#stampedAt = now
    return true
  }

  #committed(committed: Committed): void {
    for (const { before, job } of committed.transitions) {
      if (before?.state === 'active') this.#activeJobs -= 1
      if (job?.state === 'active') this.#activeJobs += 1
    }
    this.meters.committed(committed)
    this.#wakePolls(committed)
    for (const listener of this.#listeners) listener(committed)
    this.#arm()
  }

  #wakePolls({ transitions }: Committed): void {
    if (this.polls.size === 0) return
    const ready = new Map<string, number>()
    for (const { job } of transitions)
      if (job?.state === 'available') ready.set(job.queue, (ready.get(job.queue) ?? 0) + 1)
    for (const [queue, jobs] of ready) this.polls.wake(queue, jobs)
  }

  #troubled(error: unknown): void {
    if (error === null) {
      if (this.#trouble === null) return
      this.log.info({}, 'the store serves again')
      this.#trouble = null
      if (this.#troubledSince !== null) this.#addOutage({ from: this.#troubledSince, to: this.clock.now() })
      this.#troubledSince = null
      return
    }
    const reason = error instanceof StoreUnavailable ? error.reason : 'unexpected error'
    if (this.#trouble !== reason)
      this.log.error({ reason, err: error }, 'the store cannot serve; answering 503 until it can')
    this.#trouble = reason
    this.#troubledSince ??= this.clock.now()
    this.#arm()
  }

  #refused(command: string, error: unknown): void {
    if (error instanceof OjsError) {
      const reason = error.details['reason']
      if (error.code === 'conflict' && typeof reason === 'string') this.meters.late(command, reason)
      return
    }
    this.log.error({ command, err: error }, 'a command broke; it changed nothing')
  }

  /** Sleeps until the nearest deadline, the next stamp of life, or the next try after trouble. */
  #arm(): void {
    this.#timer?.cancel()
    this.#timer = null
    if (this.#closed || this.#manual !== null) return
    const now = this.clock.now()
    const next = this.#corridor.nextWakeAt
    let sleepMs = LONGEST_SLEEP_MS
    if (next !== null) sleepMs = Math.min(sleepMs, next - now)
    if (this.#activeJobs > 0) sleepMs = Math.min(sleepMs, this.#stampedAt + STAMP_AT_LATEST_MS - now)
    if (this.#trouble !== null) sleepMs = RETRY_TROUBLE_MS
    this.#timer = this.host.setTimer(Math.max(0, sleepMs), () => {
      this.#wake()
    })
  }

  #wake(): void {
    this.#corridor.run({ name: 'wake', run: () => Promise.resolve() }).catch((error: unknown) => {
      if (!(error instanceof OjsError)) this.log.error({ err: error }, 'the wake loop met an error')
      this.#arm()
    })
  }
}

const NO_CHANGES = {
  jobs: [],
  workers: [],
  queues: [],
  types: [],
  checkpoints: [],
  events: [],
  aliveAt: null,
  outages: null,
} as const

export function manualClock(startMs: number): ManualClock {
  let now = instant(startMs)
  return {
    now: () => now,
    set: (at) => {
      now = at
    },
  }
}
