/**
 * One task on its way through an isolate: when it is stopped and why, and what is known of its end.
 *
 *     waiting ──→ running ──→ ended
 *        softAt: nothing      softAt: the isolate aborts the signal by itself
 *        has run, ended       killAt: killed, after a last look at where it is stuck
 */
import type { Host, Timer } from '@curfew/core'
import { timerAt } from '../attempt/timer-at.ts'
import type { Ending, Stop } from '../attempt/facts.ts'
import type { IsolateTask } from './protocol.ts'

/**
 * The look at the stack begins this long before the kill, so that the kill need not wait for it: it takes about two
 * milliseconds, and many more on a machine with too much to do.
 */
export const LOOK_MS = 150
/** A kill that comes this long before the server ends the attempt leaves time for the report to arrive. */
const SAFE_LEAD_MS = 50
/** What the handler has started hears of it this long before the kill, or half of the grace if that is shorter. */
const WARN_MS = 500

export interface RunActions {
  /** Its time was over before it had an isolate. */
  onSpent(run: Run): void
  onLook(run: Run): void
  onWarn(run: Run): void
  onKill(run: Run): void
}

export class Run {
  readonly task: IsolateTask
  killAt: number
  /** Where it was, shortly before it is killed. */
  stack: readonly string[] | null = null
  beganAt: number | null = null
  /** An end in time, heard of while it was being killed. */
  ending: Ending | null = null
  readonly #host: Host
  readonly #actions: RunActions
  readonly #orderedAt: number
  #stop: Stop | null = null
  #timers: Timer[] = []

  constructor(task: IsolateTask, host: Host, actions: RunActions) {
    this.task = task
    this.#orderedAt = host.monotonicMs()
    this.killAt = task.facts.hardAt
    this.#host = host
    this.#actions = actions
  }

  get key(): string {
    return this.task.key
  }

  /** The first reason there was to stop it: what came after only hurried it along. */
  get reason(): Stop {
    return this.#stop ?? this.task.facts.softStop
  }

  /** Whole milliseconds until its handler began; until now, when it has not. */
  get startMs(): number {
    return Math.max(0, Math.floor((this.beganAt ?? this.#host.monotonicMs()) - this.#orderedAt))
  }

  /** Whether a report after the kill would come too late for the server. */
  get isReportTooLate(): boolean {
    return this.task.serverEndsAt - this.killAt < SAFE_LEAD_MS
  }

  /** It has no isolate yet. */
  wait(): void {
    this.#arm([[Math.min(this.task.facts.softAt, this.killAt), 'onSpent']])
  }

  /** It has its isolate. */
  begin(): void {
    // With less time than that, a look at half of it still sees the handler at work.
    const lookMs = Math.min(LOOK_MS, (this.killAt - this.#host.monotonicMs()) / 2)
    this.#armForTheEnd(this.task.facts.softAt, lookMs)
  }

  stopAt(stop: Stop, killAt: number): void {
    const now = this.#host.monotonicMs()
    if (now < this.task.facts.softAt) this.#stop ??= stop
    if (killAt >= this.killAt) return
    this.killAt = killAt
    this.#armForTheEnd(Math.min(now, this.task.facts.softAt))
  }

  /** It was ended because the worker's lease was over. */
  lose(leaseAt: number): void {
    if (leaseAt < this.task.facts.softAt) this.#stop ??= { why: 'lost' }
  }

  /** No timer of it is left. */
  settle(): void {
    for (const timer of this.#timers) timer.cancel()
    this.#timers = []
  }

  /** `softAt`: when it was told to stop. */
  #armForTheEnd(softAt: number, lookMs = LOOK_MS): void {
    const warnMs = Math.min(WARN_MS, (this.killAt - softAt) / 2)
    this.#arm([
      [this.killAt, 'onKill'],
      [this.killAt - lookMs, 'onLook'],
      ...(warnMs > 0 ? [[this.killAt - warnMs, 'onWarn'] as const] : []),
    ])
  }

  #arm(plan: readonly (readonly [at: number, action: keyof RunActions])[]): void {
    this.settle()
    for (const [at, action] of plan) {
      this.#timers.push(
        timerAt(this.#host, at, () => {
          this.#actions[action](this)
        }),
      )
    }
  }
}
