import { execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, renameSync, rmSync, symlinkSync } from 'node:fs'
import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, afterEach, beforeEach, describe, expect, test } from 'vitest'
import {
  ANY_JOB,
  DEFAULT_LIMITS,
  DEFAULT_RETRY,
  minutes,
  settleAtEnqueue,
  type Limits,
  type RetryPolicy,
} from '@curfew/core'
import { admitted, anEvent, aQueue, at, aWorker, changes, changesOf, saveIn, within } from '../builders.suite.ts'
import { StoreDamaged, StoreUnavailable, type EventRetention, type Store } from '../store.ts'
import { storeSuite } from '../store.suite.ts'
import { connect, IN_MEMORY } from './connection.ts'
import { Database, DRIVER, type Connection } from './driver.ts'
import { SCHEMA_VERSION } from './migrations/migrate.ts'
import { TOMBSTONES } from './save.ts'
import { sortValues, WAYS, type Way } from '../job-lists.ts'
import { LIST_STATEMENTS } from './job-lists.ts'
import * as sql from './statements.ts'
import { openSqliteStore, SqliteStore } from './store.ts'
import { LogSync } from './sync.ts'

const KEPT: EventRetention = { maxAgeMs: minutes(60), maxCount: 1_000 }

const directory = mkdtempSync(join(tmpdir(), 'curfew-store-'))
afterAll(() => {
  rmSync(directory, { recursive: true })
})

let files = 0
const newFile = (): string => join(directory, `${String(++files)}.db`)
/** Without a sync at each commit, which no test can tell and every test would wait for. */
const openFile = (file: string, events = KEPT): Promise<Store> =>
  openSqliteStore({ file, durability: 'normal', events })

storeSuite('SQLite in memory', (events = KEPT) => openSqliteStore({ file: IN_MEMORY, durability: 'full', events }))

{
  const paths = new WeakMap<Store, string>()
  const openAt = async (file: string, events?: EventRetention): Promise<Store> => {
    const store = await openFile(file, events)
    paths.set(store, file)
    return store
  }
  storeSuite(
    'SQLite in a file',
    (events) => openAt(newFile(), events),
    async (store) => {
      await store.close()
      return openAt(paths.get(store) ?? '')
    },
  )
}

describe('the file', () => {
  test('serves one server at a time, by whatever name it is called', async () => {
    const file = newFile()
    const store = await openFile(file)
    await expect(openFile(file)).rejects.toThrow(`${file} is in use by another Curfew server`)
    const alias = newFile()
    symlinkSync(file, alias)
    await expect(openFile(alias)).rejects.toThrow(`${alias} is in use by another Curfew server`)
    await store.close()
    await (await openFile(alias)).close()
  })

  test('is free again when the process that held it was killed', async () => {
    const file = newFile()
    await (await openFile(file)).close()
    const driver = createRequire(import.meta.url).resolve('better-sqlite3')
    const open =
      DRIVER === 'node:sqlite'
        ? `new (require('node:sqlite').DatabaseSync)(process.argv[1])`
        : `new (require(${JSON.stringify(driver)}))(process.argv[1])`
    const hold = `const lock = ${open}; lock.exec('BEGIN EXCLUSIVE'); console.log('held'); process.stdin.resume()`
    const holder = spawn(process.execPath, ['-e', hold, `${file}.lock`], { stdio: ['pipe', 'pipe', 'inherit'] })
    await once(holder.stdout, 'data')
    await expect(openFile(file)).rejects.toThrow('in use')
    holder.kill('SIGKILL')
    await once(holder, 'exit')
    await (await openFile(file)).close()
  })

  test('has all that was committed when its server was killed, and nothing else', async () => {
    const file = newFile()
    const store = await openFile(file)
    const [kept, lost] = [admitted(), admitted()]
    await saveIn(store, changesOf(kept))
    const copy = newFile()
    await within(store, async (tx) => {
      await tx.save(changesOf(lost))
      for (const suffix of ['', '-wal']) execFileSync('cp', [file + suffix, copy + suffix])
      throw new Error('killed')
    }).catch(() => {})
    const found = await openFile(copy)
    expect((await found.job(kept.job.id))?.state).toBe('available')
    expect(await found.job(lost.job.id)).toBeNull()
    expect(await found.eventBounds()).toEqual({ first: 1, last: 1 })
    await found.close()
    await store.close()
  })

  test('is not opened when a newer version has written it', async () => {
    const file = newFile()
    await (await openFile(file)).close()
    const db = new Database(file)
    expect(db.pragma('user_version', { simple: true })).toBe(SCHEMA_VERSION)
    db.pragma('user_version = 99')
    await expect(openFile(file)).rejects.toThrow(`${file} was written by a newer version of Curfew: its schema is 99`)
    db.pragma(`user_version = ${String(SCHEMA_VERSION)}`)
    db.close()
    await (await openFile(file)).close()
  })

  test('written by an earlier version is brought up to date and keeps what it has', async () => {
    const file = newFile()
    const step = admitted({ pending: true })
    let store = await openFile(file)
    await saveIn(store, {
      ...changesOf(step),
      workers: [{ before: null, after: aWorker() }],
      queues: [{ before: null, after: aQueue() }],
    })
    await store.close()
    const db = new Database(file)
    db.exec(`
      INSERT INTO bodies (place, body) SELECT place, body FROM jobs;
      DROP INDEX jobs_error;
      DROP INDEX jobs_timeout;
      DROP INDEX jobs_worked;
      DROP INDEX jobs_created;
      DROP INDEX jobs_ended;
      DROP TABLE tags;
      ALTER TABLE jobs DROP COLUMN error_type;
      ALTER TABLE jobs DROP COLUMN timeout_kind;
      ALTER TABLE jobs DROP COLUMN body;
      DROP INDEX jobs_aside;
      DROP INDEX jobs_owner;
      DROP INDEX jobs_unique;
      DROP INDEX jobs_limited;
      DROP INDEX jobs_deadline;
      DROP INDEX jobs_claim;
      CREATE INDEX jobs_claim ON jobs (queue, priority DESC, seq) WHERE state = 'available';
      DROP INDEX jobs_tenant_claim;
      DROP INDEX jobs_tenant;
      DROP INDEX jobs_tenant_deadline;
      DROP TABLE docs;
      ALTER TABLE jobs DROP COLUMN owner;
      ALTER TABLE jobs DROP COLUMN step;
      ALTER TABLE jobs DROP COLUMN unique_key;
      ALTER TABLE jobs DROP COLUMN limit_key;
      ALTER TABLE jobs DROP COLUMN tenant;
      DROP TABLE notices;
      ALTER TABLE workers DROP COLUMN beat;
      ALTER TABLE workers ADD COLUMN notices TEXT NOT NULL DEFAULT '[{"jobId":"j","lease":2,"reason":"lost","at":7}]';
      ALTER TABLE workers ADD COLUMN beat TEXT;
      ALTER TABLE queues DROP COLUMN draining_at;
      ALTER TABLE queues DROP COLUMN version;
      PRAGMA user_version = 1;
    `)
    db.close()
    store = await openFile(file)
    expect(await store.worker('worker-1')).toEqual(aWorker({ version: 1 }))
    const told = { workerId: 'worker-1', notice: { jobId: 'j', lease: 2, reason: 'lost', at: 7 } }
    expect(await within(store, (tx) => tx.findNotices(['worker-1'], 9))).toEqual([told])
    expect(await store.queue('default')).toEqual(aQueue({ version: 1 }))
    const { jobs } = await store.jobs({ ...ANY_JOB, states: ['pending'] }, null, { limit: 9, offset: 0 })
    expect(jobs.map(({ id, body }) => [id, body])).toEqual([[step.job.id, step.job.body]])
    await store.close()
  })

  test('keeps what is large beside the row of its job, and lets go of it with the job', async () => {
    const file = newFile()
    const store = await openFile(file)
    const [small, large] = ['x', 'x'.repeat(10_000)].map((text) => admitted({ body: `"args":["${text}"]` }))
    if (small === undefined || large === undefined) throw new Error('two were made')
    await saveIn(store, changesOf(small, large))
    const [first, second] = [await store.job(small.job.id), await store.job(large.job.id)]
    expect([first?.body, second?.body]).toEqual([small.job.body, large.job.body])
    const db = new Database(file, { readonly: true })
    const aside = db.prepare('SELECT body FROM bodies').pluck()
    expect(aside.all()).toEqual([large.job.body])
    await saveIn(store, changes({ jobs: [first, second].map((before) => ({ before, after: null })) }))
    expect(aside.all()).toEqual([])
    db.close()
    await store.close()
  })

  describe('is brought to the disk at every commit:', () => {
    type SyncDone = (error: Error | null) => void
    /** A disk that ends a sync when the test says so. */
    const slowDisk = () => {
      const file = newFile()
      const syncs: SyncDone[] = []
      const disk = {
        onThread: (_: number, done: SyncDone) => syncs.push(done),
        inPlace: () => {},
        monotonicMs: () => 0,
      }
      const openSync = (database: string) => new LogSync(database, null, disk)
      const store = new SqliteStore((again) => connect(file, again), KEPT, null, openSync)
      return { syncs, store }
    }
    const commit = (store: Store) =>
      store.transaction(() => Promise.resolve({ value: null, changes: changesOf(admitted()) }))
    const states = (...promises: Promise<unknown>[]) =>
      Promise.all(
        promises.map((promise) =>
          Promise.race([
            promise.then(
              () => 'done',
              (error: unknown) => (error instanceof StoreUnavailable ? error.reason : error),
            ),
            new Promise((resolve) => setImmediate(resolve, 'waiting')),
          ]),
        ),
      )

    test('a commit is durable after a sync that began after it; those that came meanwhile share the next', async () => {
      const { syncs, store } = slowDisk()
      const [first, second, third] = [await commit(store), await commit(store), await commit(store)]
      expect(syncs).toHaveLength(1)
      expect(await states(first.durable, second.durable)).toEqual(['waiting', 'waiting'])
      syncs[0]?.(null)
      expect(await states(first.durable, second.durable, third.durable)).toEqual(['done', 'waiting', 'waiting'])
      expect(syncs).toHaveLength(2)
      syncs[1]?.(null)
      expect(await states(second.durable, third.durable)).toEqual(['done', 'done'])
      await store.close()
    })

    test('a read is answered only when what it shows is on the disk', async () => {
      const { syncs, store } = slowDisk()
      await commit(store)
      const read = store.counts()
      expect(await states(read)).toEqual(['waiting'])
      syncs[0]?.(null)
      expect(await states(read, store.counts())).toEqual(['done', 'done'])
      await store.close()
    })

    test('a sync that fails rejects the callers that waited, and the next commit syncs anew', async () => {
      const { syncs, store } = slowDisk()
      const lost = await commit(store)
      syncs[0]?.(Object.assign(new Error('no'), { code: 'EIO' }))
      expect(await states(lost.durable)).toEqual(['disk I/O error'])
      const again = await commit(store)
      syncs[1]?.(null)
      expect(await states(again.durable)).toEqual(['done'])
      await store.close()
    })

    test('unless the faster mode was chosen: then there is nothing to wait for', async () => {
      for (const durability of ['full', 'normal'] as const) {
        const store = await openSqliteStore({ file: newFile(), durability, events: KEPT })
        const [first, second] = [await commit(store), await commit(store)]
        expect(first.durable === second.durable).toBe(durability === 'normal')
        await Promise.all([first.durable, second.durable])
        await store.close()
      }
    })
  })

  test('may be read by others while it is served', async () => {
    const file = newFile()
    const store = await openFile(file)
    await saveIn(store, changesOf(admitted()))
    const reader = new Database(file, { readonly: true })
    expect(reader.prepare('SELECT count(*) FROM jobs').pluck().get()).toBe(1)
    await saveIn(store, changesOf(admitted()))
    reader.close()
    await store.close()
  })

  test('prunes a log that has become far too long bit by bit', async () => {
    const file = newFile()
    let store = await openFile(file)
    await saveIn(store, changes({ events: Array.from({ length: 100 }, () => anEvent()) }))
    await store.close()
    store = await openFile(file, { ...KEPT, maxCount: 10 })
    const firsts: number[] = []
    for (let n = 0; n < 8; n++) {
      await saveIn(store, changes({ events: [anEvent()] }))
      firsts.push((await store.eventBounds()).first)
    }
    expect(firsts).toEqual([19, 37, 55, 73, 91, 97, 98, 99])
    await store.close()
  })

  test('remembers only the last removed jobs', async () => {
    const file = newFile()
    const db = connect(file)
    const insert = db.prepare('INSERT INTO tombstones (place, id) VALUES (?, ?)')
    db.transaction(() => {
      for (let place = 1; place <= TOMBSTONES; place++) insert.run(place, `job-${String(place)}`)
    })()
    db.close()
    const store = await openFile(file)
    const { job } = admitted()
    await saveIn(store, changes({ jobs: [{ before: null, after: job }] }))
    await saveIn(store, changes({ jobs: [{ before: { ...job, version: 1 }, after: null }] }))
    expect([await store.wasPurged('job-1'), await store.wasPurged('job-2'), await store.wasPurged(job.id)]).toEqual([
      false,
      true,
      true,
    ])
    await store.close()
  })
})

describe('texts that repeat', () => {
  const limitsOf = (n: number): Limits =>
    settleAtEnqueue({ publish: { timeout: minutes(n) }, type: null, queue: null, server: DEFAULT_LIMITS })

  test('are shared from the second time on, and read the same before and after', async () => {
    const file = newFile()
    let store = await openFile(file)
    const steps = Array.from({ length: 4 }, () => admitted({ limits: limitsOf(7) }))
    for (const step of steps) await saveIn(store, changesOf(step))
    await store.close()
    const db = new Database(file)
    const stored = db.prepare('SELECT typeof(limits) FROM jobs ORDER BY place').pluck().all()
    expect(stored).toEqual(['text', 'integer', 'integer', 'integer'])
    db.close()
    store = await openFile(file)
    for (const { job } of steps) expect((await store.job(job.id))?.limits).toEqual(limitsOf(7))
    await store.close()
  })

  test('that were shared by a transaction that failed are not referred to', async () => {
    const file = newFile()
    let store = await openFile(file)
    const steps = () => [1, 1, 2, 2].map((n) => admitted({ limits: limitsOf(n) }))
    await expect(
      within(store, async (tx) => {
        await tx.save(changesOf(...steps()))
        throw new Error('changed my mind')
      }),
    ).rejects.toThrow('changed my mind')
    const kept = steps().reverse()
    await saveIn(store, changesOf(...kept))
    await store.close()
    store = await openFile(file)
    for (const { job } of kept) expect((await store.job(job.id))?.limits).toEqual(job.limits)
    await store.close()
  })

  test('in any number are read as they were written', async () => {
    const store = await openFile(newFile())
    const steps = Array.from({ length: 3_000 }, (_, n) => admitted({ limits: limitsOf(1 + (n % 1_500)) }))
    await saveIn(store, changesOf(...steps))
    for (const { job } of steps) expect((await store.job(job.id))?.limits).toEqual(job.limits)
    await store.close()
  })

  test('are shared up to 4 KB; a longer one stays in its rows, and is not remembered', async () => {
    const file = newFile()
    let store = await openFile(file)
    const long = (length: number): RetryPolicy => {
      const empty = JSON.stringify({ ...DEFAULT_RETRY, nonRetryable: [''] }).length
      return { ...DEFAULT_RETRY, nonRetryable: ['x'.repeat(length - empty)] }
    }
    const steps = [4_096, 4_097].flatMap((length) => [1, 2, 3].map(() => admitted({ retry: long(length) })))
    for (const step of steps) await saveIn(store, changesOf(step))
    const read = async (n: number): Promise<RetryPolicy | undefined> => (await store.job(steps[n]?.job.id ?? ''))?.retry
    expect(await read(1)).toBe(await read(2))
    expect(await read(4)).not.toBe(await read(4))
    await store.close()
    const db = new Database(file)
    const stored = db.prepare('SELECT typeof(retry) FROM jobs ORDER BY place').pluck().all()
    expect(stored).toEqual(['text', 'integer', 'integer', 'text', 'text', 'text'])
    db.close()
    store = await openFile(file)
    for (const [n, { job }] of steps.entries()) expect(await read(n)).toEqual(job.retry)
    await store.close()
  })

  test('that an older server has shared are read whatever their length', async () => {
    const file = newFile()
    let store = await openFile(file)
    const step = admitted()
    await saveIn(store, changesOf(step))
    await store.close()
    const retry: RetryPolicy = { ...DEFAULT_RETRY, nonRetryable: ['x'.repeat(10_000)] }
    const db = new Database(file)
    const place = Number(db.prepare('SELECT count(*) + 1 FROM texts').pluck().get())
    db.prepare('INSERT INTO texts (place, text) VALUES (?, ?)').run(place, JSON.stringify(retry))
    db.prepare('UPDATE jobs SET retry = ?').run(place)
    db.close()
    store = await openFile(file)
    expect((await store.job(step.job.id))?.retry).toEqual(retry)
    await store.close()
  })
})

describe('the query plans', () => {
  const planOf = (query: string, ...params: unknown[]): string => {
    const db = connect(IN_MEMORY)
    const rows = db.prepare<unknown[], { detail: string }>(`EXPLAIN QUERY PLAN ${query}`).all(...params)
    db.close()
    return rows.map(({ detail }) => detail).join('; ')
  }

  test.each([
    ['claim', sql.FIND_CLAIMABLE, ['default', 1], 'jobs_claim'],
    ['wake', sql.FIND_DUE_JOBS, [0, 1], 'jobs_wake'],
    ['next wake', sql.NEXT_JOB_WAKE, [], 'jobs_wake'],
    ['held', sql.FIND_HELD_BY, ['worker-1'], 'jobs_held'],
    ['active', sql.LIST_ACTIVE_JOBS, [1], 'jobs_held'],
    ['wakes', sql.WAKES, [{ from: 0, until: 9, skip: 0, look: 1 }], 'jobs_wake'],
    ['waking', sql.WAKING_JOBS, [{ from: 0, until: 9, skip: 0, look: 1 }], 'jobs_wake'],
    ['by id', sql.FIND_JOB, ['id'], 'jobs_id'],
    ['oldest dead letters', sql.FIND_OLDEST_DEAD_LETTERS, [1], 'jobs_dead_letter'],
    [
      'dead letters',
      sql.LIST_DEAD_LETTERS,
      [{ queue: null, type: null, tenant: null, limit: 1, offset: 0 }],
      'jobs_dead_letter',
    ],
    ['claim past limiters', sql.FIND_CLAIMABLE_WITHOUT, [{ queue: 'default', without: '[]', limit: 1 }], 'jobs_claim'],
    [
      'claim for a tenant',
      sql.FIND_CLAIMABLE_OF_TENANT,
      [{ queue: 'default', tenant: 'acme', without: '[]', limit: 1 }],
      'jobs_tenant_claim',
    ],
    ['due workers', sql.FIND_DUE_WORKERS, [0, 1], 'workers_wake'],
    ['tombstone', sql.FIND_TOMBSTONE, ['id'], 'tombstones_id'],
  ])('%s uses its index and never sorts', (_, query, params, index) => {
    const plan = planOf(query, ...params)
    expect(plan).toContain(`INDEX ${index}`)
    expect(plan).not.toContain('TEMP B-TREE')
  })

  describe('of lists', () => {
    const INDEXES: Readonly<Record<Way, readonly string[]>> = {
      tag: ['USING PRIMARY KEY (tag=? AND id<?)'],
      timeout: ['jobs_timeout (timeout_kind=? AND id<?)'],
      error: ['jobs_error (error_type=? AND id<?)'],
      worker: ['jobs_held (worker_id=?)', 'jobs_worked (worker_id=? AND id<?)'],
      tenant: ['jobs_tenant (tenant=? AND state=? AND id<?)'],
      aside: ['jobs_aside (state=? AND id<?)'],
      held: ['jobs_held'],
      claim: ['jobs_claim (queue=?)'],
      waiting: ['jobs_claim'],
      ended: ['jobs_ended (<expr>>? AND <expr><?)'],
      created: ['jobs_created (created_at>? AND created_at<?)'],
      id: ['jobs_id (id<?)'],
    }
    const filter = { ...ANY_JOB, queue: 'default', states: ['discarded' as const] }
    const values = { ...sortValues({ way: 'id', filter, before: null, look: 9 }, String), limit: 1, offset: 0 }
    const bound = Object.fromEntries(
      Object.entries(values).map(([name, value]) => [
        name,
        typeof value === 'object' ? JSON.stringify(value) : Number(value) || String(value),
      ]),
    )

    test.each(Object.entries(INDEXES))('by %s go along an index, and are compared row by row', (way, indexes) => {
      for (const part of ['size', 'count', 'walked', 'last'] as const) {
        if (part !== 'count' && WAYS[way as Way] === null) continue
        const plan = planOf(LIST_STATEMENTS[part](way as Way), bound)
        for (const index of indexes) expect(plan).toContain(index)
        expect(plan).not.toMatch(/SCAN (jobs|j|tags)( |$)(?!USING)/)
        // Only what a worker holds is put in order: no more than it can do at once.
        if (way !== 'worker') expect(plan).not.toContain('TEMP B-TREE')
      }
      const sorted = planOf(LIST_STATEMENTS.sorted(way as Way), bound)
      for (const index of indexes) expect(sorted).toContain(index)
      expect(sorted).not.toMatch(/SCAN (jobs|j|tags)( |$)(?!USING)/)
    })
  })
})

describe('when the database cannot serve', () => {
  let file: string
  let store: Store
  let connections: Connection[]
  const job = () => admitted({ body: `"args":["${'x'.repeat(50_000)}"]` })
  const save = (...steps: ReturnType<typeof admitted>[]) => saveIn(store, changesOf(...steps))
  const reasonOf = async (work: Promise<unknown>): Promise<string> => {
    const error: unknown = await work.then(
      () => null,
      (thrown: unknown) => thrown,
    )
    expect(error).toBeInstanceOf(StoreUnavailable)
    return (error as StoreUnavailable).reason
  }

  beforeEach(() => {
    file = newFile()
    connections = []
    const opened = (again: boolean): Connection => {
      const db = connect(file, again)
      connections.push(db)
      return db
    }
    store = new SqliteStore(opened, KEPT, null, null)
  })
  afterEach(() => store.close())

  test('because the disk is full, it says so, keeps what it had, and goes on when there is room', async () => {
    const kept = job()
    await save(kept)
    const db = connections[0]
    db?.pragma(`max_page_count = ${String(Number(db.pragma('page_count', { simple: true })) + 20)}`)
    const lost = [job(), job(), job()]
    expect(await reasonOf(save(...lost))).toBe('the disk is full')
    expect(await store.job(kept.job.id)).not.toBeNull()
    expect((await store.counts()).get('default')?.available).toBe(1)
    expect(await store.eventBounds()).toEqual({ first: 1, last: 1 })
    db?.pragma('max_page_count = 1000000')
    await save(...lost)
    expect((await store.counts()).get('default')?.available).toBe(4)
    expect(await store.eventBounds()).toEqual({ first: 1, last: 4 })
    expect(connections).toHaveLength(1)
  })

  test('because another process has locked it, it still reads, and writes again when it is free', async () => {
    const other = new Database(file)
    other.exec('BEGIN IMMEDIATE')
    expect(await reasonOf(save(job()))).toBe('the database is locked by another process')
    expect(await reasonOf(store.ping())).toBe('the database is locked by another process')
    expect(await store.eventBounds()).toEqual({ first: 0, last: 0 })
    expect((await store.counts()).size).toBe(0)
    other.exec('ROLLBACK')
    other.close()
    await store.ping()
    await save(job())
    expect(connections).toHaveLength(1)
  })

  test('because another process has it exclusively, it cannot be opened until it is free', async () => {
    await store.close()
    const other = new Database(file)
    other.pragma('locking_mode = EXCLUSIVE')
    other.exec('BEGIN EXCLUSIVE')
    await expect(openFile(file)).rejects.toThrow(`cannot open ${file}: the database is locked by another process`)
    other.exec('ROLLBACK')
    other.close()
    store = await openFile(file)
    await save(job())
  })

  test('because it became read-only, it takes a fresh connection', async () => {
    await save(job())
    connections[0]?.pragma('query_only = ON')
    expect(await reasonOf(save(job()))).toBe('the database file is read-only')
    expect((await store.counts()).get('default')?.available).toBe(1)
    await save(job())
    expect(await store.eventBounds()).toEqual({ first: 1, last: 2 })
    expect(connections).toHaveLength(2)
  })

  /** The next insert of a job fails as it would on a broken disk. */
  const breakDisk = (code: string): void => {
    const db = connections.at(-1)
    db?.function('fault', () => {
      throw new Database.SqliteError('disk I/O error', code)
    })
    db?.exec('CREATE TEMP TRIGGER broken BEFORE INSERT ON main.jobs BEGIN SELECT fault(); END')
  }

  test('because the disk failed, nothing of the transaction remains, and a fresh connection goes on', async () => {
    const kept = job()
    await save(kept)
    breakDisk('SQLITE_IOERR_WRITE')
    const lost = job()
    expect(await reasonOf(save(lost))).toBe('disk I/O error')
    expect(await store.job(lost.job.id)).toBeNull()
    await save(lost)
    expect((await store.counts()).get('default')?.available).toBe(2)
    expect(await store.eventBounds()).toEqual({ first: 1, last: 2 })
    expect(connections).toHaveLength(2)
  })

  test('because the file is gone, it does not begin an empty one, and goes on when the file is back', async () => {
    const kept = job()
    await save(kept)
    breakDisk('SQLITE_IOERR_READ')
    expect(await reasonOf(save(job()))).toBe('disk I/O error')
    renameSync(file, `${file}.away`)
    expect(await reasonOf(store.counts())).toBe('the database file cannot be opened')
    expect(await reasonOf(save(job()))).toBe('the database file cannot be opened')
    renameSync(`${file}.away`, file)
    expect(await store.job(kept.job.id)).not.toBeNull()
    await save(job())
  })

  test('an error that is not the disk’s is passed on as it is', async () => {
    breakDisk('SQLITE_MISUSE')
    await expect(save(job())).rejects.toThrow(Database.SqliteError)
    expect(connections).toHaveLength(1)
  })

  test.each(['SQLITE_CORRUPT', 'SQLITE_CORRUPT_INDEX', 'SQLITE_NOTADB'])(
    'a damaged file (%s) is reported with its name and what to do',
    async (code) => {
      breakDisk(code)
      const refused = save(job())
      await expect(refused).rejects.toThrow(StoreDamaged)
      await expect(refused).rejects.toMatchObject({
        reason: 'the database file is damaged',
        file: expect.stringMatching(/\.db$/),
        advice: expect.arrayContaining([expect.stringContaining('curfew check')]),
      })
    },
  )
})

test('a worker’s row is written small however often it beats', async () => {
  const file = newFile()
  const store = await openFile(file)
  const handlers = Object.fromEntries(
    Array.from({ length: 50 }, (_, n) => [`type-${String(n)}`, { timeout: minutes(n) }]),
  )
  await saveIn(store, changes({ workers: [{ before: null, after: aWorker({ handlers }) }] }))
  for (let beat = 1; beat <= 3; beat++) {
    const before = await store.worker('worker-1')
    if (before !== null)
      await saveIn(store, changes({ workers: [{ before, after: { ...before, lastSeenAt: at(beat) } }] }))
  }
  expect((await store.worker('worker-1'))?.handlers).toEqual(handlers)
  await store.close()
  const db = new Database(file)
  expect(db.prepare('SELECT typeof(handlers) FROM workers').pluck().get()).toBe('integer')
  db.close()
})
