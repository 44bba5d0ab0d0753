/** What the store and the server remember of themselves. */

export const FIND_META = `
-- Finds a remembered value.
SELECT value FROM meta WHERE key = ?`

export const PUT_META = `
-- Remembers a value.
INSERT OR REPLACE INTO meta (key, value) VALUES (?, ?)`

export const DELETE_META = `
-- Forgets a remembered value.
DELETE FROM meta WHERE key = ?`

export const SIZES = `
-- Counts the rows of every kind.
SELECT
  (SELECT count(*) FROM queues), (SELECT count(*) FROM types), (SELECT count(*) FROM workers),
  (SELECT count(*) FROM notices), (SELECT count(*) FROM jobs), (SELECT count(*) FROM checkpoints),
  (SELECT count(*) FROM tombstones), (SELECT count(*) FROM events), (SELECT count(*) FROM docs)`

export const LAST_TOMBSTONE = `
-- Finds the place of the newest tombstone.
SELECT max(place) FROM tombstones`

export const SQLITE_VERSION = `
-- Finds the version of SQLite.
SELECT sqlite_version()`

/** Removes everything, for the test bench. */
export const RESET = `
BEGIN IMMEDIATE;
DELETE FROM jobs;
DELETE FROM bodies;
DELETE FROM tags;
DELETE FROM counts;
DELETE FROM tombstones;
DELETE FROM checkpoints;
DELETE FROM docs;
DELETE FROM workers;
DELETE FROM notices;
DELETE FROM queues;
DELETE FROM types;
DELETE FROM events;
DELETE FROM texts;
DELETE FROM meta;
COMMIT;
`
