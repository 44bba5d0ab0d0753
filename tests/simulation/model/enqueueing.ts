/** PUSH, as the model sees it: one job, or many that stand or fall together. */
import type { Fields, JobBody } from '../calls.ts'
import { insist } from '../violation.ts'
import { askedIn, contradicts } from './limits.ts'
import { INVALID, type Expected, type Model } from './model.ts'
import { isOver, softAt, totalAt, type ModelJob, type RetryPolicy } from './records.ts'

export function enqueue(model: Model, bodies: readonly JobBody[]): Expected {
  if (bodies.some((body) => contradicts(askedIn(body)))) return INVALID
  const together = new Map<string, JobBody>()
  for (const body of bodies) {
    const elder = together.get(parentOf(body) ?? '')
    if (elder === undefined ? ceilingFor(model, body) === 'over' : isStillborn(elder, body, model.now)) return INVALID
    if (body.id === undefined) continue
    if (model.jobs.has(body.id) || together.has(body.id)) return { status: 409, reason: 'duplicate' }
    together.set(body.id, body)
  }
  return { status: 201, shows: bodies.map((body) => admit(model, body)) }
}

function parentOf(body: Fields): string | undefined {
  return (body['x_parent'] as { job_id: string } | undefined)?.job_id
}

/** A parent from the same batch that is over as soon as it is there. */
function isStillborn(parent: JobBody, child: JobBody, now: number): boolean {
  return child['x_inherit_deadline'] === true && (momentIn(parent, 'expires_at', now) ?? Infinity) <= now
}

/** The deadline a parent hands down; `over` when it has none left to give, or does not exist. */
function ceilingFor(model: Model, body: Fields): number | null | 'over' {
  const parentId = parentOf(body)
  if (parentId === undefined) return null
  const parent = model.jobs.get(parentId)
  if (parent === undefined) return 'over'
  if (body['x_inherit_deadline'] !== true) return null
  const at = totalAt(parent) ?? softAt(parent)
  return isOver(parent) || (at !== null && at <= model.now) ? 'over' : at
}

function admit(model: Model, body: JobBody): ModelJob {
  const row = model.turn.sight.takeFresh(body.args[0])
  insist('durable', row !== null, () => `enqueue ${body.args[0]} was accepted, and nothing was stored`)
  const { now } = model
  const ceiling = ceilingFor(model, body)
  const scheduledAt = momentIn(body, 'scheduled_at', now)
  const facts = { asked: askedIn(body), type: body.type, queue: body.queue }
  const job: ModelJob = {
    ...facts,
    id: row.id,
    token: body.args[0],
    limits: model.limitsToday(facts),
    retry: readRetry(body),
    resultTtlMs: typeof body['result_ttl'] === 'number' ? body['result_ttl'] * 1000 : null,
    priority: typeof body['priority'] === 'number' ? body['priority'] : 0,
    ceilingAt: ceiling === 'over' ? null : ceiling,
    scheduledAt,
    expiresAt: momentIn(body, 'expires_at', now),
    state: body['pending'] === true ? 'pending' : scheduledAt !== null && scheduledAt > now ? 'scheduled' : 'available',
    attempt: 0,
    lease: 0,
    interruptions: 0,
    anchorAt: now,
    limitsSetAt: now,
    enqueuedAt: now,
    retryAt: null,
    hold: null,
    closedBy: null,
    ending: null,
    errors: [],
    deadLetter: false,
    purgeAt: null,
    result: undefined,
    checkpoint: null,
  }
  insist('child', (row.ceiling?.at ?? null) === job.ceilingAt, () => {
    return `${job.id} was given a ceiling of ${String(row.ceiling?.at)}; its parent's deadline is ${String(job.ceilingAt)}`
  })
  model.jobs.set(job.id, job)
  model.queue(job.queue)
  model.rules.set(job.id, 'limits')
  model.settleJob(job)
  return job
}

export function momentIn(body: Fields, key: string, now: number): number | null {
  const text = body[key]
  if (typeof text !== 'string') return null
  const relative = /^\+PT([\d.]+)S$/.exec(text)
  return relative === null ? Date.parse(text) : now + Math.round(Number(relative[1]) * 1000)
}

function readRetry(body: Fields): RetryPolicy {
  const given = (body['retry'] ?? {}) as Fields
  const number = (key: string): number | undefined => (typeof given[key] === 'number' ? given[key] : undefined)
  const maxMs = number('max_interval_ms')
  const initialMs = number('initial_interval_ms') ?? Math.min(1_000, maxMs ?? Infinity)
  return {
    maxAttempts: number('max_attempts') ?? 3,
    initialMs,
    maxMs: maxMs ?? Math.max(300_000, initialMs),
    coefficient: number('backoff_coefficient') ?? 2,
    jitter: given['jitter'] !== false,
    strategy: typeof given['backoff_strategy'] === 'string' ? given['backoff_strategy'] : 'exponential',
    nonRetryable: (given['non_retryable_errors'] as string[] | undefined) ?? [],
    deadLetter: given['on_exhaustion'] === 'dead_letter',
  }
}
