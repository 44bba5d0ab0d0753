/** Jobs that will miss a deadline, told before they do, with the figures this was made of. */
import { iso, QUEUE_SHAPE, riskView } from '@curfew/core'
import { atRisk, type QueuePace } from '../../engine/jobs/at-risk.ts'
import { upTo } from '../api/query.ts'
import { queryOf, type Route } from '../api/route.ts'

const QUERY = { queue: QUEUE_SHAPE, limit: upTo(1, 200) } as const

export const AT_RISK_ROUTES: readonly Route[] = [
  {
    method: 'GET',
    path: '/ojs/v1/admin/at-risk',
    tag: 'admin',
    summary: 'Jobs that will miss a deadline at the pace observed in the last minute, the nearest first',
    query: QUERY,
    handle: async (call) => {
      const { queue = null, limit = 50 } = queryOf(call, QUERY)
      const { found, now } = await call.engine.read(async (reads, now) => ({
        found: await atRisk(call.engine.host, reads, { queue, limit }, now),
        now,
      }))
      return {
        body: JSON.stringify({
          items: found.risks.map(riskView),
          queues: found.queues.map(paceView),
          complete: found.queues.every(({ waiting, lookedAt }) => lookedAt >= waiting),
          computed_at: iso(now),
        }),
      }
    },
  },
]

const paceView = ({ queue, isPaused, waiting, lookedAt, starts, windowMs }: QueuePace): object => ({
  queue,
  paused: isPaused,
  waiting,
  examined: lookedAt,
  starts,
  window_ms: windowMs,
  starts_per_second: Math.round((starts / windowMs) * 1_000_000) / 1000,
})
