/**
 * Documents: every record of ours that is neither a job nor a worker (cron entries, workflows and their steps, limiters,
 * subscriptions, schemas). To a store they are all alike: a kind, a name within it, an instant at which something must
 * happen to it, and JSON that only the rules of its kind read. So a new kind needs no new table, and one loop wakes all.
 *
 * A kind is declared once, beside its rules. Its record is plain data: what JSON.parse gives back for what JSON.stringify
 * made of it.
 */
import type { Instant } from './time/clock.ts'
import type { Json } from './job/job.ts'

export interface DocName {
  readonly kind: string
  /** Anything that sorts: lower-case letters, digits, dots, dashes and slashes are safe everywhere. */
  readonly id: string
}

/** A document as it is stored. */
export interface Doc extends DocName {
  readonly version: number
  readonly wakeAt: Instant | null
  readonly body: Json
}

export interface DocKind<T> {
  readonly kind: string
  /** Its next automatic transition; null: none. */
  wakeAt(record: T): Instant | null
  /** Of kinds whose records can become so long that their text is made in pieces. */
  readonly long?: LongKind<T>
}

export interface LongKind<T> {
  isLong(record: T): boolean
  /** For one document, again and again. */
  text(): LongText<T>
}

/** Makes the body of a document in pieces, and remembers them: what has not changed since is not made again. */
export interface LongText<T> {
  of(record: T): Generator<void, Json>
}

/** A kind to which nothing happens by itself, unless `wakeAt` is given. */
export function docKind<T>(
  kind: string,
  wakeAt: (record: T) => Instant | null = () => null,
  long?: LongKind<T>,
): DocKind<T> {
  return long === undefined ? { kind, wakeAt } : { kind, wakeAt, long }
}

export function readDoc<T>({ body }: Doc): T {
  return JSON.parse(body) as T
}
