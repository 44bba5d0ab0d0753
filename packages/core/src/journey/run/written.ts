/**
 * What states have written into the context, kept for people who look at a run later. It is bounded, so that a run costs
 * little more for it: a value that is too long is left out by its length, and of a long run only the last ones are kept.
 * Kept is JSON text, which is parsed only when a person asks.
 */
import type { Data } from './run.ts'

/** Characters of what one state may write, and of all that is kept of a run. */
export const MAX_WRITTEN = 4_096
export const MAX_ALL_WRITTEN = 65_536
export const MAX_INPUT = 16_384

/** What a state has changed; undefined: nothing. */
export function writtenBetween(before: Data, after: Data): string | undefined {
  if (before === after) return undefined
  const set: [string, unknown][] = []
  for (const name of Object.keys(after)) if (after[name] !== before[name]) set.push([name, after[name]])
  const removed = Object.keys(before).filter((name) => !Object.hasOwn(after, name))
  if (set.length === 0 && removed.length === 0) return undefined
  return keptText({ set: Object.fromEntries(set), ...(removed.length === 0 ? {} : { removed }) }, MAX_WRITTEN)
}

export const keptInput = (context: Data): string => keptText({ set: context }, MAX_INPUT)

interface Written {
  readonly set: Data
  readonly removed?: readonly string[]
}

/** As text; where that is too long, the longest members are left out, each by its length. */
function keptText(written: Written, max: number): string {
  const whole = JSON.stringify(written)
  if (whole.length <= max) return whole
  const sizes = Object.entries(written.set).map(([name, value]) => ({
    name,
    size: (JSON.stringify(value) ?? '').length,
  }))
  const set: [string, unknown][] = []
  let left = max - 256
  for (const { name, size } of sizes.sort((a, b) => a.size - b.size)) {
    const isKept = size + name.length < left
    left -= name.length + (isKept ? size : 32)
    if (left > 0) set.push([name, isKept ? written.set[name] : { [LEFT_OUT]: size }])
  }
  return JSON.stringify({ ...written, set: Object.fromEntries(set), isCut: true })
}

/** Stands for a value that is not kept; its value is the length of the JSON text. */
export const LEFT_OUT = '$leftOut'

export interface ReadWritten extends Written {
  /** Something of it is not kept. */
  readonly isCut?: true
}

export const readWritten = (text: string): ReadWritten => JSON.parse(text) as ReadWritten

/** Without the oldest texts, as far as there are too many. */
export function withinAll<T extends { readonly wrote?: string }>(trail: readonly T[]): readonly T[] {
  let sum = 0
  for (const { wrote } of trail) sum += wrote?.length ?? 0
  if (sum <= MAX_ALL_WRITTEN) return trail
  return trail.map((visit) => {
    if (visit.wrote === undefined || sum <= MAX_ALL_WRITTEN) return visit
    sum -= visit.wrote.length
    return { ...visit, wrote: FORGOTTEN }
  })
}

/** Of a state whose writing is no longer kept. */
const FORGOTTEN = JSON.stringify({ set: {}, isCut: true })
