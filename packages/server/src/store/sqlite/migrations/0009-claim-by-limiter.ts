/**
 * The limiter of a job stands in the index by which jobs are handed out, so that jobs that wait for their limiter are
 * skipped without reading their rows. A job without a limiter pays one byte for it.
 */
export const claimByLimiter = `
DROP INDEX jobs_claim;
CREATE INDEX jobs_claim ON jobs (queue, priority DESC, seq, limit_key) WHERE state = 'available';
`
