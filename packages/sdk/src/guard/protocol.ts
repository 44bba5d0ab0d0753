/**
 * What a worker says to its guard, and what it hears back. Everything is plain data: the guard lives in a thread of its
 * own, which no handler can block.
 */
import type { MessagePort } from 'node:worker_threads'
import type { IsolateKind } from '../isolate/isolate.ts'
import type { Call, Ending, ErrorData, Stop } from '../attempt/facts.ts'
import type { IsolateTask } from '../isolate/protocol.ts'
import type { LogLines } from '../attempt/job-log.ts'

export type WorkerState = 'running' | 'quiet' | 'terminate'

/** Who the worker is, for every beat. */
export interface WorkerFacts {
  readonly worker_id: string
  readonly hostname: string
  readonly pid: number
  readonly queues: readonly string[]
  readonly concurrency: number
  readonly labels: readonly string[]
  readonly started_at: string
}

/** What the guard's own thread starts with. */
export interface ThreadData {
  readonly url: string
  readonly token: string | null
  readonly fences: boolean
  readonly facts: WorkerFacts
  /** The list of attempts that the worker shares with it: see `shared-list.ts`. */
  readonly listed: SharedArrayBuffer
  /** Where its news go. */
  readonly news: MessagePort
}

/** An attempt the guard vouches for, or whose isolate it watches. Instants are monotonic. */
export interface Watched {
  readonly key: string
  readonly jobId: string
  readonly lease: number | null
  /** Only signs from the handler prove that it lives. */
  readonly manual: boolean
  /** Silence that counts as a stall; null: the server does not judge by it. */
  readonly stallMs: number | null
  /** How long the reservation lasts after a beat that lists it; null: unknown. */
  readonly visibilityMs: number | null
  /** The sending of the latest beat that listed it and was answered; before the first one, the claim. */
  readonly listedAt: number
  readonly graceMs: number
  readonly hardAt: number
  readonly softStop: Stop
}

export type Answer = { readonly ok: true; readonly value: unknown } | { readonly ok: false; readonly error: ErrorData }

export type GuardOrder =
  /** The server knows the worker: beat this often, and be silent no longer than that. */
  | { readonly op: 'registered'; readonly intervalMs: number; readonly timeoutMs: number; readonly askedAt: number }
  /** Beats report this state from now on; `epoch` tells which of its changes it is. */
  | { readonly op: 'state'; readonly state: WorkerState; readonly epoch: number }
  | { readonly op: 'begin'; readonly attempt: Watched }
  | { readonly op: 'end'; readonly key: string }
  | { readonly op: 'sign'; readonly key: string }
  /** An attempt has logged this; the next beats carry it. */
  | { readonly op: 'log'; readonly key: string; readonly lines: LogLines }
  /** Another call has carried all lines before this number. */
  | { readonly op: 'log-stored'; readonly key: string; readonly before: number }
  /** Another call of this worker was answered; it was sent at `askedAt`. */
  | { readonly op: 'contact'; readonly askedAt: number }
  /** Send a beat within so long. */
  | { readonly op: 'beat'; readonly inMs: number }
  /** Send no more beats; answer when none is on its way. */
  | { readonly op: 'silence' }
  /** The worker's thread stands still and the process ends: say its last words for it, then set `done`. */
  | { readonly op: 'leave'; readonly calls: readonly LastCall[]; readonly done: Int32Array }
  /** Can handlers of this kind run? Answered by `checked`. */
  | { readonly op: 'check'; readonly id: number; readonly kind: IsolateKind }
  | { readonly op: 'run'; readonly task: IsolateTask }
  | { readonly op: 'reply'; readonly key: string; readonly id: number; readonly answer: Answer }
  | { readonly op: 'stop'; readonly key: string; readonly stop: Stop; readonly killAt: number }
  | { readonly op: 'close' }

export interface StopOrder {
  readonly job_id: string
  readonly reason: 'timeout' | 'cancelled' | 'lost'
  readonly x_lease?: number
}

export interface BeatAnswer {
  readonly state?: WorkerState
  readonly x_cancel_jobs?: readonly StopOrder[]
  readonly x_reregister?: boolean
  /** Jobs the server takes for held by this worker, and that the beat did not list. */
  readonly x_unlisted?: readonly { readonly job_id: string; readonly x_lease: number; readonly held_ms: number }[]
}

/** A call that the guard makes for the worker when the process ends. */
export interface LastCall {
  readonly path: string
  readonly body: Record<string, unknown>
}

export type GuardNews =
  /** `begun`: how many attempts had been announced to the guard when it sent the beat. */
  | {
      readonly op: 'beat'
      readonly askedAt: number
      readonly epoch: number
      readonly begun: number
      readonly answer: BeatAnswer
    }
  | { readonly op: 'beat-failed'; readonly message: string }
  /** A beat has carried all lines of this attempt before this number. */
  | { readonly op: 'log-stored'; readonly key: string; readonly before: number }
  /** No beat follows, and none is on its way. */
  | { readonly op: 'silenced' }
  /** No good call for so long that the server may count on nothing here any more. */
  | { readonly op: 'fence' }
  /** The answer to a `check`: null when the module was loaded and has the handler. */
  | { readonly op: 'checked'; readonly id: number; readonly error: ErrorData | null }
  | { readonly op: 'call'; readonly key: string; readonly id: number; readonly call: Call }
  | { readonly op: 'ended'; readonly key: string; readonly ending: Ending }
  | { readonly op: 'closed' }
  /** Its thread ended by itself: no beats are sent, and what ran in isolates is gone. */
  | { readonly op: 'gone' }
