/**
 * One attempt of a job, from the moment it was handed out to the moment nobody waits for it any more. It owns the
 * signal and the grace period, and nothing else decides when a handler has to stop:
 *
 *   running ── soft deadline, cancel, shutdown, lost lease ──→ stopping ── hard deadline, or the end of the grace ──→ over
 *      └──────────────── the handler returns or throws ────────────┴────────────────────────────────────────────────→ over
 *
 * The first reason to stop is the one the signal gives. A handler that runs in the worker itself can only be asked: when
 * it does not stop, it is abandoned, and whatever it does later counts for nothing. One in an isolate is killed there;
 * here its ending is waited for.
 */
import {
  after,
  earliest,
  elapsed,
  instant,
  millis,
  type Host,
  type Instant,
  type Millis,
  type Timer,
} from '@curfew/core'
import { createContext, type Context } from './context.ts'
import { LostLeaseError, RequestError } from './errors.ts'
import type { AttemptFacts, Call, Stop } from './isolate/protocol.ts'
import { LatestWins } from './latest.ts'
import type { Log } from './log.ts'
import type { AnyEnding, Hold } from './report.ts'
import { stopError } from './stop-error.ts'
import { monotonicNow, type Terms } from './terms.ts'

export interface AttemptPorts {
  readonly host: Host
  readonly log: Log
  /** Rejects with a RequestError 409 once the attempt no longer counts. */
  readonly saveCheckpoint: (hold: Hold, state: unknown) => Promise<void>
  readonly saveProgress: (hold: Hold, progress: ProgressCall) => Promise<void>
  readonly enqueue: (hold: Hold, call: Call & { op: 'enqueue' }) => Promise<unknown>
  /** The handler gave a sign of life that the next beat has to carry. */
  readonly sign: () => void
  /** For a handler in an isolate: it must stop, and be gone by `killAt`. */
  readonly stopIsolate: ((stop: Stop, killAt: Instant) => void) | null
}

export type ProgressCall = Call & { op: 'progress' }

/** An isolate that should be dead is waited for this long; then the slot is freed without it. */
const KILL_PATIENCE_MS = millis(5_000)
const FLUSH_PATIENCE_MS = 5_000

export class Attempt {
  readonly hold: Hold
  readonly terms: Terms
  readonly facts: AttemptFacts
  readonly context: Context
  readonly isManual: boolean
  readonly #ports: AttemptPorts
  readonly #controller = new AbortController()
  readonly #checkpoints: LatestWins<unknown>
  readonly #progress: LatestWins<ProgressCall>
  #stop: Stop | null = null
  #isLost = false
  #isOver = false
  #giveUpAt: Instant
  /** When the handler is given up or killed. */
  #endsAt: Instant
  #timer: Timer | null = null
  #signAt: Instant
  #giveUp: () => void = () => {}

  constructor(hold: Hold, terms: Terms, facts: AttemptFacts, isManual: boolean, ports: AttemptPorts) {
    this.hold = hold
    this.terms = terms
    this.facts = facts
    this.isManual = isManual
    this.#ports = ports
    this.#signAt = monotonicNow(ports.host)
    this.#giveUpAt = ports.stopIsolate === null ? terms.hardAt : after(terms.hardAt, KILL_PATIENCE_MS)
    this.#endsAt = instant(facts.hardAt)
    this.#checkpoints = new LatestWins((state) => ports.saveCheckpoint(hold, state))
    this.#progress = new LatestWins((progress) => ports.saveProgress(hold, progress))
    this.context = createContext(facts, this.#controller.signal, {
      host: ports.host,
      call: (call) => this.perform(call),
      endsAt: () => (this.#isLost || this.#isOver ? -Infinity : this.#endsAt),
    })
  }

  /** Why it was stopped, if it was; that it is lost counts for more than what came before. */
  get stopped(): Stop | null {
    return this.#isLost ? { why: 'lost' } : this.#stop
  }

  /** Runs until the handler has settled, or nobody waits for it any more. */
  async live(execute: (context: Context) => Promise<AnyEnding>): Promise<AnyEnding> {
    this.#arm()
    const ending = await new Promise<AnyEnding>((resolve) => {
      this.#giveUp = () => {
        resolve({ kind: 'abandoned' })
      }
      void execute(this.context).then((settled) => {
        if (this.#isOver) this.#tellOfLateEnding(settled)
        resolve(settled)
      })
    })
    this.#timer?.cancel()
    this.#isOver = true
    return ending
  }

  /** Asks the handler to stop; it is waited for until `giveUpAt`, and never past the hard deadline. */
  stop(stop: Stop, giveUpAt: Instant): void {
    if (stop.why === 'lost') this.#isLost = true
    if (this.#isOver) return
    const until = earliest(giveUpAt, this.terms.hardAt) ?? giveUpAt
    this.#endsAt = earliest(this.#endsAt, until) ?? until
    if (this.#ports.stopIsolate === null) this.#giveUpAt = earliest(this.#giveUpAt, until) ?? until
    else {
      this.#giveUpAt = earliest(this.#giveUpAt, after(until, KILL_PATIENCE_MS)) ?? until
      this.#ports.stopIsolate(stop, until)
    }
    this.#arm()
    if (this.#stop !== null) return
    this.#stop = stop
    this.#controller.abort(stopError(stop))
  }

  /** Until what the handler saved has arrived. */
  async flush(): Promise<void> {
    const { promise, cancel } = patience(this.#ports.host, FLUSH_PATIENCE_MS)
    await Promise.race([Promise.all([this.#checkpoints.flush(), this.#progress.flush()]), promise])
    cancel()
  }

  /** What the handler asks of the worker, here or from its isolate. */
  async perform(call: Call): Promise<unknown> {
    if (this.#isOver || this.#isLost) throw new LostLeaseError('This attempt is over; nothing it asks for counts.')
    switch (call.op) {
      case 'heartbeat':
        this.#sign()
        this.#ports.sign()
        return null
      case 'progress':
        this.#sign()
        await this.#saved(this.#progress.put(call))
        return null
      case 'checkpoint':
        this.#sign()
        await this.#saved(this.#checkpoints.put(call.state))
        return null
      case 'enqueue':
        return this.#ports.enqueue(this.hold, call)
    }
  }

  async #saved(saving: Promise<void>): Promise<void> {
    try {
      await saving
    } catch (error) {
      // The server says so itself: this attempt does not count any more.
      if (error instanceof RequestError && error.status === 409)
        this.stop({ why: 'lost' }, after(monotonicNow(this.#ports.host), this.terms.graceMs))
      throw error
    }
  }

  #sign(): void {
    this.#signAt = monotonicNow(this.#ports.host)
    if (this.isManual) this.#arm()
  }

  /** One timer, for whatever comes next. */
  #arm(): void {
    this.#timer?.cancel()
    if (this.#isOver) return
    const { softAt, stallMs } = this.terms
    const stallAt = this.isManual && stallMs !== null ? after(this.#signAt, stallMs) : null
    const next = this.#stop === null ? earliest(softAt, stallAt, this.#giveUpAt) : this.#giveUpAt
    const now = monotonicNow(this.#ports.host)
    this.#timer = this.#ports.host.setTimer(Math.max(0, (next ?? now) - now), () => {
      this.#due(monotonicNow(this.#ports.host), stallAt)
    })
  }

  #due(now: Instant, stallAt: Instant | null): void {
    if (this.#stop === null && now >= this.terms.softAt) this.stop(this.terms.softStop, this.terms.hardAt)
    else if (this.#stop === null && stallAt !== null && now >= stallAt) this.#stall(now)
    if (now >= this.#giveUpAt) this.#giveUp()
    else this.#arm()
  }

  /** It did not prove its life in time: the server has given it up by now. */
  #stall(now: Instant): void {
    const limitMs = this.terms.stallMs ?? millis(0)
    this.#isLost = true
    this.stop({ why: 'deadline', kind: 'stalled', limitMs, source: 'server' }, after(now, this.terms.graceMs))
  }

  #tellOfLateEnding(ending: AnyEnding): void {
    const lateMs: Millis = elapsed(instant(this.terms.hardAt), monotonicNow(this.#ports.host))
    this.#ports.log.warn(
      { job_id: this.hold.jobId, attempt: this.hold.attempt, outcome: ending.kind, late_ms: lateMs },
      'a handler that nobody waited for any more came to its end; what it returned is dropped',
    )
  }
}

function patience(host: Host, ms: number): { promise: Promise<void>; cancel: () => void } {
  let end: () => void = () => {}
  const promise = new Promise<void>((resolve) => (end = resolve))
  const timer = host.setTimer(ms, end)
  return { promise, cancel: () => void timer.cancel() }
}
