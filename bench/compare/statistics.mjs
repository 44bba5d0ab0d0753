// The figures of a table: medians with their spread, and ratios of rounds that were taken in turn.
import { quantile } from '../lib/report.mjs'

export function spread(values) {
  const sorted = [...values].sort((a, b) => a - b)
  return { median: quantile(sorted, 0.5), min: sorted[0], max: sorted.at(-1) }
}

export const median = (values) => spread(values).median

export const entryOf = (table, contender) => table?.entries.find((entry) => entry.contender === contender)

/**
 * The median of the ratios of the rounds: both sides of each were taken within seconds, so a machine whose speed changes
 * during a run changes both. Null where either side is missing.
 */
export function ratio(ours, theirs) {
  if (ours === undefined || theirs === undefined) return null
  const pairs = Math.min(ours.values.length, theirs.values.length)
  if (pairs === 0) return null
  return median(Array.from({ length: pairs }, (_, round) => ours.values[round] / theirs.values[round]))
}

/** The peer with the best median. */
export function bestPeer({ better, entries }) {
  const sign = better === 'higher' ? -1 : 1
  const peers = entries.filter(({ kind }) => kind === 'peer')
  return peers.sort((a, b) => sign * (median(a.values) - median(b.values)))[0]
}
