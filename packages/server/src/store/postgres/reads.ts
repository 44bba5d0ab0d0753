/**
 * What is read outside of transactions. How a statement reaches the database, and what happens when it cannot, is for the
 * store (`store.ts`).
 */
import {
  type Checkpoint,
  type DatedSpot,
  type Doc,
  type DocName,
  type Instant,
  type Job,
  JOB_STATES,
  type JobFilter,
  type JobState,
  type Owner,
  type Spot,
  type TypePolicy,
  type Worker,
} from '@curfew/core'
import { countJobs, listJobs } from '../job-lists.ts'
import { noJobs, ownerText } from '../records.ts'
import {
  type Claimable,
  countAhead,
  type DeadLetterFilter,
  type InboxEntry,
  type JobCount,
  type JobPage,
  type Life,
  type LogPart,
  NO_DEADLINE,
  type Page,
  type Queue,
  type Reads,
  type Refusal,
  type Sizes,
  type StateCounts,
  type StoredEvent,
  type Stretch,
  type Waking,
  type Woken,
  type WorkerNotice,
  type WorkerTotal,
} from '../store.ts'
import { ListStatements } from './job-lists.ts'
import { type LifeRow, toLife } from './look.ts'
import {
  type CheckpointRow,
  columnsOf,
  docName,
  type DocRow,
  type EventRow,
  exact,
  exactOrNull,
  type JobRow,
  listOf,
  type NoticeRow,
  original,
  type QueueRow,
  type SizesRow,
  toCheckpoint,
  toDoc,
  toEvent,
  toJob,
  toNotice,
  toQueue,
  toSizes,
  toTypePolicy,
  toWorker,
  type TypeRow,
  unknownToJobs,
  unknownToWorkers,
  type WorkerRow,
} from './rows.ts'
import * as sql from './statements.ts'
import type { Texts } from './texts.ts'
import { docsUnder } from './transaction.ts'
import type { Answer, Statement } from './wire.ts'

export abstract class PostgresReads implements Reads {
  readonly #lists = new ListStatements({
    read: (statement, values) => this.read(statement, values),
    jobs: (statement, values) => this.#jobs(statement, values),
  })

  protected abstract get texts(): Texts

  protected abstract read<Row = readonly unknown[]>(
    statement: Statement,
    values?: readonly unknown[],
  ): Promise<Answer<Row>>

  // ---- Jobs ----

  async job(id: string): Promise<Job | null> {
    const [job] = await this.#jobs(sql.SEE_JOBS, [listOf([exact(id)])])
    return job ?? null
  }

  jobs(filter: JobFilter, cursor: string | null, page: Page): Promise<JobPage> {
    return listJobs(this.#lists, filter, cursor, page)
  }

  countJobs(filter: JobFilter): Promise<JobCount> {
    return countJobs(this.#lists, filter)
  }

  async deadLetters(filter: DeadLetterFilter, { limit, offset }: Page): Promise<{ jobs: Job[]; total: number }> {
    const [queue, type] = [exactOrNull(filter.queue), exactOrNull(filter.type)]
    const tenant = exactOrNull(filter.tenant ?? null)
    const [jobs, total] = await Promise.all([
      this.#jobs(sql.LIST_DEAD_LETTERS, [queue, type, tenant, limit, offset]),
      type === null && tenant === null
        ? this.#number(sql.COUNT_DEAD_LETTERS, [queue])
        : this.#number(sql.COUNT_DEAD_LETTERS_AMONG, [queue, type, tenant]),
    ])
    return { jobs, total }
  }

  async tenantCounts(tenant: string): Promise<StateCounts> {
    const { rows } = await this.read<readonly [JobState, number]>(sql.TENANT_COUNTS, [exact(tenant)])
    const counts = noJobs()
    for (const [state, n] of rows) counts[state] = n
    return counts
  }

  async ahead(
    { queue, priority, seq, wakeAt }: Pick<Job, 'queue' | 'priority' | 'seq' | 'wakeAt'>,
    order: Claimable['order'],
    look: number,
  ): Promise<JobCount> {
    const asked = [exact(queue), priority, seq, wakeAt ?? NO_DEADLINE, look]
    const { rows } = await this.read<readonly [number, number, number, number]>(sql.ROWS_AHEAD, asked)
    const [above = 0, earlier = 0, earlierUndated = 0, nearer = 0] = rows[0] ?? []
    return countAhead({ above, earlier, earlierUndated, nearer }, order, wakeAt !== null, look)
  }

  async line(queue: string, { skip, look }: Stretch): Promise<Spot[]> {
    const { rows } = await this.read<readonly [number, number]>(sql.LINE, [exact(queue), skip, look])
    return rows.map(([priority, seq]) => ({ priority, seq }))
  }

  async datedLine(queue: string, { skip, look }: Stretch): Promise<DatedSpot[]> {
    const asked = [exact(queue), skip, look]
    const { rows } = await this.read<readonly [number, number, Instant]>(sql.DATED_LINE, asked)
    return rows.map(([priority, seq, wakeAt]) => ({ priority, seq, wakeAt }))
  }

  jobsInLine(spots: readonly (Spot & { readonly queue: string })[]): Promise<Job[]> {
    return this.#jobs(sql.JOBS_IN_LINE, [
      listOf(spots.map(({ queue }) => exact(queue))),
      listOf(spots.map(({ priority }) => priority)),
      listOf(spots.map(({ seq }) => seq)),
    ])
  }

  outwaited(queue: string | null, { skip, look }: Stretch): Promise<Job[]> {
    return this.#jobs(sql.OUTWAITED, [exactOrNull(queue), skip, look])
  }

  async waking({ from, until, skip, look }: Waking): Promise<Woken> {
    const asked = [from, until, skip, look]
    const [{ rows }, jobs] = await Promise.all([
      this.read<readonly [Instant]>(sql.WAKES, asked),
      this.#jobs(sql.WAKING_JOBS, asked),
    ])
    return { wakes: rows.map(([wakeAt]) => wakeAt), jobs }
  }

  async deadLetterCounts(): Promise<{ queue: string; count: number }[]> {
    const { rows } = await this.read<readonly [string, number]>(sql.DEAD_LETTER_COUNTS)
    return rows.map(([queue, count]) => ({ queue: original(queue), count }))
  }

  async wasPurged(id: string): Promise<boolean> {
    const { rows } = await this.read(sql.FIND_TOMBSTONE, [exact(id)])
    return rows.length > 0
  }

  async checkpoint(jobId: string): Promise<Checkpoint | null> {
    const { rows } = await this.read<CheckpointRow>(sql.FIND_CHECKPOINTS, [listOf([exact(jobId)])])
    return rows[0] === undefined ? null : toCheckpoint(rows[0])
  }

  activeJobs(limit: number): Promise<Job[]> {
    return this.#jobs(sql.LIST_ACTIVE_JOBS, [limit])
  }

  owned(owner: Pick<Owner, 'kind' | 'id'>, after: string | null, limit: number): Promise<Job[]> {
    return this.#jobs(sql.OWNED_AFTER, [exact(ownerText(owner)), exact(after ?? ''), limit])
  }

  lastOwned(owner: Pick<Owner, 'kind' | 'id'>, limit: number): Promise<Job[]> {
    return this.#jobs(sql.LAST_OWNED, [exact(ownerText(owner)), limit])
  }

  async limited(key: string): Promise<{ available: number; active: number }> {
    const { rows } = await this.read<readonly [number, number]>(sql.COUNT_WAITING_AND_LIMITED, [exact(key)])
    return { available: rows[0]?.[0] ?? 0, active: rows[0]?.[1] ?? 0 }
  }

  deadlined(queue: string, limit: number): Promise<Job[]> {
    return this.#jobs(sql.LIST_DEADLINED, [exact(queue), limit])
  }

  async counts(): Promise<Map<string, StateCounts>> {
    const [queues, numbers] = await Promise.all([
      this.queues(),
      this.read<readonly [string, JobState, number]>(sql.ALL_COUNTS),
    ])
    const counts = new Map<string, Record<JobState, number>>()
    const of = (queue: string): Record<JobState, number> => {
      const known = counts.get(queue) ?? noJobs()
      counts.set(queue, known)
      return known
    }
    for (const { name } of queues) of(name)
    for (const [queue, state, n] of numbers.rows) of(original(queue))[state] = n
    return counts
  }

  async countsOf(queues: readonly string[]): Promise<Map<string, StateCounts>> {
    const counts = new Map(queues.map((queue) => [queue, noJobs()]))
    const { rows } = await this.read<readonly [string, JobState, number]>(sql.COUNTS_OF, [
      listOf(queues.map(exact)),
      listOf(JOB_STATES),
    ])
    for (const [queue, state, n] of rows) {
      const numbers = counts.get(original(queue))
      if (numbers !== undefined) numbers[state] = n
    }
    return counts
  }

  async totals(): Promise<StateCounts> {
    const { rows } = await this.read<readonly [JobState, number]>(sql.TOTALS)
    const counts = noJobs()
    for (const [state, n] of rows) counts[state] = n
    return counts
  }

  async nextWakeAt(): Promise<Instant | null> {
    const { rows } = await this.read<readonly [Instant | null]>(sql.NEXT_WAKE)
    return rows[0]?.[0] ?? null
  }

  async nextWorkAt(): Promise<Instant | null> {
    const { rows } = await this.read<readonly [Instant | null]>(sql.NEXT_WORK)
    return rows[0]?.[0] ?? null
  }

  // ---- Documents ----

  async doc(kind: string, id: string): Promise<Doc | null> {
    const [doc] = await this.#docs(sql.SEE_DOCS, columnsOf([docName({ kind, id })], 2))
    return doc ?? null
  }

  docs(kind: string, prefix: string, after: string | null, limit: number): Promise<Doc[]> {
    return this.#docs(...docsUnder(kind, prefix, after, limit))
  }

  docsBelow(kind: string, before: string | null, limit: number): Promise<Doc[]> {
    if (before === null) return this.#docs(sql.LAST_DOCS, [exact(kind), limit])
    return this.#docs(sql.DOCS_BELOW, [...docName({ kind, id: before }), limit])
  }

  // ---- Workers, queues, types ----

  workers(): Promise<Worker[]> {
    return this.#workers(sql.LIST_WORKERS, [])
  }

  workersPage({ limit, offset }: Page): Promise<Worker[]> {
    return this.#workers(sql.WORKERS_PAGE, [limit, offset])
  }

  async workerTotals(silentSince: Instant): Promise<WorkerTotal[]> {
    const { rows } = await this.read<readonly [string, number, number]>(sql.WORKER_TOTALS, [silentSince])
    return rows.map(([state, count, silent]) => ({ state, count, silent }))
  }

  async worker(id: string): Promise<Worker | null> {
    const [worker] = await this.#workers(sql.SEE_WORKERS, [listOf([exact(id)])])
    return worker ?? null
  }

  async queues(): Promise<Queue[]> {
    const { rows } = await this.read<QueueRow>(sql.LIST_QUEUES)
    return rows.map(toQueue)
  }

  async queuesPage({ limit, offset }: Page): Promise<{ queues: Queue[]; total: number }> {
    const [{ rows }, { total }] = await Promise.all([
      this.read<QueueRow>(sql.QUEUES_PAGE, [limit, offset]),
      this.queueTotals(),
    ])
    return { queues: rows.map(toQueue), total }
  }

  async firstQueues(limit: number): Promise<Queue[]> {
    const { rows } = await this.read<QueueRow>(sql.FIRST_QUEUES, [limit])
    return rows.map(toQueue)
  }

  async queueTotals(): Promise<{ total: number; paused: number }> {
    const { rows } = await this.read<readonly [number, number]>(sql.QUEUE_TOTALS)
    const [total, paused] = rows[0] ?? [0, 0]
    return { total, paused }
  }

  async queue(name: string): Promise<Queue | null> {
    const { rows } = await this.read<QueueRow>(sql.FIND_QUEUES, [listOf([exact(name)])])
    return rows[0] === undefined ? null : toQueue(rows[0])
  }

  async types(): Promise<TypePolicy[]> {
    const { rows } = await this.read<TypeRow>(sql.LIST_TYPES)
    return rows.map(toTypePolicy)
  }

  // ---- Events, and the servers' life ----

  async eventsAfter(sequence: number, limit: number): Promise<StoredEvent[]> {
    const { rows } = await this.read<EventRow>(sql.FIND_EVENTS_AFTER, [sequence, limit])
    return rows.map(toEvent)
  }

  async eventsAmong({ above, below, types, limit, order }: LogPart): Promise<StoredEvent[]> {
    const statement = order === 'oldest' ? sql.FIND_EVENTS_AMONG : sql.FIND_LAST_EVENTS_AMONG
    const { rows } = await this.read<EventRow>(statement, [above, below, listOf(types.map(exact)), limit])
    return rows.map(toEvent)
  }

  async event(sequence: number): Promise<StoredEvent | null> {
    const { rows } = await this.read<EventRow>(sql.FIND_EVENT, [sequence])
    return rows[0] === undefined ? null : toEvent(rows[0])
  }

  async eventBounds(): Promise<{ first: number; last: number }> {
    const { rows } = await this.read<readonly [number | null, number | null]>(sql.EVENT_BOUNDS)
    return { first: rows[0]?.[0] ?? 0, last: rows[0]?.[1] ?? 0 }
  }

  async life(): Promise<Life> {
    const { rows } = await this.read<LifeRow>(sql.FIND_LIFE)
    return toLife(rows[0])
  }

  // ---- Everything, for a copy ----

  async sizes(): Promise<Sizes> {
    const { rows } = await this.read<SizesRow>(sql.SIZES)
    return toSizes(rows[0] ?? [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0])
  }

  jobsAfter(id: string | null, limit: number): Promise<Job[]> {
    return this.#jobs(sql.JOBS_AFTER, [exact(id ?? ''), limit])
  }

  async checkpointsAfter(jobId: string | null, limit: number): Promise<Checkpoint[]> {
    const { rows } = await this.read<CheckpointRow>(sql.CHECKPOINTS_AFTER, [exact(jobId ?? ''), limit])
    return rows.map(toCheckpoint)
  }

  docsAfter(name: DocName | null, limit: number): Promise<Doc[]> {
    return this.#docs(sql.DOCS_AFTER, [...docName(name ?? { kind: '', id: '' }), limit])
  }

  async noticesAfter(place: number, limit: number): Promise<(WorkerNotice & { place: number })[]> {
    const { rows } = await this.read<readonly [...NoticeRow, place: number]>(sql.NOTICES_AFTER, [place, limit])
    return rows.map((row) => ({ ...toNotice(row), place: row[5] }))
  }

  async tombstonesAfter(place: number, limit: number): Promise<{ place: number; id: string }[]> {
    const { rows } = await this.read<readonly [number, string]>(sql.TOMBSTONES_AFTER, [place, limit])
    return rows.map(([at, id]) => ({ place: at, id: original(id) }))
  }

  async inboxAfter(place: number, limit: number): Promise<(InboxEntry & { place: number })[]> {
    const { rows } = await this.read<readonly [string, string, number]>(sql.INBOX_AFTER, [place, limit])
    return rows.map(([id, body, found]) => ({ id, body, place: found }))
  }

  async refusedAfter(place: number, limit: number): Promise<(InboxEntry & Refusal & { place: number })[]> {
    const { rows } = await this.read<readonly [string, string, string, Instant, number]>(sql.REFUSED_AFTER, [
      place,
      limit,
    ])
    return rows.map(([id, body, error, at, found]) => ({ id, body, error, at, place: found }))
  }

  async isHalfRestored(): Promise<boolean> {
    const { rows } = await this.read<readonly [boolean]>(sql.IS_HALF_RESTORED)
    return rows[0]?.[0] === true
  }

  // ---- Rows to records ----

  async #number(statement: Statement, values: readonly unknown[]): Promise<number> {
    const { rows } = await this.read<readonly [number]>(statement, values)
    return rows[0]?.[0] ?? 0
  }

  async #jobs(statement: Statement, values: readonly unknown[]): Promise<Job[]> {
    const { texts } = this
    const { rows } = await this.read<JobRow>(statement, values)
    await this.#learn(unknownToJobs(rows, texts))
    return rows.map((row) => toJob(row, texts))
  }

  async #workers(statement: Statement, values: readonly unknown[]): Promise<Worker[]> {
    const { texts } = this
    const { rows } = await this.read<WorkerRow>(statement, values)
    await this.#learn(unknownToWorkers(rows, texts))
    return rows.map((row) => toWorker(row, texts))
  }

  async #docs(statement: Statement, values: readonly unknown[]): Promise<Doc[]> {
    const { rows } = await this.read<DocRow>(statement, values)
    return rows.map(toDoc)
  }

  async #learn(places: readonly number[]): Promise<void> {
    if (places.length === 0) return
    const { rows } = await this.read<readonly [number, string]>(sql.FIND_TEXTS, [listOf(places)])
    this.texts.learn(rows)
  }
}
