/**
 * The same index, said so that SQLite can tell at the first comparison that a job on the straight way is not in it. For
 * a list of values it would build a little table at every single write of a job.
 */
export const jobsAsidePlainly = `
DROP INDEX jobs_aside;
CREATE INDEX jobs_aside ON jobs (state, id)
  WHERE state <> 'available' AND state <> 'active' AND state <> 'completed';
`
