/** Counts of jobs by queue and state, and ids of jobs that are gone. */
import { JOB_STATES } from '@curfew/core'

export const ADD_TO_COUNT = `
-- Adds to (or takes from) the number of jobs of a queue in a state.
INSERT INTO counts (state, queue, n) VALUES (?, ?, ?)
ON CONFLICT (state, queue) DO UPDATE SET n = n + excluded.n`

export const ALL_COUNTS = `
-- Finds the numbers of jobs by queue and state, dead letters apart.
SELECT queue, state, n
FROM counts
WHERE state <> 'dead_letter'`

export const COUNTS_OF = `
-- Finds the numbers of jobs of a queue by state, dead letters apart.
SELECT state, n
FROM counts
WHERE queue = ? AND state IN (${JOB_STATES.map((state) => `'${state}'`).join(', ')})`

export const TOTALS = `
-- Sums the numbers of jobs by state, dead letters apart.
SELECT state, sum(n)
FROM counts
WHERE state <> 'dead_letter'
GROUP BY state`

export const DEAD_LETTER_COUNTS = `
-- Finds how many dead letters each queue has.
SELECT queue, n AS count
FROM counts
WHERE state = 'dead_letter' AND n > 0
ORDER BY queue`

export const COUNT_DEAD_LETTERS = `
-- Sums the numbers of dead letters by queue (null: any).
SELECT total(n)
FROM counts
WHERE state = 'dead_letter'
  AND (@queue IS NULL OR queue = @queue)`

export const INSERT_TOMBSTONE = `
-- Remembers a job that is removed.
INSERT INTO tombstones (place, id) VALUES (?, ?)`

export const DELETE_TOMBSTONES = `
-- Forgets the removed jobs up to this place.
DELETE FROM tombstones WHERE place <= ?`

export const FIND_TOMBSTONE = `
-- Finds whether a removed job of this id is remembered.
SELECT 1 FROM tombstones WHERE id = ? LIMIT 1`

export const TOMBSTONES_AFTER = `
-- Finds the removed jobs that are remembered after this place, oldest first.
SELECT place, id FROM tombstones WHERE place > ? ORDER BY place LIMIT +?`
