/**
 * What every command may use: the way to run and to read, time, chance, settings and the log. A command that needs more says
 * so with the context of its feature (`JobsContext`, `JourneysContext`, …), which extends this one. No command knows the
 * engine, which puts all features together (`engine.ts`).
 */
import type { Host, Instant, LimitSettings, Millis, NewEvent, Random, Retention, Timer } from '@curfew/core'
import type { Reads, StateChange, Store, StoredEvent } from '../../store/store.ts'
import type { Ahead, Command, OnRefusal } from './command.ts'
import type { LongDocs } from './long-docs.ts'
import type { Unit } from './unit.ts'

export interface EngineSettings {
  readonly limits: LimitSettings
  readonly retention: Retention
  readonly deadLetterMax: number
  readonly heartbeatIntervalMs: Millis
  /** Silence after which a known worker is declared dead. */
  readonly workerTimeoutMs: Millis
  /** Refuse ACK and FAIL that do not name their worker. */
  readonly requireOwner: boolean
  /** Enables the endpoints for conformance tests. */
  readonly conformance: boolean
  /** Calls to private networks, and without TLS, are allowed. */
  readonly allowPrivateNetwork: boolean
  /** What definitions may ask for as `platform.config`. */
  readonly platformConfig: Readonly<Record<string, unknown>>
  /** Refuse fields whose names are close to known ones, instead of warning of them. */
  readonly strict: boolean
  readonly largestResultBytes: number
  readonly largestCheckpointBytes: number
}

/** What the engine needs of a logger. Job text never goes into a message. */
export interface Log {
  info(fields: object, message: string): void
  warn(fields: object, message: string): void
  error(fields: object, message: string): void
}

/** What was committed, by this server or by another one. */
export interface Announcement {
  readonly events: readonly StoredEvent[]
  /** Not kept in the log. */
  readonly live: readonly NewEvent[]
  readonly changes: readonly StateChange[]
  readonly now: Instant
}

export interface Context {
  readonly settings: EngineSettings
  readonly store: Store
  readonly host: Host
  readonly random: Random
  readonly log: Log
  readonly longDocs: LongDocs
  /** Aborted when the server begins to stop: waits and streams end. */
  readonly closing: AbortSignal
  /** The clock stands still until a caller advances it. */
  readonly hasManualClock: boolean
  readonly hasListeners: boolean
  now(): Instant
  /** Calls `fire` at this instant. A manual clock sets no timers: `advance` wakes everything. */
  timerAt(at: Instant, fire: () => void): Timer
  /** Runs a command in the next group; answers after its transaction is durable. */
  run<T>(command: Command<T>, onRefusal?: OnRefusal): Promise<T>
  /** As `run`, but answers what was decided at once, so that the answer is prepared while the disk is written. */
  runAhead<T>(command: Command<T>, onRefusal?: OnRefusal): Promise<Ahead<T>>
  /** Lets owners hear of the jobs that ended so far in this transaction; otherwise they hear at its end. */
  follow(unit: Unit): Promise<void>
  /** Counts late reports, and logs internal errors. `by`: the worker that sent the command. */
  noteRefusal(command: string, error: unknown, by?: string | null): void
  /** Reads after everything due was settled, so that no answer is stale by a tick. */
  read<T>(look: (reads: Reads, now: Instant) => Promise<T>): Promise<T>
  /** Reads what no deadline changes. */
  look<T>(look: (reads: Reads) => Promise<T>): Promise<T>
  /** Answers once nothing is due any more. */
  settled(): Promise<void>
  /** Calls the listener after every commit; returns how to stop it. */
  listen(listener: (announcement: Announcement) => void): () => void
}
