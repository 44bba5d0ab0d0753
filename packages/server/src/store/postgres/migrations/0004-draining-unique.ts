/**
 * Queues that are drained; an older server drains none and would still take jobs. And the index of fingerprints knows the
 * state of a job: work that is done again and again has many jobs that are over, and the one that is not must be found
 * without looking at them.
 */
import type { Migration } from './migrate.ts'

export const drainingUnique: Migration = {
  name: '0004-draining-unique',
  kind: 'expand',
  sql: `
ALTER TABLE queues ADD COLUMN draining_at bigint;
DROP INDEX jobs_unique;
CREATE INDEX jobs_unique ON jobs (unique_key, state) WHERE unique_key IS NOT NULL;
`,
}
