/**
 * Lists of jobs by state: without this index a list of the few that failed searches through all that did not. Jobs that
 * only wait, run and end well never touch it.
 */
export const jobsAside = `
CREATE INDEX jobs_aside ON jobs (state, id)
  WHERE state IN ('scheduled', 'pending', 'retryable', 'cancelled', 'discarded');
`
