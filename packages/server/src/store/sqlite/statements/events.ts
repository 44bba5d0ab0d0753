/** The event log. */

export const INSERT_EVENT = `
-- Appends an event to the log.
INSERT INTO events (sequence, type, at, subject, queue, job_type, data) VALUES (?, ?, ?, ?, ?, ?, ?)`

export const FIND_EVENT = `
-- Finds the event at this place of the log.
SELECT * FROM events WHERE sequence = ?`

export const FIND_EVENTS_AFTER = `
-- Finds the events after this place of the log, oldest first.
SELECT * FROM events WHERE sequence > ? ORDER BY sequence LIMIT +?`

const AMONG = `
SELECT *
FROM events
WHERE sequence > @above AND sequence < @below
  AND (@types = '[]' OR type IN (SELECT value FROM json_each(@types)))
ORDER BY sequence`

export const FIND_EVENTS_AMONG = `
-- Finds the events of some types (none: of any) between two places of the log, oldest first.
${AMONG} LIMIT +@limit`

export const FIND_LAST_EVENTS_AMONG = `
-- The same, newest first.
${AMONG} DESC LIMIT +@limit`

export const FIRST_EVENT = `
-- Finds the oldest event: its place and its instant.
SELECT sequence, at FROM events ORDER BY sequence LIMIT 1`

export const LAST_EVENT = `
-- Finds the place of the newest event.
SELECT max(sequence) FROM events`

export const FIRST_EVENT_SINCE = `
-- Finds the first place below an end of the log whose event is not from before this instant.
SELECT sequence FROM events WHERE sequence < ? AND at >= ? ORDER BY sequence LIMIT 1`

export const DELETE_EVENTS = `
-- Removes the events below this place of the log.
DELETE FROM events WHERE sequence < ?`
