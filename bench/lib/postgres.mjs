// A PostgreSQL of its own for a measurement, as the tests start it, with commits that go to the disk.
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { fileURLToPath, pathToFileURL } from 'node:url'
import pg from 'pg'
import ts from 'typescript'
import { startServer } from './processes.mjs'

const source = fileURLToPath(new URL('../../tests/postgres/cluster.ts', import.meta.url))
const cache = fileURLToPath(new URL('../../node_modules/.cache/curfew/', import.meta.url))

/** The module of the tests that finds and starts a PostgreSQL. */
export async function postgresOfTheTests() {
  const options = { module: ts.ModuleKind.ESNext, target: ts.ScriptTarget.ES2023 }
  const { outputText } = ts.transpileModule(readFileSync(source, 'utf8'), { compilerOptions: options })
  mkdirSync(cache, { recursive: true })
  writeFileSync(`${cache}cluster.mjs`, outputText)
  return import(pathToFileURL(`${cache}cluster.mjs`).href)
}

/** Room for what a measurement holds, as a small machine that serves nothing else would give it. */
const SETTINGS = {
  shared_buffers: '1GB',
  max_wal_size: '4GB',
  checkpoint_timeout: '15min',
  maintenance_work_mem: '512MB',
}

export async function startDatabase() {
  const { Cluster } = await postgresOfTheTests()
  const cluster = await Cluster.start({ fsync: true, settings: SETTINGS })
  let databases = 0
  const urlOf = (schema) => `${cluster.url()}?schema=${schema}`
  return {
    urlOf,
    /** A server on a schema of this database. */
    serve: (schema, flags = []) => startServer({ database: urlOf(schema), flags }),
    /** A database of its own, on the same server. */
    async create() {
      databases += 1
      const name = `bench_${databases}`
      await this.sql('public', `CREATE DATABASE ${name}`)
      return { url: cluster.url(name), drop: () => this.sql('public', `DROP DATABASE ${name} WITH (FORCE)`) }
    },
    /** Statements on a schema, one after the other. */
    async sql(schema, ...statements) {
      const client = new pg.Client({ connectionString: cluster.url() })
      await client.connect()
      try {
        await client.query(`SET search_path = ${schema}`)
        let answer
        for (const statement of statements) answer = await client.query(statement)
        return answer
      } finally {
        await client.end()
      }
    },
    stop: () => cluster.remove(),
  }
}

/**
 * Fills a schema with so many copies of the jobs that are in it now, written by the database itself: what a server would
 * have written, without the hours. `state` and `change` say how a copy differs.
 */
export function copies(jobs, { state, wakeAt = 'wake_at', completedAt = 'completed_at' }) {
  const columns = `version, queue, type, priority, worker_id, dead_letter, attempt, lease, interruptions, created_at,
    anchor_at, limits_set_at, scheduled_at, expires_at, enqueued_at, activated_at, started_at, cancelled_at, discarded_at,
    reenqueued_at, next_retry_at, retry_delay_ms, result_ttl_ms, error_count, checkpoint_seq, limits, retry, ceiling,
    parent, hold, closed_by, progress, trace_id, cancel_reason, error, errors, result, given, life`
  const id = `'00000000-0000-7000-8000-' || lpad(to_hex(n), 12, '0')`
  const from = `FROM (SELECT * FROM jobs LIMIT 1) t, generate_series(1, ${jobs}) n`
  return [
    `INSERT INTO bodies (id, body) SELECT ${id}, body FROM (SELECT body FROM bodies LIMIT 1) b, generate_series(1, ${jobs}) n`,
    `INSERT INTO jobs (id, state, seq, wake_at, purge_at, completed_at, ${columns})
     SELECT ${id}, '${state}', nextval('places'), ${wakeAt}, ${wakeAt === 'wake_at' ? 'purge_at' : wakeAt}, ${completedAt}, ${columns} ${from}`,
    `INSERT INTO counts (state, queue, slot, n) SELECT '${state}', queue, 40, ${jobs} FROM (SELECT queue FROM jobs LIMIT 1) q`,
    'VACUUM ANALYZE jobs',
    'VACUUM ANALYZE bodies',
    'CHECKPOINT',
  ]
}
