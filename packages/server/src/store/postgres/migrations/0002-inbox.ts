/**
 * The inbox: an application lays jobs down within a transaction of its own, and servers admit them after it has
 * committed. What is here was written by others and is kept as they wrote it, without the care that is taken of texts
 * elsewhere: they could not have written what PostgreSQL cannot hold.
 */
import type { Migration } from './migrate.ts'

export const inbox: Migration = {
  name: '0002-inbox',
  kind: 'expand',
  sql: `
-- Rows come and go: at rest it is empty. Their places are the order in which they were laid down.
CREATE TABLE inbox (
  id     text COLLATE "C" PRIMARY KEY, -- of the job
  body   text NOT NULL,                -- JSON: an enqueue request with this id
  place  bigint GENERATED ALWAYS AS IDENTITY
) WITH (
  autovacuum_vacuum_scale_factor = 0,
  autovacuum_vacuum_threshold = 1000,
  autovacuum_vacuum_cost_delay = 0
);
CREATE INDEX inbox_place ON inbox (place);

-- Requests that were refused, with the reason, for operators. The oldest are removed to make room.
CREATE TABLE inbox_refused (
  place       bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  id          text COLLATE "C" NOT NULL,
  body        text   NOT NULL,
  error       text   NOT NULL,        -- JSON
  refused_at  bigint NOT NULL
);
`,
}
