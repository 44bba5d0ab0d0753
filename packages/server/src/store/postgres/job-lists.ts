/**
 * The statements of lists (`../job-lists.ts`), made from a few parts: the jobs of a way, and what else a filter says. In
 * them `@name` stands for a parameter; a test looks at the plans.
 */
import { JOB_STATES, type Instant, type Job, type JobCursor, type JobState } from '@curfew/core'
import { sortValues, walkValues, WAYS, type JobFinder, type Walk, type Way } from '../job-lists.ts'
import type { Page } from '../store.ts'
import type { Answer, Statement } from './wire.ts'
import { exact, exactOrNull, listOf, original } from './rows.ts'

/** When a job was completed, cancelled or discarded. Written exactly as in the index. */
const ENDED = 'coalesce(completed_at, cancelled_at, discarded_at)'
const ENDED_OF_J = 'coalesce(j.completed_at, j.cancelled_at, j.discarded_at)'

const ofTenantIn = (state: string): string => `
    (SELECT *
    FROM jobs
    WHERE tenant IS NOT NULL AND tenant = @tenant AND state = '${state}' AND id < @before
      AND (@states IS NULL OR '${state}' = ANY (@states))
    ORDER BY id DESC
    LIMIT @look)`

/** Finds the jobs of a way, in its order, below a cursor. */
const JOBS: Readonly<Record<Way, string>> = {
  tag: `
    SELECT j.*
    FROM job_tags t JOIN jobs j ON j.id = t.id
    WHERE t.tag = @tag AND t.id < @before
    ORDER BY t.id DESC`,
  timeout: `
    SELECT * FROM jobs WHERE timeout_kind IS NOT NULL AND timeout_kind = @timeout_kind AND id < @before ORDER BY id DESC`,
  error: `
    SELECT * FROM jobs WHERE error_type IS NOT NULL AND error_type = @error_type AND id < @before ORDER BY id DESC`,
  worker: `
    (SELECT *
    FROM jobs
    WHERE state = 'active' AND worker_id = @worker AND id < @before
    ORDER BY id DESC
    LIMIT @look)
    UNION ALL
    (SELECT *
    FROM jobs
    WHERE state <> 'active' AND worker_id IS NOT NULL AND worker_id = @worker AND id < @before
    ORDER BY id DESC
    LIMIT @look)
    ORDER BY id DESC`,
  tenant: `${JOB_STATES.map(ofTenantIn).join('\n    UNION ALL')}
    ORDER BY id DESC`,
  aside: `
    SELECT *
    FROM jobs
    WHERE state IN ('scheduled', 'pending', 'retryable', 'cancelled', 'discarded')
      AND state = @state AND id < @before
    ORDER BY id DESC`,
  held: `
    SELECT * FROM jobs WHERE state = 'active'`,
  claim: `
    SELECT * FROM jobs WHERE state = 'available' AND queue = @queue`,
  waiting: `
    SELECT * FROM jobs WHERE state = 'available'`,
  ended: `
    SELECT *
    FROM jobs
    WHERE ${ENDED} IS NOT NULL AND ${ENDED} > @ended_after AND ${ENDED} < @ended_before
      AND (${ENDED}, id) < (@at, @before)
    ORDER BY ${ENDED} DESC, id DESC`,
  created: `
    SELECT *
    FROM jobs
    WHERE created_at > @created_after AND created_at < @created_before AND (created_at, id) < (@at, @before)
    ORDER BY created_at DESC, id DESC`,
  id: `
    SELECT * FROM jobs WHERE id < @before ORDER BY id DESC`,
}

/** What a filter says, whatever way was taken. */
const MEANT = `
  (@queue IS NULL OR j.queue = @queue)
  AND (@type IS NULL OR j.type = @type)
  AND (@states IS NULL OR j.state = ANY (@states))
  AND (@tenant IS NULL OR j.tenant = @tenant)
  AND (@priority IS NULL OR j.priority = @priority)
  AND (@error_type IS NULL OR j.error_type = @error_type)
  AND (@timeout_kind IS NULL OR j.timeout_kind = @timeout_kind)
  AND (@worker IS NULL OR j.worker_id = @worker)
  AND (@tag IS NULL OR EXISTS (SELECT 1 FROM job_tags t WHERE t.tag = @tag AND t.id = j.id))
  AND (NOT @dead_only OR j.dead_letter)
  AND j.created_at > @created_after AND j.created_at < @created_before
  AND (@any_enqueued OR (j.enqueued_at > @enqueued_after AND j.enqueued_at < @enqueued_before))
  AND (@any_ended OR (${ENDED_OF_J} > @ended_after AND ${ENDED_OF_J} < @ended_before))`

const jobsOf = (way: Way): string => `${JOBS[way]}
    LIMIT @look`

/** The order of a way, said of `j`. */
const orderedBy = (way: Way): string =>
  way === 'ended' ? `${ENDED_OF_J} DESC, j.id DESC` : way === 'created' ? 'j.created_at DESC, j.id DESC' : 'j.id DESC'

const KEY = `CASE @order WHEN 'ended' THEN ${ENDED_OF_J} WHEN 'created' THEN j.created_at ELSE 0 END`

const size = (way: Way): string => `
-- Counts the jobs of a way, up to a bound.
SELECT count(*) FROM (${jobsOf(way)}
) j`

const count = (way: Way): string => `
-- Counts those of the first jobs of a way that a filter means.
SELECT count(*)
FROM (${jobsOf(way)}
) j
WHERE ${MEANT}`

const walked = (way: Way): string => `
-- Finds those of the first jobs of a way that a filter means, in the order of the way.
SELECT b.body, j.*
FROM (
  SELECT *
  FROM (${jobsOf(way)}
  ) j
  WHERE ${MEANT}
  ORDER BY ${orderedBy(way)}
  LIMIT @limit OFFSET @offset
) j JOIN bodies b ON b.id = j.id
ORDER BY ${orderedBy(way)}`

const sorted = (way: Way): string => `
-- Finds those of the jobs of a short way that a filter means, newest first by id or by a time.
SELECT b.body, j.*
FROM (
  SELECT *
  FROM (${jobsOf(way)}
  ) j
  WHERE ${MEANT}
    AND (${KEY}, j.id) < (@last_at, @last)
  ORDER BY ${KEY} DESC, j.id DESC
  LIMIT @limit OFFSET @offset
) j JOIN bodies b ON b.id = j.id
ORDER BY ${KEY} DESC, j.id DESC`

const last = (way: Way): string => `
-- Finds where the first jobs of a way end.
SELECT id, ${way === 'ended' ? ENDED : way === 'created' ? 'created_at' : 'NULL::bigint'}
FROM (${jobsOf(way)}
) j
ORDER BY ${orderedBy(way)}
LIMIT 1 OFFSET @look - 1`

// ---- Parameters ----

type Values = Readonly<Record<string, unknown>>

const TYPES: Readonly<Record<string, string>> = {
  at: 'bigint',
  look: 'bigint',
  limit: 'bigint',
  offset: 'bigint',
  states: 'text[]',
  priority: 'integer',
  dead_only: 'boolean',
  created_after: 'bigint',
  created_before: 'bigint',
  any_enqueued: 'boolean',
  enqueued_after: 'bigint',
  enqueued_before: 'bigint',
  any_ended: 'boolean',
  ended_after: 'bigint',
  ended_before: 'bigint',
  last_at: 'bigint',
}

/** A statement, and the names of its parameters in the order of their numbers. */
export interface Named {
  readonly statement: Statement
  readonly names: readonly string[]
}

function named(name: string, sql: string): Named {
  const names: string[] = []
  const text = sql.replaceAll(/@(\w+)/g, (_, parameter: string) => {
    if (!names.includes(parameter)) names.push(parameter)
    return `$${String(names.indexOf(parameter) + 1)}::${TYPES[parameter] ?? 'text'}`
  })
  return { statement: { name, text }, names }
}

type ByWay = Readonly<Record<Way, Named>>

const byWay = (name: string, part: (way: Way) => string): ByWay =>
  Object.fromEntries((Object.keys(WAYS) as Way[]).map((way) => [way, named(`list_${name}_${way}`, part(way))])) as ByWay

/** For the finder, and for a look at the plans. */
export const LIST_STATEMENTS = {
  size: byWay('size', size),
  count: byWay('count', count),
  walked: byWay('walked', walked),
  sorted: byWay('sorted', sorted),
  last: byWay('last', last),
} as const

export const listParameters = ({ names }: Named, values: Values): unknown[] =>
  names.map((name) => {
    const value = values[name]
    return Array.isArray(value) ? listOf(value as string[]) : value
  })

const KEPT = named(
  'list_kept',
  `
-- Sums the kept numbers of jobs by queue and states (null: any).
SELECT coalesce(sum(n), 0)::bigint
FROM counts
WHERE (@queue IS NULL OR queue = @queue)
  AND (@states IS NULL OR state = ANY (@states))
  AND state <> 'dead_letter'`,
)

// ---- The finder ----

export interface Reading {
  read<Row>(statement: Statement, values: readonly unknown[]): Promise<Answer<Row>>
  jobs(statement: Statement, values: readonly unknown[]): Promise<Job[]>
}

export class ListStatements implements JobFinder {
  readonly #reading: Reading

  constructor(reading: Reading) {
    this.#reading = reading
  }

  kept(queue: string | null, states: readonly JobState[]): Promise<number> {
    return this.#number(KEPT, { queue: exactOrNull(queue), states: states.length === 0 ? null : states })
  }

  size(walk: Walk): Promise<number> {
    return this.#number(LIST_STATEMENTS.size[walk.way], walkValues(walk, exact))
  }

  count(walk: Walk): Promise<number> {
    return this.#number(LIST_STATEMENTS.count[walk.way], walkValues(walk, exact))
  }

  walked(walk: Walk, page: Page): Promise<Job[]> {
    return this.#jobs(LIST_STATEMENTS.walked[walk.way], { ...walkValues(walk, exact), ...page })
  }

  sorted(walk: Walk, page: Page): Promise<Job[]> {
    return this.#jobs(LIST_STATEMENTS.sorted[walk.way], { ...sortValues(walk, exact), ...page })
  }

  async last(walk: Walk): Promise<JobCursor | null> {
    const found = LIST_STATEMENTS.last[walk.way]
    const values = listParameters(found, walkValues(walk, exact))
    const { rows } = await this.#reading.read<readonly [string, Instant | null]>(found.statement, values)
    return rows[0] === undefined ? null : { id: original(rows[0][0]), at: rows[0][1] }
  }

  async #number(found: Named, values: Values): Promise<number> {
    const { rows } = await this.#reading.read<readonly [number]>(found.statement, listParameters(found, values))
    return rows[0]?.[0] ?? 0
  }

  #jobs(found: Named, values: Values): Promise<Job[]> {
    return this.#reading.jobs(found.statement, listParameters(found, values))
  }
}
