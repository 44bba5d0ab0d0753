import { describe, expect, onTestFinished, test } from 'vitest'
import { Client } from 'pg'
import { FakeClock, millis, type Host, type Job } from '@curfew/core'
import { nodeHost, systemRandom } from '../../host.ts'
import { admitted, anEvent, at, changes, changesOf, claimable, saveIn, within } from '../builders.suite.ts'
import type { EventRetention, Store } from '../store.ts'
import { storeSuite } from '../store.suite.ts'
import { KEPT, openBench, until } from './bench.suite.ts'
import { addressOf, connect } from './connection.ts'
import { migrate, MIGRATIONS, type Migration } from './migrations/migrate.ts'
import { TOMBSTONES } from './save.ts'
import * as sql from './statements.ts'
import { migrateDatabase, openPostgresStore } from './store.ts'

const bench = await openBench()
const { open, newSchema } = bench

{
  const schemaOf = new WeakMap<Store, string>()
  const openAt = async (schema: string, events?: EventRetention): Promise<Store> => {
    const store = await open(schema, events)
    schemaOf.set(store, schema)
    return store
  }
  // One schema, emptied for each test: to make one takes longer than most of the tests.
  const shared = newSchema()
  storeSuite(
    'PostgreSQL',
    async (events) => {
      const store = await openAt(shared, events)
      await store.reset()
      return store
    },
    async (store) => {
      await store.close()
      return openAt(schemaOf.get(store) ?? '')
    },
  )
}

describe('a database that cannot be opened is reported in one line:', () => {
  const refusal = async (url: string): Promise<string> => {
    const error = await open('curfew', undefined, url).then(
      () => new Error('it was opened'),
      (reason: unknown) => reason as Error,
    )
    expect(error.message).not.toContain('\n')
    expect(error.message).not.toContain('secret')
    return error.message
  }
  const with_ = (change: (url: URL) => void): string => {
    const url = new URL(bench.url)
    change(url)
    return url.href
  }

  test('an address that is none', async () => {
    expect(await refusal('nowhere')).toContain('the database URL cannot be read')
    expect(await refusal('mysql://root:secret@localhost/jobs')).toContain('begins with mysql://')
    expect(() => addressOf('postgresql://localhost/jobs?schema=Robert%27)')).toThrow('the name of a schema has')
  })

  test('a database that is not there', async () => {
    const url = with_((it) => {
      it.pathname = '/nowhere'
      it.password = 'secret'
    })
    expect(await refusal(url)).toContain('there is no such database')
  })

  test('a user that is not there', async () => {
    expect(await refusal(with_((it) => (it.username = 'unknown')))).toContain('unknown')
  })

  test('a server that does not listen', async () => {
    const url = with_((it) => {
      it.port = '1'
      it.password = 'secret'
    })
    expect(await refusal(url)).toMatch(/^cannot open postgresql:.*: the database does not accept connections$/)
  })

  test('a host that cannot be found', async () => {
    expect(await refusal('postgresql://nowhere.invalid/jobs')).toContain('the host of the database cannot be found')
  })

  test('the schema is named by the URL, or by the option, or is curfew', () => {
    expect(addressOf('postgresql://h/d?schema=a&sslmode=disable')).toMatchObject({
      schema: 'a',
      connectionString: 'postgresql://h/d?sslmode=disable',
    })
    expect(addressOf('postgresql://h/d?schema=a', 'b').schema).toBe('b')
    expect(addressOf('postgresql://h/d').schema).toBe('curfew')
  })
})

describe('the schema', () => {
  const migrateTo = async (schema: string, migrations: readonly Migration[], contract = false) => {
    const client = await connect(addressOf(bench.url, schema), 'migrate')
    try {
      return await migrate(client, { schema, contract, migrations })
    } finally {
      await client.end()
    }
  }
  const expand: Migration = { name: '9-expand', kind: 'expand', sql: 'ALTER TABLE jobs ADD COLUMN colour text' }
  const contract: Migration = { name: '9-contract', kind: 'contract', sql: 'ALTER TABLE types DROP COLUMN sent' }

  test('is made once, by however many servers at once', async () => {
    const schema = newSchema()
    await Promise.all([open(schema), open(schema), open(schema)])
    const seen = await bench.ask(`SELECT version, kind FROM ${schema}.schema_migrations ORDER BY version`)
    expect(seen).toEqual(MIGRATIONS.map(({ kind }, index) => ({ version: index + 1, kind })))
    expect(await migrateDatabase(bench.url, { schema, contract: true })).toEqual({ applied: [], waiting: [] })
  })

  test('that is new gets everything; an older one only what older servers can bear', async () => {
    const all = [...MIGRATIONS, contract, expand]
    expect(await migrateTo(newSchema(), all)).toEqual({ applied: all.map(({ name }) => name), waiting: [] })
    const older = newSchema()
    await migrateTo(older, MIGRATIONS)
    expect(await migrateTo(older, all)).toEqual({ applied: ['9-expand'], waiting: ['9-contract'] })
    expect(await migrateTo(older, all, true)).toEqual({ applied: ['9-contract'], waiting: [] })
  })

  test('that a newer version has expanded is opened but not migrated; one that it has contracted is refused', async () => {
    const schema = newSchema()
    await migrateTo(schema, [...MIGRATIONS, expand])
    await (await open(schema)).close()
    const newer = 'belongs to a newer version of Curfew: it has seen 9-expand'
    await expect(migrateDatabase(bench.url, { schema, contract: false })).rejects.toThrow(newer)
    await migrateTo(schema, [...MIGRATIONS, expand, contract], true)
    await expect(open(schema)).rejects.toThrow('belongs to a newer version of Curfew: it has seen 9-contract')
  })

  test('that an older server still writes to is read by a newer one', async () => {
    const schema = newSchema()
    await migrateTo(schema, MIGRATIONS.slice(0, 2))
    const older = (id: string) =>
      bench.ask(
        `WITH body AS (INSERT INTO ${schema}.bodies (id, body) VALUES ($1, ''))
         INSERT INTO ${schema}.jobs (
           id, version, state, queue, type, priority, seq, dead_letter, attempt, lease, interruptions, created_at,
           anchor_at, limits_set_at, error_count, checkpoint_seq, limits, retry, errors, given, life)
         VALUES ($1, 1, 'available', 'default', 't', 0, 1, false, 0, 0, 0, 0, 0, 0, 0, 0, '{}', '{}', '', '', '')`,
        [id],
      )
    await older('a')
    const store = await open(schema)
    await older('b')
    const found = await within(store, (tx) => tx.findClaimable(claimable()))
    expect(found.map(({ id, owner, uniqueKey, limitKey, tenant }) => [id, owner, uniqueKey, limitKey, tenant])).toEqual(
      [
        ['a', null, null, null, null],
        ['b', null, null, null, null],
      ],
    )
  })

  test('may be expanded while it is served', async () => {
    const schema = newSchema()
    const store = await open(schema)
    const step = admitted()
    await saveIn(store, changesOf(step))
    const found = () => within(store, (tx) => tx.findJobs([step.job.id]))
    const [before] = await found()
    expect((await store.job(step.job.id))?.id).toBe(step.job.id)
    await migrateTo(schema, [...MIGRATIONS, expand])
    await expect(found()).rejects.toThrow('the schema has changed')
    expect(await found()).toEqual([before])
    expect(await store.job(step.job.id)).toEqual(before)
  })
})

describe('jobs that are added together', () => {
  let store: Store | null = null
  const kept = async (changed: readonly Partial<Job>[]): Promise<[given: Job[], found: Job[]]> => {
    store ??= await open(newSchema())
    const jobs = changed.map((fields) => ({ ...admitted().job, ...fields }))
    await saveIn(store, changes({ jobs: jobs.map((after) => ({ before: null, after })) }))
    const found = await within(store, (tx) => tx.findJobs(jobs.map(({ id }) => id)))
    return [jobs.map((job, index) => ({ ...job, version: 1, seq: (found[0]?.seq ?? NaN) + index })), found]
  }

  test('keep what they do not have in common, where most is', async () => {
    const [given, found] = await kept([
      { type: 'a', priority: 7, traceId: '1', given: '"x":1', body: '"args":[1]', uniqueKey: 'k1' },
      { type: 'b', priority: -7, traceId: null, given: '', body: '"args":["\\"{},\\\\"]', uniqueKey: null },
      { type: 'c', priority: 0, traceId: '3', given: '"x":2', body: '', uniqueKey: 'k3' },
    ])
    expect(found).toEqual(given)
  })

  const uncommon: readonly Partial<Job>[] = [
    { state: 'scheduled' },
    { queue: 'other' },
    { wakeAt: at(7) },
    { createdAt: at(7) },
    { anchorAt: at(7) },
    { limitsSetAt: at(7) },
    { scheduledAt: at(7) },
    { expiresAt: at(7) },
    { enqueuedAt: at(7) },
    { resultTtlMs: millis(7) },
    { ceiling: { executionTimeoutMs: 7 } as unknown as Job['ceiling'] },
    { parent: { id: 'p' } as unknown as Job['parent'] },
    { life: '["other"]' },
    { owner: { kind: 'workflow', id: 'w', step: 's' } },
    { limitKey: 'l' },
    { tenant: 't' },
  ]
  test.each(uncommon)('keep what only one of them has: %o', async (fields) => {
    const [given, found] = await kept([{}, fields, {}])
    expect(found).toEqual(given)
  })
})

describe('what is kept only for a while', () => {
  test('a log that has become far too long is pruned bit by bit', async () => {
    const schema = newSchema()
    const long = await open(schema)
    await saveIn(long, changes({ events: Array.from({ length: 100 }, () => anEvent()) }))
    await long.close()
    const store = await open(schema, { ...KEPT, maxCount: 5 })
    const first = async (): Promise<number> => {
      await saveIn(store, changes({ events: [anEvent()] }))
      return (await store.eventBounds()).first
    }
    expect([await first(), await first(), await first()]).toEqual([37, 55, 73])
    while ((await first()) < 100);
    const { first: oldest, last } = await store.eventBounds()
    expect(last - oldest).toBe(4)
  })

  test('only the last removed jobs are remembered', async () => {
    const schema = newSchema()
    const store = await open(schema)
    await bench.ask(`INSERT INTO ${schema}.tombstones (id) SELECT 'job-' || n FROM generate_series(1, $1::int) n`, [
      TOMBSTONES,
    ])
    const step = admitted()
    await saveIn(store, changesOf(step))
    const [before] = await within(store, (tx) => tx.findJobs([step.job.id]))
    expect(await store.wasPurged('job-1')).toBe(true)
    await saveIn(store, changes({ jobs: [{ before: before ?? null, after: null }] }))
    expect([await store.wasPurged('job-1'), await store.wasPurged('job-2')]).toEqual([false, true])
    expect(await store.wasPurged(step.job.id)).toBe(true)
  })
})

describe('time', () => {
  test("is the database's, and nothing is decided while it is in doubt", async () => {
    let leapMs = 0
    const host: Host = { ...nodeHost, monotonicMs: () => nodeHost.monotonicMs() + leapMs }
    const schema = newSchema()
    const store = await openPostgresStore({ url: bench.url, schema, events: KEPT, host, random: systemRandom() })
    onTestFinished(() => store.close())
    const ask = async (): Promise<number> => {
      const [row] = await bench.ask<{ ms: number }>('SELECT extract(epoch FROM clock_timestamp())::float8 * 1000 AS ms')
      return row?.ms ?? NaN
    }
    const [from, now, to] = [await ask(), store.clock?.now() ?? NaN, await ask()]
    expect(now).toBeGreaterThanOrEqual(from - 50)
    expect(now).toBeLessThanOrEqual(to + 50)
    leapMs = 20_000
    await expect(saveIn(store, changesOf(admitted()))).rejects.toThrow(/has jumped by -(19|20)\d\d\d ms/)
    leapMs = 0
    await until(
      () => store.clock?.distrust(),
      (reason) => reason === null,
    )
    await saveIn(store, changesOf(admitted()))
  })

  test("is the engine's, if that is said when it is opened", async () => {
    const options = { url: bench.url, schema: newSchema(), events: KEPT, host: nodeHost, random: systemRandom() }
    const byDatabase = await openPostgresStore(options)
    expect([byDatabase.shared, byDatabase.clock?.distrust()]).toEqual([true, null])
    // A machine whose time stands still does not matter when the engine brings its own clock.
    const byEngine = await openPostgresStore({ ...options, host: new FakeClock(), clock: 'engine' })
    expect([byEngine.shared, byEngine.clock]).toEqual([true, null])
    await saveIn(byEngine, changesOf(admitted()))
    expect((await byDatabase.sizes()).jobs).toBe(1)
    await Promise.all([byDatabase.close(), byEngine.close()])
  })
})

describe('a transaction goes by an index, however many rows there are:', () => {
  const HOT: readonly [keyof typeof sql, ...string[]][] = [
    ['LOOK', 'life_pkey', 'queues_pkey', 'types_pkey', 'jobs_wake', 'workers_wake', 'docs_wake'],
    [
      'EXPECT_UNCHANGED',
      'life_pkey',
      'jobs_pkey',
      'queues_pkey',
      'types_pkey',
      'jobs_wake',
      'workers_wake',
      'docs_wake',
    ],
    ['LOCK_JOBS', 'jobs_pkey', 'bodies_pkey'],
    ['LOCK_JOB_VERSIONS', 'jobs_pkey'],
    ['SEE_JOBS', 'jobs_pkey', 'bodies_pkey'],
    ['LOCK_CLAIMABLE', 'jobs_claim', 'bodies_pkey'],
    ['LOCK_CLAIMABLE_WITHOUT', 'jobs_claim', 'bodies_pkey'],
    ['LOCK_CLAIMABLE_OF_TENANT', 'bodies_pkey'],
    ['LOCK_BY_DEADLINE_OF_TENANT', 'bodies_pkey'],
    ['LOCK_BY_DEADLINE', 'jobs_deadline', 'jobs_claim', 'bodies_pkey'],
    ['LOCK_OLDEST_AVAILABLE', 'jobs_claim', 'bodies_pkey'],
    ['LOCK_OWNED', 'jobs_owner', 'bodies_pkey'],
    ['LOCK_OWNED_OPEN', 'jobs_owner', 'bodies_pkey'],
    ['OWNED_AFTER', 'jobs_owner', 'bodies_pkey'],
    ['LAST_OWNED', 'jobs_owner', 'bodies_pkey'],
    ['LOCK_UNIQUE', 'jobs_unique', 'bodies_pkey'],
    ['COUNT_LIMITED', 'jobs_limit'],
    ['COUNT_WAITING_AND_LIMITED', 'jobs_limit'],
    ['LIST_DEADLINED', 'jobs_deadline', 'bodies_pkey'],
    ['COUNTS_OF', 'counts_pkey'],
    ['LOCK_HELD_BY', 'jobs_held', 'bodies_pkey'],
    ['LOCK_DUE_JOBS', 'jobs_wake', 'bodies_pkey'],
    ['LOCK_DEAD_LETTERS_BEYOND', 'jobs_dead_letter', 'bodies_pkey'],
    ['MOVE_JOBS', 'jobs_pkey'],
    ['UPDATE_JOBS', 'jobs_pkey'],
    ['DELETE_JOBS', 'jobs_pkey', 'bodies_pkey', 'checkpoints_pkey'],
    ['DELETE_TOMBSTONES', 'tombstones_pkey'],
    ['LOCK_WORKERS', 'workers_pkey'],
    ['SEE_WORKERS', 'workers_pkey'],
    ['LOCK_DUE_WORKERS', 'workers_wake'],
    ['UPDATE_WORKERS', 'workers_pkey'],
    ['DELETE_WORKERS', 'workers_pkey', 'notices_worker'],
    ['FIND_NOTICES', 'notices_worker'],
    ['DELETE_NOTICES', 'notices_worker'],
    ['LOCK_DOCS', 'docs_pkey'],
    ['SEE_DOCS', 'docs_pkey'],
    ['LOCK_DUE_DOCS', 'docs_wake'],
    ['DOCS_FROM', 'docs_pkey'],
    ['DOCS_BETWEEN', 'docs_pkey'],
    ['DOCS_AFTER', 'docs_pkey'],
    ['UPDATE_DOCS', 'docs_pkey'],
    ['DELETE_DOCS', 'docs_pkey'],
    ['NEXT_WAKE', 'jobs_wake', 'workers_wake', 'docs_wake'],
    ['NEXT_WORK', 'jobs_wake', 'docs_wake'],
    ['FIND_QUEUES', 'queues_pkey'],
    ['UPDATE_QUEUES', 'queues_pkey'],
    ['FIND_CHECKPOINTS', 'checkpoints_pkey'],
    ['APPEND_EVENTS', 'events_pkey', 'jobs_wake', 'workers_wake', 'docs_wake'],
    ['COUNT_AND_LOCK_LOG'],
    ['PRUNE_EVENTS', 'events_pkey'],
    ['FIRST_EVENT', 'events_pkey'],
    ['FIND_TEXTS', 'texts_pkey'],
    ['WAKES', 'jobs_wake'],
    ['WAKING_JOBS', 'jobs_wake'],
    ['JOBS_AFTER', 'jobs_pkey', 'bodies_pkey'],
    ['CHECKPOINTS_AFTER', 'checkpoints_pkey'],
    ['NOTICES_AFTER', 'notices_pkey'],
    ['TOMBSTONES_AFTER', 'tombstones_pkey'],
    ['FIND_EVENTS_AFTER', 'events_pkey'],
    ['LOCK_INBOX', 'inbox_place'],
    ['DELETE_FROM_INBOX', 'inbox_pkey'],
    ['REFUSE_FROM_INBOX', 'inbox_pkey'],
    ['PRUNE_REFUSED', 'inbox_refused_pkey'],
    ['INBOX_AFTER', 'inbox_place'],
    ['REFUSED_AFTER', 'inbox_refused_pkey'],
  ]

  test.each(HOT)('%s', async (name, ...indexes) => {
    const plan = await planOf(sql[name].text)
    for (const index of indexes) expect(plan).toMatch(new RegExp(`Index.* (using|on) ${index}`))
    expect(plan).not.toMatch(/Seq Scan/)
    const sorts = plan.match(/Sort {2}\(/g)?.length ?? 0
    if (/^LOCK_(CLAIMABLE|DUE|INBOX|OWNED)|DEAD_LETTERS|DEADLINED|_AFTER$|^LAST_|^DOCS_/.test(name))
      expect(sorts).toBe(0)
    // Only the few that were found are sorted.
    if (/BY_DEADLINE$|OLDEST/.test(name)) expect(sorts).toBe(1)
  })

  test('that of the tenant, once it is known that there are many', async () => {
    await planOf(sql.LOCK_JOBS.text)
    await client?.query(
      `INSERT INTO jobs (
         id, version, state, queue, type, priority, seq, dead_letter, attempt, lease, interruptions, created_at,
         anchor_at, limits_set_at, error_count, checkpoint_seq, limits, retry, errors, given, life, tenant)
       SELECT n, 1, 'available', 'default', 't', 0, n, false, 0, 0, 0, 0, 0, 0, 0, 0, '{}', '{}', '', '', '', n % 100
       FROM generate_series(1, 5000) n`,
    )
    await client?.query('ANALYZE jobs')
    const plans = [await planOf(sql.LOCK_CLAIMABLE_OF_TENANT.text), await planOf(sql.LOCK_BY_DEADLINE_OF_TENANT.text)]
    expect(plans[0]).toContain('using jobs_tenant on')
    expect(plans[1]).toContain('using jobs_tenant_deadline on')
    for (const plan of plans) expect(plan).not.toContain('Sort')
  })

  let client: Client | null = null
  const planOf = async (text: string): Promise<string> => {
    if (client === null) {
      const schema = newSchema()
      await (await open(schema)).close()
      client = await connect(addressOf(bench.url, schema), 'work')
    }
    await client.query(`PREPARE asked AS ${text}`)
    const { rows: params } = await client.query<{ n: number }>(
      "SELECT cardinality(parameter_types) AS n FROM pg_prepared_statements WHERE name = 'asked'",
    )
    const nulls = Array.from({ length: params[0]?.n ?? 0 }, () => 'NULL').join()
    const { rows } = await client.query<{ 'QUERY PLAN': string }>(
      `EXPLAIN EXECUTE asked${nulls === '' ? '' : `(${nulls})`}`,
    )
    await client.query('DEALLOCATE asked')
    return rows.map((row) => row['QUERY PLAN']).join('\n')
  }
})
