/**
 * What ends in the next minutes if nothing else happens, from deadlines that are stored. Only limits that nothing renews
 * are counted: the timeout of an attempt with its grace, the total, the TTL and `expires_at`. Stall and visibility clocks
 * are not: every beat moves them.
 */
import { effectiveTotal, executionAt, expiryAt, ttlAt } from '../job/deadlines.ts'
import { isTerminal, type Job } from '../job/job.ts'
import { iso, type Instant } from '../time/clock.ts'
import { elapsed } from '../time/sums.ts'
import type { Risk } from '../job/at-risk.ts'
import type { Fields } from '../wire/shape.ts'

export const FORECAST_KINDS = ['execution', 'total', 'enqueue_ttl', 'expires_at'] as const
export type ForecastKind = (typeof FORECAST_KINDS)[number]

export interface FinalLimit {
  readonly kind: ForecastKind
  readonly at: Instant
  readonly source: string
}

/** The first limit that ends the job or its attempt; null: none of those that nothing renews. */
export function finalLimitOf(job: Job): FinalLimit | null {
  if (isTerminal(job.state)) return null
  const limits: FinalLimit[] = []
  const consider = (kind: ForecastKind, at: Instant | null, source: string): void => {
    if (at !== null) limits.push({ kind, at, source })
  }
  const total = effectiveTotal(job)
  // First: on a tie the total is named, as everywhere.
  consider('total', total?.at ?? null, total?.source ?? '')
  if (job.state === 'active') consider('execution', executionAt(job), job.hold?.timeout.source ?? '')
  else {
    consider('enqueue_ttl', ttlAt(job), job.limits.ttl?.source ?? '')
    consider('expires_at', expiryAt(job), 'publish')
  }
  let first: FinalLimit | null = null
  for (const limit of limits) if (first === null || limit.at < first.at) first = limit
  return first
}

const MINUTE_MS = 60_000
const MAX_QUEUES = 200
const NEXT_SHOWN = 10

type Deadlines = Record<ForecastKind, number>
const none = (): Deadlines => ({ execution: 0, total: 0, enqueue_ttl: 0, expires_at: 0 })

interface OfQueue {
  readonly deadlines: Deadlines
  atRisk: number
  firstAt: Instant | null
}

export class Forecast {
  readonly #now: Instant
  readonly #minutes: { readonly deadlines: Deadlines; atRisk: number }[]
  readonly #queues = new Map<string | null, OfQueue>()
  readonly #next: { readonly job: Job; readonly limit: FinalLimit }[] = []
  #total = 0
  #atRisk = 0

  constructor(now: Instant, minutes: number) {
    this.#now = now
    this.#minutes = Array.from({ length: minutes }, () => ({ deadlines: none(), atRisk: 0 }))
  }

  /** Jobs come in any order. */
  add(job: Job): void {
    const limit = finalLimitOf(job)
    const minute = limit === null ? undefined : this.#minuteOf(limit.at)
    if (limit === null || minute === undefined) return
    this.#total += 1
    minute.deadlines[limit.kind] += 1
    const queue = this.#queue(job.queue)
    queue.deadlines[limit.kind] += 1
    if (queue.firstAt === null || limit.at < queue.firstAt) queue.firstAt = limit.at
    this.#next.push({ job, limit })
    if (this.#next.length > 20 * NEXT_SHOWN) this.#nearest()
  }

  /** It will miss this at the pace that was observed. */
  addRisk({ job, latest }: Risk): void {
    const minute = this.#minuteOf(latest.deadlineAt)
    if (minute === undefined) return
    this.#atRisk += 1
    minute.atRisk += 1
    this.#queue(job.queue).atRisk += 1
  }

  answer(): Fields {
    this.#nearest()
    return {
      from: iso(this.#now),
      step_ms: MINUTE_MS,
      total: this.#total,
      at_risk: this.#atRisk,
      minutes: this.#minutes.map(({ deadlines, atRisk }) => ({ deadlines, at_risk: atRisk })),
      queues: [...this.#queues].map(([queue, { deadlines, atRisk, firstAt }]) => ({
        queue,
        other: queue === null,
        deadlines,
        at_risk: atRisk,
        first_at: firstAt === null ? null : iso(firstAt),
      })),
      next: this.#next.map(({ job, limit }) => ({
        job_id: job.id,
        type: job.type,
        queue: job.queue,
        state: job.state,
        kind: limit.kind,
        source: limit.source,
        at: iso(limit.at),
      })),
    }
  }

  #minuteOf(at: Instant): { readonly deadlines: Deadlines; atRisk: number } | undefined {
    return this.#minutes[Math.floor(elapsed(this.#now, at) / MINUTE_MS)]
  }

  #queue(name: string): OfQueue {
    const key = this.#queues.has(name) || this.#queues.size < MAX_QUEUES ? name : null
    const known = this.#queues.get(key) ?? { deadlines: none(), atRisk: 0, firstAt: null }
    this.#queues.set(key, known)
    return known
  }

  #nearest(): void {
    this.#next.sort((one, other) => one.limit.at - other.limit.at)
    this.#next.length = Math.min(this.#next.length, NEXT_SHOWN)
  }
}
