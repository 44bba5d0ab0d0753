/** Texts that many jobs share. */
import { statement } from './statement.ts'

export const ALL_TEXTS = statement(
  'all_texts',
  `
-- Finds texts that rows have in common.
SELECT place, text FROM texts LIMIT $1`,
)

export const FIND_TEXTS = statement(
  'find_texts',
  `
-- Finds the texts at these places.
SELECT place, text FROM texts WHERE place = ANY ($1::bigint[])`,
)

export const INSERT_TEXTS = statement(
  'insert_texts',
  `
-- Adds texts that rows have in common, where they are missing.
INSERT INTO texts (place, text)
SELECT n.place, n.text
FROM unnest($1::bigint[], $2::text[]) AS n (place, text)
ORDER BY n.place
ON CONFLICT (place) DO NOTHING`,
)
