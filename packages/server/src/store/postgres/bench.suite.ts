/** A test file's own corner of a real PostgreSQL: schemas of its own, and all that was opened in them. */
import { afterAll, vi } from 'vitest'
import { Client } from 'pg'
import { minutes } from '@curfew/core'
import { testServer, type Cluster } from '../../../../../tests/postgres/cluster.ts'
import { nodeHost, systemRandom } from '../../host.ts'
import type { EventRetention, Store } from '../store.ts'
import { openPostgresStore } from './store.ts'

export const KEPT: EventRetention = { maxAgeMs: minutes(60), maxCount: 1_000 }

/** Many schemas are many files, and a busy machine takes its time to remove them. */
const ENDING_MS = 60_000

export interface Bench {
  readonly url: string
  /** Null when the server was there already: then it can be used, but not stopped. */
  readonly cluster: Cluster | null
  readonly newSchema: () => string
  /** Patient, because a test may hold a transaction open on purpose. */
  readonly open: (schema: string, events?: EventRetention, url?: string, patienceMs?: number) => Promise<Store>
  /** Asks the database directly. */
  readonly ask: <Row>(sql: string, values?: unknown[]) => Promise<Row[]>
}

export async function openBench(): Promise<Bench> {
  const { url, cluster } = await testServer()
  const schemas: string[] = []
  const stores: Store[] = []
  const ask = async <Row>(sql: string, values: unknown[] = []): Promise<Row[]> => {
    const client = new Client({ connectionString: url })
    await client.connect()
    try {
      return (await client.query(sql, values)).rows as Row[]
    } finally {
      await client.end()
    }
  }
  afterAll(async () => {
    const closed = Promise.all(stores.map((store) => store.close()))
    // A test that failed may have left a transaction open, for which a store would wait.
    await cluster?.remove()
    await closed
    if (cluster === null) for (const schema of schemas) await ask(`DROP SCHEMA IF EXISTS "${schema}" CASCADE`)
  }, ENDING_MS)
  return {
    url,
    cluster,
    ask,
    newSchema() {
      const schema = `curfew_test_${String(process.pid)}_${String(schemas.length + 1)}`
      schemas.push(schema)
      return schema
    },
    async open(schema, events = KEPT, at = url, patienceMs = 4_000) {
      // Its sessions can be told from those of other tests.
      const named = `${at}${at.includes('?') ? '&' : '?'}application_name=${schema}`
      const store = await openPostgresStore({
        url: named,
        schema,
        patienceMs,
        events,
        host: nodeHost,
        random: systemRandom(),
      })
      stores.push(store)
      return store
    },
  }
}

/** Waits until it is so. What is not so after five seconds will not be. */
export function until<T>(ask: () => T | Promise<T>, isSo: (answer: T) => boolean): Promise<T> {
  const look = async (): Promise<T> => {
    const answer = await ask()
    if (!isSo(answer)) throw new Error(`still ${JSON.stringify(answer)}`)
    return answer
  }
  return vi.waitFor(look, { timeout: 5_000, interval: 5 })
}
