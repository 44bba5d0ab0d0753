import type { Instant } from '@curfew/core'
import type { Feature } from '../kernel/feature.ts'
import { conflictOf, isLateReport } from './late-reports.ts'
import type { Meters } from './meters.ts'
import type { RecentSigns } from './recent-signs.ts'

export interface MetricsParts {
  readonly meters: Meters
  readonly recentSigns: RecentSigns
  now(): Instant
}

/** Counts commits, and reports that came late. */
export function metrics(parts: MetricsParts): Feature {
  const { meters, recentSigns } = parts
  return {
    onCommit: (committed) => {
      meters.committed(committed)
    },
    onRefusal: (command, error, by) => {
      const conflict = conflictOf(error)
      if (conflict === null) return
      const { reason, jobId } = conflict
      if (isLateReport(command, error)) meters.late(command, reason)
      if (jobId !== null) recentSigns.late(jobId, { at: parts.now(), verb: command, workerId: by })
    },
  }
}
