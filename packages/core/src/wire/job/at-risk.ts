/** A job at risk as clients see it. */
import type { Risk } from '../../job/at-risk.ts'
import { iso } from '../../time/clock.ts'
import { timeBetween } from '../../time/sums.ts'
import type { Fields } from '../shape.ts'

export function riskView({ job, latest, expectedAt, ahead }: Risk): Fields {
  return {
    job_id: job.id,
    type: job.type,
    queue: job.queue,
    priority: job.priority,
    state: job.state,
    latest_start: iso(latest.at),
    expected_start: expectedAt === null ? null : iso(expectedAt),
    late_by_ms: expectedAt === null ? null : timeBetween(latest.at, expectedAt),
    deadline: iso(latest.deadlineAt),
    limit: latest.limit,
    source: latest.source,
    jobs_ahead: ahead,
  }
}
