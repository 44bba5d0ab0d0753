/**
 * What is said between a worker and the isolates (threads, processes) its handlers run in. Everything is plain data:
 * it crosses a thread or a process. Instants are on the system's monotonic clock (`nodeHost.monotonicMs`).
 *
 *   worker ── run ──→ isolate ── call (progress, checkpoint, …) ──→ worker ── reply ──→ isolate ── done ──→ worker
 *          ── abort, at the soft deadline or when told to ──→
 *          ── terminate or SIGKILL, at the hard deadline
 */
import type { AttemptFacts } from '../attempt/facts.ts'

export type Isolation = 'thread' | 'process'

export interface IsolateTask {
  /** Names this attempt among all of the worker's. */
  readonly key: string
  readonly isolation: Isolation
  /** file: URL of the module that holds the handler, and the name of its export. */
  readonly module: string
  readonly exportName: string
  readonly memoryMb: number | null
  /** When the server ends the attempt by itself; a report that arrives later is refused. */
  readonly serverEndsAt: number
  readonly facts: AttemptFacts
}
