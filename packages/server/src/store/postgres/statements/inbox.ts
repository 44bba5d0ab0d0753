/** The inbox. */
import { statement } from './statement.ts'

export const LOCK_INBOX = statement(
  'lock_inbox',
  `
-- Finds and locks what lies in the inbox, oldest first; bodies of at most $2 bytes with it. Skips what others hold.
SELECT id, CASE WHEN octet_length(body) <= $2 THEN body END
FROM inbox
ORDER BY place
LIMIT $1
FOR UPDATE SKIP LOCKED`,
)

export const DELETE_FROM_INBOX = statement(
  'delete_from_inbox',
  `
-- Removes what was admitted, or was there already.
DELETE FROM inbox WHERE id = ANY ($1::text[])`,
)

export const REFUSE_FROM_INBOX = statement(
  'refuse_from_inbox',
  `
-- Lays what was refused aside, each with the reason.
WITH refused AS (
  DELETE FROM inbox i
  USING unnest($1::text[], $2::text[], $3::bigint[]) AS r (id, error, refused_at)
  WHERE i.id = r.id
  RETURNING i.id, i.body, r.error, r.refused_at
)
INSERT INTO inbox_refused (id, body, error, refused_at) SELECT id, body, error, refused_at FROM refused`,
)

export const PRUNE_REFUSED = statement(
  'prune_refused',
  `
-- Removes what was refused, but the newest $1.
DELETE FROM inbox_refused WHERE place <= (SELECT max(place) FROM inbox_refused) - $1::bigint`,
)

export const INBOX_AFTER = statement(
  'inbox_after',
  `
-- Finds what lies in the inbox, oldest first.
SELECT id, body, place FROM inbox WHERE place > $1 ORDER BY place LIMIT $2`,
)

export const REFUSED_AFTER = statement(
  'refused_after',
  `
-- Finds what was refused, oldest first.
SELECT id, body, error, refused_at, place FROM inbox_refused WHERE place > $1 ORDER BY place LIMIT $2`,
)

export const RESTORE_INBOX = statement(
  'restore_inbox',
  `
-- Adds to the inbox, in the order of the list.
INSERT INTO inbox (id, body)
SELECT id, body FROM unnest($1::text[], $2::text[]) WITH ORDINALITY AS i (id, body, n) ORDER BY n`,
)

export const RESTORE_REFUSED = statement(
  'restore_refused',
  `
-- Adds what was refused, in the order of the list.
INSERT INTO inbox_refused (id, body, error, refused_at)
SELECT id, body, error, refused_at
FROM unnest($1::text[], $2::text[], $3::text[], $4::bigint[]) WITH ORDINALITY AS r (id, body, error, refused_at, n)
ORDER BY n`,
)
