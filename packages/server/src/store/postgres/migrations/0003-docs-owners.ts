/**
 * Documents, and what jobs are found by besides their queue and their worker: whom they belong to, what makes them
 * unique, which limiter they wait for, whose they are, and how near their deadline is.
 *
 * An older server writes none of it and reads none of it: its jobs have no owner, and its documents are woken by others.
 * Nearly all jobs have none of it either, so each index holds only those that have.
 */
import type { Migration } from './migrate.ts'

export const docsOwners: Migration = {
  name: '0003-docs-owners',
  kind: 'expand',
  sql: `
ALTER TABLE jobs
  ADD COLUMN owner       text COLLATE "C",   -- kind/id
  ADD COLUMN step        text COLLATE "C",   -- of the owner
  ADD COLUMN unique_key  text COLLATE "C",
  ADD COLUMN limit_key   text COLLATE "C",
  ADD COLUMN tenant      text COLLATE "C";
CREATE INDEX jobs_owner ON jobs (owner, id) WHERE owner IS NOT NULL;
CREATE INDEX jobs_unique ON jobs (unique_key) WHERE unique_key IS NOT NULL;
CREATE INDEX jobs_limit ON jobs (limit_key, state) WHERE limit_key IS NOT NULL;
CREATE INDEX jobs_tenant ON jobs (queue, tenant, priority DESC, seq) WHERE state = 'available' AND tenant IS NOT NULL;
CREATE INDEX jobs_deadline ON jobs (queue, priority DESC, wake_at, seq) WHERE state = 'available' AND wake_at IS NOT NULL;

-- Every record that is neither a job nor a worker. Only the rules of its kind read what is in it.
CREATE TABLE docs (
  kind     text COLLATE "C" NOT NULL,
  id       text COLLATE "C" NOT NULL,
  version  bigint NOT NULL,
  wake_at  bigint,
  body     text   NOT NULL,             -- JSON
  PRIMARY KEY (kind, id)
) WITH (
  fillfactor = 70,
  autovacuum_vacuum_scale_factor = 0.01,
  autovacuum_vacuum_threshold = 1000,
  autovacuum_vacuum_cost_delay = 0
);
CREATE INDEX docs_wake ON docs (wake_at) WHERE wake_at IS NOT NULL;
`,
}
