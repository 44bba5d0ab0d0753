/** Jobs that are only looked at: lists, ranks, the next wake. */
import { statement } from './statement.ts'

export const LIST_DEAD_LETTERS = statement(
  'list_dead_letters',
  `
-- Finds the members of the dead-letter list by queue, type and tenant (null: any), newest first.
SELECT b.body, j.*
FROM jobs j JOIN bodies b ON b.id = j.id
WHERE j.dead_letter
  AND ($1::text IS NULL OR j.queue = $1)
  AND ($2::text IS NULL OR j.type = $2)
  AND ($3::text IS NULL OR j.tenant = $3)
ORDER BY j.discarded_at DESC, j.id DESC
LIMIT $4 OFFSET $5`,
)

export const COUNT_DEAD_LETTERS_AMONG = statement(
  'count_dead_letters_among',
  `
-- Counts the members of the dead-letter list by queue, type and tenant (null: any). Reads all of them.
SELECT count(*)
FROM jobs
WHERE dead_letter
  AND ($1::text IS NULL OR queue = $1)
  AND ($2::text IS NULL OR type = $2)
  AND ($3::text IS NULL OR tenant = $3)`,
)

export const TENANT_COUNTS = statement(
  'tenant_counts',
  `
-- Finds how many jobs a tenant has, by state.
SELECT state, count(*)
FROM jobs
WHERE tenant IS NOT NULL AND tenant = $1
GROUP BY state`,
)

export const LINE = statement(
  'line',
  `
-- Finds the places of the available jobs of a queue, by priority and sequence.
SELECT priority, seq
FROM jobs
WHERE state = 'available' AND queue = $1
ORDER BY priority DESC, seq
LIMIT $3 OFFSET $2`,
)

export const DATED_LINE = statement(
  'dated_line',
  `
-- Finds the places and deadlines of the available jobs of a queue that have one, by priority and then the nearest first.
SELECT priority, seq, wake_at
FROM jobs
WHERE state = 'available' AND wake_at IS NOT NULL AND queue = $1
ORDER BY priority DESC, wake_at, seq
LIMIT $3 OFFSET $2`,
)

export const JOBS_IN_LINE = statement(
  'jobs_in_line',
  `
-- Finds the available jobs at these places of queues, without their bodies.
SELECT '' AS body, j.*
FROM unnest($1::text[], $2::integer[], $3::bigint[]) AS spot (queue, priority, seq)
JOIN jobs j ON j.state = 'available' AND j.queue = spot.queue AND j.priority = spot.priority AND j.seq = spot.seq`,
)

export const ROWS_AHEAD = statement(
  'rows_ahead',
  `
-- Counts the available jobs of a queue before one of them: of higher priority, and of its own the earlier ones, those of
-- them without a deadline, and those with a nearer deadline. Each count reads so many entries of its index at most.
WITH earlier AS (
  SELECT wake_at
  FROM jobs
  WHERE state = 'available' AND queue = $1 AND priority = $2 AND seq < $3
  LIMIT $5
)
SELECT
  (SELECT count(*) FROM (
    SELECT 1 FROM jobs WHERE state = 'available' AND queue = $1 AND priority > $2 LIMIT $5
  ) above),
  (SELECT count(*) FROM earlier),
  (SELECT count(*) FROM earlier WHERE wake_at IS NULL),
  (SELECT count(*) FROM (
    SELECT 1
    FROM jobs
    WHERE state = 'available' AND wake_at IS NOT NULL AND queue = $1 AND priority = $2
      AND (wake_at, seq) < ($4::bigint, $3::bigint)
    LIMIT $5
  ) nearer)`,
)

export const OUTWAITED = statement(
  'outwaited',
  `
-- Finds which of the jobs that are woken next are woken before the moment they wait for, without their bodies.
SELECT '' AS body, j.*
FROM (
  SELECT *
  FROM jobs
  WHERE wake_at IS NOT NULL
  ORDER BY wake_at
  LIMIT $3 OFFSET $2
) j
WHERE ($1::text IS NULL OR j.queue = $1)
  AND ((j.state = 'scheduled' AND j.wake_at < j.scheduled_at) OR (j.state = 'retryable' AND j.wake_at < j.next_retry_at))`,
)

const WAKING = `
  FROM jobs
  WHERE wake_at IS NOT NULL AND wake_at >= $1 AND wake_at <= $2
  ORDER BY wake_at
  LIMIT $4 OFFSET $3`

export const WAKES = statement(
  'wakes',
  `
-- Finds when the jobs are woken that are woken first in a stretch of time.
SELECT wake_at ${WAKING}`,
)

export const WAKING_JOBS = statement(
  'waking_jobs',
  `
-- Finds which of them are not over, without their bodies.
SELECT '' AS body, j.*
FROM (
  SELECT * ${WAKING}
) j
WHERE j.state <> 'completed' AND j.state <> 'cancelled' AND j.state <> 'discarded'
ORDER BY j.wake_at`,
)

export const JOBS_AFTER = statement(
  'jobs_after',
  `
-- Finds every job whose id is above this one, by id. (Said of both tables, lest one is read from its beginning.)
SELECT b.body, j.*
FROM jobs j JOIN bodies b ON b.id = j.id
WHERE j.id > $1 AND b.id > $1
ORDER BY j.id
LIMIT $2`,
)

export const LIST_ACTIVE_JOBS = statement(
  'list_active_jobs',
  `
-- Finds active jobs, without their bodies.
SELECT '' AS body, j.*
FROM jobs j
WHERE j.state = 'active'
LIMIT $1`,
)

export const NEXT_WAKE = statement(
  'next_wake',
  `
-- Finds the nearest instant at which something must happen to a job, a worker or a document.
SELECT least(
  (SELECT wake_at FROM jobs WHERE wake_at IS NOT NULL ORDER BY wake_at LIMIT 1),
  (SELECT wake_at FROM workers WHERE wake_at IS NOT NULL ORDER BY wake_at LIMIT 1),
  (SELECT wake_at FROM docs WHERE wake_at IS NOT NULL ORDER BY wake_at LIMIT 1)
)`,
)

export const NEXT_WORK = statement(
  'next_work',
  `
-- Finds the nearest instant at which something must happen to a job or a document.
SELECT least(
  (SELECT wake_at FROM jobs WHERE wake_at IS NOT NULL ORDER BY wake_at LIMIT 1),
  (SELECT wake_at FROM docs WHERE wake_at IS NOT NULL ORDER BY wake_at LIMIT 1)
)`,
)
