/**
 * The log of a job: the newest lines that its handlers wrote with `ctx.log`, of all its attempts. It is stored with the
 * job, and bounded: by the number of lines, by the length of each, and in total. Lines that no longer fit are counted.
 *
 * The lines of one attempt are numbered from 0. A worker sends a line again until it knows that it is stored; by the number
 * the server leaves out what it has, and counts what it will never get.
 */
import { iso, type Instant } from '../time/clock.ts'
import { clamped } from '../time/sums.ts'
import type { Job } from './job.ts'

export const MAX_LOG_LINES = 100
/** Of the message of one line, in characters. */
export const MAX_LOG_MESSAGE = 1_000
/** Of the fields of one line, in characters of their JSON. */
export const MAX_LOG_FIELDS = 1_000
/** Of all lines, in characters of their JSON. One line is always shorter. */
export const MAX_LOG_CHARACTERS = 16_384
/** A worker may count so many lines in one attempt. */
export const MAX_LOG_NUMBER = 1_000_000_000

export interface LogLine {
  /** On the server's clock, as far as the worker knows it. */
  readonly at: Instant
  readonly message: string
  readonly fields?: Readonly<Record<string, unknown>>
  /** It was longer. */
  readonly isCut?: true
}

export interface StoredLine extends LogLine {
  readonly attempt: number
}

export interface JobLog {
  /** Oldest first. */
  readonly lines: readonly StoredLine[]
  /** How many older lines are not kept any more, or never arrived. */
  readonly dropped: number
  /** The lease whose lines came last, and the number of the line that comes next in it. */
  readonly lease: number
  readonly next: number
}

/** Lines that a worker sends. `at` null: when they arrive. `from`: the number of the first; null: they are all new. */
export interface LogBatch {
  readonly from: number | null
  readonly lines: readonly SentLine[]
}

export type SentLine = Omit<LogLine, 'at'> & { readonly at: Instant | null }

/** The job with what its attempt has logged. */
export function withLog(job: Job, batch: LogBatch | null | undefined, now: Instant): Job {
  if (batch === null || batch === undefined) return job
  const known = job.log ?? null
  const next = known?.lease === job.lease ? known.next : 0
  const from = batch.from ?? next
  const missed = Math.max(0, from - next)
  const fresh = batch.lines.slice(Math.max(0, next - from))
  if (missed === 0 && fresh.length === 0) return job
  const earlier = known?.lines ?? []
  // Of more lines than are kept only the last are looked at.
  const lines = newest([...earlier, ...fresh.slice(-MAX_LOG_LINES).map((line) => stored(line, job, now))])
  const dropped = (known?.dropped ?? 0) + missed + earlier.length + fresh.length - lines.length
  return { ...job, log: { lines, dropped, lease: job.lease, next: from + batch.lines.length } }
}

/** A worker's clock cannot place a line before its attempt, or in the future. */
function stored(sent: SentLine, job: Job, now: Instant): StoredLine {
  const at = clamped(sent.at ?? now, job.startedAt ?? now, now)
  return { ...cutLine({ ...sent, at }), attempt: job.attempt }
}

/** A line within the bounds. Fields that are too long are left out: half of them would be another value. */
export function cutLine(line: LogLine): LogLine {
  const { message, fields } = line
  const isLong = message.length > MAX_LOG_MESSAGE
  const areLong = fields !== undefined && JSON.stringify(fields).length > MAX_LOG_FIELDS
  if (!isLong && !areLong) return line
  const { fields: _fields, ...rest } = line
  return {
    ...rest,
    message: isLong ? message.slice(0, MAX_LOG_MESSAGE) : message,
    ...(fields === undefined || areLong ? {} : { fields }),
    isCut: true,
  }
}

/** How much of the total it takes. */
export const lengthOfLine = (line: LogLine): number => JSON.stringify(line).length

function newest(lines: readonly StoredLine[]): readonly StoredLine[] {
  let room = MAX_LOG_CHARACTERS
  let first = lines.length
  for (; first > 0 && lines.length - first < MAX_LOG_LINES; first -= 1) {
    const line = lines[first - 1]
    room -= line === undefined ? 0 : lengthOfLine(line)
    if (room < 0) break
  }
  return first === 0 ? lines : lines.slice(first)
}

export interface LogView {
  readonly lines: readonly LineView[]
  readonly dropped: number
}

export interface LineView {
  readonly at: string
  readonly attempt: number
  readonly message: string
  readonly fields?: Readonly<Record<string, unknown>>
  /** It was longer when it was logged. */
  readonly cut?: true
}

/** The log as it is answered. */
export function logView({ lines, dropped }: JobLog): LogView {
  return {
    lines: lines.map(({ at, attempt, message, fields, isCut }) => ({
      at: iso(at),
      attempt,
      message,
      ...(fields === undefined ? {} : { fields }),
      ...(isCut === true ? { cut: true as const } : {}),
    })),
    dropped,
  }
}
