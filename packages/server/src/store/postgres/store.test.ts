import { afterAll, describe, expect, test } from 'vitest'
import { minutes } from '@curfew/core'
import { testServer } from '../../../../../tests/postgres/cluster.ts'
import { nodeHost, systemRandom } from '../../host.ts'
import type { EventRetention, Store } from '../store.ts'
import { storeSuite } from '../store.suite.ts'
import { openPostgresStore } from './store.ts'

const KEPT: EventRetention = { maxAgeMs: minutes(60), maxCount: 1_000 }

const server = await testServer()
afterAll(async () => {
  await server.cluster?.remove()
})

let schemas = 0
const newSchema = (): string => `curfew_test_${String(process.pid)}_${String(++schemas)}`
const open = (schema: string, events = KEPT): Promise<Store> =>
  openPostgresStore({ url: server.url, schema, events, host: nodeHost, random: systemRandom() })

{
  const schemaOf = new WeakMap<Store, string>()
  const openAt = async (schema: string, events?: EventRetention): Promise<Store> => {
    const store = await open(schema, events)
    schemaOf.set(store, schema)
    return store
  }
  storeSuite(
    'PostgreSQL',
    (events) => openAt(newSchema(), events),
    async (store) => {
      await store.close()
      return openAt(schemaOf.get(store) ?? '')
    },
  )
}
