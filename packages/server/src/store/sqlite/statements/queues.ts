/** Queues and policies of types. */

export const FIND_QUEUE = `
-- Finds the queue with this name.
SELECT * FROM queues WHERE name = ?`

export const LIST_QUEUES = `
-- Finds all queues.
SELECT * FROM queues ORDER BY name`

export const QUEUES_PAGE = `
-- Finds some of the queues, by name.
SELECT * FROM queues ORDER BY name LIMIT +@limit OFFSET +@offset`

export const FIRST_QUEUES = `
-- Finds the queues that came first.
SELECT * FROM queues ORDER BY created_at, name LIMIT +?`

export const QUEUE_TOTALS = `
-- Counts the queues, and those that are paused.
SELECT count(*), count(paused_at) FROM queues`

export const INSERT_QUEUE = `
-- Adds a queue in its first version, unless it is there already.
INSERT INTO queues (created_at, paused_at, draining_at, config, name, version) VALUES (?, ?, ?, ?, ?, 1)
ON CONFLICT (name) DO NOTHING`

export const RESTORE_QUEUE = `
-- Adds a queue in this version.
INSERT INTO queues (created_at, paused_at, draining_at, config, name, version) VALUES (?, ?, ?, ?, ?, ?)`

export const UPDATE_QUEUE = `
-- Rewrites the queue with this name, if it is still in the version that was read.
UPDATE queues SET created_at = ?, paused_at = ?, draining_at = ?, config = ?, version = version + 1
WHERE name = ? AND version = ?`

export const FIND_TYPE = `
-- Finds the policy of a type.
SELECT * FROM types WHERE type = ?`

export const LIST_TYPES = `
-- Finds the policies of all types.
SELECT * FROM types ORDER BY type`

export const PUT_TYPE = `
-- Adds or replaces the policy of a type.
INSERT OR REPLACE INTO types (type, asked, caps, sent, updated_at) VALUES (?, ?, ?, ?, ?)`

export const RESTORE_TYPE = `
-- Adds the policy of a type.
INSERT INTO types (type, asked, caps, sent, updated_at) VALUES (?, ?, ?, ?, ?)`

export const DELETE_TYPE = `
-- Removes the policy of a type.
DELETE FROM types WHERE type = ?`
