/**
 * A real worker of the SDK in the world: its own view of the clock, its own line, handlers that do what the job asks for
 * and remember what they saw, and everything that can happen to a process.
 */
import type { Host } from '@curfew/core'
import type { Context } from '../../../packages/sdk/src/attempt/context.ts'
import { SleepingError } from '../../../packages/sdk/src/errors.ts'
import { silentLog } from '../../../packages/sdk/src/log.ts'
import { Party } from '../../../packages/sdk/src/testing/party.ts'
import { Session } from '../../../packages/sdk/src/worker/session.ts'
import type { HandedJob } from '../../../packages/sdk/src/wire/jobs.ts'
import { Worker, type MakeSession } from '../../../packages/sdk/src/worker/worker.ts'
import type { Chance } from '../chance.ts'
import { isRunning, nameOf, short, type AttemptRecord } from './ledger.ts'
import { Line, type SentCall } from './line.ts'
import type { FaultRates, Scene } from './scene.ts'
import { runSteps, type StepPlan } from './step-handlers.ts'
import { WatchedSession } from './watched-session.ts'

/** What a job asks of its handler. */
export interface Plan {
  readonly ms: number
  /** `polite` stops with its signal, `slow` a while after it, `deaf` never; `returns`: a result all the same. */
  readonly onAbort: 'polite' | 'slow' | 'deaf' | 'returns'
  readonly slowMs: number
  readonly throws: boolean
  readonly checkpoints: boolean
  /** How often a handler that must prove its life does so; 0: never. */
  readonly signMs: number
  /** What it does before the rest, each once. */
  readonly steps: readonly StepPlan[]
}

/** More open calls than this within the time, besides those for each job that began, are a circle. */
const MAX_OPEN_CALLS = 90
const CALLS_PER_JOB = 2
const OPEN_CALLS_MS = 3_000
/** More timers than this in one instant are a circle, too. */
const MAX_TIMERS = 1_000

/** The longest that a job waits in a worker for a free slot. */
const MAX_BUFFER_MS = 1_000
/** How long a worker that is not running any more may keep what it has not begun. */
const HANDED_BACK_MS = 1_500

export class SimulatedWorker {
  readonly id: string
  readonly line: Line
  readonly worker: Worker
  readonly #scene: Scene
  readonly #party: Party
  /** Leases the session has ordered to start, by job, until their handlers begin. */
  readonly #starting = new Map<string, { readonly lease: number; readonly at: number }[]>()
  readonly #running = new Map<string, Set<AttemptRecord>>()
  /** The leases in its latest beats. */
  #beats: { readonly at: number; readonly leases: Readonly<Record<string, number>> }[] = []
  #openCalls: number[] = []
  #begun: number[] = []
  #isDead = false
  #isAsleep = false
  #hasEnded = false
  #hasDeregistered = false
  #endTrouble: (() => void) | null = null
  stateSince: number
  askedQuietAt = -Infinity

  constructor(scene: Scene, id: string, chance: Chance, rates: FaultRates, plant: MakeSession | null) {
    this.#scene = scene
    this.id = id
    this.stateSince = scene.world.now
    this.line = new Line(scene, chance.fork(), rates, (call) => {
      this.#sent(call)
    })
    this.#party = new Party(
      scene.world.clock,
      this.line,
      () => {},
      () => false,
    )
    const make: MakeSession = plant ?? ((...args) => new Session(...args))
    const watcher = {
      id,
      get isMuted(): boolean {
        return self.#isDead
      },
      onArrived: (job: HandedJob) => {
        this.#onArrived(job)
      },
      onStart: (jobId: string, lease: number, state: string) => {
        this.#onStart(jobId, lease, state)
      },
      onState: (state: string) => {
        this.stateSince = scene.world.now
        if (state === 'quiet') this.askedQuietAt = scene.world.now
        if (state !== 'running') this.#checkBuffer()
      },
      onEnded: () => {
        this.#hasEnded = true
      },
    }
    // eslint-disable-next-line @typescript-eslint/no-this-alias -- a getter in a literal has its own `this`
    const self = this
    this.worker = new Worker(
      {
        server: this.#party,
        host: this.#restful(this.#party),
        random: chance.fork().unit,
        log: silentLog,
        id,
        concurrency: chance.between(1, 4),
        prefetch: chance.happens(0.6) ? chance.between(1, 40) : 0,
        drain: { ms: chance.pick([0, 500, 3_000, 10_000]) },
      },
      (...args) => new WatchedSession(make(...args), scene, watcher),
    )
    const run = (context: Context): Promise<unknown> => this.#run(context)
    this.worker.handle('sim.auto', run).handle('sim.manual', { heartbeat: 'manual' }, run)
    scene.ledger.workers.set(id, this)
    this.worker.start().catch((error: unknown) => {
      if (!this.#isDead) scene.blame('healthy', `${id} could not start: ${String(error)}`)
    })
  }

  get state(): string {
    return this.worker.state
  }

  get isLeaving(): boolean {
    return this.worker.state === 'terminate'
  }

  /** It is dead, or has said its last word. */
  get isGone(): boolean {
    return this.#isDead || this.#hasEnded || this.#hasDeregistered
  }

  get isAsleep(): boolean {
    return this.#isAsleep
  }

  /** A timer that is set again and again without time passing would stop the world. */
  #restful(host: Host): Host {
    let [at, timers] = [0, 0]
    return {
      wallMs: () => host.wallMs(),
      monotonicMs: () => host.monotonicMs(),
      defer: (run) => {
        host.defer(run)
      },
      setTimer: (ms, fire) => {
        const now = host.monotonicMs()
        timers = at === now ? timers + 1 : 0
        at = now
        if (timers < MAX_TIMERS) return host.setTimer(ms, fire)
        this.#scene.blame('restful', `${this.id} sets ${String(MAX_TIMERS)} timers in one instant`)
        return { cancel: () => {} }
      },
    }
  }

  // ---- What happens to it ----

  quiet(): void {
    this.#scene.tell(`${this.id}.quiet()`)
    this.askedQuietAt = this.#scene.world.now
    this.worker.quiet()
  }

  resume(): void {
    this.#scene.tell(`${this.id}.resume()`)
    this.worker.resume()
  }

  stop(): void {
    this.#scene.tell(`${this.id}.stop()`)
    void this.worker.stop()
  }

  crash(): void {
    if (this.isGone) return
    this.#fault('crash')
    this.#isDead = true
    this.#party.die()
  }

  sleep(ms: number): void {
    this.#upset(
      'asleep',
      ms,
      () => {
        this.#isAsleep = true
        this.#party.sleep()
      },
      () => {
        this.#isAsleep = false
        this.#party.wake()
      },
    )
  }

  cutOff(ms: number): void {
    this.#upset(
      'cut off',
      ms,
      () => void this.#party.cutOff(),
      () => void this.#party.heal(),
    )
  }

  /** As by a cable that was pulled: calls are not refused, they only get no answer. */
  swallow(ms: number): void {
    const swallow = (is: boolean) => (): void => {
      this.line.isSwallowed = is
    }
    this.#upset('swallowed', ms, swallow(true), swallow(false))
  }

  /** Whatever is wrong with it ends. */
  calm(): void {
    this.#endTrouble?.()
  }

  #upset(what: string, ms: number, begin: () => void, end: () => void): void {
    if (this.isGone || this.#endTrouble !== null) return
    this.#fault(what)
    const good = this.line.trouble()
    const calm = (): void => {
      if (this.#endTrouble !== calm) return
      this.#endTrouble = null
      this.#scene.tell(`${this.id} is not ${what} any more`)
      end()
      good()
    }
    this.#endTrouble = calm
    begin()
    this.#scene.later(ms, calm)
  }

  #fault(what: string): void {
    this.#scene.tally.add(`fault: ${what}`)
    this.#scene.tell(`${this.id}: ${what}`)
  }

  // ---- What it says ----

  #sent({ kind, path, body }: SentCall): void {
    const { blame, world } = this.#scene
    if (this.#isDead) return
    // A deregistration without an answer may be sent again; nothing else follows it.
    if (this.#hasDeregistered && path !== '/workers/deregister')
      blame('silentAfterLeaving', `${this.id} sends ${path} ${JSON.stringify(body)} after its deregistration`)
    if (path === '/workers/deregister') this.#hasDeregistered = true
    if (kind === 'open') this.#countOpenCall(world.now)
    if (kind === 'beat') this.#noteBeat(body as { x_leases?: Record<string, number> })
    const { nacks = [] } = body as { nacks?: { job_id: string; x_lease?: number; requeue?: boolean }[] }
    for (const { job_id: jobId, x_lease: lease, requeue } of nacks)
      if (requeue === true) this.#checkHandBack(jobId, lease ?? 0)
  }

  #noteBeat({ x_leases: leases = {} }: { readonly x_leases?: Readonly<Record<string, number>> }): void {
    const at = this.#scene.world.now
    this.#beats = [...this.#beats.filter((beat) => beat.at > at - MAX_BUFFER_MS), { at, leases }]
  }

  #countOpenCall(now: number): void {
    this.#openCalls = this.#openCalls.filter((at) => at > now - OPEN_CALLS_MS)
    this.#openCalls.push(now)
    this.#begun = this.#begun.filter((at) => at > now - OPEN_CALLS_MS)
    if (this.#openCalls.length > MAX_OPEN_CALLS + CALLS_PER_JOB * this.#begun.length)
      this.#scene.blame(
        'restful',
        `${this.id} has opened ${String(MAX_OPEN_CALLS)} calls within ${String(OPEN_CALLS_MS)} ms`,
      )
  }

  #checkHandBack(jobId: string, lease: number): void {
    const attempt = this.#scene.ledger.attempt(jobId, lease)
    if (attempt === null || attempt.workerId !== this.id) return
    if (isRunning(attempt))
      this.#scene.blame('handedBackAtRest', `${this.id} hands back ${nameOf(attempt)}, whose handler runs`)
    // After the server has its result a hand-back changes nothing: a beat that was sent before the job arrived may ask for it.
    if (attempt.ending === 'returned' && attempt.stop === null && attempt.overBy === null)
      this.#scene.blame('resultReported', `${this.id} hands back ${nameOf(attempt)}, whose handler returned`)
  }

  /** What it held when it stopped running, and had not begun, must be back soon while nothing is wrong. */
  #checkBuffer(): void {
    const { world, later, ledger, blame } = this.#scene
    const at = world.now
    later(HANDED_BACK_MS, () => {
      if (this.isGone || this.#isAsleep || this.stateSince !== at) return
      if (this.line.goodSince('beat', 'open', 'report') > at) return
      for (const attempt of ledger.attempts.values()) {
        const isHere = attempt.workerId === this.id && attempt.overBy === null && attempt.begunAt === null
        if (isHere && attempt.arrivedAt !== null && attempt.arrivedAt <= at)
          blame('bufferReturned', `${this.id} is ${this.state} and keeps ${nameOf(attempt)}, which never began`)
      }
    })
  }

  // ---- Its handlers ----

  #onArrived({ id, x_lease: lease = 0, x_limits: limits }: HandedJob): void {
    const attempt = this.#scene.ledger.attempt(id, lease)
    if (attempt === null || attempt.hasArrived) return
    attempt.hasArrived = true
    attempt.arrivedAt = this.#scene.world.now
    // One that finds an older attempt of its job at work waits for that, and not for a slot.
    if ((this.#running.get(id)?.size ?? 0) > 0 || limits === undefined) return
    const {
      soft_ms: softMs = Infinity,
      heartbeat_timeout_ms: stallMs = Infinity,
      visibility_ms: visibleMs = Infinity,
    } = limits
    attempt.bufferMs = Math.min(MAX_BUFFER_MS, softMs / 10, stallMs / 10, visibleMs / 10)
  }

  #checkStart(attempt: AttemptRecord): void {
    const { blame, world } = this.#scene
    const { arrivedAt, bufferMs, jobId, lease } = attempt
    if (arrivedAt === null) return
    const waitedMs = world.now - arrivedAt
    this.#scene.tally.add(waitedMs > 0 ? 'begun: from the buffer' : 'begun: at once')
    if (waitedMs > 0 && waitedMs >= bufferMs)
      blame('beginsInTime', `${this.id} starts ${nameOf(attempt)} after ${String(waitedMs)} ms`)
    const missed = this.#beats.find(({ at, leases }) => at > arrivedAt && leases[jobId] !== lease)
    if (missed !== undefined)
      blame('listedInBeats', `${this.id} starts ${nameOf(attempt)}, which its beat of ${String(missed.at)} left out`)
  }

  #onStart(jobId: string, lease: number, state: string): void {
    const { blame, world } = this.#scene
    const starting = this.#starting.get(jobId) ?? []
    this.#starting.set(jobId, [...starting, { lease, at: world.now }])
    const attempt = this.#scene.ledger.attempt(jobId, lease)
    if (attempt !== null) this.#checkStart(attempt)
    if (state !== 'running') blame('onlyRunning', `${this.id} is ${state} and starts ${jobId}#${String(lease)}`)
  }

  #begin(jobId: string): AttemptRecord {
    const { blame, world, ledger, tell, tally } = this.#scene
    const [first, ...rest] = this.#starting.get(jobId) ?? []
    this.#starting.set(jobId, rest)
    const attempt = first === undefined ? null : ledger.attempt(jobId, first.lease)
    if (attempt === null || first === undefined) throw new Error(`${jobId} began without a lease`)
    const running = this.#running.get(jobId) ?? new Set()
    this.#running.set(jobId, running)
    tally.add('handlers begun')
    this.#begun.push(world.now)
    tell(() => `${this.id}: the handler of ${short(jobId)}#${String(attempt.lease)} begins`)
    if (!this.#isDead) {
      if (running.size > 0) blame('oneAtATime', `${this.id} begins ${nameOf(attempt)} beside ${names(running)}`)
      const beside = ledger.runsElsewhere(attempt)
      if (beside !== null) blame('stoppedBefore', `${this.id} begins ${nameOf(attempt)}, and ${nameOf(beside)} runs on`)
      if (attempt.begunAt !== null) blame('startsOnce', `${this.id} begins ${nameOf(attempt)} again`)
      if (this.state !== 'running' && first.at < world.now)
        blame('onlyRunning', `${this.id} is ${this.state} when the handler of ${nameOf(attempt)} begins`)
    }
    attempt.begunAt = world.now
    running.add(attempt)
    return attempt
  }

  #end(attempt: AttemptRecord, ending: 'returned' | 'threw' | 'slept'): void {
    attempt.ending = ending
    this.#running.get(attempt.jobId)?.delete(attempt)
    this.#scene.tell(() => `${this.id}: the handler of ${short(attempt.jobId)}#${String(attempt.lease)} ${ending}`)
  }

  #aborted(attempt: AttemptRecord, reason: unknown): void {
    const { blame, tell, tally } = this.#scene
    attempt.stop = reason instanceof Error ? reason.name : String(reason)
    tally.add(`aborted: ${attempt.stop}`)
    tell(() => `${this.id}: ${short(attempt.jobId)}#${String(attempt.lease)} is aborted: ${String(attempt.stop)}`)
    if (attempt.stop === 'CancelledError' && attempt.overBy !== 'cancelled' && !this.#isDead)
      blame(
        'cancelledForCause',
        `${nameOf(attempt)} is stopped as cancelled; the server says ${String(attempt.overBy)}`,
      )
  }

  async #run(context: Context): Promise<unknown> {
    const attempt = this.#begin(context.jobId)
    const { signal } = context
    const plan = context.args[0] as Plan
    signal.addEventListener('abort', () => {
      this.#aborted(attempt, signal.reason)
    })
    const signs = this.#giveSigns(context, plan)
    if (plan.checkpoints) void context.checkpoint({ by: this.id, lease: attempt.lease })
    try {
      await this.#runSteps(context, attempt, plan)
      await this.#work(plan, signal)
      if (plan.throws) throw new Error('The handler was asked to throw.')
      this.#end(attempt, 'returned')
      return { by: this.id, lease: attempt.lease }
    } catch (error) {
      this.#end(attempt, error instanceof SleepingError ? 'slept' : 'threw')
      throw error
    } finally {
      signs()
    }
  }

  #runSteps(context: Context, attempt: AttemptRecord, { steps }: Plan): Promise<void> {
    const pass = (ms: number, signal: AbortSignal): Promise<void> => this.#sleep(ms, signal)
    return runSteps({ scene: this.#scene, attempt, context, pass, isDead: () => this.#isDead }, steps)
  }

  async #work({ ms, onAbort, slowMs }: Plan, signal: AbortSignal): Promise<void> {
    await this.#sleep(ms, onAbort === 'deaf' ? null : signal)
    if (!signal.aborted || onAbort === 'deaf' || onAbort === 'returns') return
    if (onAbort === 'slow') await this.#sleep(slowMs, null)
    throw signal.reason
  }

  /** Ends early with the signal. */
  #sleep(ms: number, signal: AbortSignal | null): Promise<void> {
    return new Promise((resolve) => {
      const timer = this.#party.setTimer(ms, resolve)
      signal?.addEventListener('abort', () => {
        timer.cancel()
        resolve()
      })
    })
  }

  #giveSigns(context: Context, { signMs }: Plan): () => void {
    if (signMs === 0 || context.type !== 'sim.manual') return () => {}
    let isOver = false
    const next = (): void => {
      if (isOver) return
      void context.heartbeat()
      this.#party.setTimer(signMs, next)
    }
    next()
    return () => {
      isOver = true
    }
  }
}

const names = (attempts: Iterable<AttemptRecord>): string => [...attempts].map(nameOf).join(', ')
