/**
 * The kernel: binds commands to store, clock and chance, lets the hooks of the features run at their places, and offers the
 * `Context`. It knows no feature. How commands become transactions: `group-commit.ts`; when it acts by itself:
 * `wake-loop.ts`; what listeners are told: `announcements.ts`.
 */
import {
  after,
  millis,
  remaining,
  clockFrom,
  instant,
  OjsError,
  type Clock,
  type Host,
  type Instant,
  type Moment,
  type Outage,
  type Random,
  type Timer,
} from '@curfew/core'
import { StoreDamaged, StoreUnavailable, type News, type Reads, type Store } from '../../store/store.ts'
import { Announcements } from './announcements.ts'
import type { Ahead, Command, OnRefusal } from './command.ts'
import type { Announcement, Context, EngineSettings, Log } from './context.ts'
import { docWakersOf } from './doc-wakers.ts'
import type { Committed, Feature, OpenCalls, Serving } from './feature.ts'
import { followersOf } from './followers.ts'
import { GroupCommit, refusalFor } from './group-commit.ts'
import { LongDocs } from './long-docs.ts'
import { Ready } from './ready.ts'
import { ServerLiveness } from './server-liveness.ts'
import { StoreState } from './store-state.ts'
import type { Unit } from './unit.ts'
import { WakeLoop } from './wake-loop.ts'

/** A clock that stands still until it is advanced (`--clock manual`). */
export interface ManualClock extends Clock {
  set(at: Instant): void
}

export interface KernelParts {
  readonly store: Store
  readonly host: Host
  readonly random: Random
  readonly settings: EngineSettings
  readonly log: Log
  readonly manualClock?: ManualClock
}

/** What the data says when the server starts. */
export interface Start {
  readonly clock: Clock
  readonly activeJobs: number
  readonly lastEvent: number
}

export class Kernel implements Context {
  readonly store: Store
  readonly settings: EngineSettings
  readonly random: Random
  readonly host: Host
  readonly clock: Clock
  readonly upAt: Instant
  readonly longDocs: LongDocs
  readonly log: Log
  readonly #manual: ManualClock | null
  readonly #closing = new AbortController()
  readonly #liveness: ServerLiveness
  readonly #storeState: StoreState
  readonly #announcements: Announcements
  readonly #groupCommit: GroupCommit
  readonly #loop: WakeLoop
  #features: readonly Feature[] = []
  #hooks = hooksOf([])
  #outages: readonly Outage[] = []
  /** Counted here where this server is the only one. */
  #activeJobs: number
  #closed = false
  #unfollow: () => void = () => {}

  protected constructor(parts: KernelParts, { clock, activeJobs, lastEvent }: Start) {
    const { store, settings, log } = parts
    this.store = store
    this.settings = settings
    this.random = parts.random
    this.host = parts.host
    this.log = log
    this.clock = clock
    this.upAt = clock.now()
    this.longDocs = new LongDocs(parts.host)
    this.#manual = parts.manualClock ?? null
    this.#activeJobs = activeJobs
    this.#liveness = new ServerLiveness(store.shared, this.#manual !== null)
    this.#announcements = new Announcements(store, log, () => this.now(), lastEvent)
    this.#storeState = new StoreState(log, {
      onDamage: (damage) => {
        this.#groupCommit.shut(damage)
      },
      onError: () => {
        this.#liveness.troubled(this.now())
        this.#loop.arm()
      },
      onRecovery: () => {
        this.#loop.arm()
      },
    })
    this.#groupCommit = new GroupCommit({
      store,
      host: parts.host,
      moment: () => this.moment(),
      judge: (life, now) => this.#liveness.judge(life, now, this.#activeJobs > 0),
      workerTimeoutMs: settings.workerTimeoutMs,
      deadLetterMax: settings.deadLetterMax,
      longDocs: this.longDocs,
      wake: {
        isPolling: (workerId) => this.#hooks.openCalls.isOpen(workerId),
        wakeDocs: (unit, docs) => this.#hooks.wakeDocs(unit, docs),
        follow: (unit) => this.#hooks.follow(unit),
      },
      serving: () => this.#hooks.serving(),
      chore: () => this.#hooks.chore,
      onBrokenLook: (error) => {
        this.noteRefusal('fetch', error)
      },
      onBrokenChore: (error) => {
        this.noteRefusal('inbox', error)
      },
      onCommit: (committed) => {
        this.#committed(committed)
      },
      onDurable: (committed) => {
        this.#durable(committed)
      },
      onTrouble: (error) => {
        if (error === null) this.#storeState.served()
        else this.#storeState.failed(error)
      },
    })
    this.#loop = new WakeLoop({
      host: parts.host,
      log,
      now: () => this.now(),
      groupCommit: this.#groupCommit,
      callingWorkers: () => this.#hooks.openCalls.workers(),
      isShared: store.shared,
      workerTimeoutMs: settings.workerTimeoutMs,
      signOfLifeMs: (now) => (store.shared || this.#activeJobs > 0 ? this.#liveness.sleepMs(now) : null),
      storeState: () => this.#storeState.state,
    })
    if (this.#manual !== null) this.#loop.stop()
  }

  /** Takes the features, in the order in which their hooks are called. */
  protected use(features: readonly Feature[]): void {
    this.#features = features
    this.#hooks = hooksOf(features)
    this.#unfollow = this.store.follow((news) => {
      this.#heard(news)
    })
  }

  /** Credits the outage, settles everything overdue, starts the loop, then the features. */
  protected async start(): Promise<void> {
    try {
      await this.#groupCommit.run({ name: 'start', run: () => {} })
      await this.#groupCommit.settled()
      this.#loop.arm()
      for (const feature of this.#features) await feature.open?.()
    } catch (error) {
      // The loop would go on without the server, and keep the process alive.
      await this.close().catch(() => {})
      throw error instanceof OjsError && error.cause instanceof StoreUnavailable ? error.cause : error
    }
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

  get hasManualClock(): boolean {
    return this.#manual !== null
  }

  timerAt(at: Instant, fire: () => void): Timer {
    if (this.#manual !== null) return { cancel: () => {} }
    return this.host.setTimer(remaining(at, this.clock.now()), fire)
  }

  get outages(): readonly Outage[] {
    return this.#outages
  }

  get activeJobs(): number {
    return this.#activeJobs
  }

  /** Why the store cannot serve at the moment, if so. */
  get trouble(): string | null {
    return this.#storeState.reason
  }

  /** Set once the stored data was found to be damaged. */
  get damage(): StoreDamaged | null {
    return this.#storeState.damage
  }

  get closing(): AbortSignal {
    return this.#closing.signal
  }

  get hasListeners(): boolean {
    return this.#announcements.hasListeners
  }

  /** Something besides the passing of time may happen by itself. */
  get isBusy(): boolean {
    if (this.store.shared || this.#closed || this.trouble !== null) return true
    return this.#features.some((feature) => feature.isBusy?.() === true)
  }

  run<T>(command: Command<T>, onRefusal?: OnRefusal): Promise<T> {
    return this.#groupCommit.run(command, this.#noting(command, onRefusal))
  }

  runAhead<T>(command: Command<T>, onRefusal?: OnRefusal): Promise<Ahead<T>> {
    return this.#groupCommit.runAhead(command, this.#noting(command, onRefusal))
  }

  #noting({ name, by }: Command<unknown>, onRefusal?: OnRefusal): OnRefusal {
    return (error) => {
      this.noteRefusal(name, error, by ?? null)
      onRefusal?.(error)
    }
  }

  follow(unit: Unit): Promise<void> {
    return this.#hooks.follow(unit)
  }

  noteRefusal(command: string, error: unknown, by: string | null = null): void {
    for (const feature of this.#features) feature.onRefusal?.(command, error, by)
    if (!(error instanceof OjsError))
      this.log.error({ command, err: error }, 'command failed with an internal error; nothing was changed')
  }

  async read<T>(look: (reads: Reads, now: Instant) => Promise<T>): Promise<T> {
    await this.#groupCommit.settled()
    return this.look((reads) => look(reads, this.clock.now()))
  }

  /** A store that cannot serve is a refusal here too, and never an internal error. */
  async look<T>(look: (reads: Reads) => Promise<T>): Promise<T> {
    try {
      return await look(this.store)
    } catch (error) {
      if (!(error instanceof StoreUnavailable)) throw error
      this.#storeState.failed(error)
      if (error instanceof StoreDamaged) throw refusalFor(error)
      throw new OjsError('unavailable', `The server cannot read its data at the moment: ${error.reason}.`, {
        cause: error,
      })
    }
  }

  settled(): Promise<void> {
    return this.#groupCommit.settled()
  }

  listen(listener: (announcement: Announcement) => void): () => void {
    return this.#announcements.listen(listener)
  }

  /** Advances the manual clock, visiting every deadline in order so that decisions are stamped at their own instant. */
  async advance(byMs: number): Promise<Instant> {
    const clock = this.#manual
    if (clock === null) throw new OjsError('unsupported', 'The clock can be turned only with --clock manual.')
    const target = after(clock.now(), millis(byMs))
    await this.run({ name: 'settle', run: () => {} })
    await this.#caughtUp()
    for (
      let next = this.#groupCommit.nextWakeAt;
      next !== null && next <= target;
      next = this.#groupCommit.nextWakeAt
    ) {
      clock.set(instant(Math.max(next, clock.now())))
      await this.#groupCommit.settled()
      await this.#caughtUp()
    }
    clock.set(target)
    await this.#groupCommit.settled()
    await this.#caughtUp()
    for (const feature of this.#features) feature.onAdvance?.()
    return target
  }

  async #caughtUp(): Promise<void> {
    for (const feature of this.#features) await feature.caughtUp?.()
  }

  /** Removes everything (test bench only). */
  async reset(): Promise<void> {
    await this.run({ name: 'reset', run: () => {} })
    await this.store.reset()
    for (const feature of this.#features) feature.reset?.()
    this.#activeJobs = 0
    this.#announcements.reset()
    await this.run({ name: 'settle', run: () => {} })
  }

  /** Open polls, waits and streams are answered; no new ones are kept waiting. */
  beginClose(): void {
    this.#closing.abort()
    for (const feature of this.#features) feature.stop?.()
  }

  /** Answers open polls, finishes what is waiting, closes the store. */
  async close(): Promise<void> {
    if (this.#closed) return
    this.#closed = true
    this.#loop.stop()
    this.beginClose()
    for (const feature of this.#features) await feature.close?.()
    this.#loop.cancel()
    await this.#groupCommit.close()
    this.#loop.cancel()
    this.#unfollow()
    for (const feature of this.#features) await feature.release?.()
    await this.store.close()
  }

  #committed(committed: Committed): void {
    for (const { before, job } of committed.transitions) {
      if (before?.state === 'active') this.#activeJobs -= 1
      if (job?.state === 'active') this.#activeJobs += 1
    }
    this.#loop.committed(committed)
    this.#outages = committed.life.outages
    this.#liveness.kept(committed.life)
    for (const feature of this.#features) feature.onCommit?.(committed)
    this.#loop.arm()
  }

  #durable(committed: Committed): void {
    for (const act of committed.followUps) act()
    for (const feature of this.#features) feature.onDurable?.(committed)
    this.#announcements.committed(committed)
  }

  #heard(news: News | null): void {
    if (this.#closed) return
    for (const feature of this.#features) feature.onNews?.(news)
    // News of the inbox say nothing else.
    if (news?.inbox === true) return
    const isNearer = this.#groupCommit.hears(news === null ? null : news.wakeAt)
    this.#announcements.heard(news)
    if (isNearer) this.#loop.arm()
  }
}

/** What the transactions ask of the features. */
interface Hooks {
  readonly openCalls: OpenCalls
  readonly wakeDocs: ReturnType<typeof docWakersOf>
  readonly follow: ReturnType<typeof followersOf>
  readonly serving: () => Serving
  readonly chore: Command<void> | null
}

function hooksOf(features: readonly Feature[]): Hooks {
  return {
    openCalls: features.find(({ openCalls }) => openCalls !== undefined)?.openCalls ?? NO_CALLS,
    wakeDocs: docWakersOf(features),
    follow: followersOf(features),
    serving: features.find(({ serving }) => serving !== undefined)?.serving ?? (() => SERVES_NONE),
    chore: features.find(({ chore }) => chore !== undefined)?.chore ?? null,
  }
}

const NO_CALLS: OpenCalls = { isOpen: () => false, workers: () => [] }
const SERVES_NONE: Serving = {
  foreseen: () => [],
  serve: () => Promise.resolve(),
  rest: () => new Ready(),
  answer: () => {},
  undo: () => {},
}

/** Time goes on from the latest instant in the data, even if the wall clock was set back meanwhile. */
export async function startOf({ store, host, manualClock }: KernelParts): Promise<Start> {
  const { last: lastEvent } = await store.eventBounds()
  const clock = manualClock ?? store.clock ?? clockFrom(host, await latestInstant(store, lastEvent))
  const { active: activeJobs } = await store.totals()
  return { clock, activeJobs, lastEvent }
}

async function latestInstant(store: Store, lastEvent: number): Promise<Instant> {
  const { aliveAt } = await store.life()
  const newest = await store.event(lastEvent)
  return instant(Math.max(aliveAt ?? 0, newest?.at ?? 0))
}

export function manualClock(startMs: number): ManualClock {
  let now = instant(startMs)
  return {
    now: () => now,
    set: (at) => {
      now = at
    },
  }
}
