/**
 * The first schema. Instants are whole milliseconds since the Unix epoch; JSON is kept as text, byte for byte. Where it
 * says "shared", the column holds the text itself or, for texts that many rows have in common, its place in `texts`.
 * Identifiers sort by their bytes, whatever the language of the database.
 *
 * Rows that are rewritten all the time get room on their page, and are cleaned up early: with the usual settings the
 * dead would outnumber the living before anybody looked.
 */
import type { Migration } from './migrate.ts'

export const jobsWorkersEvents: Migration = {
  name: '0001-jobs-workers-events',
  kind: 'expand',
  sql: `
-- Small and often rewritten. What a client sent, which may be large and never changes, lies in bodies.
CREATE TABLE jobs (
  id              text COLLATE "C" PRIMARY KEY,
  version         bigint  NOT NULL,
  state           text COLLATE "C" NOT NULL,
  queue           text COLLATE "C" NOT NULL,
  type            text COLLATE "C" NOT NULL,
  priority        integer NOT NULL,
  seq             bigint  NOT NULL,
  wake_at         bigint,
  worker_id       text COLLATE "C",   -- who holds it
  dead_letter     boolean NOT NULL,
  attempt         bigint  NOT NULL,
  lease           bigint  NOT NULL,
  interruptions   bigint  NOT NULL,
  created_at      bigint  NOT NULL,
  anchor_at       bigint  NOT NULL,
  limits_set_at   bigint  NOT NULL,
  scheduled_at    bigint,
  expires_at      bigint,
  enqueued_at     bigint,
  activated_at    bigint,
  started_at      bigint,
  completed_at    bigint,
  cancelled_at    bigint,
  discarded_at    bigint,
  reenqueued_at   bigint,
  next_retry_at   bigint,
  retry_delay_ms  double precision,
  result_ttl_ms   double precision,
  purge_at        bigint,
  error_count     bigint  NOT NULL,
  checkpoint_seq  bigint  NOT NULL,
  limits          text    NOT NULL,   -- JSON, shared
  retry           text    NOT NULL,   -- JSON, shared
  ceiling         text,               -- JSON
  parent          text,               -- JSON
  hold            text,               -- JSON: [terms (shared), signAt, visibleFrom, visibleMs]
  closed_by       text,               -- JSON
  progress        text,               -- JSON
  trace_id        text,               -- JSON string
  cancel_reason   text,               -- JSON string
  error           text,               -- JSON
  errors          text    NOT NULL,   -- inside of a JSON array
  result          text,               -- JSON
  given           text    NOT NULL,   -- inside of a JSON object
  life            text    NOT NULL    -- inside of a JSON array
) WITH (
  fillfactor = 70,
  -- Long results and errors move out of the row early, so that a rewrite does not carry them along.
  toast_tuple_target = 1024,
  autovacuum_vacuum_scale_factor = 0.01,
  autovacuum_vacuum_threshold = 1000,
  autovacuum_analyze_scale_factor = 0.02,
  autovacuum_vacuum_cost_delay = 0
);
CREATE INDEX jobs_claim ON jobs (queue, priority DESC, seq) WHERE state = 'available';
CREATE INDEX jobs_wake ON jobs (wake_at) WHERE wake_at IS NOT NULL;
CREATE INDEX jobs_held ON jobs (worker_id, id) WHERE state = 'active';
CREATE INDEX jobs_dead_letter ON jobs (discarded_at, id) WHERE dead_letter;
CREATE INDEX jobs_aside ON jobs (state, id)
  WHERE state IN ('scheduled', 'pending', 'retryable', 'cancelled', 'discarded');

-- Places in the queues, handed out one by one: a block for each server would let its jobs overtake those of others.
CREATE SEQUENCE places;

CREATE TABLE bodies (
  id    text COLLATE "C" PRIMARY KEY, -- of the job
  body  text NOT NULL                 -- inside of a JSON object
) WITH (autovacuum_vacuum_scale_factor = 0.05);

CREATE TABLE texts (
  place  bigint PRIMARY KEY,          -- from a hash of the text
  text   text NOT NULL                -- JSON
);

-- Exact numbers of jobs by state and queue; under the state 'dead_letter', those of them in the dead-letter list.
-- Each server adds in a slot of its own, so that servers do not wait for each other: the number is the sum.
CREATE TABLE counts (
  state  text COLLATE "C" NOT NULL,
  queue  text COLLATE "C" NOT NULL,
  slot   smallint NOT NULL,
  n      bigint   NOT NULL,
  PRIMARY KEY (state, queue, slot)
) WITH (
  fillfactor = 50,
  autovacuum_vacuum_scale_factor = 0,
  autovacuum_vacuum_threshold = 1000,
  autovacuum_vacuum_cost_delay = 0
);

-- The last jobs that were removed, so that asking for one is answered "gone".
CREATE TABLE tombstones (
  place  bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  id     text COLLATE "C" NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0.05);
CREATE INDEX tombstones_id ON tombstones (id);

CREATE TABLE checkpoints (
  job_id      text COLLATE "C" PRIMARY KEY,
  sequence    bigint NOT NULL,
  state       text   NOT NULL,        -- JSON
  step_index  bigint,
  metadata    text,                   -- JSON
  created_at  bigint NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0.05);

CREATE TABLE workers (
  id            text COLLATE "C" PRIMARY KEY,
  version       bigint  NOT NULL,
  known         boolean NOT NULL,
  last_seen_at  bigint  NOT NULL,
  wake_at       bigint,
  died_at       bigint,
  created_at    bigint  NOT NULL,
  last_beat_at  bigint,
  state         text    NOT NULL,
  draining      boolean NOT NULL,
  directive     text    NOT NULL,
  registered    boolean NOT NULL,
  active_jobs   bigint  NOT NULL,
  beat_seq      bigint,
  pid           bigint,
  concurrency   bigint,
  hostname      text,                 -- JSON string
  started_at    text,                 -- JSON string, as the worker wrote it
  queues        text    NOT NULL,     -- JSON, shared
  labels        text    NOT NULL,     -- JSON, shared
  handlers      text    NOT NULL,     -- JSON, shared
  beat          text                  -- JSON
) WITH (
  fillfactor = 50,
  autovacuum_vacuum_scale_factor = 0,
  autovacuum_vacuum_threshold = 1000,
  autovacuum_vacuum_cost_delay = 0
);
CREATE INDEX workers_wake ON workers (wake_at) WHERE wake_at IS NOT NULL;

-- What workers shall hear with their next beat.
CREATE TABLE notices (
  place      bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  worker_id  text COLLATE "C" NOT NULL,
  job_id     text COLLATE "C" NOT NULL,
  lease      bigint NOT NULL,
  reason     text   NOT NULL,
  at         bigint NOT NULL
) WITH (
  autovacuum_vacuum_scale_factor = 0,
  autovacuum_vacuum_threshold = 1000,
  autovacuum_vacuum_cost_delay = 0
);
CREATE INDEX notices_worker ON notices (worker_id, place);

CREATE TABLE queues (
  name        text COLLATE "C" PRIMARY KEY,
  version     bigint NOT NULL,
  created_at  bigint NOT NULL,
  paused_at   bigint,
  config      text   NOT NULL         -- JSON
);

CREATE TABLE types (
  type        text COLLATE "C" PRIMARY KEY,
  asked       text   NOT NULL,        -- JSON
  caps        text   NOT NULL,        -- JSON
  sent        text   NOT NULL,        -- JSON
  updated_at  bigint NOT NULL
);

-- The log. Its newest row is never pruned: numbering goes on from there.
CREATE TABLE events (
  sequence  bigint PRIMARY KEY,
  type      text   NOT NULL,
  at        bigint NOT NULL,
  subject   text   NOT NULL,
  queue     text,
  job_type  text,
  data      text   NOT NULL           -- JSON
) WITH (autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_insert_scale_factor = 0.1);

-- One row: when a server last stood by this data, and the times in which none did; and whether it is only a part of
-- what a restore is bringing back.
CREATE TABLE life (
  only_one       boolean PRIMARY KEY DEFAULT true CHECK (only_one),
  alive_at       bigint,
  outages        text    NOT NULL,    -- JSON
  half_restored  boolean NOT NULL DEFAULT false
) WITH (fillfactor = 50);
INSERT INTO life (alive_at, outages) VALUES (NULL, '[]');

-- Ends a transaction that has not found all rows as it expected them, and names the first it missed.
CREATE FUNCTION expect_all(what text, expected text[], seen text[]) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
  missed text;
BEGIN
  IF cardinality(expected) = coalesce(cardinality(seen), 0) THEN
    RETURN;
  END IF;
  SELECT e INTO missed FROM unnest(expected) e WHERE seen IS NULL OR e <> ALL (seen) LIMIT 1;
  RAISE EXCEPTION USING
    ERRCODE = 'CF001',
    MESSAGE = format('%s %s is gone or no longer in the version that was read', what, missed);
END
$$;
`,
}
