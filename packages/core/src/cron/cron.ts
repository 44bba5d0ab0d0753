/**
 * A cron entry: a schedule, a template of a job, and what to do when one firing meets another. Its document wakes when the
 * next firing is due; the firing, the job and the next instant are one transaction, so no tick is fired twice, whichever
 * server wakes it. After a pause there is at most one firing to catch up. OJS cron §2, §6, §7.3.
 */
import { docKind } from '../doc.ts'
import { badField } from '../errors.ts'
import type { Job, Json } from '../job/job.ts'
import type { Instant } from '../time/clock.ts'
import { nextOccurrence, readSchedule, type Calendar, type Occurrence } from '../time/schedule.ts'
import { earliest } from '../time/sums.ts'
import type { NearMiss } from '../wire/names/near-miss.ts'

export const OVERLAPS = ['skip', 'allow', 'cancel_previous', 'enqueue'] as const
export type Overlap = (typeof OVERLAPS)[number]

export interface Cron {
  readonly name: string
  readonly expression: string
  readonly timezone: string
  readonly overlap: Overlap
  readonly enabled: boolean
  readonly description: string | null
  /** An enqueue request, as it was written. */
  readonly template: Json
  readonly type: string
  readonly queue: string
  /** Whose jobs they are. */
  readonly tenant: string | null
  readonly createdAt: Instant
  readonly updatedAt: Instant
  /** Where `@every` counts from. */
  readonly anchorAt: Instant
  /** Null when it is off, or the schedule has no further instant. */
  readonly nextRunAt: Instant | null
  /** A local time before that which the clocks skip. */
  readonly gap: Occurrence['gap']
  readonly lastRunAt: Instant | null
  readonly runCount: number
  /** A firing that waits for the one before it to end: the instant it was meant for. */
  readonly waitingAt: Instant | null
}

export const CRON = docKind<Cron>('cron', ({ nextRunAt, gap }) => earliest(nextRunAt, gap?.at ?? null))

/** What a client asks of an entry. */
export interface CronAsked extends Pick<Cron, 'name' | 'expression' | 'timezone' | 'overlap' | 'description'> {
  /** Null: as it is, or on when it is new. */
  readonly enabled: boolean | null
  readonly template: Json
  readonly type: string
  readonly queue: string
  readonly tenant: string | null
  /** The name of the field in which the expression came. */
  readonly field: string
  /** Unknown fields that were most likely meant to be known ones. */
  readonly nearMisses: readonly NearMiss[]
}

/**
 * The entry as it is from now on. The same schedule keeps its anchor, and with it its next run. An entry
 * that was switched off stays off when the application registers it again at its next start.
 */
export function registered(before: Cron | null, asked: CronAsked, calendar: Calendar, now: Instant): Cron {
  const { field, enabled: wanted, nearMisses: _, ...said } = asked
  const enabled = wanted ?? before?.enabled ?? true
  const isSame = before !== null && before.expression === asked.expression && before.timezone === asked.timezone
  const cron: Cron = {
    ...said,
    enabled,
    createdAt: before?.createdAt ?? now,
    updatedAt: now,
    anchorAt: isSame ? before.anchorAt : now,
    nextRunAt: null,
    gap: null,
    lastRunAt: before?.lastRunAt ?? null,
    runCount: before?.runCount ?? 0,
    waitingAt: enabled && asked.overlap === 'enqueue' ? (before?.waitingAt ?? null) : null,
  }
  const next = occurrenceAfter(cron, calendar, now, field)
  if (next === null)
    throw badField(field, `${field}: the clocks in ${asked.timezone} skip this time whenever it comes.`)
  return enabled ? { ...cron, nextRunAt: next.at, gap: next.gap } : cron
}

/** With its next firing after an instant. An entry that is off has none. */
export function armed(cron: Cron, calendar: Calendar, after: Instant): Cron {
  const next = cron.enabled ? occurrenceAfter(cron, calendar, after) : null
  return { ...cron, nextRunAt: next?.at ?? null, gap: next?.gap ?? null }
}

/** The next instants at which it would fire if it was on. */
export function preview(cron: Cron, calendar: Calendar, now: Instant, count: number): Instant[] {
  const found: Instant[] = []
  for (let after = now; found.length < count;) {
    const next = occurrenceAfter(cron, calendar, after)
    if (next === null) break
    found.push(next.at)
    after = next.at
  }
  return found
}

function occurrenceAfter(cron: Cron, calendar: Calendar, after: Instant, field?: string): Occurrence | null {
  return nextOccurrence(readSchedule(cron.expression, cron.timezone, field), calendar, cron.anchorAt, after)
}

/** What becomes of a firing while others of the same entry are open, be they running or waiting for a worker. */
export type OverlapVerdict =
  | { readonly kind: 'fire'; readonly cancels: readonly Job[] }
  | { readonly kind: 'wait' }
  | { readonly kind: 'skip'; readonly reason: 'overlap_prevention' | 'already_waiting'; readonly open: Job }

export function overlapVerdict({ overlap, waitingAt }: Cron, open: readonly Job[]): OverlapVerdict {
  const [first] = open
  if (first === undefined || overlap === 'allow') return { kind: 'fire', cancels: [] }
  if (overlap === 'cancel_previous') return { kind: 'fire', cancels: open }
  if (overlap === 'skip') return { kind: 'skip', reason: 'overlap_prevention', open: first }
  return waitingAt === null ? { kind: 'wait' } : { kind: 'skip', reason: 'already_waiting', open: first }
}

/** After a firing that was meant for now, or for an earlier instant. */
export function fired(cron: Cron, now: Instant): Cron {
  return { ...cron, lastRunAt: now, runCount: cron.runCount + 1, waitingAt: null }
}
