/**
 * Every statement, whole, ready to paste into a console. None asks for the time, adds to one, or chooses a state.
 *
 * "Locks" here means nothing by itself: writing happens in one `BEGIN IMMEDIATE` at a time, so whatever a transaction
 * finds stays as it is until it ends. The indexes of the paths that must not slow down with the depth of a queue are
 * named (`INDEXED BY`): should one ever not fit its query, the store refuses to open rather than scan.
 *
 * Trap: it is `LIMIT +?`, not `LIMIT ?`. SQLite looks at a bare parameter there while planning, and so would plan the
 * statement anew at each execution, which costs more than finding fifty jobs.
 */
import type { Database } from 'better-sqlite3'
import { JOB_STATES, type Instant, type JobState } from '@curfew/core'
import type {
  CheckpointRow,
  DocRow,
  EventRow,
  JobRow,
  NoticeRow,
  QueueRow,
  SizesRow,
  TypeRow,
  WorkerRow,
} from './rows.ts'
import type { Waking } from '../store.ts'
import { WideRows } from './wide-rows.ts'

// ---- Jobs ----

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

/** How many are ahead is counted in the order in which jobs are handed out. */
const outpaced = (order: string): string => `
SELECT id, ahead
FROM (
  SELECT id, wake_at, row_number() OVER (ORDER BY ${order}) - 1 AS ahead
  FROM (
    SELECT id, priority, seq, wake_at
    FROM jobs INDEXED BY jobs_claim
    WHERE state = 'available' AND queue = @queue
    ORDER BY priority DESC, seq
    LIMIT +@look
  )
)
WHERE wake_at IS NOT NULL AND wake_at < @from + (ahead + 1) * @gapMs
ORDER BY ahead
LIMIT +@limit`

export const OUTPACED = `
-- Finds which of the first available jobs of a queue have a deadline below a line that rises with their place.
${outpaced('priority DESC, seq')}`

export const OUTPACED_BY_DEADLINE = `
-- The same where those with a deadline come before those without, the nearest first.
${outpaced('priority DESC, wake_at IS NULL, wake_at, seq')}`

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
-- Finds which of the jobs that are woken first are woken before the moment they wait for.
SELECT ${WHOLE_JOB}
FROM (
  SELECT *
  FROM jobs INDEXED BY jobs_wake
  WHERE wake_at IS NOT NULL
  ORDER BY wake_at
  LIMIT +@look
) j
WHERE (@queue IS NULL OR j.queue = @queue)
  AND ((j.state = 'scheduled' AND j.wake_at < j.scheduled_at) OR (j.state = 'retryable' AND j.wake_at < j.next_retry_at))
ORDER BY j.wake_at
LIMIT +@limit`

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
  SELECT * ${WAKING}
) j
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

export const INSERT_JOB = `
-- Adds a job as it begins: nobody has claimed it, nothing has happened to it.
INSERT INTO jobs (
  id, version, state, queue, type, priority, seq, wake_at,
  created_at, anchor_at, limits_set_at, scheduled_at, expires_at, enqueued_at, result_ttl_ms,
  limits, retry, ceiling, parent, trace_id, given, life,
  owner, step, unique_key, limit_key, tenant, body,
  dead_letter, attempt, lease, interruptions, error_count, checkpoint_seq, errors
) VALUES (
  ?, ?, ?, ?, ?, ?, ?, ?,
  ?, ?, ?, ?, ?, ?, ?,
  ?, ?, ?, ?, ?, ?, ?,
  ?, ?, ?, ?, ?, ?,
  0, 0, 0, 0, 0, 0, ''
)`

export const INSERT_BODY = `
-- Adds what the client sent with the job at this place, where that is large.
INSERT INTO bodies (place, body) VALUES (?, ?)`

export const UPDATE_JOB = `
-- Rewrites the job with this id, if it is still in the version that was read.
UPDATE jobs SET
  state = ?, seq = ?, wake_at = ?, worker_id = iif(?, ?, worker_id), attempt = ?, lease = ?, enqueued_at = ?, started_at = ?, completed_at = ?, purge_at = ?,
  hold = ?, closed_by = ?, progress = ?, result = ?, life = ?,
  priority = ?, dead_letter = ?, interruptions = ?, anchor_at = ?, limits_set_at = ?, scheduled_at = ?, expires_at = ?, activated_at = ?, cancelled_at = ?,
  discarded_at = ?, reenqueued_at = ?, next_retry_at = ?, retry_delay_ms = ?, result_ttl_ms = ?, error_count = ?, checkpoint_seq = ?, limits = ?, retry = ?,
  ceiling = ?, cancel_reason = ?, error = ?, errors = ?, given = ?, owner = ?, step = ?, error_type = ?, timeout_kind = ?,
  version = version + 1
WHERE id = ? AND version = ?`

export const MOVE_JOB = `
-- Rewrites what a claim, a result or a sign of life changes in the job with this id, if it is still in the version that was read.
UPDATE jobs SET
  state = ?, seq = ?, wake_at = ?, worker_id = iif(?, ?, worker_id), attempt = ?, lease = ?, enqueued_at = ?, started_at = ?, completed_at = ?, purge_at = ?,
  hold = ?, closed_by = ?, progress = ?, result = ?, life = ?,
  version = version + 1
WHERE id = ? AND version = ?`

export const DELETE_JOB = `
-- Removes the job with this id, if it is still in the version that was read, and tells its place.
DELETE FROM jobs WHERE id = ? AND version = ? RETURNING place`

export const DELETE_BODY = `
-- Removes what the client sent with the job at this place.
DELETE FROM bodies WHERE place = ?`

export const INSERT_TAG = `
-- Notes that the job at this place has a tag.
INSERT INTO tags (tag, id, place) VALUES (?, ?, ?)`

export const DELETE_TAG = `
-- Removes the note that a job has a tag.
DELETE FROM tags WHERE tag = ? AND id = ?`

export const LIST_DEAD_LETTERS = `
-- Finds the members of the dead-letter list by queue, type and tenant (null: any), newest first.
SELECT ${WHOLE_JOB}
FROM jobs j INDEXED BY jobs_dead_letter
WHERE j.dead_letter = 1
  AND (@queue IS NULL OR j.queue = @queue)
  AND (@type IS NULL OR j.type = @type)
  AND (@tenant IS NULL OR j.tenant = @tenant)
ORDER BY j.discarded_at DESC, j.place DESC
LIMIT +@limit OFFSET +@offset`

export const COUNT_DEAD_LETTERS_AMONG = `
-- Counts the members of the dead-letter list by queue, type and tenant (null: any). Reads all of them.
SELECT count(*)
FROM jobs INDEXED BY jobs_dead_letter
WHERE dead_letter = 1
  AND (@queue IS NULL OR queue = @queue)
  AND (@type IS NULL OR type = @type)
  AND (@tenant IS NULL OR tenant = @tenant)`

export const JOBS_AFTER = `
-- Finds every job whose id is above this one, by id.
SELECT ${WHOLE_JOB}
FROM jobs j INDEXED BY jobs_id
WHERE j.id > ?
ORDER BY j.id
LIMIT +?`

export const LIST_ACTIVE_JOBS = `
-- Finds active jobs, without the bodies that lie aside.
SELECT '' AS aside, j.*
FROM jobs j INDEXED BY jobs_held
WHERE j.state = 'active'
LIMIT +?`

export const NEXT_JOB_WAKE = `
-- Finds the nearest instant at which something must happen to a job.
SELECT wake_at
FROM jobs INDEXED BY jobs_wake
WHERE wake_at IS NOT NULL
ORDER BY wake_at
LIMIT 1`

// ---- Counts and tombstones ----

export const ADD_TO_COUNT = `
-- Adds to (or takes from) the number of jobs of a queue in a state.
INSERT INTO counts (state, queue, n) VALUES (?, ?, ?)
ON CONFLICT (state, queue) DO UPDATE SET n = n + excluded.n`

export const ALL_COUNTS = `
-- Finds the numbers of jobs by queue and state, dead letters apart.
SELECT queue, state, n
FROM counts
WHERE state <> 'dead_letter'`

export const COUNTS_OF = `
-- Finds the numbers of jobs of a queue by state, dead letters apart.
SELECT state, n
FROM counts
WHERE queue = ? AND state IN (${JOB_STATES.map((state) => `'${state}'`).join(', ')})`

export const TOTALS = `
-- Sums the numbers of jobs by state, dead letters apart.
SELECT state, sum(n)
FROM counts
WHERE state <> 'dead_letter'
GROUP BY state`

export const DEAD_LETTER_COUNTS = `
-- Finds how many dead letters each queue has.
SELECT queue, n AS count
FROM counts
WHERE state = 'dead_letter' AND n > 0
ORDER BY queue`

export const COUNT_DEAD_LETTERS = `
-- Sums the numbers of dead letters by queue (null: any).
SELECT total(n)
FROM counts
WHERE state = 'dead_letter'
  AND (@queue IS NULL OR queue = @queue)`

export const INSERT_TOMBSTONE = `
-- Remembers a job that is removed.
INSERT INTO tombstones (place, id) VALUES (?, ?)`

export const DELETE_TOMBSTONES = `
-- Forgets the removed jobs up to this place.
DELETE FROM tombstones WHERE place <= ?`

export const FIND_TOMBSTONE = `
-- Finds whether a removed job of this id is remembered.
SELECT 1 FROM tombstones WHERE id = ? LIMIT 1`

export const TOMBSTONES_AFTER = `
-- Finds the removed jobs that are remembered after this place, oldest first.
SELECT place, id FROM tombstones WHERE place > ? ORDER BY place LIMIT +?`

// ---- Checkpoints ----

export const FIND_CHECKPOINT = `
-- Finds a job's checkpoint.
SELECT * FROM checkpoints WHERE job_id = ?`

export const CHECKPOINTS_AFTER = `
-- Finds the checkpoints of jobs whose id is above this one, by id.
SELECT * FROM checkpoints WHERE job_id > ? ORDER BY job_id LIMIT +?`

export const PUT_CHECKPOINT = `
-- Adds or replaces a job's checkpoint.
INSERT OR REPLACE INTO checkpoints (job_id, sequence, state, step_index, metadata, created_at) VALUES (?, ?, ?, ?, ?, ?)`

export const RESTORE_CHECKPOINT = `
-- Adds a job's checkpoint.
INSERT INTO checkpoints (job_id, sequence, state, step_index, metadata, created_at) VALUES (?, ?, ?, ?, ?, ?)`

export const DELETE_CHECKPOINT = `
-- Removes a job's checkpoint.
DELETE FROM checkpoints WHERE job_id = ?`

// ---- Documents ----

export const FIND_DOC = `
-- Finds the document of this kind and id.
SELECT * FROM docs WHERE kind = ? AND id = ?`

export const FIND_DUE_DOCS = `
-- Finds the documents to which something must happen by this instant, earliest first.
SELECT *
FROM docs INDEXED BY docs_wake
WHERE wake_at IS NOT NULL AND wake_at <= ?
ORDER BY wake_at, kind, id
LIMIT +?`

export const FIND_DOCS_BETWEEN = `
-- Finds the documents of a kind from one id (or above another) up to a third, by id.
SELECT *
FROM docs
WHERE kind = @kind AND id >= @from AND id > @after AND id < @to
ORDER BY id
LIMIT +@limit`

export const LAST_DOCS = `
-- Finds the documents of a kind, highest id first.
SELECT * FROM docs WHERE kind = ? ORDER BY id DESC LIMIT +?`

export const DOCS_BELOW = `
-- Finds the documents of a kind below this id, highest first.
SELECT * FROM docs WHERE kind = ? AND id < ? ORDER BY id DESC LIMIT +?`

export const DOCS_AFTER = `
-- Finds every document above this kind and id, by kind and id.
SELECT * FROM docs WHERE (kind, id) > (?, ?) ORDER BY kind, id LIMIT +?`

export const INSERT_DOC = `
-- Adds a document in this version.
INSERT INTO docs (wake_at, body, kind, id, version) VALUES (?, ?, ?, ?, ?)`

export const UPDATE_DOC = `
-- Rewrites the document of this kind and id, if it is still in the version that was read.
UPDATE docs SET wake_at = ?, body = ?, version = version + 1
WHERE kind = ? AND id = ? AND version = ?`

export const DELETE_DOC = `
-- Removes the document of this kind and id, if it is still in the version that was read.
DELETE FROM docs WHERE kind = ? AND id = ? AND version = ?`

export const NEXT_DOC_WAKE = `
-- Finds the nearest instant at which something must happen to a document.
SELECT wake_at
FROM docs INDEXED BY docs_wake
WHERE wake_at IS NOT NULL
ORDER BY wake_at
LIMIT 1`

// ---- Workers ----

export const FIND_WORKER = `
-- Finds the worker with this id.
SELECT * FROM workers WHERE id = ?`

export const FIND_DUE_WORKERS = `
-- Finds the workers to which something must happen by this instant, earliest first.
SELECT *
FROM workers INDEXED BY workers_wake
WHERE wake_at IS NOT NULL AND wake_at <= ?
ORDER BY wake_at
LIMIT +?`

export const INSERT_WORKER = `
-- Adds a worker in this version.
INSERT INTO workers (
  known, last_seen_at, wake_at, died_at, created_at, last_beat_at, state, draining, directive, registered, active_jobs,
  beat_seq, pid, concurrency, hostname, started_at, queues, labels, handlers, beat,
  id, version
) VALUES (
  ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?,
  ?, ?, ?, ?, ?, ?, ?, ?, ?,
  ?, ?
)`

export const UPDATE_WORKER = `
-- Rewrites the worker with this id, if it is still in the version that was read.
UPDATE workers SET
  known = ?, last_seen_at = ?, wake_at = ?, died_at = ?, created_at = ?, last_beat_at = ?, state = ?, draining = ?, directive = ?, registered = ?, active_jobs = ?,
  beat_seq = ?, pid = ?, concurrency = ?, hostname = ?, started_at = ?, queues = ?, labels = ?, handlers = ?, beat = ?,
  version = version + 1
WHERE id = ? AND version = ?`

export const DELETE_WORKER = `
-- Removes the worker with this id, if it is still in the version that was read.
DELETE FROM workers WHERE id = ? AND version = ?`

export const LIST_WORKERS = `
-- Finds all workers.
SELECT * FROM workers ORDER BY id`

export const WORKERS_PAGE = `
-- Finds some of the workers that are not dead, by id.
SELECT * FROM workers WHERE died_at IS NULL ORDER BY id LIMIT +@limit OFFSET +@offset`

export const WORKER_TOTALS = `
-- Counts the workers that are not dead by state, and those of them that are known and silent since.
SELECT state, count(*), count(*) FILTER (WHERE known AND last_seen_at < ?)
FROM workers
WHERE died_at IS NULL
GROUP BY state`

export const NEXT_WORKER_WAKE = `
-- Finds the nearest instant at which something must happen to a worker.
SELECT wake_at
FROM workers INDEXED BY workers_wake
WHERE wake_at IS NOT NULL
ORDER BY wake_at
LIMIT 1`

export const FIND_NOTICES = `
-- Finds what a worker is to be told, newest first.
SELECT worker_id, job_id, lease, reason, at
FROM notices INDEXED BY notices_worker
WHERE worker_id = ?
ORDER BY place DESC
LIMIT +?`

export const NOTICES_AFTER = `
-- Finds what workers are to be told after this place, oldest first.
SELECT worker_id, job_id, lease, reason, at, place
FROM notices
WHERE place > ?
ORDER BY place
LIMIT +?`

export const INSERT_NOTICE = `
-- Adds something that a worker is to be told.
INSERT INTO notices (worker_id, job_id, lease, reason, at) VALUES (?, ?, ?, ?, ?)`

export const DELETE_NOTICE = `
-- Removes what a worker was told of an attempt.
DELETE FROM notices WHERE worker_id = ? AND job_id = ? AND lease = ?`

export const DELETE_NOTICES = `
-- Removes all that a worker was to be told.
DELETE FROM notices WHERE worker_id = ?`

// ---- Queues and types ----

export const FIND_QUEUE = `
-- Finds the queue with this name.
SELECT * FROM queues WHERE name = ?`

export const LIST_QUEUES = `
-- Finds all queues.
SELECT * FROM queues ORDER BY name`

export const QUEUES_PAGE = `
-- Finds some of the queues, by name.
SELECT * FROM queues ORDER BY name LIMIT +@limit OFFSET +@offset`

export const FIRST_QUEUES = `
-- Finds the queues that came first.
SELECT * FROM queues ORDER BY created_at, name LIMIT +?`

export const QUEUE_TOTALS = `
-- Counts the queues, and those that are paused.
SELECT count(*), count(paused_at) FROM queues`

export const INSERT_QUEUE = `
-- Adds a queue in its first version, unless it is there already.
INSERT INTO queues (created_at, paused_at, draining_at, config, name, version) VALUES (?, ?, ?, ?, ?, 1)
ON CONFLICT (name) DO NOTHING`

export const RESTORE_QUEUE = `
-- Adds a queue in this version.
INSERT INTO queues (created_at, paused_at, draining_at, config, name, version) VALUES (?, ?, ?, ?, ?, ?)`

export const UPDATE_QUEUE = `
-- Rewrites the queue with this name, if it is still in the version that was read.
UPDATE queues SET created_at = ?, paused_at = ?, draining_at = ?, config = ?, version = version + 1
WHERE name = ? AND version = ?`

export const FIND_TYPE = `
-- Finds the policy of a type.
SELECT * FROM types WHERE type = ?`

export const LIST_TYPES = `
-- Finds the policies of all types.
SELECT * FROM types ORDER BY type`

export const PUT_TYPE = `
-- Adds or replaces the policy of a type.
INSERT OR REPLACE INTO types (type, asked, caps, sent, updated_at) VALUES (?, ?, ?, ?, ?)`

export const RESTORE_TYPE = `
-- Adds the policy of a type.
INSERT INTO types (type, asked, caps, sent, updated_at) VALUES (?, ?, ?, ?, ?)`

export const DELETE_TYPE = `
-- Removes the policy of a type.
DELETE FROM types WHERE type = ?`

// ---- Events ----

export const INSERT_EVENT = `
-- Appends an event to the log.
INSERT INTO events (sequence, type, at, subject, queue, job_type, data) VALUES (?, ?, ?, ?, ?, ?, ?)`

export const FIND_EVENT = `
-- Finds the event at this place of the log.
SELECT * FROM events WHERE sequence = ?`

export const FIND_EVENTS_AFTER = `
-- Finds the events after this place of the log, oldest first.
SELECT * FROM events WHERE sequence > ? ORDER BY sequence LIMIT +?`

export const FIRST_EVENT = `
-- Finds the oldest event: its place and its instant.
SELECT sequence, at FROM events ORDER BY sequence LIMIT 1`

export const LAST_EVENT = `
-- Finds the place of the newest event.
SELECT max(sequence) FROM events`

export const FIRST_EVENT_SINCE = `
-- Finds the first place below an end of the log whose event is not from before this instant.
SELECT sequence FROM events WHERE sequence < ? AND at >= ? ORDER BY sequence LIMIT 1`

export const DELETE_EVENTS = `
-- Removes the events below this place of the log.
DELETE FROM events WHERE sequence < ?`

// ---- Shared texts ----

export const ALL_TEXTS = `
-- Finds the texts that rows have in common.
SELECT place, text FROM texts`

export const INSERT_TEXT = `
-- Adds a text that rows have in common.
INSERT INTO texts (place, text) VALUES (?, ?)`

// ---- What the store and the server remember of themselves ----

export const FIND_META = `
-- Finds a remembered value.
SELECT value FROM meta WHERE key = ?`

export const PUT_META = `
-- Remembers a value.
INSERT OR REPLACE INTO meta (key, value) VALUES (?, ?)`

export const DELETE_META = `
-- Forgets a remembered value.
DELETE FROM meta WHERE key = ?`

export const SIZES = `
-- Counts the rows of every kind.
SELECT
  (SELECT count(*) FROM queues), (SELECT count(*) FROM types), (SELECT count(*) FROM workers),
  (SELECT count(*) FROM notices), (SELECT count(*) FROM jobs), (SELECT count(*) FROM checkpoints),
  (SELECT count(*) FROM tombstones), (SELECT count(*) FROM events), (SELECT count(*) FROM docs)`

export const LAST_TOMBSTONE = `
-- Finds the place of the newest tombstone.
SELECT max(place) FROM tombstones`

export const SQLITE_VERSION = `
-- Finds the version of SQLite.
SELECT sqlite_version()`

/** Removes everything, for the test bench. */
export const RESET = `
BEGIN IMMEDIATE;
DELETE FROM jobs;
DELETE FROM bodies;
DELETE FROM tags;
DELETE FROM counts;
DELETE FROM tombstones;
DELETE FROM checkpoints;
DELETE FROM docs;
DELETE FROM workers;
DELETE FROM notices;
DELETE FROM queues;
DELETE FROM types;
DELETE FROM events;
DELETE FROM texts;
DELETE FROM meta;
COMMIT;
`

type Values = readonly unknown[]

// The words that are used of a prepared statement: the driver's own type has no name that a declaration could use.
interface Finds<Row> {
  get(...params: unknown[]): Row | undefined
  all(...params: unknown[]): Row[]
}
interface FindsBy<Params, Row> {
  get(params: Params): Row | undefined
  all(params: Params): Row[]
}
interface Writes {
  run(...params: unknown[]): { readonly changes: number; readonly lastInsertRowid: number | bigint }
}

export type Statements = ReturnType<typeof prepare>

/** Prepared once per connection. Rows come as arrays in the order of the table's columns, which is the cheapest. */
export function prepare(db: Database) {
  const write = (sql: string): Writes => db.prepare(sql)
  const rows = <Row extends Values>(sql: string): Finds<Row> => db.prepare<unknown[], Row>(sql).raw()
  const wide = new WideRows(db)
  const jobs = <Params extends unknown[]>(sql: string) => wide.prepare<Params, JobRow>(sql)
  const value = <Value>(sql: string): Finds<Value> => db.prepare<unknown[], Value>(sql).pluck()
  const valueBy = <Params extends object>(sql: string): FindsBy<Params, number> =>
    db.prepare<[Params], number>(sql).pluck()
  return {
    begin: write('BEGIN IMMEDIATE'),
    commit: write('COMMIT'),
    rollback: write('ROLLBACK'),

    findJob: jobs<[id: string]>(FIND_JOB),
    findClaimable: jobs<[queue: string, limit: number]>(FIND_CLAIMABLE),
    findClaimableWithout: jobs<[Wanted]>(FIND_CLAIMABLE_WITHOUT),
    findClaimableOfTenant: jobs<[Wanted & OfTenant]>(FIND_CLAIMABLE_OF_TENANT),
    outpaced: rows<readonly [id: string, ahead: number]>(OUTPACED),
    outpacedByDeadline: rows<readonly [id: string, ahead: number]>(OUTPACED_BY_DEADLINE),
    rowsAhead: rows<readonly [above: number, earlier: number, earlierUndated: number, nearer: number]>(ROWS_AHEAD),
    outwaited: jobs<[{ queue: string | null; look: number; limit: number }]>(OUTWAITED),
    wakes: value<Instant>(WAKES),
    wakingJobs: jobs<[Waking]>(WAKING_JOBS),
    tenantCounts: rows<readonly [state: JobState, n: number]>(TENANT_COUNTS),
    findDeadlined: jobs<[Wanted]>(FIND_DEADLINED),
    findDeadlinedOfTenant: jobs<[Wanted & OfTenant]>(FIND_DEADLINED_OF_TENANT),
    findUndated: jobs<[Wanted & { above: number }]>(FIND_UNDATED),
    findUndatedOfTenant: jobs<[Wanted & OfTenant & { above: number }]>(FIND_UNDATED_OF_TENANT),
    findOldestAvailable: jobs<[{ queue: string; limit: number }]>(FIND_OLDEST_AVAILABLE),
    findOwned: jobs<[Owned]>(FIND_OWNED),
    findOwnedOpen: jobs<[Owned]>(FIND_OWNED_OPEN),
    findLastOwned: jobs<[Omit<Owned, 'after'>]>(FIND_LAST_OWNED),
    findUnique: jobs<[{ key: string; states: string; limit: number }]>(FIND_UNIQUE),
    countLimited: valueBy<{ key: string; state: JobState }>(COUNT_LIMITED),
    findHeldBy: jobs<[workerId: string]>(FIND_HELD_BY),
    seeHeldBy: value<string>(SEE_HELD_BY),
    findDueJobs: jobs<[now: Instant, limit: number]>(FIND_DUE_JOBS),
    findOldestDeadLetters: jobs<[limit: number]>(FIND_OLDEST_DEAD_LETTERS),
    insertJob: write(INSERT_JOB),
    insertBody: write(INSERT_BODY),
    updateJob: write(UPDATE_JOB),
    moveJob: write(MOVE_JOB),
    deleteJob: value<number>(DELETE_JOB),
    deleteBody: write(DELETE_BODY),
    insertTag: write(INSERT_TAG),
    deleteTag: write(DELETE_TAG),
    listDeadLetters: jobs<[DeadLettersAsked & Slice]>(LIST_DEAD_LETTERS),
    countDeadLettersAmong: valueBy<DeadLettersAsked>(COUNT_DEAD_LETTERS_AMONG),
    listActiveJobs: jobs<[limit: number]>(LIST_ACTIVE_JOBS),
    jobsAfter: jobs<[id: string, limit: number]>(JOBS_AFTER),
    nextJobWake: value<Instant>(NEXT_JOB_WAKE),

    addToCount: write(ADD_TO_COUNT),
    allCounts: rows<readonly [queue: string, state: JobState, n: number]>(ALL_COUNTS),
    countsOf: rows<readonly [state: JobState, n: number]>(COUNTS_OF),
    totals: rows<readonly [state: JobState, n: number]>(TOTALS),
    deadLetterCounts: rows<readonly [queue: string, count: number]>(DEAD_LETTER_COUNTS),
    countDeadLetters: valueBy<Pick<DeadLettersAsked, 'queue'>>(COUNT_DEAD_LETTERS),
    insertTombstone: write(INSERT_TOMBSTONE),
    deleteTombstones: write(DELETE_TOMBSTONES),
    findTombstone: value<number>(FIND_TOMBSTONE),
    tombstonesAfter: rows<readonly [place: number, id: string]>(TOMBSTONES_AFTER),

    findCheckpoint: rows<CheckpointRow>(FIND_CHECKPOINT),
    checkpointsAfter: rows<CheckpointRow>(CHECKPOINTS_AFTER),
    putCheckpoint: write(PUT_CHECKPOINT),
    restoreCheckpoint: write(RESTORE_CHECKPOINT),
    deleteCheckpoint: write(DELETE_CHECKPOINT),

    findDoc: rows<DocRow>(FIND_DOC),
    findDueDocs: rows<DocRow>(FIND_DUE_DOCS),
    findDocsBetween: rows<DocRow>(FIND_DOCS_BETWEEN),
    lastDocs: rows<DocRow>(LAST_DOCS),
    docsBelow: rows<DocRow>(DOCS_BELOW),
    docsAfter: rows<DocRow>(DOCS_AFTER),
    insertDoc: write(INSERT_DOC),
    updateDoc: write(UPDATE_DOC),
    deleteDoc: write(DELETE_DOC),
    nextDocWake: value<Instant>(NEXT_DOC_WAKE),

    findWorker: rows<WorkerRow>(FIND_WORKER),
    findDueWorkers: rows<WorkerRow>(FIND_DUE_WORKERS),
    insertWorker: write(INSERT_WORKER),
    updateWorker: write(UPDATE_WORKER),
    deleteWorker: write(DELETE_WORKER),
    listWorkers: rows<WorkerRow>(LIST_WORKERS),
    workersPage: rows<WorkerRow>(WORKERS_PAGE),
    workerTotals: rows<readonly [state: string, count: number, silent: number]>(WORKER_TOTALS),
    nextWorkerWake: value<Instant>(NEXT_WORKER_WAKE),
    findNotices: rows<NoticeRow>(FIND_NOTICES),
    noticesAfter: rows<readonly [...NoticeRow, place: number]>(NOTICES_AFTER),
    insertNotice: write(INSERT_NOTICE),
    deleteNotice: write(DELETE_NOTICE),
    deleteNotices: write(DELETE_NOTICES),

    findQueue: rows<QueueRow>(FIND_QUEUE),
    listQueues: rows<QueueRow>(LIST_QUEUES),
    queuesPage: rows<QueueRow>(QUEUES_PAGE),
    firstQueues: rows<QueueRow>(FIRST_QUEUES),
    queueTotals: rows<readonly [total: number, paused: number]>(QUEUE_TOTALS),
    insertQueue: write(INSERT_QUEUE),
    restoreQueue: write(RESTORE_QUEUE),
    updateQueue: write(UPDATE_QUEUE),
    findType: rows<TypeRow>(FIND_TYPE),
    listTypes: rows<TypeRow>(LIST_TYPES),
    putType: write(PUT_TYPE),
    restoreType: write(RESTORE_TYPE),
    deleteType: write(DELETE_TYPE),

    insertEvent: write(INSERT_EVENT),
    findEvent: rows<EventRow>(FIND_EVENT),
    findEventsAfter: rows<EventRow>(FIND_EVENTS_AFTER),
    firstEvent: rows<readonly [sequence: number, at: number]>(FIRST_EVENT),
    lastEvent: value<number | null>(LAST_EVENT),
    firstEventSince: value<number>(FIRST_EVENT_SINCE),
    deleteEvents: write(DELETE_EVENTS),

    allTexts: rows<readonly [place: number, text: string]>(ALL_TEXTS),
    insertText: write(INSERT_TEXT),

    findMeta: value<unknown>(FIND_META),
    putMeta: write(PUT_META),
    deleteMeta: write(DELETE_META),
    sizes: rows<SizesRow>(SIZES),
    lastTombstone: value<number | null>(LAST_TOMBSTONE),
    sqliteVersion: value<string>(SQLITE_VERSION),

    wide,
  }
}

export interface Wanted {
  queue: string
  /** JSON: names of limiters. */
  without: string
  limit: number
}

interface OfTenant {
  tenant: string
}

interface Owned {
  owner: string
  after: string
  limit: number
}

interface DeadLettersAsked {
  queue: string | null
  type: string | null
  tenant: string | null
}

interface Slice {
  limit: number
  offset: number
}
