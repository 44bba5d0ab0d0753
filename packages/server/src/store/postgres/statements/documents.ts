/** Documents: workflows, cron entries, runs and the like. */
import { statement } from './statement.ts'

export const LOCK_DOCS = statement(
  'lock_docs',
  `
-- Finds and locks the documents of these names.
SELECT d.*
FROM unnest($1::text[], $2::text[]) AS n (kind, id) JOIN docs d ON d.kind = n.kind AND d.id = n.id
ORDER BY d.kind, d.id
FOR UPDATE OF d`,
)

export const SEE_DOCS = statement(
  'see_docs',
  `
-- Finds the documents of these names. Locks nothing.
SELECT d.*
FROM unnest($1::text[], $2::text[]) AS n (kind, id) JOIN docs d ON d.kind = n.kind AND d.id = n.id`,
)

export const LOCK_DUE_DOCS = statement(
  'lock_due_docs',
  `
-- Finds and locks the documents to which something must happen by this instant, earliest first. Skips what others hold.
SELECT d.*
FROM docs d
WHERE d.wake_at IS NOT NULL AND d.wake_at <= $1
ORDER BY d.wake_at
LIMIT $2
FOR UPDATE OF d SKIP LOCKED`,
)

export const DOCS_FROM = statement(
  'docs_from',
  `
-- Finds the documents of a kind from this id on, by id. Locks nothing.
SELECT d.* FROM docs d WHERE d.kind = $1 AND d.id >= $2 ORDER BY d.id LIMIT $3`,
)

export const DOCS_BETWEEN = statement(
  'docs_between',
  `
-- Finds the documents of a kind from one id on and below another, by id. Locks nothing.
SELECT d.* FROM docs d WHERE d.kind = $1 AND d.id >= $2 AND d.id < $4 ORDER BY d.id LIMIT $3`,
)

export const LAST_DOCS = statement(
  'last_docs',
  `
-- Finds the documents of a kind, highest id first. Locks nothing.
SELECT d.* FROM docs d WHERE d.kind = $1 ORDER BY d.id DESC LIMIT $2`,
)

export const DOCS_BELOW = statement(
  'docs_below',
  `
-- Finds the documents of a kind below this id, highest first. Locks nothing.
SELECT d.* FROM docs d WHERE d.kind = $1 AND d.id < $2 ORDER BY d.id DESC LIMIT $3`,
)

export const DOCS_AFTER = statement(
  'docs_after',
  `
-- Finds every document after this one, by kind and id.
SELECT d.* FROM docs d WHERE (d.kind, d.id) > ($1, $2) ORDER BY d.kind, d.id LIMIT $3`,
)

export const INSERT_DOCS = statement(
  'insert_docs',
  `
-- Adds documents in their first version.
INSERT INTO docs (kind, id, wake_at, body, version)
SELECT n.*, 1 FROM unnest($1::text[], $2::text[], $3::bigint[], $4::text[]) AS n`,
)

export const RESTORE_DOCS = statement(
  'restore_docs',
  `
-- Adds documents in the versions they have.
INSERT INTO docs (kind, id, wake_at, body, version)
SELECT * FROM unnest($1::text[], $2::text[], $3::bigint[], $4::text[], $5::bigint[])`,
)

export const UPDATE_DOCS = statement(
  'update_docs',
  `
-- Rewrites documents that are still in the version that was read.
WITH moved AS (
  UPDATE docs d SET wake_at = n.wake_at, body = n.body, version = d.version + 1
  FROM unnest($1::text[], $2::text[], $3::bigint[], $4::text[], $5::bigint[]) AS n (kind, id, wake_at, body, version)
  WHERE d.kind = n.kind AND d.id = n.id AND d.version = n.version
  RETURNING d.kind || ', ' || d.id AS name
), asked AS (
  SELECT array_agg(n.kind || ', ' || n.id) AS names FROM unnest($1::text[], $2::text[]) AS n (kind, id)
)
SELECT expect_all('doc', (SELECT names FROM asked), array_agg(name)) FROM moved`,
)

export const DELETE_DOCS = statement(
  'delete_docs',
  `
-- Removes documents that are still in the version that was read.
WITH gone AS (
  DELETE FROM docs d
  USING unnest($1::text[], $2::text[], $3::bigint[]) AS n (kind, id, version)
  WHERE d.kind = n.kind AND d.id = n.id AND d.version = n.version
  RETURNING d.kind || ', ' || d.id AS name
), asked AS (
  SELECT array_agg(n.kind || ', ' || n.id) AS names FROM unnest($1::text[], $2::text[]) AS n (kind, id)
)
SELECT expect_all('doc', (SELECT names FROM asked), array_agg(name)) FROM gone`,
)
