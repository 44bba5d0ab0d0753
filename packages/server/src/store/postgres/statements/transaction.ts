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
