/**
 * Which jobs will miss a deadline at the pace that was observed (`core/job/at-risk.ts`). The pace is read from the end of the
 * log, which all servers share; everything that is read is bounded, however much waits.
 */
import {
  before,
  gapOf,
  mayBeLate,
  millis,
  paceOf,
  placesOf,
  queueOrder,
  riskInLine,
  riskOfMoment,
  Shares,
  timeBetween,
  type DatedSpot,
  type Instant,
  type Job,
  type Millis,
  type Pace,
  type Placed,
  type Risk,
  type Spot,
} from '@curfew/core'
import type { Queue, Reads, StoredEvent, Stretch } from '../../store/store.ts'
import { Pace as Turns, type Turning } from '../kernel/turns.ts'

/** So many events at the end of the log, and so many waiting jobs at the heads of all queues together, are looked at. */
const EVENTS_LOOKED_AT = 5_000
const JOBS_LOOKED_AT = 20_000
/** So many that are woken first are looked at for those that wait for a moment: most of them are over. */
const WAKES_LOOKED_AT = 5_000
/** So many jobs are read whole and judged. */
const MAX_JUDGED = 1_000
/** So many entries of an index are read in one turn, or as much of what takes longer: some milliseconds. */
const ENTRIES_A_TURN = 2_500
const ENTRIES_PER_EVENT = 2.5
const ENTRIES_PER_WAKE = 2.5
const ENTRIES_PER_JOB = 25
const EVENTS_A_READ = ENTRIES_A_TURN / ENTRIES_PER_EVENT
const WAKES_A_READ = ENTRIES_A_TURN / ENTRIES_PER_WAKE
const JOBS_A_READ = ENTRIES_A_TURN / ENTRIES_PER_JOB
const QUEUES_A_READ = 50

export interface QueuePace extends Pace {
  readonly queue: string
  readonly isPaused: boolean
  readonly waiting: number
  readonly lookedAt: number
}

export interface AtRisk {
  readonly risks: readonly Risk[]
  /** By name. */
  readonly queues: readonly QueuePace[]
}

export interface Asked {
  /** Null: of any. */
  readonly queue: string | null
  readonly limit: number
  /** Only deadlines until then; null: any. */
  readonly until?: Instant | null
}

/** A job that may be late, as far as indexes tell. */
interface Candidate extends Placed<DatedSpot> {
  readonly queue: string
  readonly gapMs: number | null
}

/** The nearest first. */
export async function atRisk(host: Turning, reads: Reads, asked: Asked, now: Instant): Promise<AtRisk> {
  const { queue: name, limit, until = null } = asked
  const turns = new Turns(host, ENTRIES_A_TURN)
  const past = await pastOf(turns, reads, now)
  const candidates: Candidate[] = []
  const waiting: { readonly queue: Queue; readonly waiting: number }[] = []
  for await (const each of waitingQueues(turns, reads, name)) waiting.push(each)
  const shares = new Shares(JOBS_LOOKED_AT, waiting)
  const lookedAt = new Map<string, number>()
  for (const each of shares.queues) {
    const { queue } = each
    const share = shares.take(each)
    const found = share === 0 ? [] : await inLine(turns, reads, queue, past.paceOf(queue.name), past, share, now)
    // None has a deadline: then all of them are known.
    if (found === null) shares.giveBack(share)
    lookedAt.set(queue.name, found === null ? each.waiting : share)
    for (const candidate of found ?? [])
      if (until === null || candidate.spot.wakeAt <= until) candidates.push(candidate)
  }
  const queues = waiting.map((each): QueuePace => ({
    queue: each.queue.name,
    isPaused: each.queue.pausedAt !== null,
    waiting: each.waiting,
    lookedAt: lookedAt.get(each.queue.name) ?? 0,
    ...past.paceOf(each.queue.name),
  }))
  const risks = await judged(turns, reads, candidates, past, limit, now)
  for (let skip = 0; skip < WAKES_LOOKED_AT; skip += WAKES_A_READ) {
    for (const job of await reads.outwaited(name, { skip, look: WAKES_A_READ })) {
      const risk = riskOfMoment(job, past.typicalMs(job))
      if (risk !== null) risks.push(risk)
    }
    await turns.did(WAKES_A_READ * ENTRIES_PER_WAKE)
  }
  return { risks: risks.sort((a, b) => a.latest.at - b.latest.at).slice(0, limit), queues }
}

/** The queues in which jobs wait, by name; a few each turn, since there may be tens of thousands. */
async function* waitingQueues(
  turns: Turns,
  reads: Reads,
  name: string | null,
): AsyncGenerator<{ queue: Queue; waiting: number }> {
  for (let offset = 0, more = true; more; offset += QUEUES_A_READ) {
    const one = name === null ? null : await reads.queue(name)
    const page = name === null ? (await reads.queuesPage({ limit: QUEUES_A_READ, offset })).queues : []
    const queues = one === null ? page : [one]
    const counts = await reads.countsOf(queues.map((queue) => queue.name))
    for (const queue of queues) {
      const waiting = counts.get(queue.name)?.available ?? 0
      if (waiting > 0) yield { queue, waiting }
    }
    more = page.length === QUEUES_A_READ
    await turns.did(queues.length * ENTRIES_PER_JOB)
  }
}

/** Those of a queue that may be late; null: none of its jobs has a deadline. Only indexes are read. */
async function inLine(
  turns: Turns,
  reads: Reads,
  queue: Queue,
  pace: Pace,
  past: Past,
  look: number,
  now: Instant,
): Promise<Candidate[] | null> {
  const dated = await inParts(turns, look, (part) => reads.datedLine(queue.name, part))
  if (dated.length === 0) return null
  const line = await inParts(turns, look, (part) => reads.line(queue.name, part))
  const gapMs = queue.pausedAt === null ? gapOf(pace) : null
  const found: Candidate[] = []
  for (const placed of placesOf(line, dated, queueOrder(queue.config)))
    // A total must leave room for the attempt: the longest of them widens the search, and each job is judged by its own.
    if (mayBeLate(placed, gapMs, past.longestMs, now)) found.push({ ...placed, queue: queue.name, gapMs })
  return found
}

async function inParts<Entry>(turns: Turns, look: number, read: (part: Stretch) => Promise<Entry[]>): Promise<Entry[]> {
  const all: Entry[] = []
  for (let skip = 0; skip < look; skip += ENTRIES_A_TURN) {
    const part = await read({ skip, look: Math.min(ENTRIES_A_TURN, look - skip) })
    for (const entry of part) all.push(entry)
    await turns.did(part.length)
    if (part.length < ENTRIES_A_TURN) break
  }
  return all
}

/** Reads the nearest of them and says which will be late, until no other can come before those that were found. */
async function judged(
  turns: Turns,
  reads: Reads,
  candidates: Candidate[],
  past: Past,
  limit: number,
  now: Instant,
): Promise<Risk[]> {
  candidates.sort((one, other) => timeBetween(other.spot.wakeAt, one.spot.wakeAt))
  const risks: Risk[] = []
  for (let from = 0; from < Math.min(candidates.length, MAX_JUDGED); from += JOBS_A_READ) {
    const part = candidates.slice(from, from + JOBS_A_READ)
    const nearest = before(part[0]?.spot.wakeAt ?? now, past.longestMs)
    if (risks.filter(({ latest }) => latest.at <= nearest).length >= limit) break
    const bySpot = new Map(part.map((candidate) => [spotKey(candidate.queue, candidate.spot), candidate]))
    for (const job of await reads.jobsInLine(part.map(({ queue, spot }) => ({ queue, ...spot })))) {
      const candidate = bySpot.get(spotKey(job.queue, job))
      if (candidate === undefined) continue
      const risk = riskInLine(job, candidate.ahead, candidate.gapMs, past.typicalMs(job), now)
      if (risk !== null) risks.push(risk)
    }
    await turns.did(part.length * ENTRIES_PER_JOB)
  }
  return risks
}

const spotKey = (queue: string, { priority, seq }: Spot): string => `${queue} ${String(priority)} ${String(seq)}`

interface Past {
  paceOf(queue: string): Pace
  /** What attempts of the job's type took on average; 0 when none has ended. */
  typicalMs(job: Pick<Job, 'type'>): Millis
  readonly longestMs: Millis
}

/** Read from the end of the log, in parts. */
async function pastOf(turns: Turns, reads: Reads, now: Instant): Promise<Past> {
  const { first, last } = await reads.eventBounds()
  const start = Math.max(first - 1, last - EVENTS_LOOKED_AT)
  const part = { below: last + 1, types: [], limit: 1, order: 'oldest' } as const
  const [oldest] = last === 0 ? [] : await reads.eventsAmong({ ...part, above: start })
  const started = new Map<string, Instant[]>()
  const took = new Map<string, { count: number; ms: number }>()
  for (let above = start; above < last; above += EVENTS_A_READ) {
    const below = Math.min(above + EVENTS_A_READ, last) + 1
    for (const event of await reads.eventsAmong({ ...part, above, below, types: TYPES, limit: EVENTS_A_READ }))
      note(event, started, took)
    await turns.did(EVENTS_A_READ * ENTRIES_PER_EVENT)
  }
  const typical = new Map([...took].map(([type, { count, ms }]) => [type, millis(Math.round(ms / count))]))
  return {
    paceOf: (queue) => paceOf(started.get(queue) ?? [], oldest?.at ?? now, now),
    typicalMs: ({ type }) => typical.get(type) ?? millis(0),
    longestMs: millis(Math.max(0, ...typical.values())),
  }
}

const TYPES = ['job.started', 'job.completed'] as const

function note(
  { type, at, queue, jobType, data }: StoredEvent,
  started: Map<string, Instant[]>,
  took: Map<string, { count: number; ms: number }>,
): void {
  if (type === 'job.started' && queue !== null) {
    const known = started.get(queue)
    if (known === undefined) started.set(queue, [at])
    else known.push(at)
  }
  if (type !== 'job.completed' || jobType === null) return
  const { duration_ms: ms } = JSON.parse(data) as { duration_ms?: unknown }
  if (typeof ms !== 'number') return
  const known = took.get(jobType) ?? { count: 0, ms: 0 }
  took.set(jobType, { count: known.count + 1, ms: known.ms + ms })
}
