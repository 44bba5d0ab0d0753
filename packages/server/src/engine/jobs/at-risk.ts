/**
 * Which jobs will miss a deadline at the pace that was observed (`core/job/at-risk.ts`). The pace is read from the end of the
 * log, which all servers share; everything that is read is bounded, however much waits.
 */
import {
  after,
  gapOf,
  millis,
  paceOf,
  queueOrder,
  riskInLine,
  riskOfMoment,
  type Instant,
  type Job,
  type Millis,
  type Pace,
  type Risk,
} from '@curfew/core'
import type { Queue, Reads, StoredEvent } from '../../store/store.ts'
import { nextTurn, type Turning } from '../kernel/turns.ts'

/** So many events at the end of the log, and so many waiting jobs at the head of a queue, are looked at. */
const EVENTS_LOOKED_AT = 5_000
const JOBS_LOOKED_AT = 20_000
/** So many that are woken first are looked at for those that wait for a moment: most of them are over, and each is read. */
const WAKES_LOOKED_AT = 5_000
const QUEUES_A_TURN = 50
/** Nothing starts: then the line is above every deadline. */
const NEVER_MS = 1e13

export interface QueuePace extends Pace {
  readonly queue: string
  readonly isPaused: boolean
  readonly waiting: number
  readonly lookedAt: number
}

export interface AtRisk {
  readonly risks: readonly Risk[]
  readonly queues: readonly QueuePace[]
}

/** `name`: of this queue only. At most so many jobs of each queue, and as many that wait for a moment. */
export async function atRisk(
  host: Turning,
  reads: Reads,
  name: string | null,
  limit: number,
  now: Instant,
): Promise<AtRisk> {
  const past = pastOf(await lastEvents(reads), now)
  await nextTurn(host)
  const risks: Risk[] = []
  const queues: QueuePace[] = []
  let left = JOBS_LOOKED_AT
  for await (const { queue, waiting } of waitingQueues(host, reads, name)) {
    const look = Math.min(left, waiting)
    left -= look
    const pace = past.paceOf(queue.name)
    queues.push({ queue: queue.name, isPaused: queue.pausedAt !== null, waiting, lookedAt: look, ...pace })
    if (look === 0) continue
    risks.push(...(await inLine(reads, queue, pace, past, look, limit, now)))
    await nextTurn(host)
  }
  for (const job of await reads.outwaited(name, WAKES_LOOKED_AT, limit)) {
    const risk = riskOfMoment(job, past.typicalMs(job))
    if (risk !== null) risks.push(risk)
  }
  return { risks: risks.sort((a, b) => a.latest.at - b.latest.at).slice(0, limit), queues }
}

/** The queues in which jobs wait, by name; a few each turn, since there may be tens of thousands. */
async function* waitingQueues(
  host: Turning,
  reads: Reads,
  name: string | null,
): AsyncGenerator<{ queue: Queue; waiting: number }> {
  for (let offset = 0, more = true; more; offset += QUEUES_A_TURN) {
    const one = name === null ? null : await reads.queue(name)
    const page = name === null ? (await reads.queuesPage({ limit: QUEUES_A_TURN, offset })).queues : []
    const queues = one === null ? page : [one]
    const counts = await reads.countsOf(queues.map((queue) => queue.name))
    for (const queue of queues) {
      const waiting = counts.get(queue.name)?.available ?? 0
      if (waiting > 0) yield { queue, waiting }
    }
    more = page.length === QUEUES_A_TURN
    if (more) await nextTurn(host)
  }
}

async function inLine(
  reads: Reads,
  queue: Queue,
  pace: Pace,
  past: Past,
  look: number,
  limit: number,
  now: Instant,
): Promise<Risk[]> {
  const gapMs = queue.pausedAt === null ? gapOf(pace) : null
  // A total must leave room for the attempt: the longest of them widens the search, and each job is judged by its own.
  const from = after(now, past.longestMs)
  const order = queueOrder(queue.config)
  const found = await reads.outpaced({ queue: queue.name, order, from, gapMs: gapMs ?? NEVER_MS, look, limit })
  const risks: Risk[] = []
  for (const { id, ahead } of found) {
    const job = await reads.job(id)
    const risk = job?.state === 'available' ? riskInLine(job, ahead, gapMs, past.typicalMs(job), now) : null
    if (risk !== null) risks.push(risk)
  }
  return risks
}

async function lastEvents(reads: Reads): Promise<StoredEvent[]> {
  const { first, last } = await reads.eventBounds()
  return last === 0 ? [] : reads.eventsAfter(Math.max(first - 1, last - EVENTS_LOOKED_AT), EVENTS_LOOKED_AT)
}

interface Past {
  paceOf(queue: string): Pace
  /** What attempts of the job's type took on average; 0 when none has ended. */
  typicalMs(job: Pick<Job, 'type'>): Millis
  readonly longestMs: Millis
}

function pastOf(events: readonly StoredEvent[], now: Instant): Past {
  const started = new Map<string, Instant[]>()
  const took = new Map<string, { count: number; ms: number }>()
  for (const { type, at, queue, jobType, data } of events) {
    if (type === 'job.started' && queue !== null) {
      const known = started.get(queue)
      if (known === undefined) started.set(queue, [at])
      else known.push(at)
    }
    if (type !== 'job.completed' || jobType === null) continue
    const { duration_ms: ms } = JSON.parse(data) as { duration_ms?: unknown }
    if (typeof ms !== 'number') continue
    const known = took.get(jobType) ?? { count: 0, ms: 0 }
    took.set(jobType, { count: known.count + 1, ms: known.ms + ms })
  }
  const since = events[0]?.at ?? now
  const typical = new Map([...took].map(([type, { count, ms }]) => [type, millis(Math.round(ms / count))]))
  return {
    paceOf: (queue) => paceOf(started.get(queue) ?? [], since, now),
    typicalMs: ({ type }) => typical.get(type) ?? millis(0),
    longestMs: millis(Math.max(0, ...typical.values())),
  }
}
