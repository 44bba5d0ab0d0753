/** Begin and end of transactions, and the look ahead. */
import { statement } from './statement.ts'

export const BEGIN = statement('begin', 'BEGIN')
export const COMMIT = statement('commit', 'COMMIT')
export const BE_PATIENT = statement(
  'be_patient',
  `
-- Lets this transaction be silent for so long before the database ends it.
SELECT set_config('idle_in_transaction_session_timeout', $1, true)`,
)
export const ROLLBACK = statement('rollback', 'ROLLBACK')

export const LOOK = statement(
  'look',
  `
-- Sees the signs of life and when workers, jobs and documents want to be woken; the queues and the types of these names.
SELECT 'life', outages, NULL, NULL, NULL, alive_at,
  (SELECT wake_at FROM workers WHERE wake_at IS NOT NULL ORDER BY wake_at LIMIT 1),
  (SELECT wake_at FROM jobs WHERE wake_at IS NOT NULL ORDER BY wake_at LIMIT 1),
  (SELECT wake_at FROM docs WHERE wake_at IS NOT NULL ORDER BY wake_at LIMIT 1)
FROM life
WHERE only_one
UNION ALL
SELECT 'queue', name, config, NULL, NULL, version, created_at, paused_at, draining_at
FROM queues
WHERE name = ANY ($1::text[])
UNION ALL
SELECT 'type', type, asked, caps, sent, updated_at, NULL, NULL, NULL
FROM types
WHERE type = ANY ($2::text[])`,
)

export const EXPECT_UNCHANGED = statement(
  'expect_unchanged',
  `
-- Ends the transaction unless all is as its server remembered it: the signs of life; nothing wants to be woken by $3 (null: this
-- was not asked for); no job has one of these ids; and the queues and types of these names, as one text each (null: there are
-- none).
SELECT expect_all('what was', ARRAY['remembered'], NULL)
FROM life
WHERE only_one AND (
  alive_at IS DISTINCT FROM $1::bigint OR outages <> $2
  OR (SELECT wake_at FROM workers WHERE wake_at IS NOT NULL ORDER BY wake_at LIMIT 1) <= $3::bigint
  OR (SELECT wake_at FROM jobs WHERE wake_at IS NOT NULL ORDER BY wake_at LIMIT 1) <= $3::bigint
  OR (SELECT wake_at FROM docs WHERE wake_at IS NOT NULL ORDER BY wake_at LIMIT 1) <= $3::bigint
  OR EXISTS (SELECT 1 FROM jobs WHERE id = ANY ($4::text[]))
  OR (
    SELECT string_agg(concat_ws(' ', name, version, created_at), ';' ORDER BY name)
    FROM queues
    WHERE name = ANY ($5::text[])
  ) IS DISTINCT FROM $6::text
  OR (
    SELECT string_agg(concat_ws(' ', type, updated_at, asked, caps, sent), ';' ORDER BY type)
    FROM types
    WHERE type = ANY ($7::text[])
  ) IS DISTINCT FROM $8::text
)`,
)
