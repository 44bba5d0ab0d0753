/**
 * What workers are to be told lies in a table of its own: a job's end is written without rewriting the row of its
 * holder, however many jobs a holder loses at once. Queues are versioned like jobs and workers.
 */
export const notices = `
CREATE TABLE notices (
  place      INTEGER PRIMARY KEY,
  worker_id  TEXT    NOT NULL,
  job_id     TEXT    NOT NULL,
  lease      INTEGER NOT NULL,
  reason     TEXT    NOT NULL,
  at         INTEGER NOT NULL
);
CREATE INDEX notices_worker ON notices (worker_id, place);

INSERT INTO notices (worker_id, job_id, lease, reason, at)
SELECT w.id, n.value ->> 'jobId', n.value ->> 'lease', n.value ->> 'reason', n.value ->> 'at'
FROM workers w, json_each(w.notices) n;
ALTER TABLE workers DROP COLUMN notices;

ALTER TABLE queues ADD COLUMN version INTEGER NOT NULL DEFAULT 1;
`
