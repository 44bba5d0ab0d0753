/**
 * The engine: binds the verbs to store, clock and chance, keeps the one loop that sleeps until the nearest `wakeAt`, and
 * is the one place that logs, counts and tells others what was committed.
 */
import {
  ALWAYS_IDLE,
  clockFrom,
  earliest,
  elapsed,
  instant,
  OjsError,
  stopwatchOf,
  type Clock,
  type Host,
  type Instant,
  type LimitSettings,
  type Millis,
  type Moment,
  type NewEvent,
  type Outage,
  type Random,
  type Retention,
  type Stopwatch,
  type Timer,
  type Worker,
} from '@curfew/core'
import {
  StoreDamaged,
  StoreUnavailable,
  type News,
  type Reads,
  type StateChange,
  type Store,
  type StoredEvent,
} from '../../store/store.ts'
import { Corridor, refusalFor, type Ahead, type Command, type Committed, type OnRefusal } from './corridor.ts'
import { noApiKeys, type ApiKeys } from '../api-keys.ts'
import { noSecrets, type Secrets } from '../journeys/call-auth.ts'
import type { JudgeBeside, ReadBeside } from '../definitions/verdict.ts'
import { Definitions } from '../definitions/definitions.ts'
import { wakeDocs } from './doc-wakers.ts'
import { evaluatesNothing, type Expressions } from '../expressions.ts'
import { follow } from './followers.ts'
import { admitFromInbox } from '../inbox/inbox.ts'
import { reportRun, type Trace } from '../journeys/report.ts'
import { Journeys } from '../journeys/journeys.ts'
import { LongDocs } from './long-docs.ts'
import type { Meters } from '../metrics/meters.ts'
import { RecentSigns } from '../metrics/recent-signs.ts'
import { callsNobody, type Send } from '../outgoing.ts'
import { changeOf } from './changes.ts'
import { Polls } from '../jobs/polls.ts'
import { Ready } from './ready.ts'
import { Rooms } from '../queues/rooms.ts'
import { Checkers } from '../schemas/schemas.ts'
import { Pulse } from '../series/pulse.ts'
import { SeriesKeeper } from '../series/keeper.ts'
import { Serving } from './serving.ts'
import { Watch } from './watch.ts'
import { Webhooks } from '../webhooks/webhooks.ts'
import { touch } from '../workers/workers.ts'

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
  /** Others may be called inside the private network, and without TLS. */
  readonly allowPrivateNetwork: boolean
  /** What definitions may ask for as `platform.config`. */
  readonly platformConfig: Readonly<Record<string, unknown>>
  /** Refuse fields that are nearly known, instead of warning of them. */
  readonly strict: boolean
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
  /** What work takes; as long as it lasts by the clock of the host, if it is left out. */
  readonly stopwatch?: Stopwatch
  /** How others are called; nobody is, if it is left out. */
  readonly send?: Send
  /** What calls of journeys are made with; nothing, if it is left out. */
  readonly secrets?: Secrets
  /** By which callers of journeys prove who they are; none are known, if it is left out. */
  readonly apiKeys?: ApiKeys
  /** How expressions are evaluated; none can be, if it is left out. */
  readonly expressions?: (clock: Clock) => Expressions
  /** Where long definitions are judged; here, if it is left out. */
  readonly judgeBeside?: JudgeBeside
  readonly readBeside?: ReadBeside
  /** Who is given the spans of runs; nobody, if it is left out. */
  readonly trace?: Trace
}

/** What was committed, here or on another server, for those who listen. */
export interface Told {
  readonly events: readonly StoredEvent[]
  /** Not kept in the log. */
  readonly live: readonly NewEvent[]
  readonly changes: readonly StateChange[]
  readonly now: Instant
}

/** Node timers above 2^31-1 ms fire at once; the loop never sleeps longer than this. */
const LONGEST_SLEEP_MS = 60_000
const RETRY_TROUBLE_MS = 1_000
/** Other servers hear of an open long poll this often, or three times within the silence that would mean death. */
const POLL_SEEN_EVERY_MS = 5_000
const CHUNK = 500
/** How soon a row that another server holds is looked for again. */
const SHORTEST_REST_MS = 5
const LONGEST_REST_MS = 100

export class Engine {
  readonly store: Store
  readonly settings: EngineSettings
  readonly random: Random
  readonly host: Host
  readonly clock: Clock
  readonly upAt: Instant
  readonly polls = new Polls()
  /** Queues that were seen with limiters. */
  readonly limitedQueues = new Set<string>()
  /** How many active jobs have ended, as far as this server has heard. */
  endings = 0
  readonly rooms = new Rooms()
  readonly webhooks: Webhooks
  readonly journeys: Journeys
  readonly series: SeriesKeeper
  readonly pulse: Pulse
  readonly definitions = new Definitions(this)
  readonly longDocs: LongDocs
  readonly expressions: Expressions
  readonly judgeBeside: JudgeBeside | null
  readonly readBeside: ReadBeside | null
  readonly checkers: Checkers
  readonly #closing = new AbortController()
  readonly meters: Meters
  readonly recentSigns = new RecentSigns()
  readonly log: Log
  readonly send: Send
  readonly secrets: Secrets
  readonly apiKeys: ApiKeys
  readonly #corridor: Corridor
  readonly #manual: ManualClock | null
  readonly #watch: Watch
  readonly #trace: Trace
  #outages: readonly Outage[] = []
  readonly #listeners = new Set<(told: Told) => void>()
  #timer: Timer | null = null
  /** Counted here where this server is the only one. */
  #activeJobs: number
  /** The last place of the log that listeners were told of, where many servers write it. */
  #toldUpTo: number
  #telling: Promise<void> = Promise.resolve()
  #restMs = 0
  /** A look into the inbox is asked for. */
  #isLooking = false
  #trouble: string | null = null
  #damage: StoreDamaged | null = null
  #closed = false
  readonly #unfollow: () => void

  private constructor(parts: EngineParts, clock: Clock, activeJobs: number, lastEvent: number) {
    this.store = parts.store
    this.settings = parts.settings
    this.random = parts.random
    this.host = parts.host
    this.longDocs = new LongDocs(parts.host)
    this.checkers = new Checkers(parts.host, parts.stopwatch ?? stopwatchOf(parts.host))
    this.log = parts.log
    this.send = parts.send ?? callsNobody
    this.secrets = parts.secrets ?? noSecrets
    this.apiKeys = parts.apiKeys ?? noApiKeys
    this.meters = parts.meters
    this.#trace = parts.trace ?? (() => {})
    this.webhooks = new Webhooks(this)
    this.clock = clock
    this.expressions = parts.expressions?.(clock) ?? evaluatesNothing
    this.judgeBeside = parts.judgeBeside ?? null
    this.readBeside = parts.readBeside ?? null
    this.#manual = parts.manualClock ?? null
    this.journeys = new Journeys(this)
    this.series = new SeriesKeeper(this)
    this.pulse = new Pulse(this)
    this.upAt = clock.now()
    this.#activeJobs = activeJobs
    this.#toldUpTo = lastEvent
    this.#watch = new Watch(this.#isShared, this.#manual !== null)
    this.#corridor = new Corridor({
      store: parts.store,
      host: parts.host,
      moment: () => this.moment(),
      judge: (life, now) => this.#watch.judge(life, now, this.#activeJobs > 0),
      workerTimeoutMs: parts.settings.workerTimeoutMs,
      deadLetterMax: parts.settings.deadLetterMax,
      longDocs: this.longDocs,
      wake: {
        isPolling: (workerId) => this.polls.isOpen(workerId),
        wakeDocs: (unit, docs) => wakeDocs(this, unit, docs),
        follow: (unit) => follow(this, unit),
      },
      serving: () =>
        new Serving(
          this.polls,
          () => this.endings,
          // Where many servers lock, the name of the limiters has to be locked before any row.
          ({ queues }) => !this.#isShared || !queues.some((queue) => this.limitedQueues.has(queue)),
        ),
      onBrokenLook: (error) => {
        this.noteRefusal('fetch', error)
      },
      chore: parts.store.inbox === null ? null : { name: 'inbox', run: (unit) => admitFromInbox(this, unit) },
      onBrokenChore: (error) => {
        this.noteRefusal('inbox', error)
      },
      onCommit: (committed) => {
        this.#committed(committed)
      },
      onDurable: (committed) => {
        this.#announce(committed)
      },
      onTrouble: (error) => {
        this.#troubled(error)
      },
    })
    this.#unfollow = parts.store.follow((news) => {
      this.#hear(news)
    })
  }

  /** Its clock stands still until a caller turns it. */
  get isTurnedByHand(): boolean {
    return this.#manual !== null
  }

  /** Other servers may be at work on the same data. */
  get #isShared(): boolean {
    return this.store.shared
  }

  /** Opens the engine on its data: credits the outage, settles everything overdue, and starts the loop. */
  static async open(parts: EngineParts): Promise<Engine> {
    const { store, host } = parts
    const { last } = await store.eventBounds()
    const clock = parts.manualClock ?? store.clock ?? clockFrom(host, await latestInstant(store, last))
    const { active: activeJobs } = await store.totals()
    const engine = new Engine(parts, clock, activeJobs, last)
    try {
      await engine.#corridor.run({ name: 'start', run: () => {} })
      await engine.#corridor.settled()
      engine.#arm()
      await engine.webhooks.open()
      engine.journeys.open()
      return engine
    } catch (error) {
      // Its loop would go on without it, and keep a process alive that serves nobody.
      await engine.close().catch(() => {})
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

  /** Calls `fire` when this instant has come. A clock that is turned by hand sets no timers: who turns it wakes all. */
  timerAt(at: Instant, fire: () => void): Timer {
    if (this.#manual !== null) return { cancel: () => {} }
    return this.host.setTimer(Math.max(0, at - this.clock.now()), fire)
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

  /** Set once the stored data was found to be damaged. */
  get damage(): StoreDamaged | null {
    return this.#damage
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

  run<T>(command: Command<T>, onRefusal?: OnRefusal): Promise<T> {
    return this.#corridor.run(command, this.#noting(command, onRefusal))
  }

  /** As `run`, for those who prepare their answer while the disk is written. */
  runAhead<T>(command: Command<T>, onRefusal?: OnRefusal): Promise<Ahead<T>> {
    return this.#corridor.runAhead(command, this.#noting(command, onRefusal))
  }

  #noting({ name, by }: Command<unknown>, onRefusal?: OnRefusal): OnRefusal {
    return (error) => {
      this.noteRefusal(name, error, by ?? null)
      onRefusal?.(error)
    }
  }

  /** Reads for people: what is due is settled first, so that no answer is stale by a tick. */
  async read<T>(look: (reads: Reads, now: Instant) => Promise<T>): Promise<T> {
    await this.#corridor.settled()
    return this.look((reads) => look(reads, this.clock.now()))
  }

  /** Reads what no deadline changes. A store that cannot serve is a refusal here too, and never an error of the server. */
  async look<T>(look: (reads: Reads) => Promise<T>): Promise<T> {
    try {
      return await look(this.store)
    } catch (error) {
      if (!(error instanceof StoreUnavailable)) throw error
      this.#troubled(error)
      if (error instanceof StoreDamaged) throw refusalFor(error)
      throw new OjsError('unavailable', `The server cannot read its data at the moment: ${error.reason}.`, {
        cause: error,
      })
    }
  }

  /** Answers once nothing is due any more. */
  settled(): Promise<void> {
    return this.#corridor.settled()
  }

  /** Hears of every commit, after it. */
  listen(listener: (told: Told) => void): () => void {
    this.#listeners.add(listener)
    return () => void this.#listeners.delete(listener)
  }

  /** Turns the manual clock, visiting every deadline in order so that decisions are stamped at their own instant. */
  async advance(byMs: number): Promise<Instant> {
    const clock = this.#manual
    if (clock === null) throw new OjsError('unsupported', 'The clock can be turned only with --clock manual.')
    const target = instant(clock.now() + byMs)
    await this.run({ name: 'settle', run: () => {} })
    await this.journeys.walked()
    for (let next = this.#corridor.nextWakeAt; next !== null && next <= target; next = this.#corridor.nextWakeAt) {
      clock.set(instant(Math.max(next, clock.now())))
      await this.#settledAndWalked()
    }
    clock.set(target)
    await this.#settledAndWalked()
    // Windows of limiters may have opened; nothing else tells, where real timers mean nothing.
    this.polls.wakeAll()
    return target
  }

  /** What is due has happened, and runs have gone on from it. */
  async #settledAndWalked(): Promise<void> {
    await this.#corridor.settled()
    await this.journeys.walked()
  }

  /**
   * For how long nothing but housekeeping will happen by itself: no job is active, or available in a queue that a poll asks
   * for; no job and no document is due; and every worker waits for work with a poll, which is a sign of its life. Infinity:
   * nothing is to come at all.
   */
  async idleMs(): Promise<number> {
    const isBusy = this.#trouble !== null || this.webhooks.isBusy || this.journeys.isBusy
    if (this.#isShared || this.#closed || isBusy) return 0
    return this.read(async (reads, now) => {
      for (const [queue, { active, available }] of await reads.counts())
        if (active > 0 || (available > 0 && this.polls.asksFor(queue))) return 0
      let next = await reads.nextWorkAt()
      for (const worker of await reads.workers()) {
        if (!this.polls.isOpen(worker.id)) next = earliest(next, worker.wakeAt)
        else if (!isInOrder(worker)) return 0
      }
      return next === null ? Infinity : Math.max(0, elapsed(now, next))
    })
  }

  /** Removes everything (test bench only). */
  async reset(): Promise<void> {
    await this.run({ name: 'reset', run: () => {} })
    await this.store.reset()
    this.webhooks.forget()
    this.journeys.forget()
    this.definitions.forget()
    this.series.forget()
    this.#activeJobs = 0
    this.#toldUpTo = 0
    await this.run({ name: 'settle', run: () => {} })
  }

  /** Answers open polls, finishes what is waiting, closes the store. */
  async close(): Promise<void> {
    if (this.#closed) return
    this.#closed = true
    this.beginClose()
    await this.webhooks.close()
    await this.journeys.close()
    await this.series.close()
    this.#timer?.cancel()
    await this.#corridor.close()
    this.#timer?.cancel()
    this.#unfollow()
    await this.expressions.close()
    await this.store.close()
  }

  #committed(committed: Committed): void {
    for (const { before, job } of committed.transitions) {
      if (before?.state === 'active') this.#activeJobs -= 1
      if (job?.state === 'active') this.#activeJobs += 1
    }
    this.#restMs = this.#restAfter(committed)
    this.#outages = committed.life.outages
    this.#watch.kept(committed.life)
    this.meters.committed(committed)
    this.series.committed(committed)
    this.pulse.committed(committed)
    if (this.polls.size > 0) this.#wakePolls(committed.transitions.map(changeOf), committed.ready)
    for (const workerId of committed.orders) this.polls.tellOrders(workerId)
    if (this.rooms.size > 0) this.rooms.freed(committed.transitions.map(changeOf))
    if (committed.moreInInbox) this.#lookIntoInbox()
    this.#arm()
  }

  /** Something lies there that need not wait for the next sign of life. Asked once, however often one is told. */
  #lookIntoInbox(): void {
    if (this.#closed || this.#isLooking) return
    this.#isLooking = true
    const look: Command<void> = {
      name: 'inbox',
      run: (unit) => {
        // Who tells of something from here on may tell of what this look does not see.
        this.#isLooking = false
        return admitFromInbox(this, unit)
      },
    }
    this.run(look).catch(() => {
      this.#isLooking = false
    })
  }

  /** What is due and was not to be had is in the hands of another server: looking again at once would help nobody. */
  #restAfter({ transitions, now }: Committed): number {
    const next = this.#corridor.nextWakeAt
    const isHeld = this.#isShared && transitions.length === 0 && next !== null && next <= now
    return isHeld ? Math.min(LONGEST_REST_MS, Math.max(SHORTEST_REST_MS, 2 * this.#restMs)) : 0
  }

  #announce({ transitions, events, live, refused, followUps, now }: Committed): void {
    for (const act of followUps) act()
    for (const event of events) reportRun(event, this.log, this.#trace)
    for (const { id, error } of refused) {
      const told = { jobId: id.slice(0, 64), code: error.code }
      if (error.code !== 'internal_error') this.log.warn(told, 'a job in the inbox was refused')
      else this.log.error({ ...told, err: error.cause }, 'a job in the inbox broke what should not break')
    }
    if (this.#listeners.size === 0) return
    // Where others write the log too, it is read in its order.
    this.#tell({ events: this.#isShared ? [] : events, live, changes: transitions.map(changeOf), now })
    if (this.#isShared && events.length > 0) this.#tellOfLog()
  }

  /** Another server committed something; null: there may have been more than was heard. */
  #hear(news: News | null): void {
    if (this.#closed) return
    if (this.store.inbox !== null && (news === null || news.inbox)) this.#lookIntoInbox()
    if (news?.inbox === true) return
    const isNearer = this.#corridor.hears(news === null ? null : news.wakeAt)
    if (news === null) {
      this.polls.wakeAll()
      this.rooms.wakeEverybody()
    } else {
      this.pulse.heard(news.changes)
      const ready = new Ready()
      for (const change of news.changes) ready.note(change)
      this.#wakePolls(news.changes, ready)
      for (const workerId of news.orders) this.polls.tellOrders(workerId)
      this.rooms.freed(news.changes)
      if (this.#listeners.size > 0) this.#tell({ events: [], live: news.live, changes: news.changes, now: this.now() })
    }
    if (this.#listeners.size > 0 && (news === null || news.lastEvent !== null)) this.#tellOfLog()
    if (isNearer) this.#arm()
  }

  #tell(told: Told): void {
    for (const listener of this.#listeners) listener(told)
  }

  /** Reads the log on from where listeners have heard it. */
  #tellOfLog(): void {
    const read = async (): Promise<void> => {
      for (let more = true; more;) {
        const events = await this.store.eventsAfter(this.#toldUpTo, CHUNK)
        more = events.length === CHUNK
        this.#toldUpTo = events.at(-1)?.sequence ?? this.#toldUpTo
        if (events.length > 0) this.#tell({ events, live: [], changes: [], now: this.now() })
      }
    }
    this.#telling = this.#telling.then(read).catch((error: unknown) => {
      this.log.warn({ err: error }, 'the log could not be read for those who listen; they will hear with the next news')
    })
  }

  #wakePolls(changes: readonly StateChange[], ready: Ready): void {
    let ended = 0
    for (const { from, to } of changes) if (from === 'active' && to !== 'active') ended += 1
    this.polls.wake(ready)
    if (ended === 0) return
    this.endings += ended
    this.polls.wakeAfterEnd()
  }

  /** Damage does not pass: it is told once, and stays until the server is started again. */
  #damaged(damage: StoreDamaged): void {
    if (this.#damage !== null) return
    this.#damage = damage
    const { reason, file, advice } = damage
    this.log.error(
      { reason, ...(file === null ? {} : { file }), advice, err: damage },
      'stored data is damaged; refusing every write with 503 until the server is started again on sound data',
    )
    this.#trouble = reason
    this.#corridor.shut(damage)
  }

  #troubled(error: unknown): void {
    if (error instanceof StoreDamaged) this.#damaged(error)
    if (this.#damage !== null) return
    if (error === null) {
      if (this.#trouble === null) return
      this.log.info({}, 'the store serves again')
      this.#trouble = null
      this.#arm()
      return
    }
    const reason = error instanceof StoreUnavailable ? error.reason : 'unexpected error'
    if (this.#trouble !== reason)
      this.log.error({ reason, err: error }, 'the store cannot serve; answering 503 until it can')
    this.#trouble = reason
    this.#watch.troubled(this.clock.now())
    this.#arm()
  }

  /** Counts late reports, and logs what broke. */
  noteRefusal(command: string, error: unknown, by: string | null = null): void {
    if (error instanceof OjsError) {
      const reason = error.details['reason']
      if (error.code !== 'conflict' || typeof reason !== 'string') return
      if (this.meters.late(command, reason)) this.series.late(this.clock.now())
      const jobId = error.details['job_id']
      if (typeof jobId === 'string') this.recentSigns.late(jobId, { at: this.now(), verb: command, workerId: by })
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
    if (next !== null) sleepMs = Math.min(sleepMs, Math.max(this.#restMs, next - now))
    if (this.#isShared || this.#activeJobs > 0) sleepMs = Math.min(sleepMs, this.#watch.sleepMs(now))
    if (this.#trouble !== null) sleepMs = this.#damage === null ? RETRY_TROUBLE_MS : LONGEST_SLEEP_MS
    // Idle, as far as `idleMs` reaches: it knows what this timer is for.
    this.#timer = this.host.setTimer(Math.max(0, sleepMs), () => this.#wake(), ALWAYS_IDLE)
  }

  #wake(): void {
    this.#corridor.run(this.#isShared ? this.#vouch() : { name: 'wake', run: () => {} }).catch((error: unknown) => {
      if (!(error instanceof OjsError)) this.log.error({ err: error }, 'the wake loop met an error')
      this.#arm()
    })
  }

  /** An open long poll is a sign of life, and only this server knows of it: it is written down for the others. */
  #vouch(): Command<void> {
    const polling = this.polls.workers()
    const everyMs = Math.min(POLL_SEEN_EVERY_MS, this.settings.workerTimeoutMs / 3)
    return {
      name: 'wake',
      needs: { workers: polling },
      run: async (unit) => {
        for (const id of polling) {
          const worker = unit.worker(id)
          if (worker !== null && elapsed(worker.lastSeenAt, unit.now) >= everyMs) await touch(unit, id)
        }
      },
    }
  }
}

/** Time goes on from the latest instant the data speaks of, even if the wall clock was set back meanwhile. */
async function latestInstant(store: Store, lastEvent: number): Promise<Instant> {
  const { aliveAt } = await store.life()
  const newest = await store.event(lastEvent)
  return instant(Math.max(aliveAt ?? 0, newest?.at ?? 0))
}

/** Its next beat will tell it nothing: neither to register again, nor to become quiet or to stop. */
function isInOrder({ registered, state, directive }: Worker): boolean {
  return registered && state === 'running' && directive === 'continue'
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
