/**
 * What a path costs, in numbers that do not depend on the machine. A meter counts at the driver or on the wire, never
 * inside the store, so a store may be rebuilt without touching its meter.
 */
import type { Store } from '../../packages/server/src/store/store.ts'

/** By the name of the count, in the order in which a table shows them. */
export type Counts = Readonly<Record<string, number>>

export interface Counted {
  readonly counts: Counts
  /** How often each statement ran, by its name or its text. Shown when a count has changed; not compared. */
  readonly statements: ReadonlyMap<string, number>
}

export interface Meter {
  readonly store: Store
  /** Counts from when nothing is under way. */
  start(): Promise<void>
  /** Counts until nothing is under way. */
  stop(): Promise<Counted>
  close(): Promise<void>
}

/** Counts by key. */
export class Tally {
  readonly counts = new Map<string, number>()

  add(key: string): void {
    this.counts.set(key, (this.counts.get(key) ?? 0) + 1)
  }
}

const MAX_SHOWN = 100

/** A statement's text in one line, short enough for a list. */
export function shownStatement(text: string): string {
  const line = text.replace(/--.*$/gm, ' ').replace(/\s+/g, ' ').trim()
  return line.length > MAX_SHOWN ? `${line.slice(0, MAX_SHOWN - 1)}…` : line
}
