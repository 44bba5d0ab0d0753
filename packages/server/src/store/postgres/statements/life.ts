/** Signs of life of the servers, and the database itself. */
import { statement } from './statement.ts'

export const FIND_LIFE = statement(
  'find_life',
  `
-- Finds when a server last stood by this data, and the times in which none did.
SELECT alive_at, outages FROM life`,
)

export const PUT_ALIVE = statement(
  'put_alive',
  `
-- Leaves a sign of life, unless there is a later one.
UPDATE life SET alive_at = $1::bigint WHERE alive_at IS NULL OR alive_at < $1::bigint`,
)

export const PUT_OUTAGES = statement(
  'put_outages',
  `
-- Rewrites the list of outages, if it is still what was seen.
WITH moved AS (
  UPDATE life SET outages = $2 WHERE outages = $1 RETURNING 'outages' AS id
)
SELECT expect_all('the list of', ARRAY['outages'], array_agg(id)) FROM moved`,
)

export const RESTORE_LIFE = statement(
  'restore_life',
  `
-- Rewrites when a server last stood by this data, and the times in which none did.
UPDATE life SET alive_at = $1::bigint, outages = $2`,
)

export const PUT_HALF_RESTORED = statement(
  'put_half_restored',
  `
-- Remembers whether more has to come until this is all there is.
UPDATE life SET half_restored = $1`,
)

export const IS_HALF_RESTORED = statement(
  'is_half_restored',
  `
-- Finds whether this is only a part of what a restore brings.
SELECT half_restored FROM life`,
)

export const SIZES = statement(
  'sizes',
  `
-- Counts the rows of every kind. Jobs are counted already.
SELECT
  (SELECT count(*) FROM queues), (SELECT count(*) FROM types), (SELECT count(*) FROM workers),
  (SELECT count(*) FROM notices), (SELECT coalesce(sum(n), 0)::bigint FROM counts WHERE state <> 'dead_letter'),
  (SELECT count(*) FROM checkpoints), (SELECT count(*) FROM docs), (SELECT count(*) FROM tombstones),
  (SELECT count(*) FROM events),
  (SELECT count(*) FROM inbox), (SELECT count(*) FROM inbox_refused)`,
)

export const WHO_IS_THERE = statement(
  'who_is_there',
  `
-- Finds the version of PostgreSQL, and whether it may be written to.
SELECT current_setting('server_version'), pg_is_in_recovery() OR current_setting('transaction_read_only') = 'on'`,
)

export const CLOCK = statement(
  'clock',
  `
-- Asks for the time, to measure clocks by. Nothing is decided by it here.
SELECT extract(epoch FROM clock_timestamp())::double precision * 1000`,
)

const TABLES = [
  ...['jobs', 'bodies', 'job_tags', 'counts', 'tombstones', 'checkpoints', 'docs', 'workers', 'notices', 'queues'],
  ...['types', 'events', 'inbox', 'inbox_refused'],
]

export const LOCK_TABLES = statement(
  'lock_tables',
  `
-- Blocks until no other transaction uses any of the tables.
LOCK TABLE ${TABLES.join(', ')} IN ACCESS EXCLUSIVE MODE`,
)

/**
 * Removes everything, for the test bench and for an import that failed. Places go on, and shared texts stay: other servers
 * may know them. TRUNCATE makes new files for a table and its indexes, and every session plans its statements anew; for
 * a small table a DELETE is many times faster.
 */
export const RESET_TABLES = statement(
  'reset_tables',
  `
-- Empties all tables, which are locked.
DO $reset$
DECLARE
  name text;
BEGIN
  FOREACH name IN ARRAY ARRAY[${TABLES.map((name) => `'${name}'`).join(', ')}] LOOP
    IF pg_relation_size(name::regclass) > 262144 THEN
      EXECUTE format('TRUNCATE %I', name);
    ELSE
      EXECUTE format('DELETE FROM %I', name);
    END IF;
  END LOOP;
END
$reset$`,
)

export const RESET_LIFE = statement(
  'reset_life',
  `
-- Forgets all signs of life.
UPDATE life SET alive_at = NULL, outages = '[]', half_restored = false`,
)
