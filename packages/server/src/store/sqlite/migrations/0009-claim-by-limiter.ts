/**
 * The limiter of a job stands in the index by which jobs are handed out, so that those who must wait for one are passed
 * over without being looked up. A job without a limiter pays one byte for it.
 */
export const claimByLimiter = `
DROP INDEX jobs_claim;
CREATE INDEX jobs_claim ON jobs (queue, priority DESC, seq, limit_key) WHERE state = 'available';
`
