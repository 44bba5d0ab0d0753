/** Jobs to be decided about: by id, to be claimed, due, held, owned, unique; and their ranks. */

/** A job's row, and before it what the client sent if it lies in `bodies`. */
export const WHOLE_JOB = `iif(j.body IS NULL, (SELECT b.body FROM bodies b WHERE b.place = j.place), NULL) AS aside, j.*`

export const FIND_JOB = `
-- Finds the job with this id.
SELECT ${WHOLE_JOB}
FROM jobs j
WHERE j.id = ?`

export const FIND_CLAIMABLE = `
-- Finds the available jobs of a queue in the order in which they are handed out.
SELECT ${WHOLE_JOB}
FROM jobs j INDEXED BY jobs_claim
WHERE j.state = 'available' AND j.queue = ?
ORDER BY j.priority DESC, j.seq
LIMIT +?`

const UNLIMITED = `(j.limit_key IS NULL OR j.limit_key NOT IN (SELECT value FROM json_each(@without)))`

export const FIND_CLAIMABLE_WITHOUT = `
-- Finds the available jobs of a queue, without those of some limiters, in the order in which they are handed out. What is
-- passed over is seen in the index alone.
SELECT ${WHOLE_JOB}
FROM jobs j INDEXED BY jobs_claim
WHERE j.state = 'available' AND j.queue = @queue
  AND ${UNLIMITED}
ORDER BY j.priority DESC, j.seq
LIMIT +@limit`

export const FIND_CLAIMABLE_OF_TENANT = `
-- Finds the available jobs of a tenant in a queue, without those of some limiters, in the order in which they are handed out.
SELECT ${WHOLE_JOB}
FROM jobs j INDEXED BY jobs_tenant_claim
WHERE j.state = 'available' AND j.queue = @queue AND j.tenant = @tenant
  AND ${UNLIMITED}
ORDER BY j.priority DESC, j.seq
LIMIT +@limit`

export const FIND_DEADLINED = `
-- Finds the available jobs of a queue that have a deadline, by priority and then the nearest first.
SELECT ${WHOLE_JOB}
FROM jobs j INDEXED BY jobs_deadline
WHERE j.state = 'available' AND j.wake_at IS NOT NULL AND j.queue = @queue
  AND ${UNLIMITED}
ORDER BY j.priority DESC, j.wake_at, j.seq
LIMIT +@limit`

export const FIND_DEADLINED_OF_TENANT = `
-- Finds the available jobs of a tenant in a queue that have a deadline, by priority and then the nearest first.
SELECT ${WHOLE_JOB}
FROM jobs j INDEXED BY jobs_tenant_deadline
WHERE j.state = 'available' AND j.wake_at IS NOT NULL AND j.queue = @queue AND j.tenant = @tenant
  AND ${UNLIMITED}
ORDER BY j.priority DESC, j.wake_at, j.seq
LIMIT +@limit`

export const FIND_UNDATED = `
-- Finds the available jobs of a queue that have no deadline, above a priority, in the order in which they are handed out.
SELECT ${WHOLE_JOB}
FROM jobs j INDEXED BY jobs_claim
WHERE j.state = 'available' AND j.queue = @queue AND j.wake_at IS NULL
  AND j.priority > @above
  AND ${UNLIMITED}
ORDER BY j.priority DESC, j.seq
LIMIT +@limit`

export const FIND_UNDATED_OF_TENANT = `
-- Finds the available jobs of a tenant in a queue that have no deadline, above a priority, in the order in which they are handed out.
SELECT ${WHOLE_JOB}
FROM jobs j INDEXED BY jobs_tenant_claim
WHERE j.state = 'available' AND j.queue = @queue AND j.tenant = @tenant AND j.wake_at IS NULL
  AND j.priority > @above
  AND ${UNLIMITED}
ORDER BY j.priority DESC, j.seq
LIMIT +@limit`

const IN_LINE = `
  FROM jobs INDEXED BY jobs_claim
  WHERE state = 'available' AND queue = @queue
  ORDER BY priority DESC, seq
  LIMIT +@look OFFSET +@skip`

export const LINE_SEQUENCES = `
-- Finds the sequences of the available jobs of a queue, by priority and sequence. Reads the index alone.
SELECT seq ${IN_LINE}`

export const LINE_PRIORITIES = `
-- Finds how many of them are of which priority, in the same order: a row for each job would cost several times as much.
SELECT priority, count(*)
FROM (
  SELECT priority ${IN_LINE}
)
GROUP BY priority
ORDER BY priority DESC`

export const DATED_LINE = `
-- Finds the places and deadlines of the available jobs of a queue that have one, by priority and then the nearest first.
-- Reads the index alone.
SELECT priority, seq, wake_at
FROM jobs INDEXED BY jobs_deadline
WHERE state = 'available' AND wake_at IS NOT NULL AND queue = @queue
ORDER BY priority DESC, wake_at, seq
LIMIT +@look OFFSET +@skip`

export const JOB_IN_LINE = `
-- Finds the available job at a place of a queue, without a body that lies aside.
SELECT '' AS aside, j.*
FROM jobs j INDEXED BY jobs_claim
WHERE j.state = 'available' AND j.queue = @queue AND j.priority = @priority AND j.seq = @seq`

export const ROWS_AHEAD = `
-- Counts the available jobs of a queue before one of them: of higher priority, and of its own the earlier ones, those of
-- them without a deadline, and those with a nearer deadline. Each count reads so many entries of its index at most.
WITH earlier AS (
  SELECT wake_at
  FROM jobs INDEXED BY jobs_claim
  WHERE state = 'available' AND queue = @queue AND priority = @priority AND seq < @seq
  LIMIT +@look
)
SELECT
  (SELECT count(*) FROM (
    SELECT 1 FROM jobs INDEXED BY jobs_claim
    WHERE state = 'available' AND queue = @queue AND priority > @priority
    LIMIT +@look
  )),
  (SELECT count(*) FROM earlier),
  (SELECT count(*) FROM earlier WHERE wake_at IS NULL),
  (SELECT count(*) FROM (
    SELECT 1 FROM jobs INDEXED BY jobs_deadline
    WHERE state = 'available' AND wake_at IS NOT NULL AND queue = @queue AND priority = @priority
      AND (wake_at, seq) < (@wakeAt, @seq)
    LIMIT +@look
  ))`

export const OUTWAITED = `
-- Finds which of the jobs that are woken next are woken before the moment they wait for, without bodies that lie aside. Of
-- all others no more is read than says so.
SELECT '' AS aside, j.*
FROM (
  SELECT place
  FROM jobs INDEXED BY jobs_wake
  WHERE wake_at IS NOT NULL
  ORDER BY wake_at
  LIMIT +@look OFFSET +@skip
) woken CROSS JOIN jobs j ON j.place = woken.place
WHERE (@queue IS NULL OR j.queue = @queue)
  AND ((j.state = 'scheduled' AND j.wake_at < j.scheduled_at) OR (j.state = 'retryable' AND j.wake_at < j.next_retry_at))`

/** One after the other in the index; of jobs that are woken together, in the order of their places. */
const WAKING = `
  FROM jobs INDEXED BY jobs_wake
  WHERE wake_at IS NOT NULL AND wake_at >= @from AND wake_at <= @until
  ORDER BY wake_at
  LIMIT +@look OFFSET +@skip`

export const WAKES = `
-- Finds when the jobs are woken that are woken first in a stretch of time.
SELECT wake_at ${WAKING}`

export const WAKING_JOBS = `
-- Finds which of them are not over, without the bodies that lie aside.
SELECT '' AS aside, j.*
FROM (
  SELECT place ${WAKING}
) woken CROSS JOIN jobs j ON j.place = woken.place
WHERE j.state <> 'completed' AND j.state <> 'cancelled' AND j.state <> 'discarded'`

export const TENANT_COUNTS = `
-- Finds how many jobs a tenant has, by state.
SELECT state, count(*)
FROM jobs INDEXED BY jobs_tenant
WHERE tenant IS NOT NULL AND tenant = ?
GROUP BY state`

export const FIND_OLDEST_AVAILABLE = `
-- Finds the available jobs of a queue that have waited longest, oldest first: from each priority there is, the first so many.
WITH RECURSIVE bands (priority) AS (
  SELECT max(priority) FROM jobs INDEXED BY jobs_claim WHERE state = 'available' AND queue = @queue
  UNION ALL
  SELECT (
    SELECT max(j.priority)
    FROM jobs j INDEXED BY jobs_claim
    WHERE j.state = 'available' AND j.queue = @queue AND j.priority < bands.priority
  )
  FROM bands
  WHERE bands.priority IS NOT NULL
), oldest (place) AS (
  SELECT j.place
  FROM bands CROSS JOIN jobs j ON j.place IN (
    SELECT k.place
    FROM jobs k INDEXED BY jobs_claim
    WHERE k.state = 'available' AND k.queue = @queue AND k.priority = bands.priority
    ORDER BY k.seq
    LIMIT +@limit
  )
  ORDER BY j.seq
  LIMIT +@limit
)
SELECT ${WHOLE_JOB}
FROM oldest CROSS JOIN jobs j ON j.place = oldest.place
ORDER BY j.seq`

export const FIND_OWNED = `
-- Finds the jobs of an owner whose ids are above this one, by id.
SELECT ${WHOLE_JOB}
FROM jobs j INDEXED BY jobs_owner
WHERE j.owner = @owner AND j.id > @after
ORDER BY j.id
LIMIT +@limit`

export const FIND_LAST_OWNED = `
-- Finds the jobs of an owner with the highest ids, highest first.
SELECT ${WHOLE_JOB}
FROM jobs j INDEXED BY jobs_owner
WHERE j.owner = @owner
ORDER BY j.id DESC
LIMIT +@limit`

export const FIND_OWNED_OPEN = `
-- Finds the jobs of an owner that are not over, by id.
SELECT ${WHOLE_JOB}
FROM jobs j INDEXED BY jobs_owner
WHERE j.owner = @owner AND j.id > @after
  AND j.state <> 'completed' AND j.state <> 'cancelled' AND j.state <> 'discarded'
ORDER BY j.id
LIMIT +@limit`

export const FIND_UNIQUE = `
-- Finds the jobs with a fingerprint that are in one of these states, newest first.
SELECT ${WHOLE_JOB}
FROM jobs j INDEXED BY jobs_unique
WHERE j.unique_key = @key AND j.state IN (SELECT value FROM json_each(@states))
ORDER BY j.created_at DESC, j.place DESC
LIMIT +@limit`

export const COUNT_LIMITED = `
-- Counts the jobs in a state that wait for, or hold, a limiter.
SELECT count(*)
FROM jobs INDEXED BY jobs_limited
WHERE limit_key = @key AND state = @state`

export const FIND_HELD_BY = `
-- Finds the active jobs whose reservation names this worker.
SELECT ${WHOLE_JOB}
FROM jobs j INDEXED BY jobs_held
WHERE j.state = 'active' AND j.worker_id = ?
ORDER BY j.place`

export const SEE_HELD_BY = `
-- Finds the ids of the active jobs whose reservation names this worker.
SELECT id
FROM jobs INDEXED BY jobs_held
WHERE state = 'active' AND worker_id = ?
ORDER BY place`

export const FIND_DUE_JOBS = `
-- Finds the jobs to which something must happen by this instant, earliest first.
SELECT ${WHOLE_JOB}
FROM jobs j INDEXED BY jobs_wake
WHERE j.wake_at IS NOT NULL AND j.wake_at <= ?
ORDER BY j.wake_at, j.place
LIMIT +?`

export const FIND_OLDEST_DEAD_LETTERS = `
-- Finds the members of the dead-letter list, oldest first.
SELECT ${WHOLE_JOB}
FROM jobs j INDEXED BY jobs_dead_letter
WHERE j.dead_letter = 1
ORDER BY j.discarded_at, j.place
LIMIT +?`
