/**
 * The first schema. Instants are whole milliseconds since the Unix epoch; JSON is kept as text. Where it says "shared",
 * the column holds the text itself or, for texts that many rows have in common, its place in `texts`.
 */
export const jobsWorkersEvents = `
-- Small and often rewritten. What a client sent, which may be large and never changes, lies in bodies.
CREATE TABLE jobs (
  place           INTEGER PRIMARY KEY,
  id              TEXT    NOT NULL,
  version         INTEGER NOT NULL,
  state           TEXT    NOT NULL,
  queue           TEXT    NOT NULL,
  type            TEXT    NOT NULL,
  priority        INTEGER NOT NULL,
  seq             INTEGER NOT NULL,
  wake_at         INTEGER,
  worker_id       TEXT,               -- who holds it
  dead_letter     INTEGER NOT NULL,
  attempt         INTEGER NOT NULL,
  lease           INTEGER NOT NULL,
  interruptions   INTEGER NOT NULL,
  created_at      INTEGER NOT NULL,
  anchor_at       INTEGER NOT NULL,
  limits_set_at   INTEGER NOT NULL,
  scheduled_at    INTEGER,
  expires_at      INTEGER,
  enqueued_at     INTEGER,
  activated_at    INTEGER,
  started_at      INTEGER,
  completed_at    INTEGER,
  cancelled_at    INTEGER,
  discarded_at    INTEGER,
  reenqueued_at   INTEGER,
  next_retry_at   INTEGER,
  retry_delay_ms  INTEGER,
  result_ttl_ms   INTEGER,
  purge_at        INTEGER,
  error_count     INTEGER NOT NULL,
  checkpoint_seq  INTEGER NOT NULL,
  limits          NUMERIC NOT NULL,   -- JSON, shared
  retry           NUMERIC NOT NULL,   -- JSON, shared
  ceiling         TEXT,               -- JSON
  parent          TEXT,               -- JSON
  hold            TEXT,               -- JSON: [terms (shared), signAt, visibleFrom, visibleMs]
  closed_by       TEXT,               -- JSON
  progress        TEXT,               -- JSON
  trace_id        TEXT,               -- JSON string
  cancel_reason   TEXT,               -- JSON string
  error           TEXT,               -- JSON
  errors          TEXT    NOT NULL,   -- inside of a JSON array
  result          TEXT,               -- JSON
  given           TEXT    NOT NULL,   -- inside of a JSON object
  life            TEXT    NOT NULL    -- inside of a JSON array
);
CREATE UNIQUE INDEX jobs_id ON jobs (id);
CREATE INDEX jobs_claim ON jobs (queue, priority DESC, seq) WHERE state = 'available';
CREATE INDEX jobs_wake ON jobs (wake_at) WHERE wake_at IS NOT NULL;
CREATE INDEX jobs_held ON jobs (worker_id) WHERE state = 'active';
CREATE INDEX jobs_dead_letter ON jobs (discarded_at) WHERE dead_letter = 1;

CREATE TABLE bodies (
  place  INTEGER PRIMARY KEY,         -- of the job
  body   TEXT NOT NULL                -- inside of a JSON object
);

CREATE TABLE texts (
  place  INTEGER PRIMARY KEY,
  text   TEXT NOT NULL                -- JSON
);

-- Exact numbers of jobs by state and queue; under the state 'dead_letter', those of them in the dead-letter list.
CREATE TABLE counts (
  state  TEXT    NOT NULL,
  queue  TEXT    NOT NULL,
  n      INTEGER NOT NULL,
  PRIMARY KEY (state, queue)
) WITHOUT ROWID;

-- The last jobs that were removed, so that asking for one is answered "gone".
CREATE TABLE tombstones (
  place  INTEGER PRIMARY KEY,
  id     TEXT NOT NULL
);
CREATE INDEX tombstones_id ON tombstones (id);

CREATE TABLE checkpoints (
  job_id      TEXT    PRIMARY KEY,
  sequence    INTEGER NOT NULL,
  state       TEXT    NOT NULL,       -- JSON
  step_index  INTEGER,
  metadata    TEXT,                   -- JSON
  created_at  INTEGER NOT NULL
);

CREATE TABLE workers (
  id            TEXT    PRIMARY KEY,
  version       INTEGER NOT NULL,
  known         INTEGER NOT NULL,
  last_seen_at  INTEGER NOT NULL,
  wake_at       INTEGER,
  died_at       INTEGER,
  created_at    INTEGER NOT NULL,
  last_beat_at  INTEGER,
  state         TEXT    NOT NULL,
  draining      INTEGER NOT NULL,
  directive     TEXT    NOT NULL,
  registered    INTEGER NOT NULL,
  active_jobs   INTEGER NOT NULL,
  beat_seq      INTEGER,
  pid           INTEGER,
  concurrency   INTEGER,
  hostname      TEXT,                 -- JSON string
  started_at    TEXT,                 -- JSON string, as the worker wrote it
  queues        NUMERIC NOT NULL,     -- JSON, shared
  labels        NUMERIC NOT NULL,     -- JSON, shared
  handlers      NUMERIC NOT NULL,     -- JSON, shared
  notices       TEXT    NOT NULL,     -- JSON
  beat          TEXT                  -- JSON
);
CREATE INDEX workers_wake ON workers (wake_at) WHERE wake_at IS NOT NULL;

CREATE TABLE queues (
  name        TEXT    PRIMARY KEY,
  created_at  INTEGER NOT NULL,
  paused_at   INTEGER,
  config      TEXT    NOT NULL        -- JSON
);

CREATE TABLE types (
  type        TEXT    PRIMARY KEY,
  asked       TEXT    NOT NULL,       -- JSON
  caps        TEXT    NOT NULL,       -- JSON
  sent        TEXT    NOT NULL,       -- JSON
  updated_at  INTEGER NOT NULL
);

-- The log. Its newest row is never pruned: numbering goes on from there.
CREATE TABLE events (
  sequence  INTEGER PRIMARY KEY,
  type      TEXT    NOT NULL,
  at        INTEGER NOT NULL,
  subject   TEXT    NOT NULL,
  queue     TEXT,
  job_type  TEXT,
  data      TEXT    NOT NULL          -- JSON
);

CREATE TABLE meta (
  key    TEXT PRIMARY KEY,
  value  NUMERIC NOT NULL
) WITHOUT ROWID;
`
