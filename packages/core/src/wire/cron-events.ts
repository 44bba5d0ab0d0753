/** The events of cron entries. */
import type { Cron } from '../cron/cron.ts'
import type { NewEvent } from '../events.ts'
import type { Job } from '../job/job.ts'
import { iso, type Instant } from '../time/clock.ts'

/** The words of both texts: OJS events §4.6 and OJS cron §9. */
export function cronTriggered(cron: Cron, job: Job, scheduledAt: Instant, now: Instant, manual: boolean): NewEvent {
  return cronEvent('cron.triggered', cron, scheduledAt, now, {
    job_id: job.id,
    run_count: cron.runCount,
    actual_time: iso(now),
    ...(manual ? { manual } : {}),
  })
}

export function cronSkipped(
  cron: Cron,
  reason: string,
  scheduledAt: Instant,
  now: Instant,
  more: Record<string, unknown> = {},
): NewEvent {
  return cronEvent('cron.skipped', cron, scheduledAt, now, { reason, ...more })
}

function cronEvent(
  type: 'cron.triggered' | 'cron.skipped',
  cron: Cron,
  scheduledAt: Instant,
  at: Instant,
  data: Record<string, unknown>,
): NewEvent {
  return {
    type,
    at,
    subject: cron.name,
    queue: cron.queue,
    jobType: cron.type,
    data: {
      cron_name: cron.name,
      cron_expr: cron.expression,
      cron_expression: cron.expression,
      timezone: cron.timezone,
      job_type: cron.type,
      queue: cron.queue,
      scheduled_at: iso(scheduledAt),
      scheduled_time: iso(scheduledAt),
      ...data,
    },
  }
}
