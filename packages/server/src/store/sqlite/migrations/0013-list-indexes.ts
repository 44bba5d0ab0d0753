/**
 * The ways to lists of jobs (`store/job-lists.ts`). Jobs that end well are in three of them: when they came, when they
 * ended, and who did them. The others hold only jobs with an error.
 */
export const listIndexes = `
CREATE INDEX jobs_error ON jobs (error_type, id) WHERE error_type IS NOT NULL;
CREATE INDEX jobs_timeout ON jobs (timeout_kind, id) WHERE timeout_kind IS NOT NULL;
CREATE INDEX jobs_worked ON jobs (worker_id, id) WHERE state <> 'active' AND worker_id IS NOT NULL;
CREATE INDEX jobs_created ON jobs (created_at, id);
CREATE INDEX jobs_ended ON jobs (coalesce(completed_at, cancelled_at, discarded_at), id)
  WHERE coalesce(completed_at, cancelled_at, discarded_at) IS NOT NULL;
`
