/** The event log, and news for other servers. */
import { statement } from './statement.ts'

export const LOCK_LOG = statement(
  'lock_log',
  `
-- Waits for the right to append to the log, which lasts until the transaction has ended.
SELECT pg_advisory_xact_lock($1::bigint)`,
)

export const APPEND_EVENTS = statement(
  'append_events',
  `
-- Appends events to the log, which must be locked, after leaving out $7 places; notifies other servers of the commit, with
-- the place of the last event at the end; and finds the nearest instant at which something must happen.
WITH added AS (
  INSERT INTO events (sequence, type, at, subject, queue, job_type, data)
  SELECT
    (SELECT coalesce(max(sequence), 0) FROM events) + $7::bigint + n.place,
    n.type, n.at, n.subject, n.queue, n.job_type, n.data
  FROM unnest($1::text[], $2::bigint[], $3::text[], $4::text[], $5::text[], $6::text[])
    WITH ORDINALITY AS n (type, at, subject, queue, job_type, data, place)
  RETURNING sequence
), last AS MATERIALIZED (
  SELECT max(sequence) AS place FROM added
)
SELECT
  place,
  least(
    (SELECT wake_at FROM jobs WHERE wake_at IS NOT NULL ORDER BY wake_at LIMIT 1),
    (SELECT wake_at FROM workers WHERE wake_at IS NOT NULL ORDER BY wake_at LIMIT 1),
    (SELECT wake_at FROM docs WHERE wake_at IS NOT NULL ORDER BY wake_at LIMIT 1)
  ),
  pg_notify($8, $9::text || place::text || $10::text)
FROM last`,
)

export const RESTORE_EVENTS = statement(
  'restore_events',
  `
-- Adds events to the log, which must be locked, at the places they have.
INSERT INTO events (type, at, subject, queue, job_type, data, sequence)
SELECT * FROM unnest($1::text[], $2::bigint[], $3::text[], $4::text[], $5::text[], $6::text[], $7::bigint[])`,
)

export const PRUNE_EVENTS = statement(
  'prune_events',
  `
-- Removes the oldest events, at most $2: those that are too many beside $3 in all when $4 more are added, and those from
-- before $5. Never the newest. Nothing if another session is pruning.
WITH turn AS MATERIALIZED (
  SELECT pg_try_advisory_xact_lock($1::bigint) AS is_mine
), oldest AS MATERIALIZED (
  SELECT sequence, at FROM events ORDER BY sequence LIMIT $2
), kept AS (
  SELECT min(sequence) AS first
  FROM oldest
  WHERE sequence > (SELECT max(sequence) FROM events) + $4::bigint - $3::bigint AND at >= $5::bigint
)
DELETE FROM events
WHERE (SELECT is_mine FROM turn)
  AND sequence < (SELECT max(sequence) FROM events)
  AND sequence < coalesce((SELECT first FROM kept), (SELECT max(sequence) + 1 FROM oldest))`,
)

export const FIRST_EVENT = statement(
  'first_event',
  `
-- Finds the oldest event: its place and its instant.
SELECT sequence, at FROM events ORDER BY sequence LIMIT 1`,
)

export const EVENT_BOUNDS = statement(
  'event_bounds',
  `
-- Finds the places of the oldest and of the newest event.
SELECT
  (SELECT sequence FROM events ORDER BY sequence LIMIT 1),
  (SELECT sequence FROM events ORDER BY sequence DESC LIMIT 1)`,
)

export const FIND_EVENT = statement(
  'find_event',
  `
-- Finds the event at this place of the log.
SELECT e.* FROM events e WHERE e.sequence = $1`,
)

export const FIND_EVENTS_AFTER = statement(
  'find_events_after',
  `
-- Finds the events after this place of the log, oldest first.
SELECT e.* FROM events e WHERE e.sequence > $1 ORDER BY e.sequence LIMIT $2`,
)

const AMONG = `
SELECT e.*
FROM events e
WHERE e.sequence > $1 AND e.sequence < $2 AND (cardinality($3::text[]) = 0 OR e.type = ANY ($3))
ORDER BY e.sequence`

export const FIND_EVENTS_AMONG = statement(
  'find_events_among',
  `
-- Finds the events of some types (none: of any) between two places of the log, oldest first.
${AMONG} LIMIT $4`,
)

export const FIND_LAST_EVENTS_AMONG = statement(
  'find_last_events_among',
  `
-- The same, newest first.
${AMONG} DESC LIMIT $4`,
)

export const NOTIFY = statement(
  'notify',
  `
-- Notifies listeners when the transaction is committed.
SELECT pg_notify($1, $2)`,
)
