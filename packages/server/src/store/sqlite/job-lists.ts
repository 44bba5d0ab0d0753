/**
 * The statements of lists (`../job-lists.ts`), made from a few parts: the jobs of a way, and what else a filter says. They
 * are prepared when they are first asked for. Each way names its index, so that a statement that would scan is refused.
 */
import type { Database, Statement } from 'better-sqlite3'
import { JOB_STATES, type Instant, type Job, type JobCursor, type JobState } from '@curfew/core'
import { sortValues, walkValues, type JobFinder, type Walk, type Way } from '../job-lists.ts'
import type { Page } from '../store.ts'
import { exact, type JobRow } from './rows.ts'
import { WHOLE_JOB } from './statements.ts'
import type { WideQuery, WideRows } from './wide-rows.ts'

/** When a job was completed, cancelled or discarded. Written exactly as in the index. */
const ENDED = 'coalesce(completed_at, cancelled_at, discarded_at)'
const ENDED_OF_J = 'coalesce(j.completed_at, j.cancelled_at, j.discarded_at)'

const ofTenantIn = (state: string): string => `
    SELECT place, id
    FROM jobs INDEXED BY jobs_tenant
    WHERE tenant IS NOT NULL AND tenant = @tenant AND state = '${state}' AND id < @before
      AND (@states IS NULL OR '${state}' IN (SELECT value FROM json_each(@states)))`

/** Finds the places of the jobs of a way, in its order, below a cursor. */
const PLACES: Readonly<Record<Way, string>> = {
  tag: `
    SELECT place, id FROM tags WHERE tag = @tag AND id < @before ORDER BY id DESC`,
  timeout: `
    SELECT place, id
    FROM jobs INDEXED BY jobs_timeout
    WHERE timeout_kind IS NOT NULL AND timeout_kind = @timeout_kind AND id < @before
    ORDER BY id DESC`,
  error: `
    SELECT place, id
    FROM jobs INDEXED BY jobs_error
    WHERE error_type IS NOT NULL AND error_type = @error_type AND id < @before
    ORDER BY id DESC`,
  worker: `
    SELECT place, id
    FROM jobs INDEXED BY jobs_held
    WHERE state = 'active' AND worker_id = @worker AND id < @before
    UNION ALL
    SELECT place, id
    FROM jobs INDEXED BY jobs_worked
    WHERE state <> 'active' AND worker_id IS NOT NULL AND worker_id = @worker AND id < @before
    ORDER BY id DESC`,
  tenant: `${JOB_STATES.map(ofTenantIn).join('\n    UNION ALL')}
    ORDER BY id DESC`,
  aside: `
    SELECT place, id
    FROM jobs INDEXED BY jobs_aside
    WHERE state <> 'available' AND state <> 'active' AND state <> 'completed'
      AND state = @state AND id < @before
    ORDER BY id DESC`,
  held: `
    SELECT place, id FROM jobs INDEXED BY jobs_held WHERE state = 'active'`,
  claim: `
    SELECT place, id FROM jobs INDEXED BY jobs_claim WHERE state = 'available' AND queue = @queue`,
  waiting: `
    SELECT place, id FROM jobs INDEXED BY jobs_claim WHERE state = 'available'`,
  ended: `
    SELECT place, id, ${ENDED} AS at
    FROM jobs INDEXED BY jobs_ended
    WHERE ${ENDED} IS NOT NULL AND ${ENDED} > @ended_after AND ${ENDED} < @ended_before
      AND (${ENDED}, id) < (@at, @before)
    ORDER BY ${ENDED} DESC, id DESC`,
  created: `
    SELECT place, id, created_at AS at
    FROM jobs INDEXED BY jobs_created
    WHERE created_at > @created_after AND created_at < @created_before
      AND (created_at, id) < (@at, @before)
    ORDER BY created_at DESC, id DESC`,
  id: `
    SELECT place, id FROM jobs INDEXED BY jobs_id WHERE id < @before ORDER BY id DESC`,
}

/** What a filter says, whatever way was taken. */
const MEANT = `
  (@queue IS NULL OR j.queue = @queue)
  AND (@type IS NULL OR j.type = @type)
  AND (@states IS NULL OR j.state IN (SELECT value FROM json_each(@states)))
  AND (@tenant IS NULL OR j.tenant = @tenant)
  AND (@priority IS NULL OR j.priority = @priority)
  AND (@error_type IS NULL OR j.error_type = @error_type)
  AND (@timeout_kind IS NULL OR j.timeout_kind = @timeout_kind)
  AND (@worker IS NULL OR j.worker_id = @worker)
  AND (@tag IS NULL OR EXISTS (SELECT 1 FROM tags t WHERE t.tag = @tag AND t.id = j.id))
  AND (@dead_only = 0 OR j.dead_letter = 1)
  AND j.created_at > @created_after AND j.created_at < @created_before
  AND (@any_enqueued = 1 OR (j.enqueued_at > @enqueued_after AND j.enqueued_at < @enqueued_before))
  AND (@any_ended = 1 OR (${ENDED_OF_J} > @ended_after AND ${ENDED_OF_J} < @ended_before))`

const places = (way: Way): string => `${PLACES[way]}
    LIMIT +@look`

const size = (way: Way): string => `
-- Counts the jobs of a way, up to a bound.
SELECT count(*) FROM (${places(way)}
)`

const count = (way: Way): string => `
-- Counts those of the first jobs of a way that a filter means.
SELECT count(*)
FROM (${places(way)}
) w CROSS JOIN jobs j ON j.place = w.place
WHERE ${MEANT}`

/** Trap: there is no outer order, so that the search ends with the page. Rows come in the order of the inner one. */
const walked = (way: Way): string => `
-- Finds those of the first jobs of a way that a filter means, in the order of the way.
SELECT ${WHOLE_JOB}
FROM (${places(way)}
) w CROSS JOIN jobs j ON j.place = w.place
WHERE ${MEANT}
LIMIT +@limit OFFSET +@offset`

const KEY = `CASE @order WHEN 'ended' THEN ${ENDED_OF_J} WHEN 'created' THEN j.created_at ELSE 0 END`

const sorted = (way: Way): string => `
-- Finds those of the jobs of a short way that a filter means, newest first by id or by a time.
SELECT ${WHOLE_JOB}
FROM (${places(way)}
) w CROSS JOIN jobs j ON j.place = w.place
WHERE ${MEANT}
  AND (${KEY}, j.id) < (@last_at, @last)
ORDER BY ${KEY} DESC, j.id DESC
LIMIT +@limit OFFSET +@offset`

const last = (way: Way): string => `
-- Finds where the first jobs of a way end.
SELECT id, ${way === 'ended' || way === 'created' ? 'at' : 'NULL'}
FROM (${places(way)}
)
LIMIT 1 OFFSET +@look - 1`

/** The SQL of every list, for tests that check query plans. */
export const LIST_STATEMENTS = { size, count, walked, sorted, last } as const

export class ListStatements implements JobFinder {
  readonly #db: Database
  readonly #wide: WideRows
  readonly #toJob: (row: JobRow) => Job
  readonly #prepared = new Map<string, unknown>()

  constructor(db: Database, wide: WideRows, toJob: (row: JobRow) => Job) {
    this.#db = db
    this.#wide = wide
    this.#toJob = toJob
  }

  async kept(queue: string | null, states: readonly JobState[]): Promise<number> {
    const asked = { queue, states: states.length === 0 ? null : JSON.stringify(states) }
    return this.#value<number>(KEPT).get(asked) ?? 0
  }

  async size(walk: Walk): Promise<number> {
    return this.#value<number>(size(walk.way)).get(bound(walkValues(walk, exact))) ?? 0
  }

  async count(walk: Walk): Promise<number> {
    return this.#value<number>(count(walk.way)).get(bound(walkValues(walk, exact))) ?? 0
  }

  async walked(walk: Walk, page: Page): Promise<Job[]> {
    return this.#jobs(walked(walk.way))
      .all(bound({ ...walkValues(walk, exact), ...page }))
      .map(this.#toJob)
  }

  async sorted(walk: Walk, page: Page): Promise<Job[]> {
    return this.#jobs(sorted(walk.way))
      .all(bound({ ...sortValues(walk, exact), ...page }))
      .map(this.#toJob)
  }

  async last(walk: Walk): Promise<JobCursor | null> {
    const row = this.#rows<readonly [id: string, at: Instant | null]>(last(walk.way)).get(
      bound(walkValues(walk, exact)),
    )
    return row === undefined ? null : { id: row[0], at: row[1] }
  }

  #value<Value>(sql: string): Statement<[object], Value> {
    return this.#once(sql, () => this.#db.prepare<[object], Value>(sql).pluck())
  }

  #rows<Row>(sql: string): Statement<[object], Row> {
    return this.#once(sql, () => this.#db.prepare<[object], Row>(sql).raw())
  }

  #jobs(sql: string): WideQuery<[object], JobRow> {
    return this.#once(sql, () => this.#wide.prepare<[object], JobRow>(sql))
  }

  #once<Prepared>(sql: string, prepare: () => Prepared): Prepared {
    const known = this.#prepared.get(sql) as Prepared | undefined
    if (known !== undefined) return known
    const prepared = prepare()
    this.#prepared.set(sql, prepared)
    return prepared
  }
}

const KEPT = `
-- Sums the kept numbers of jobs by queue and states (null: any).
SELECT total(n)
FROM counts
WHERE (@queue IS NULL OR queue = @queue)
  AND (@states IS NULL OR state IN (SELECT value FROM json_each(@states)))
  AND state <> 'dead_letter'`

/** Truth is a number to SQLite, and a list is JSON. */
function bound(values: Readonly<Record<string, unknown>>): object {
  return Object.fromEntries(
    Object.entries(values).map(([name, value]) => [
      name,
      typeof value === 'boolean' ? Number(value) : Array.isArray(value) ? JSON.stringify(value) : value,
    ]),
  )
}
