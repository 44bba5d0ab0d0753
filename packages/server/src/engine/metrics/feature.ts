import { OjsError, type Instant } from '@curfew/core'
import type { Feature } from '../kernel/feature.ts'
import type { SeriesKeeper } from '../series/keeper.ts'
import type { Pulse } from '../series/pulse.ts'
import type { Meters } from './meters.ts'
import type { RecentSigns } from './recent-signs.ts'

export interface MetricsParts {
  readonly meters: Meters
  readonly series: SeriesKeeper
  readonly pulse: Pulse
  readonly recentSigns: RecentSigns
  now(): Instant
}

/** Counts commits, and reports that came late, for meters, series and the pulse. */
export function metrics(parts: MetricsParts): Feature {
  const { meters, series, pulse, recentSigns } = parts
  return {
    onCommit: (committed) => {
      meters.committed(committed)
      series.committed(committed)
      pulse.committed(committed)
    },
    onNews: (news) => {
      if (news !== null) pulse.heard(news.changes)
    },
    onRefusal: (command, error, by) => {
      if (!(error instanceof OjsError)) return
      const reason = error.details['reason']
      if (error.code !== 'conflict' || typeof reason !== 'string') return
      if (meters.late(command, reason)) series.late(parts.now())
      const jobId = error.details['job_id']
      if (typeof jobId === 'string') recentSigns.late(jobId, { at: parts.now(), verb: command, workerId: by })
    },
  }
}

/** Saves what was counted over time; the last feature to close, so that it counts what the others do last. */
export function seriesKeeping({ series }: Pick<MetricsParts, 'series'>): Feature {
  return {
    close: () => series.close(),
    reset: () => {
      series.forget()
    },
  }
}
