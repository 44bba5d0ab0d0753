/**
 * The whole server in this process, on a clock that stands still until a test turns it: deadlines of hours pass in
 * milliseconds, each decided at its own instant. Kits share nothing, so tests may run side by side.
 */
import {
  FakeClock,
  instant,
  NEVER_IDLE,
  parseDuration,
  seededRandom,
  type Host,
  type Instant,
  type IsIdle,
  type Random,
} from '@curfew/core'
import { Client } from '../client/client.ts'
import { toMillis, type Duration } from '../durations.ts'
import { InputError } from '../errors.ts'
import { turnOfTheLoop } from '../host.ts'
import { silentLog, type Log } from '../log.ts'
import type { InProcessServer } from '../client/transport.ts'
import type { JobView } from '../wire/jobs.ts'
import type { LineView } from '@curfew/core'
import { Worker, type WorkerSettings } from '../worker/worker.ts'
import { Party } from './party.ts'
import { StepScript, storedSteps, type StepRef, type StepView } from './steps.ts'

export interface TestKitOptions {
  /** Settings of the server, by the keys of its configuration file: `{ 'limits.defaults.timeout': '1m' }`. */
  readonly settings?: Readonly<Record<string, string | number | boolean>>
  /** Where the clock stands at first. */
  readonly startAt?: Date
  /** Everything that is left to chance follows from it. */
  readonly seed?: number
  readonly log?: Log
}

export type TimeoutKind = 'execution' | 'total' | 'enqueue_ttl' | 'stalled'

const ERROR_TYPES: Readonly<Record<TimeoutKind, string>> = {
  execution: 'timeout',
  total: 'total_timeout',
  enqueue_ttl: 'enqueue_ttl_expired',
  stalled: 'stalled',
}

/** What the package `curfew` offers, as far as the kit needs it. */
interface ServerModule {
  readonly openServer: (options: {
    readonly data: ':memory:'
    readonly host: Host
    readonly random: Random
    readonly log: Log
    readonly settings: Readonly<Record<string, string | number | boolean>>
  }) => Promise<TestedServer>
}

interface TestedServer extends InProcessServer {
  /** For how long nothing but housekeeping will happen by itself. */
  idleMs(): Promise<number>
  close(): Promise<void>
}

/** `drain` gives up on a job that is still open after this long. */
const MAX_DRAIN_MS = 366 * 86_400_000
/** Jobs that only wait for a worker would have been taken long before. */
const STUCK_MS = 5 * 60_000
const MAX_STEP_MS = 60_000
/** A leap ends so long before the next event: everything is in its usual course again when it comes. */
const LEAP_LEAD_MS = 2_000
/** Shorter times are played. */
const SHORTEST_LEAP_MS = 10_000

interface KitParts {
  readonly clock: FakeClock
  readonly server: TestedServer
  readonly newRandom: () => Random
  readonly log: Log
  readonly leaps: boolean
  readonly onCall: () => void
}

/** For the tests of the kit itself. */
interface OwnOptions {
  /** False: every beat and every empty poll is played. */
  readonly leaps?: boolean
  /** Hears of every call to the server, and of every answer. */
  readonly onCall?: () => void
}

export function openTestKit(options: TestKitOptions = {}): Promise<TestKit> {
  return openKit(options)
}

/** @internal */
export async function openKit(options: TestKitOptions, own: OwnOptions = {}): Promise<TestKit> {
  const { openServer } = await serverModule()
  const clock = new FakeClock(options.startAt?.getTime())
  const log = options.log ?? silentLog
  const newRandom = randomsFrom(options.seed ?? 1, clock)
  const { settings = {} } = options
  const server = await openServer({ data: ':memory:', host: clock, random: newRandom(), log, settings })
  const { leaps = true, onCall = () => {} } = own
  return new TestKit({ clock, server, newRandom, log, leaps, onCall })
}

/**
 * One for the server, one for the client and one for each worker. What each draws follows from the instant, and not from
 * how much was drawn before: skipped beats must not change how long a job waits for its next attempt.
 */
function randomsFrom(seed: number, clock: FakeClock): () => Random {
  const seeds = seededRandom(seed)
  return () => {
    const ownSeed = Math.floor(seeds() * 2 ** 32)
    let at = clock.now()
    let random = seededRandom(ownSeed + at)
    return () => {
      if (at !== clock.now()) {
        at = clock.now()
        random = seededRandom(ownSeed + at)
      }
      return random()
    }
  }
}

async function serverModule(): Promise<ServerModule> {
  const name = 'curfew'
  try {
    return (await import(/* @vite-ignore */ name)) as ServerModule
  } catch (error) {
    throw new InputError(
      `The test kit runs the server itself, and could not load it: npm install --save-dev curfew (${String(error)})`,
    )
  }
}

/** Waits for a worker, and no limit would end that. */
function isIdle({ state, x_limits: limits, expires_at: expires }: JobView): boolean {
  const isEnding = limits?.ttl_deadline !== undefined || limits?.total_deadline !== undefined || expires !== undefined
  return state === 'available' && !isEnding
}

export class TestKit {
  readonly client: Client
  readonly #clock: FakeClock
  readonly #server: TestedServer
  readonly #newRandom: () => Random
  readonly #log: Log
  readonly #leaps: boolean
  readonly #onCall: () => void
  readonly #clientParty: Party
  readonly #parties = new Map<Worker, Party>()
  /** Whose attempt a signal belongs to: a handler sleeps on its worker's clock. */
  readonly #owners = new WeakMap<AbortSignal, Party>()
  readonly #dead = new Set<Worker>()
  readonly #steps = new StepScript()
  #calls = 0

  /** @internal */
  constructor({ clock, server, newRandom, log, leaps, onCall }: KitParts) {
    this.#clock = clock
    this.#server = server
    this.#newRandom = newRandom
    this.#log = log
    this.#leaps = leaps
    this.#onCall = onCall
    this.#clientParty = this.#party(NEVER_IDLE)
    this.client = new Client({ server: this.#clientParty, host: clock, random: newRandom() })
  }

  /** A worker on this server and this clock; isolated handlers run inline here. Give it handlers, then start it. */
  worker(settings: WorkerSettings = {}): Worker {
    const party = this.#party(() => worker.active === 0 && worker.state === 'running')
    const worker = new Worker(
      { ...settings, server: party, host: party, random: this.#newRandom(), log: this.#log, isolation: 'inline' },
      undefined,
      (step, signal) => this.#steps.before(step, signal),
    )
    worker.use((context, next) => {
      this.#owners.set(context.signal, party)
      return next()
    })
    this.#parties.set(worker, party)
    return worker
  }

  now(): Date {
    return new Date(this.#clock.now())
  }

  /** Turns the clock. Everything that falls due on the way happens at its own instant, and has happened afterwards. */
  async advance(by: Duration): Promise<void> {
    const target = instant(this.#clock.now() + toMillis(by, 'advance'))
    await this.settle()
    for (let next = await this.#nextStop(target); next <= target; next = await this.#nextStop(target)) {
      this.#clock.advance(Math.max(0, next - this.#clock.now()))
      await this.settle()
    }
    this.#clock.advance(Math.max(0, target - this.#clock.now()))
    await this.settle()
  }

  /** When the next timer fires, once the time before it is skipped as far as it may be; Infinity: none is set. */
  async #nextStop(target: Instant): Promise<number> {
    const landingAt = this.#leaps ? await this.#landingAt(target) : null
    if (landingAt !== null) await this.#leapTo(landingAt)
    return this.#clock.nextTimerAt() ?? Infinity
  }

  /** Up to where nothing but housekeeping would happen, less the lead; null: it is not worth a leap. */
  async #landingAt(target: Instant): Promise<Instant | null> {
    const now = this.#clock.now()
    const isWorthIt = (ms: number): boolean => ms >= SHORTEST_LEAP_MS + LEAP_LEAD_MS
    const quietMs = Math.min(target, this.#clock.nextBusyTimerAt() ?? Infinity) - now
    if (!isWorthIt(quietMs) || [this.#clientParty, ...this.#parties.values()].some(({ isWaiting }) => isWaiting))
      return null
    const calls = this.#calls
    const leapMs = Math.min(quietMs, await this.#server.idleMs())
    return isWorthIt(leapMs) && calls === this.#calls ? instant(now + leapMs - LEAP_LEAD_MS) : null
  }

  /**
   * Whatever is housekeeping and would have happened on the way happens once, in its order, and each is answered before the
   * next: a poll ends before its caller's patience does, a beat goes out before the fence would fall.
   */
  async #leapTo(at: Instant): Promise<void> {
    this.#clock.leapTo(at)
    while (this.#clock.fireNext()) await this.settle()
  }

  /** Lets everything that is under way come to rest, without turning the clock. */
  async settle(): Promise<void> {
    for (let before = -1; before !== this.#calls;) {
      before = this.#calls
      // Whatever the kit does itself is done within one turn of the loop; a second turn shows whether it made a call.
      for (let turns = 0; turns < 2; turns += 1) await turnOfTheLoop()
    }
  }

  /** Time for a handler to pass that a test can turn; ends early with the signal's reason. */
  sleep(duration: Duration, signal?: AbortSignal): Promise<void> {
    const host = (signal === undefined ? undefined : this.#owners.get(signal)) ?? this.#clock
    return new Promise((resolve, reject) => {
      const wake = (): void => {
        signal?.removeEventListener('abort', give)
        resolve()
      }
      const timer = host.setTimer(toMillis(duration, 'sleep'), wake, NEVER_IDLE)
      const give = (): void => {
        timer.cancel()
        reject(signal?.reason as Error)
      }
      if (signal?.aborted === true) give()
      else signal?.addEventListener('abort', give, { once: true })
    })
  }

  /** Turns the clock until every job is over: backoffs, schedules and deadlines included. */
  async drain(): Promise<void> {
    const giveUpAt = this.#clock.now() + MAX_DRAIN_MS
    let stepMs = 1
    let stuckMs = 0
    for (let open = await this.#open(); open.length > 0; open = await this.#open()) {
      // No worker takes them, and no deadline will end them.
      stuckMs = open.every(isIdle) ? stuckMs + stepMs : 0
      if (stuckMs > STUCK_MS || this.#clock.now() > giveUpAt) {
        const told = open.slice(0, 5).map(({ id, type, state }) => `${type} ${id} is ${state}`)
        throw new Error(`${String(open.length)} jobs are still open, and nothing would change that: ${told.join(', ')}`)
      }
      await this.advance({ ms: stepMs })
      stepMs = Math.min(MAX_STEP_MS, stepMs * 2)
    }
  }

  async #open(): Promise<JobView[]> {
    await this.settle()
    const open: JobView[] = []
    for (const state of ['active', 'available', 'scheduled', 'retryable'] as const)
      for await (const job of this.client.list({ state })) open.push(job)
    return open
  }

  /** As by kill -9: no more beats, no reports, nothing. The server finds out by itself. */
  killWorker(worker: Worker): void {
    this.#partyOf(worker).die()
    this.#dead.add(worker)
  }

  /** As by SIGSTOP: the worker does nothing at all until `resume`. */
  stall(worker: Worker): void {
    this.#partyOf(worker).sleep()
  }

  async resume(worker: Worker): Promise<void> {
    this.#partyOf(worker).wake()
    await this.settle()
  }

  /** Cuts the worker off from the server, until `heal`. Its handlers go on. */
  partition(worker: Worker): void {
    this.#partyOf(worker).cutOff()
  }

  async heal(worker: Worker): Promise<void> {
    this.#partyOf(worker).heal()
    await this.settle()
  }

  /** Sets a wall clock forward, or back (`'-90s'`): the server's, or a worker's. No deadline may move. */
  skewClock(by: string, worker?: Worker): void {
    const ms = parseDuration(by.replace(/^-/, ''))
    if (ms === null)
      throw new InputError(`${by} is not a valid duration. Write '30s', '-90s' or '1h30m'.`, { field: 'by' })
    const signed = by.startsWith('-') ? 0 - ms : ms
    if (worker === undefined) this.#clock.stepWall(signed)
    else this.#partyOf(worker).skew(signed)
  }

  /** The steps of a job that are stored, in the order in which they began. */
  async steps(job: string | { readonly id: string }): Promise<StepView[]> {
    await this.settle()
    return storedSteps(this.client, typeof job === 'string' ? job : job.id)
  }

  /** What the handlers of a job have logged, oldest first. What the attempt that runs has not sent yet is left out. */
  async logs(job: string | { readonly id: string }): Promise<readonly LineView[]> {
    await this.settle()
    const { x_log: log } = await this.client.get(typeof job === 'string' ? job : job.id)
    return log?.lines ?? []
  }

  /** The next runs of this step throw the error instead of running; `times` of them, one unless told. */
  failStep(step: StepRef, error: Error = new Error('The test kit failed this step.'), times = 1): void {
    this.#steps.plan(step, { do: 'fail', error }, times)
  }

  /** The next run of this step does nothing until a limit ends it, or its worker is killed. */
  stallStep(step: StepRef): void {
    this.#steps.plan(step, { do: 'stall' }, 1)
  }

  /** How often the step was begun, runs that were failed or stalled by the kit included. */
  stepRuns(step: StepRef): number {
    return this.#steps.runsOf(step)
  }

  /** Throws, with the story of the job, unless the latest ending of this job was this limit. */
  async expectTimedOut(job: string | { readonly id: string }, kind: TimeoutKind): Promise<JobView> {
    await this.settle()
    const id = typeof job === 'string' ? job : job.id
    const seen = await this.client.get(id)
    if (seen.errors?.at(-1)?.type === ERROR_TYPES[kind]) return seen
    const { text } = await this.client.explain(id)
    throw new Error(`Job ${id} was expected to end by its ${kind} limit.\n${text}`)
  }

  /** Ends workers and server. Waits for no handler. */
  async close(): Promise<void> {
    for (const worker of this.#parties.keys()) if (!this.#dead.has(worker)) this.killWorker(worker)
    const closing = this.#server.close()
    await this.advance({ ms: 0 })
    await closing
  }

  #party(isIdle: IsIdle): Party {
    const onCall = (): void => {
      this.#calls += 1
      this.#onCall()
    }
    return new Party(this.#clock, this.#server, onCall, isIdle)
  }

  #partyOf(worker: Worker): Party {
    const party = this.#parties.get(worker)
    if (party === undefined) throw new InputError('This worker is not of this kit: make it with kit.worker().')
    return party
  }
}
