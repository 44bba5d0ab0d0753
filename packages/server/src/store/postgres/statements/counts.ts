/** Counts of jobs by queue and state, and ids of jobs that are gone. */
import { statement } from './statement.ts'

export const ADD_TO_COUNTS = statement(
  'add_to_counts',
  `
-- Adds to (or takes from) the numbers of jobs of queues in states, in one slot. Always in the same order.
INSERT INTO counts (state, queue, slot, n)
SELECT a.state, a.queue, $1::smallint, a.n
FROM unnest($2::text[], $3::text[], $4::bigint[]) AS a (state, queue, n)
ORDER BY a.state COLLATE "C", a.queue COLLATE "C"
ON CONFLICT (state, queue, slot) DO UPDATE SET n = counts.n + excluded.n`,
)

export const COUNT_AND_LOCK_LOG = statement(
  'count_and_lock_log',
  `
-- Adds to (or takes from) the numbers of jobs of queues in states, in one slot, always in the same order. When that is
-- done, waits for the right to append to the log, which lasts until the transaction has ended.
WITH counted AS (
  INSERT INTO counts (state, queue, slot, n)
  SELECT a.state, a.queue, $1::smallint, a.n
  FROM unnest($2::text[], $3::text[], $4::bigint[]) AS a (state, queue, n)
  ORDER BY a.state COLLATE "C", a.queue COLLATE "C"
  ON CONFLICT (state, queue, slot) DO UPDATE SET n = counts.n + excluded.n
  RETURNING n
), done AS MATERIALIZED (
  SELECT count(*) AS rows FROM counted
)
SELECT pg_advisory_xact_lock($5::bigint) FROM done WHERE rows >= 0`,
)

export const ALL_COUNTS = statement(
  'all_counts',
  `
-- Finds the numbers of jobs by queue and state, dead letters apart.
SELECT queue, state, sum(n)::bigint
FROM counts
WHERE state <> 'dead_letter'
GROUP BY queue, state`,
)

export const COUNTS_OF = statement(
  'counts_of',
  `
-- Finds the numbers of jobs of these queues in these states.
SELECT queue, state, sum(n)::bigint
FROM counts
WHERE state = ANY ($2::text[]) AND queue = ANY ($1::text[])
GROUP BY queue, state`,
)

export const TOTALS = statement(
  'totals',
  `
-- Sums the numbers of jobs by state, dead letters apart.
SELECT state, sum(n)::bigint
FROM counts
WHERE state <> 'dead_letter'
GROUP BY state`,
)

export const DEAD_LETTER_COUNTS = statement(
  'dead_letter_counts',
  `
-- Finds how many dead letters each queue has.
SELECT queue, sum(n)::bigint
FROM counts
WHERE state = 'dead_letter'
GROUP BY queue
HAVING sum(n) > 0
ORDER BY queue`,
)

export const COUNT_DEAD_LETTERS = statement(
  'count_dead_letters',
  `
-- Sums the numbers of dead letters by queue (null: any).
SELECT coalesce(sum(n), 0)::bigint
FROM counts
WHERE state = 'dead_letter'
  AND ($1::text IS NULL OR queue = $1)`,
)

export const FIND_TOMBSTONE = statement(
  'find_tombstone',
  `
-- Finds whether a removed job of this id is remembered.
SELECT 1 FROM tombstones WHERE id = $1 LIMIT 1`,
)

export const TOMBSTONES_AFTER = statement(
  'tombstones_after',
  `
-- Finds the removed jobs that are remembered after this place, oldest first.
SELECT place, id FROM tombstones WHERE place > $1 ORDER BY place LIMIT $2`,
)

export const RESTORE_TOMBSTONES = statement(
  'restore_tombstones',
  `
-- Remembers removed jobs, in this order.
INSERT INTO tombstones (id)
SELECT n.id FROM unnest($1::text[]) WITH ORDINALITY AS n (id, place) ORDER BY n.place`,
)
