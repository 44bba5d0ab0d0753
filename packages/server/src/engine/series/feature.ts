import type { Instant } from '@curfew/core'
import type { Feature } from '../kernel/feature.ts'
import { isLateReport } from '../metrics/late-reports.ts'
import type { SeriesKeeper } from './keeper.ts'
import type { Pulse } from './pulse.ts'

export interface SeriesParts {
  readonly series: SeriesKeeper
  readonly pulse: Pulse
  now(): Instant
}

/** Counts over time what is committed, and lets the pulse hear of it. The last to close: it counts what others do last. */
export function series(parts: SeriesParts): Feature {
  const { series: keeper, pulse } = parts
  return {
    onCommit: (committed) => {
      keeper.committed(committed)
      pulse.committed(committed)
    },
    onNews: (news) => {
      if (news !== null && !news.inbox) pulse.heard(news.changes)
    },
    onRefusal: (command, error) => {
      if (isLateReport(command, error)) keeper.late(parts.now())
    },
    close: () => keeper.close(),
    reset: () => {
      keeper.forget()
    },
  }
}
