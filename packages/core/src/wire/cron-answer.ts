/** Cron entries and their firings as clients see them. */
import type { Cron } from '../cron/cron.ts'
import type { Job, Json } from '../job/job.ts'
import { iso } from '../time/clock.ts'
import { membersOf } from './json/json-text.ts'

/** A job that an entry has fired, as its history tells of it. */
export function cronExecution(job: Job): Record<string, unknown> {
  const { meta = {} } = JSON.parse(`{${job.body}}`) as { meta?: Record<string, unknown> }
  const endedAt = job.completedAt ?? job.cancelledAt ?? job.discardedAt
  return {
    job_id: job.id,
    state: job.state,
    attempt: job.attempt,
    manual: meta['cron_manual'] === true,
    scheduled_at: meta['cron_triggered_at'] ?? iso(job.createdAt),
    created_at: iso(job.createdAt),
    started_at: job.startedAt === null ? null : iso(job.startedAt),
    completed_at: job.completedAt === null ? null : iso(job.completedAt),
    ended_at: endedAt === null ? null : iso(endedAt),
  }
}

/** An entry as clients see it: the names of both dialects. */
export function renderCron(cron: Cron): Json {
  const members = membersOf(cron.template)
  const part = (key: string, otherwise: Json): Json => {
    const value = members.get(key)?.value ?? 'null'
    return `"${key}":${value === 'null' ? otherwise : value}`
  }
  const own = JSON.stringify({
    name: cron.name,
    expression: cron.expression,
    cron: cron.expression,
    timezone: cron.timezone,
    overlap_policy: cron.overlap,
    enabled: cron.enabled,
    status: cron.enabled ? 'active' : 'disabled',
    description: cron.description,
    type: cron.type,
    queue: cron.queue,
    ...(cron.tenant === null ? {} : { tenant_id: cron.tenant }),
    created_at: iso(cron.createdAt),
    updated_at: iso(cron.updatedAt),
    next_run_at: cron.nextRunAt === null ? null : iso(cron.nextRunAt),
    last_run_at: cron.lastRunAt === null ? null : iso(cron.lastRunAt),
    run_count: cron.runCount,
    ...(cron.waitingAt === null ? {} : { waiting_since: iso(cron.waitingAt) }),
  })
  const job = [part('args', '[]'), part('meta', '{}'), part('options', '{}'), `"job_template":${cron.template}`]
  return `${own.slice(0, -1)},${job.join(',')}}`
}
