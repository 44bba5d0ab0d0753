/**
 * Fills in what jobs are listed by, for the jobs that are there, and adds the ways to lists (`store/job-lists.ts`). Jobs
 * that end well are in three of them: when they came, when they ended, and who did them. The others hold only jobs with an
 * error.
 */
import type { Client } from 'pg'
import { errorKeys, lastWorker, tagKeys, type Closer } from '@curfew/core'
import { exact } from '../rows.ts'
import type { Migration } from './migrate.ts'

export const listIndexes: Migration = {
  name: '0008-list-indexes',
  kind: 'expand',
  fill: fillListKeys,
  sql: `
CREATE INDEX jobs_error ON jobs (error_type, id) WHERE error_type IS NOT NULL;
CREATE INDEX jobs_timeout ON jobs (timeout_kind, id) WHERE timeout_kind IS NOT NULL;
CREATE INDEX jobs_worked ON jobs (worker_id, id) WHERE state <> 'active' AND worker_id IS NOT NULL;
CREATE INDEX jobs_created ON jobs (created_at, id);
CREATE INDEX jobs_ended ON jobs (coalesce(completed_at, cancelled_at, discarded_at), id)
  WHERE coalesce(completed_at, cancelled_at, discarded_at) IS NOT NULL;
`,
}

const PIECE = 1_000

type Row = [
  id: string,
  version: number,
  error: string | null,
  closedBy: string | null,
  lease: number,
  life: string,
  body: string,
  holder: string | null,
  active: boolean,
]

const FIND = `
SELECT j.id, j.version, j.error, j.closed_by, j.lease, j.life, b.body, j.worker_id, j.state = 'active'
FROM jobs j JOIN bodies b ON b.id = j.id
WHERE j.id > $1
ORDER BY j.id
LIMIT ${String(PIECE)}`

const UPDATE = `
UPDATE jobs j SET error_type = n.error_type, timeout_kind = n.timeout_kind, worker_id = n.worker_id
FROM unnest($1::text[], $2::bigint[], $3::text[], $4::text[], $5::text[])
  AS n (id, version, error_type, timeout_kind, worker_id)
WHERE j.id = n.id AND j.version = n.version`

const INSERT_TAGS = `
INSERT INTO job_tags (tag, id) SELECT * FROM unnest($1::text[], $2::text[])
ON CONFLICT DO NOTHING`

/** In pieces, each a transaction of its own. A job that a server has changed meanwhile is left to that server. */
async function fillListKeys(client: Client): Promise<void> {
  for (let after: string | undefined = ''; after !== undefined;) {
    const found: { rows: Row[] } = await client.query<Row>({ text: FIND, values: [after], rowMode: 'array' })
    const keyed = found.rows.map(keysOf)
    const changed = keyed.filter(({ type, worker, holder }) => type !== null || worker !== holder)
    if (changed.length > 0) {
      await client.query(UPDATE, [
        changed.map(({ id }) => id),
        changed.map(({ version }) => version),
        changed.map(({ type }) => type),
        changed.map(({ kind }) => kind),
        changed.map(({ worker }) => worker),
      ])
    }
    const tagged = keyed.flatMap(({ id, tags }) => tags.map((tag) => [tag, id]))
    if (tagged.length > 0) await client.query(INSERT_TAGS, [tagged.map(([tag]) => tag), tagged.map(([, id]) => id)])
    after = found.rows.at(-1)?.[0]
  }
}

function keysOf([id, version, error, closedBy, lease, life, body, holder, isActive]: Row) {
  const { type, kind } = errorKeys({ error })
  const closer = closedBy === null ? null : (JSON.parse(closedBy) as Closer)
  const last = isActive ? null : lastWorker({ hold: null, closedBy: closer, lease, life })
  return {
    id,
    version,
    holder,
    type: type === null ? null : exact(type),
    kind,
    worker: isActive ? holder : last === null ? null : exact(last),
    tags: tagKeys({ body }).map(exact),
  }
}
