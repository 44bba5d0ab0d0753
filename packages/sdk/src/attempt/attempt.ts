/**
 * The handler's side of one attempt: its context and its signal, and what it asks of the server. It decides nothing:
 * the session (`worker/session.ts`) says when to stop, and when nothing of it counts any more.
 */
import { earliest, instant, type Host, type Instant, type LogLine, type Random } from '@curfew/core'
import { createContext, type Context, type ContextPorts } from './context.ts'
import { LostLeaseError, RequestError } from '../errors.ts'
import type { AttemptFacts, Call, Stop } from './facts.ts'
import { LatestWins } from './latest.ts'
import { LazyAbort } from './lazy-abort.ts'
import type { Hold } from './report.ts'
import { StepLog } from './step-log.ts'
import type { StepProbe } from './steps.ts'
import { stopError } from './stop-error.ts'
import { unlessAborted } from '../waiting.ts'

export interface AttemptPorts {
  readonly host: Host
  readonly random?: Random
  readonly probe?: StepProbe
  /**
   * Rejects with a RequestError 409 once the attempt no longer counts. With the signal it is not tried again. `number` grows with
   * each checkpoint of the attempt: one that is delayed on its way does not replace a newer one.
   */
  readonly saveCheckpoint: (hold: Hold, state: unknown, signal: AbortSignal, number: number) => Promise<void>
  readonly saveProgress: (hold: Hold, progress: ProgressCall, signal: AbortSignal) => Promise<void>
  /** `dropped`: how many lines were left out before these. */
  readonly log: (hold: Hold, lines: readonly LogLine[], dropped: number) => void
  readonly enqueue: (hold: Hold, call: Call & { op: 'enqueue' }) => Promise<unknown>
  /** The handler gave a sign of life. `isBare`: the next beat has to carry it. */
  readonly onSign: (isBare: boolean, hold: Hold) => void
  /** The server refused a call of this attempt: the lease is gone. */
  readonly onLost: (hold: Hold) => void
}

/** `until` is on the server's clock. */
export interface Sleep {
  readonly name: string
  readonly until: Instant
}

export type ProgressCall = Call & { op: 'progress' }

const FLUSH_PATIENCE_MS = 5_000
const NOTHING = Promise.resolve()
const MIDDLE: Random = () => 0.5
const NO_PROBE: StepProbe = () => NOTHING

export class Attempt implements ContextPorts {
  readonly hold: Hold
  readonly facts: AttemptFacts
  readonly context: Context
  readonly #ports: AttemptPorts
  readonly #stop = new LazyAbort()
  /** Ends what is being saved; made when something is. */
  #saving: AbortController | null = null
  #checkpoints: LatestWins<unknown> | null = null
  #log: StepLog | null = null
  #saves = 0
  #sleep: Sleep | null = null
  #progress: LatestWins<ProgressCall> | null = null
  #endsAt: number
  #isOver = false
  #isLost = false

  constructor(hold: Hold, facts: AttemptFacts, ports: AttemptPorts) {
    this.hold = hold
    this.facts = facts
    this.#ports = ports
    this.#endsAt = facts.hardAt
    this.context = createContext(facts, this.#stop, this)
  }

  get host(): Host {
    return this.#ports.host
  }

  get random(): Random {
    return this.#ports.random ?? MIDDLE
  }

  get probe(): StepProbe {
    return this.#ports.probe ?? NO_PROBE
  }

  /** The handler gave the job back; null: it did not. */
  get sleep(): Sleep | null {
    return this.#sleep
  }

  endsAt(): number {
    return this.#endsAt
  }

  /** Aborts the signal; the first reason is the one it gives. The handler is waited for until `endsAt`. */
  abort(stop: Stop, endsAt: Instant, isLost: boolean): void {
    this.#endsAt = isLost ? -Infinity : Math.min(this.#endsAt, endsAt)
    if (!this.#stop.aborted) this.#stop.abort(stopError(stop))
    if (isLost) this.#saveNoMore()
  }

  /** Another attempt may run: a handler that waits for the answer to what it saved must not wait for it any longer. */
  #saveNoMore(): void {
    this.#isLost = true
    this.#saving?.abort(new LostLeaseError('The lease of this attempt is lost; nothing it saves counts.'))
  }

  /** Nothing the handler asks for counts any more. */
  close(): void {
    this.#isOver = true
    this.#endsAt = -Infinity
  }

  /** The handler is waited for no longer: what it saved and what has not arrived is not sent again. */
  giveUp(): void {
    this.close()
    this.#saving?.abort(new LostLeaseError('This attempt is over; nothing it asks for counts.'))
  }

  /** Something the handler saved is on its way. */
  get isSaving(): boolean {
    return this.#checkpoints?.isIdle === false || this.#progress?.isIdle === false
  }

  /** Until what the handler saved has arrived, or is given up. */
  async flush(): Promise<void> {
    if (!this.isSaving) return
    const [checkpoints, progress] = [this.#checkpoints, this.#progress]
    const { promise, cancel } = patience(this.#ports.host, FLUSH_PATIENCE_MS)
    const saved = Promise.all([checkpoints?.flush() ?? NOTHING, progress?.flush() ?? NOTHING])
    await Promise.race([saved, promise])
    cancel()
    this.giveUp()
  }

  /** What the handler asks of the worker, here or from its isolate. */
  async call(call: Call): Promise<unknown> {
    if (this.#isOver) throw new LostLeaseError('This attempt is over; nothing it asks for counts.')
    switch (call.op) {
      case 'heartbeat':
        this.#ports.onSign(true, this.hold)
        return null
      case 'progress':
        this.#refuseIfLost()
        this.#ports.onSign(false, this.hold)
        await this.#saved(this.#progressLane().put(call))
        return null
      case 'checkpoint':
        this.#refuseIfLost()
        this.#ports.onSign(false, this.hold)
        await this.#stepLog().checkpoint(call.state)
        return null
      case 'step':
        this.#refuseIfLost()
        this.#ports.onSign(false, this.hold)
        await this.#stepLog().step(call.step)
        return null
      case 'sleep':
        this.#refuseIfLost()
        this.#fallAsleep(call.name, instant(call.until))
        return null
      case 'log':
        this.#ports.log(this.hold, call.lines, call.dropped)
        return null
      case 'enqueue':
        return this.#ports.enqueue(this.hold, call)
    }
  }

  /** Of two sleeps beside each other the first to end wakes the job. */
  #fallAsleep(name: string, until: Instant): void {
    const first = earliest(this.#sleep?.until ?? null, until)
    if (first === until) this.#sleep = { name, until }
  }

  #refuseIfLost(): void {
    if (this.#isLost) throw new LostLeaseError('The lease of this attempt is lost; nothing it saves counts.')
  }

  // Most attempts save nothing: what that takes is made when it is needed.

  #savingSignal(): AbortSignal {
    this.#saving ??= new AbortController()
    return this.#saving.signal
  }

  #stepLog(): StepLog {
    const { steps, lastCheckpoint } = this.facts
    this.#log ??= new StepLog(steps?.stored ?? [], lastCheckpoint, (document) =>
      this.#saved(this.#checkpointLane().put(document)),
    )
    return this.#log
  }

  #checkpointLane(): LatestWins<unknown> {
    this.#checkpoints ??= new LatestWins((state) =>
      this.#ports.saveCheckpoint(this.hold, state, this.#savingSignal(), ++this.#saves),
    )
    return this.#checkpoints
  }

  #progressLane(): LatestWins<ProgressCall> {
    this.#progress ??= new LatestWins((call) => this.#ports.saveProgress(this.hold, call, this.#savingSignal()))
    return this.#progress
  }

  async #saved(saving: Promise<void>): Promise<void> {
    try {
      await unlessAborted(saving, this.#savingSignal())
    } catch (error) {
      if (error instanceof RequestError && error.status === 409) this.#ports.onLost(this.hold)
      throw error
    }
  }
}

function patience(host: Host, ms: number): { promise: Promise<void>; cancel: () => void } {
  let end: () => void = () => {}
  const promise = new Promise<void>((resolve) => (end = resolve))
  const timer = host.setTimer(ms, end)
  return { promise, cancel: () => void timer.cancel() }
}
