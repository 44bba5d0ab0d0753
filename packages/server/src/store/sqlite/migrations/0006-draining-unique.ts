/**
 * Queues that are drained. And the index of fingerprints knows the state of a job: work that is done again and again has
 * many jobs that are over, and the one that is not must be found without looking at them.
 */
export const drainingUnique = `
ALTER TABLE queues ADD COLUMN draining_at INTEGER;
DROP INDEX jobs_unique;
CREATE INDEX jobs_unique ON jobs (unique_key, state) WHERE unique_key IS NOT NULL;
`
