/**
 * What a feature may hook into. The kernel knows features by these hooks only; `engine.ts` lists them. Hooks that take a
 * unit run inside a transaction, all others outside of it.
 */
import type { DocName, Instant, Job, NewEvent, Owner, Transition } from '@curfew/core'
import type { Life, News, StoredEvent } from '../../store/store.ts'
import type { Command } from './command.ts'
import type { Ready } from './ready.ts'
import type { Unit } from './unit.ts'

/** What a commit made true. */
export interface Committed {
  readonly transitions: readonly Transition[]
  readonly events: readonly StoredEvent[]
  /** For live streams only. */
  readonly live: readonly NewEvent[]
  /** Workers for which orders were stored. */
  readonly orders: Unit['orders']
  readonly ranOut: Unit['ranOut']
  /** What was refused from the inbox, and whether it may hold more. */
  readonly refused: Unit['refused']
  readonly moreInInbox: boolean
  /** Called once the commit is durable. */
  readonly followUps: Unit['followUps']
  /** The jobs that are left for polls that wait. */
  readonly ready: Ready
  readonly commands: number
  readonly now: Instant
  readonly life: Life
}

/** Is given all jobs of its kind of owner that ended, in their order, in the transaction that ended them. */
export type Follower = (unit: Unit, ended: readonly Job[]) => Promise<void>

/**
 * What happens to a document when its `wakeAt` has come. It is woken after the workers and the jobs that are due, in the
 * same transaction with the same now, and must get a later `wakeAt`, or none, or be removed: one that stays due would be
 * woken without end.
 */
export interface DocWaker {
  /** Documents that waking looks at besides; they are loaded for all that are due at once. */
  readonly needs?: (unit: Unit, id: string) => readonly DocName[]
  readonly wake: (unit: Unit, id: string) => void | Promise<void>
}

/** Hands jobs to open calls inside the transaction that makes the jobs available. One value for each transaction. */
export interface Serving {
  /** Looks that so many jobs of these queues may lead to. What they need is loaded with what the commands need. */
  foreseen(queues: readonly string[], jobs: number): readonly Command<unknown>[]
  serve(unit: Unit): Promise<void>
  /** What is left for calls that have to be woken. */
  rest(unit: Unit): Ready
  /** The transaction was committed. */
  answer(durable: Promise<void>, refusal: (error: unknown) => unknown): void
  /** The transaction was rolled back. */
  undo(): void
}

/** Serving an open call failed inside a transaction of others. The group is decided again without serving. */
export class ServingFailed extends Error {}

/** Workers with an open call at this server. An open call is a sign of life. */
export interface OpenCalls {
  isOpen(workerId: string): boolean
  workers(): string[]
}

export interface Feature {
  readonly follows?: Partial<Readonly<Record<Owner['kind'], Follower>>>
  /** By kind of document. */
  readonly wakes?: Readonly<Record<string, DocWaker>>
  /** Done with every sign of life of the server, after the commands of its group. */
  readonly chore?: Command<void>
  readonly serving?: () => Serving
  readonly openCalls?: OpenCalls
  /** Runs before the commit is durable, and before the next group is decided. */
  onCommit?(committed: Committed): void
  /** Nothing can take the commit back any more. */
  onDurable?(committed: Committed): void
  /** Another server committed something; null: some of its news may have been lost. */
  onNews?(news: News | null): void
  /** A command was refused, or failed with an internal error. `by`: the worker that sent it. */
  onRefusal?(command: string, error: unknown, by: string | null): void
  /** Work of its own is under way, besides commands. */
  isBusy?(): boolean
  /** Answers when what follows from the last commits was done; `advance` waits for it at every deadline. */
  caughtUp?(): Promise<void>
  /** A manual clock was advanced. */
  onAdvance?(): void
  open?(): void | Promise<void>
  /** The server begins to stop: open calls are answered. Commands still run. */
  stop?(): void
  /** Finishes its own work. Commands still run. */
  close?(): Promise<void>
  /** After the last command. */
  release?(): Promise<void>
  /** All data was removed (test bench only). */
  reset?(): void
}
