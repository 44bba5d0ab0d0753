/**
 * What jobs are listed by, besides their state and tenant: the type of the last error and the limit it ran into, and tags.
 * Jobs without errors and tags cost nothing in it. From now on `worker_id` also says who held a job last.
 */
export const listKeys = `
ALTER TABLE jobs ADD COLUMN error_type TEXT;     -- of the last error, its beginning
ALTER TABLE jobs ADD COLUMN timeout_kind TEXT;   -- of the last error

CREATE TABLE tags (
  tag    TEXT    NOT NULL,            -- its beginning
  id     TEXT    NOT NULL,            -- of the job
  place  INTEGER NOT NULL,            -- of the job
  PRIMARY KEY (tag, id)
) WITHOUT ROWID;
`
