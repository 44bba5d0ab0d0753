/**
 * What a worker session hears and what it wants done, as plain data. `session.ts` is the only place that turns one into
 * the other; the shells around it (transport, guard thread, handlers, signals) carry out effects and report back as inputs.
 */
import type { Instant, Millis } from '@curfew/core'
import type { StopOrder, Watched, WorkerState } from '../guard/protocol.ts'
import type { Stop } from '../attempt/facts.ts'
import type { AnyEnding, Report } from '../attempt/report.ts'
import type { Asked, Terms } from '../attempt/terms.ts'
import type { HandedJob } from '../wire/jobs.ts'

/** Names a lease: proof of which attempt of which job is meant. */
export interface LeaseName {
  readonly jobId: string
  readonly lease: number
}

/** A call to the server. It carries reports, asks for jobs, or waits for jobs and orders. */
export interface Call {
  readonly id: number
  /** Grows with each call: the server tells an older call from a newer one. */
  readonly seq: number
  readonly reports: readonly Report[]
  /** Jobs asked for. 0: none. */
  readonly count: number
  /** How long the server may hold the call open. 0: it answers at once. */
  readonly waitMs: number
  /** The server answers with orders too. Null: this call carries reports, or the server has no orders. */
  readonly listen: Listen | null
}

export interface Listen {
  /** The state the worker is in when the call is sent. */
  readonly state: WorkerState
  /** Orders received so far; the server forgets them. */
  readonly heard: readonly LeaseName[]
}

/** `refused`: it changed nothing and never will. `unsent`: try again. */
export type Delivery =
  | { readonly kind: 'done' }
  | { readonly kind: 'refused'; readonly code: string; readonly message: string }
  | { readonly kind: 'unsent'; readonly reason: string }

export interface CallAnswer {
  /** One for each report, in their order. */
  readonly deliveries: readonly Delivery[]
  readonly jobs: readonly HandedJob[]
  /** What the deadlines of the jobs are counted from. */
  readonly asked: Asked
  readonly orders: Orders | null
  /** Why no jobs could be asked for although reports were delivered; null when all went well. */
  readonly failure: string | null
}

/** What the server wants of the worker: with an open call, or with the answer to a beat. */
export interface Orders {
  readonly state?: WorkerState
  readonly stops: readonly StopOrder[]
  /** The server does not know this worker any more. */
  readonly isForgotten: boolean
}

/** A job that the server takes for held by this worker, and that the beat did not list. */
export interface Unlisted extends LeaseName {
  /** How long ago it was claimed, by the server's clock. */
  readonly heldMs: number
}

export type Input =
  /** The server's capabilities are known. */
  | { readonly in: 'begin'; readonly server: ServerFeatures }
  | { readonly in: 'registered'; readonly askedAt: Instant; readonly intervalMs: Millis; readonly timeoutMs: Millis }
  /** `isRefused`: the server answered, and will not change its mind. */
  | { readonly in: 'register-failed'; readonly reason: string; readonly isRefused: boolean }
  | { readonly in: 'answered'; readonly call: number; readonly answer: CallAnswer }
  /** `refusal`: the server read the body and refuses it (400, 413, 422), with this code. Null: it did not answer. */
  | { readonly in: 'failed'; readonly call: number; readonly reason: string; readonly refusal: string | null }
  | {
      readonly in: 'beat'
      readonly sentAt: Instant
      /** The epoch of the state the beat reported: an answer to an older word is not an order against a newer one. */
      readonly epoch: number
      /** How many attempts had been announced to the guard when it sent the beat: it listed those, and no later ones. */
      readonly begun: number
      readonly orders: Orders
      readonly unlisted: readonly Unlisted[]
    }
  | { readonly in: 'beat-failed'; readonly reason: string }
  /** The guard heard nothing from the server for too long. */
  | { readonly in: 'fence' }
  /** A handler ended, and what it saved has arrived; in an isolate: nothing of it runs any more. */
  | { readonly in: 'settled'; readonly key: string; readonly ending: AnyEnding }
  /** The handler gave a sign of life. */
  | { readonly in: 'sign'; readonly key: string }
  /** The server refused a call of this attempt: the lease is gone. */
  | { readonly in: 'lost'; readonly key: string }
  | { readonly in: 'quiet' }
  | { readonly in: 'resume' }
  | { readonly in: 'stop'; readonly drainMs: Millis }
  /** The process is this worker and nothing else: it ends with it. */
  | { readonly in: 'owns-process' }
  /** Wait for no handler any longer. */
  | { readonly in: 'hurry' }
  /** The wake-up that was asked for, or any other moment. */
  | { readonly in: 'due' }
  /** Everything that arrived in this turn of the event loop was heard. */
  | { readonly in: 'turn' }
  /** The guard sends no beats any more, and none is on its way. */
  | { readonly in: 'silenced' }
  | { readonly in: 'deregistered' }
  /** The guard's thread ended by itself; a new one is there. */
  | { readonly in: 'guard-gone' }
  | { readonly in: 'guard-back' }

export type Effect =
  | { readonly do: 'register' }
  | { readonly do: 'call'; readonly call: Call }
  | { readonly do: 'hang-up'; readonly call: number }
  /** Beats list this attempt from now on. */
  | { readonly do: 'watch'; readonly watched: Watched }
  | { readonly do: 'unwatch'; readonly key: string }
  /** What the guard was ordered so far must be on its way before a handler can block this thread. */
  | { readonly do: 'flush-guard' }
  | { readonly do: 'start'; readonly key: string; readonly job: HandedJob; readonly terms: Terms }
  /** Abort the handler's signal; kill it, where it can be killed, at `endsAt`. */
  | {
      readonly do: 'abort'
      readonly key: string
      readonly stop: Stop
      readonly endsAt: Instant
      /** Nothing the attempt does counts any more. */
      readonly isLost: boolean
    }
  /** No call of this attempt counts any more, though its handler may still run. */
  | { readonly do: 'abandon'; readonly key: string }
  | { readonly do: 'tell-guard'; readonly state: WorkerState; readonly epoch: number }
  | { readonly do: 'registered'; readonly intervalMs: Millis; readonly timeoutMs: Millis; readonly askedAt: Instant }
  | { readonly do: 'contact'; readonly askedAt: Instant }
  /** Beat at once, or in so long. */
  | { readonly do: 'beat'; readonly inMs: Millis }
  /** Send no more beats. */
  | { readonly do: 'silence' }
  | { readonly do: 'deregister'; readonly leases: readonly LeaseName[]; readonly seq: number }
  | { readonly do: 'wake'; readonly at: Instant }
  | { readonly do: 'log'; readonly level: 'info' | 'warn' | 'error'; readonly fields: object; readonly message: string }
  /** Registration is over: with an error, `start()` fails. */
  | { readonly do: 'started'; readonly refusal: string | null }
  /** Stop the whole process: only inline handlers that ignore their signal are left. Their jobs are handed back. */
  | {
      readonly do: 'exit'
      readonly reports: readonly Report[]
      readonly leases: readonly LeaseName[]
      readonly seq: number
    }
  | { readonly do: 'ended' }

/** What the server can do. */
export interface ServerFeatures {
  /** An open call is answered with orders. */
  readonly orders: boolean
  /** An empty call is held open. */
  readonly waits: boolean
}

/** What a session must know of a handler. */
export interface HandlerFacts {
  readonly isolated: boolean
  /** Only the handler's own signs prove that it lives. */
  readonly manual: boolean
}
