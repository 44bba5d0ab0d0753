/**
 * What jobs are listed by, besides their state and tenant: the type of the last error and the limit it ran into, and tags.
 * From now on `worker_id` also says who held a job last. An older server writes none of it: jobs that it ends while both
 * are at work are not found by it.
 */
import type { Migration } from './migrate.ts'

export const listKeys: Migration = {
  name: '0007-list-keys',
  kind: 'expand',
  sql: `
ALTER TABLE jobs
  ADD COLUMN error_type    text COLLATE "C",   -- of the last error, its beginning
  ADD COLUMN timeout_kind  text COLLATE "C";   -- of the last error

CREATE TABLE job_tags (
  tag  text COLLATE "C" NOT NULL,              -- its beginning
  id   text COLLATE "C" NOT NULL,              -- of the job
  PRIMARY KEY (tag, id)
) WITH (autovacuum_vacuum_scale_factor = 0.05);
`,
}
