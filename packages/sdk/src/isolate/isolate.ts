/** What `Isolates` needs of a thread or a process, and how it hears that it is gone. */
import type { Host } from '@curfew/core'
import type { FromIsolate, ToIsolate } from './messages.ts'
import type { ErrorData } from '../attempt/facts.ts'
import type { Isolation } from './protocol.ts'

/** What can be run in one isolate after another. */
export interface IsolateKind {
  readonly isolation: Isolation
  readonly module: string
  readonly exportName: string
  readonly memoryMb: number | null
}

export function sameKind(a: IsolateKind, b: IsolateKind): boolean {
  return (
    a.module === b.module && a.exportName === b.exportName && a.isolation === b.isolation && a.memoryMb === b.memoryMb
  )
}

/** How an isolate went. */
export type Gone =
  | { readonly how: 'exit'; readonly code: number | null }
  | { readonly how: 'signal'; readonly signal: NodeJS.Signals }
  /** An uncaught error ended it, or it could not be started. */
  | { readonly how: 'error'; readonly error: ErrorData }
  | { readonly how: 'unstarted'; readonly error: ErrorData }
  /** Its own dead man's switch. */
  | { readonly how: 'switch'; readonly why: 'hard' | 'lease' }
  /** It was killed, and will not come back to any line of the handler, but is still there. */
  | { readonly how: 'stuck' }

export interface Isolate {
  send(message: ToIsolate): void
  /** Instants at which it ends by itself without a message from the worker; null while nothing runs in it. */
  guard(until: { readonly hardAt: number; readonly leaseAt: number } | null): void
  /** Where its handler is right now. Null when that cannot be seen; may never answer. */
  stack(): Promise<readonly string[] | null>
  /** A last word to what the handler has started, shortly before the kill. */
  warn(): void
  /** Lets an idle isolate go in its own way, within a bound. */
  end(): void
  kill(): void
}

export interface IsolateSetting {
  readonly host: Host
  onMessage(message: FromIsolate): void
  /** Called once, last. */
  onGone(gone: Gone): void
}

export type StartIsolate = (kind: IsolateKind, setting: IsolateSetting) => Isolate

/** How long a kill may take to show before we no longer wait for it. */
export const PATIENCE_MS = 1_000
