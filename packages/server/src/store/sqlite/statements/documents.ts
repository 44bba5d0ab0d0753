/** Documents: workflows, cron entries, runs and the like. */

export const FIND_DOC = `
-- Finds the document of this kind and id.
SELECT * FROM docs WHERE kind = ? AND id = ?`

export const FIND_DUE_DOCS = `
-- Finds the documents to which something must happen by this instant, earliest first.
SELECT *
FROM docs INDEXED BY docs_wake
WHERE wake_at IS NOT NULL AND wake_at <= ?
ORDER BY wake_at, kind, id
LIMIT +?`

export const FIND_DOCS_BETWEEN = `
-- Finds the documents of a kind from one id (or above another) up to a third, by id.
SELECT *
FROM docs
WHERE kind = @kind AND id >= @from AND id > @after AND id < @to
ORDER BY id
LIMIT +@limit`

export const LAST_DOCS = `
-- Finds the documents of a kind, highest id first.
SELECT * FROM docs WHERE kind = ? ORDER BY id DESC LIMIT +?`

export const DOCS_BELOW = `
-- Finds the documents of a kind below this id, highest first.
SELECT * FROM docs WHERE kind = ? AND id < ? ORDER BY id DESC LIMIT +?`

export const DOCS_AFTER = `
-- Finds every document above this kind and id, by kind and id.
SELECT * FROM docs WHERE (kind, id) > (?, ?) ORDER BY kind, id LIMIT +?`

export const INSERT_DOC = `
-- Adds a document in this version.
INSERT INTO docs (wake_at, body, kind, id, version) VALUES (?, ?, ?, ?, ?)`

export const UPDATE_DOC = `
-- Rewrites the document of this kind and id, if it is still in the version that was read.
UPDATE docs SET wake_at = ?, body = ?, version = version + 1
WHERE kind = ? AND id = ? AND version = ?`

export const DELETE_DOC = `
-- Removes the document of this kind and id, if it is still in the version that was read.
DELETE FROM docs WHERE kind = ? AND id = ? AND version = ?`

export const NEXT_DOC_WAKE = `
-- Finds the nearest instant at which something must happen to a document.
SELECT wake_at
FROM docs INDEXED BY docs_wake
WHERE wake_at IS NOT NULL
ORDER BY wake_at
LIMIT 1`
