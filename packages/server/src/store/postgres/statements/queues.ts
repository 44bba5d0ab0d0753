/** Named locks, queues and policies of types. */
import { statement } from './statement.ts'

export const LOCK_NAMES = statement(
  'lock_names',
  `
-- Waits for the right to these names (as numbers), one after the other; it lasts until the transaction has ended.
SELECT pg_advisory_xact_lock(number) FROM unnest($1::bigint[]) AS number`,
)

export const SHARE_NAMES = statement(
  'share_names',
  `
-- Waits until no session has the right to all names, and keeps others from it until the transaction has ended.
SELECT pg_advisory_xact_lock_shared($1::bigint)`,
)

export const FIND_QUEUES = statement(
  'find_queues',
  `
-- Finds the queues with these names.
SELECT q.* FROM queues q WHERE q.name = ANY ($1::text[])`,
)

export const LIST_QUEUES = statement(
  'list_queues',
  `
-- Finds all queues.
SELECT q.* FROM queues q ORDER BY q.name`,
)

export const QUEUES_PAGE = statement(
  'queues_page',
  `
-- Finds some of the queues, by name.
SELECT q.* FROM queues q ORDER BY q.name LIMIT $1 OFFSET $2`,
)

export const FIRST_QUEUES = statement(
  'first_queues',
  `
-- Finds the queues that came first.
SELECT q.* FROM queues q ORDER BY q.created_at, q.name LIMIT $1`,
)

export const QUEUE_TOTALS = statement(
  'queue_totals',
  `
-- Counts the queues, and those that are paused.
SELECT count(*), count(paused_at) FROM queues`,
)

export const INSERT_QUEUES = statement(
  'insert_queues',
  `
-- Adds queues in their first version, but for those that are there already.
INSERT INTO queues (name, created_at, paused_at, draining_at, config, version)
SELECT n.*, 1
FROM unnest($1::text[], $2::bigint[], $3::bigint[], $4::bigint[], $5::text[])
  AS n (name, created_at, paused_at, draining_at, config)
ORDER BY n.name COLLATE "C"
ON CONFLICT (name) DO NOTHING`,
)

export const RESTORE_QUEUES = statement(
  'restore_queues',
  `
-- Adds queues in the versions they have.
INSERT INTO queues (name, created_at, paused_at, draining_at, config, version)
SELECT * FROM unnest($1::text[], $2::bigint[], $3::bigint[], $4::bigint[], $5::text[], $6::bigint[])`,
)

export const UPDATE_QUEUES = statement(
  'update_queues',
  `
-- Rewrites queues that are still in the version that was read.
WITH moved AS (
  UPDATE queues q SET
    created_at = n.created_at, paused_at = n.paused_at, draining_at = n.draining_at, config = n.config,
    version = q.version + 1
  FROM unnest($1::text[], $2::bigint[], $3::bigint[], $4::bigint[], $5::text[], $6::bigint[])
    AS n (name, created_at, paused_at, draining_at, config, version)
  WHERE q.name = n.name AND q.version = n.version
  RETURNING q.name
)
SELECT expect_all('queue', $1::text[], array_agg(name)) FROM moved`,
)

export const LIST_TYPES = statement(
  'list_types',
  `
-- Finds the policies of all types.
SELECT t.* FROM types t ORDER BY t.type`,
)

export const PUT_TYPES = statement(
  'put_types',
  `
-- Adds or replaces the policies of types.
INSERT INTO types (type, asked, caps, sent, updated_at)
SELECT *
FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::bigint[]) AS n (type, asked, caps, sent, updated_at)
ORDER BY n.type COLLATE "C"
ON CONFLICT (type) DO UPDATE SET
  asked = excluded.asked, caps = excluded.caps, sent = excluded.sent, updated_at = excluded.updated_at`,
)

export const RESTORE_TYPES = statement(
  'restore_types',
  `
-- Adds the policies of types.
INSERT INTO types (type, asked, caps, sent, updated_at)
SELECT * FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::bigint[])`,
)

export const DELETE_TYPES = statement(
  'delete_types',
  `
-- Removes the policies of types.
DELETE FROM types WHERE type = ANY ($1::text[])`,
)
