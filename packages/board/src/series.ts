/** Series as the server answers them. */
import { TIMEOUT_KINDS } from './wire.ts'

export interface Group {
  readonly name: string | null
  readonly total: number
  readonly points: readonly number[]
  readonly p50_ms?: number | null
  readonly p95_ms?: number | null
  readonly p99_ms?: number | null
  /** The end of each bucket in milliseconds, and how many fell into it. */
  readonly buckets?: readonly (readonly [number, number])[]
}

export interface Series {
  readonly step_ms: number
  readonly from: string
  readonly groups: readonly Group[]
  readonly complete: boolean
  readonly looked_until?: string
}

/** Kinds that are limits of a job have a filter of their own; other endings are found by their error. */
export const kindFilter = (name: string | null): Readonly<Record<string, string | null>> =>
  (TIMEOUT_KINDS as readonly (string | null)[]).includes(name) ? { timeout_kind: name } : { error_type: name }

/** Columns for a small drawing: at most so many, neighbours added up. */
export function folded(points: readonly number[], most: number): number[] {
  const size = Math.max(1, Math.ceil(points.length / most))
  const columns: number[] = []
  for (let from = 0; from < points.length; from += size)
    columns.push(points.slice(from, from + size).reduce((sum, value) => sum + value, 0))
  return columns
}
