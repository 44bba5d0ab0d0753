/**
 * Documents: every record that is neither a job nor a worker. And what ties a job to others: its owner (`kind/id`) and
 * the step it is, the fingerprint it is unique by, the limiter it waits for, its tenant. Most jobs have none of these,
 * so the indexes are partial: such a job costs nothing in them.
 */
export const documents = `
CREATE TABLE docs (
  kind     TEXT    NOT NULL,
  id       TEXT    NOT NULL,
  version  INTEGER NOT NULL,
  wake_at  INTEGER,
  body     TEXT    NOT NULL,           -- JSON
  PRIMARY KEY (kind, id)
);
CREATE INDEX docs_wake ON docs (wake_at) WHERE wake_at IS NOT NULL;

ALTER TABLE jobs ADD COLUMN owner TEXT;
ALTER TABLE jobs ADD COLUMN step TEXT;
ALTER TABLE jobs ADD COLUMN unique_key TEXT;
ALTER TABLE jobs ADD COLUMN limit_key TEXT;
ALTER TABLE jobs ADD COLUMN tenant TEXT;
CREATE INDEX jobs_owner ON jobs (owner, id) WHERE owner IS NOT NULL;
CREATE INDEX jobs_unique ON jobs (unique_key) WHERE unique_key IS NOT NULL;
CREATE INDEX jobs_limited ON jobs (limit_key, state) WHERE limit_key IS NOT NULL;
-- Waiting jobs that have a deadline, nearest first.
CREATE INDEX jobs_deadline ON jobs (queue, priority DESC, wake_at, seq) WHERE state = 'available' AND wake_at IS NOT NULL;
`
