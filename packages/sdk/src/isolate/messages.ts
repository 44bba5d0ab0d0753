/**
 * What `Isolates` and an isolate say to each other. Threads send it as objects over a port of their own, processes as
 * lines of JSON over a pipe; a process has a second pipe for its watcher.
 */
import type { AttemptFacts, Call, ErrorData, Stop } from '../attempt/facts.ts'

export type Answer = { readonly ok: true; readonly value: unknown } | { readonly ok: false; readonly error: ErrorData }

export type ToIsolate =
  | { readonly t: 'run'; readonly key: string; readonly facts: AttemptFacts }
  /** `killAt`: when it will be ended by force. */
  | { readonly t: 'abort'; readonly key: string; readonly stop: Stop; readonly killAt: number }
  | { readonly t: 'reply'; readonly key: string; readonly id: number; readonly answer: Answer }
  /** Nothing runs and nothing will: go, in your own way. */
  | { readonly t: 'end' }

/** The result as JSON text; undefined stays undefined. */
export type Outcome =
  { readonly ok: true; readonly json: string | undefined } | { readonly ok: false; readonly error: ErrorData }

export type FromIsolate =
  /** The module is loaded and has the export: a handler can run here. */
  | { readonly t: 'ready' }
  /** The next thing to run is the handler's. */
  | { readonly t: 'began'; readonly key: string; readonly at: number }
  | { readonly t: 'call'; readonly key: string; readonly id: number; readonly call: Call }
  /** `at`: when it was settled. What was settled after the hard deadline does not count, however soon it is read. */
  | {
      readonly t: 'done'
      readonly key: string
      readonly at: number
      readonly outcome: Outcome
      readonly clean: boolean
    }
  /** The module or the export cannot be had: no handler will ever run here. */
  | { readonly t: 'unfit'; readonly error: ErrorData }
  /** An error outside the handler's promise. If the isolate is gone next, this was why. */
  | { readonly t: 'crash'; readonly error: ErrorData }

/** Instants that JSON can carry: null is never. */
export type ToWatcher =
  | { readonly t: 'guard'; readonly hardAt: number | null; readonly leaseAt: number | null }
  | { readonly t: 'stack'; readonly id: number }

export type FromWatcher =
  | { readonly t: 'stack'; readonly id: number; readonly stack: readonly string[] | null }
  /** Its last words before it kills its own process group. */
  | { readonly t: 'last'; readonly why: 'hard' | 'lease' }

/** What a thread is started with. */
export interface ThreadData {
  readonly port: import('node:worker_threads').MessagePort
  readonly module: string
  readonly exportName: string
  /** Until when the worker's lease lasts; shared with its owner. */
  readonly leaseAt: Float64Array
}

/**
 * File descriptors of a process isolate, besides the usual three. One for each direction: a stream that fails to write to
 * a process that is gone is destroyed, and must not take along what that process has said last.
 */
export const FD = { toHandler: 3, fromHandler: 4, toWatcher: 5, fromWatcher: 6 } as const
