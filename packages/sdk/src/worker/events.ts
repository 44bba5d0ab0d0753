/**
 * What a worker tells the application of its attempts. Listeners cannot harm it: what one throws is logged, and the next one
 * is called. Nothing is kept for listeners while there are none.
 */
import type { Host } from '@curfew/core'
import type { DeadlineKind } from '../errors.ts'
import type { WorkerState } from '../guard/protocol.ts'
import type { Log } from '../log.ts'
import { keyOf, type Report, type WireError } from '../attempt/report.ts'
import type { HandedJob } from '../wire/jobs.ts'
import type { Delivery, Effect } from './inputs.ts'

/** Which attempt an event is about. */
export interface AttemptEvent {
  readonly jobId: string
  readonly type: string
  readonly queue: string
  /** The number of the attempt, as the handler saw it. */
  readonly attempt: number
}

export interface EndedEvent extends AttemptEvent {
  /** How long the handler ran. */
  readonly durationMs: number
}

/** The events of a worker, each with what its listeners get. */
export interface WorkerEvents {
  /** The handler begins. */
  readonly started: AttemptEvent
  /** The server has taken the result. */
  readonly completed: EndedEvent & { readonly result: unknown }
  /** The server has taken the failure; a timeout that the worker reports is one. */
  readonly failed: EndedEvent & { readonly error: WireError }
  /**
   * The time of the attempt is up: its signal is aborted. Another event follows when the handler has ended, unless the
   * server ends the attempt itself.
   */
  readonly timeout: AttemptEvent & {
    readonly kind: DeadlineKind
    readonly limitMs: number
    readonly source: string
  }
  /** The job was cancelled while it ran. */
  readonly cancelled: AttemptEvent
  /** The server does not count on the attempt any more; another one may run. */
  readonly lost: AttemptEvent
  /** The job went back to its queue without using a try. */
  readonly handedBack: EndedEvent & { readonly error: WireError }
  /** The report came too late: the server had ended the attempt. */
  readonly refused: EndedEvent & { readonly code: string; readonly message: string }
  readonly state: { readonly state: WorkerState }
}

export type WorkerListener<Name extends keyof WorkerEvents> = (event: WorkerEvents[Name]) => unknown

interface Known {
  readonly event: AttemptEvent
  readonly startedMs: number
  endedMs: number | null
}

export class WorkerNews {
  readonly #host: Host
  readonly #log: Log
  readonly #listeners = new Map<keyof WorkerEvents, Set<WorkerListener<never>>>()
  /** Attempts that began here and whose end was not told yet. */
  readonly #known = new Map<string, Known>()
  #state: WorkerState = 'running'

  constructor(host: Host, log: Log) {
    this.#host = host
    this.#log = log
  }

  on<Name extends keyof WorkerEvents>(name: Name, listener: WorkerListener<Name>): void {
    const listeners = this.#listeners.get(name) ?? new Set()
    this.#listeners.set(name, listeners.add(listener))
  }

  off<Name extends keyof WorkerEvents>(name: Name, listener: WorkerListener<Name>): void {
    const listeners = this.#listeners.get(name)
    listeners?.delete(listener)
    if (listeners?.size === 0) this.#listeners.delete(name)
  }

  started(key: string, job: HandedJob): void {
    if (this.#listeners.size === 0) return
    const attempt = Math.max(1, job.attempt - (job.x_interruptions ?? 0))
    const event = { jobId: job.id, type: job.type, queue: job.queue, attempt }
    this.#known.set(key, { event, startedMs: this.#host.monotonicMs(), endedMs: null })
    this.#tell('started', event)
  }

  aborted({ key, stop }: Effect & { do: 'abort' }): void {
    const event = this.#known.get(key)?.event
    if (event === undefined) return
    switch (stop.why) {
      case 'deadline': {
        const { kind, limitMs, source } = stop
        this.#tell('timeout', { ...event, kind, limitMs, source })
        return
      }
      case 'cancelled':
        this.#tell('cancelled', event)
        return
      case 'lost':
        this.#tell('lost', event)
        return
      case 'shutdown':
    }
  }

  settled(key: string): void {
    const known = this.#known.get(key)
    if (known !== undefined) known.endedMs = this.#host.monotonicMs()
  }

  /** The server has answered a report. */
  delivered(report: Report, delivery: Delivery): void {
    const known = this.#known.get(keyOf(report.hold))
    if (known === undefined || delivery.kind === 'unsent') return
    const { event, startedMs, endedMs } = known
    const ended = { ...event, durationMs: Math.round((endedMs ?? this.#host.monotonicMs()) - startedMs) }
    if (delivery.kind === 'refused') this.#tell('refused', { ...ended, code: delivery.code, message: delivery.message })
    else if (report.kind === 'ack') this.#tell('completed', { ...ended, result: report.result })
    else this.#tell(report.requeue ? 'handedBack' : 'failed', { ...ended, error: report.error })
  }

  forgotten(key: string): void {
    this.#known.delete(key)
  }

  became(state: WorkerState): void {
    if (state === this.#state) return
    this.#state = state
    this.#tell('state', { state })
  }

  #tell<Name extends keyof WorkerEvents>(name: Name, event: WorkerEvents[Name]): void {
    const complain = (error: unknown): void => {
      const reason = error instanceof Error ? error.message : String(error)
      this.#log.error({ event: name, reason }, 'a listener of the worker failed')
    }
    // A listener may take itself away, or add another one.
    for (const listener of [...(this.#listeners.get(name) ?? [])]) {
      try {
        const outcome = (listener as WorkerListener<Name>)(event)
        if (outcome instanceof Promise) outcome.catch(complain)
      } catch (error) {
        complain(error)
      }
    }
  }
}
