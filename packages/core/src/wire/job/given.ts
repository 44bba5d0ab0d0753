/** The limits and moments that a job was given, kept as JSON text beside it so that a PATCH can be laid over them. */
import type { Fragment, Job } from '../../job/job.ts'
import { iso, type Instant } from '../../time/clock.ts'
import type { NamedMoment } from '../../time/durations.ts'
import type { EnqueueRequest } from './enqueue.ts'
import { isGiven } from '../is-given.ts'
import { limitShapes, ON_TIMEOUT_FIELD } from './limits.ts'
import type { Fields } from '../shape.ts'

export const LIMIT_KEYS = [...Object.keys(limitShapes()), ON_TIMEOUT_FIELD]

/** What was given, without its `expires_at` (a manual retry drops it). */
export function withoutExpiry(given: Fragment): Fragment {
  const { expires_at: _dropped, ...rest } = JSON.parse(`{${given}}`) as Record<string, unknown>
  return JSON.stringify(rest).slice(1, -1)
}

/** The request as if it had asked for the moment of this job, byte for byte. */
export function scheduledLike(request: EnqueueRequest, job: Job): EnqueueRequest {
  const { scheduled_at: _own, ...rest } = JSON.parse(`{${request.given}}`) as Record<string, unknown>
  const { scheduled_at: written } = JSON.parse(`{${job.given}}`) as Record<string, unknown>
  if (job.scheduledAt === null || typeof written !== 'string') return request
  return {
    ...request,
    scheduled: { at: job.scheduledAt, text: written },
    given: JSON.stringify({ ...rest, scheduled_at: written }).slice(1, -1),
  }
}

export function writeGiven(fields: Fields, scheduled: NamedMoment | null, expires: NamedMoment | null): Fragment {
  const parts: string[] = []
  for (const key of LIMIT_KEYS) {
    const value = fields[key]
    const unset = value === 0 && key.endsWith('_ms') && key !== 'grace_period_ms'
    if (isGiven(value) && !unset) parts.push(`"${key}":${JSON.stringify(value)}`)
  }
  if (scheduled !== null) parts.push(`"scheduled_at":${JSON.stringify(scheduled.text)}`)
  if (expires !== null) parts.push(`"expires_at":${JSON.stringify(expires.text)}`)
  if (isGiven(fields['rate_limit'])) parts.push(`"rate_limit":${JSON.stringify(fields['rate_limit'])}`)
  return parts.join(',')
}

/** What was given, with another `scheduled_at` (a limiter put it off). */
export function withSchedule(given: Fragment, at: Instant): Fragment {
  const fields = JSON.parse(`{${given}}`) as Record<string, unknown>
  return JSON.stringify({ ...fields, scheduled_at: iso(at) }).slice(1, -1)
}
