/** What jobs that were stored before are found by, and what a list may cost when there are many jobs. */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, expect, test } from 'vitest'
import { ANY_JOB, complete, fail, minutes, type Job, type JobFilter } from '@curfew/core'
import { admitted, changesOf, claimed, momentAt, saveIn, within } from '../builders.suite.ts'
import type { Store } from '../store.ts'
import { Database } from './driver.ts'
import { openSqliteStore } from './store.ts'

const folder = mkdtempSync(join(tmpdir(), 'curfew-lists-'))
afterAll(() => {
  rmSync(folder, { recursive: true, force: true })
})

const openFile = (file: string): Promise<Store> =>
  openSqliteStore({ file, durability: 'normal', events: { maxAgeMs: minutes(60), maxCount: 1_000 } })

test('jobs that an earlier version has written are found by what is stored of them', async () => {
  const file = join(folder, 'old.db')
  let store = await openFile(file)
  const large = `"args":["${'x'.repeat(1_000)}"],"tags":["red","blue"]`
  const steps = [large, '"args":[],"tags":["red"]', '"args":[]'].map((body) => admitted({ body }))
  await saveIn(store, changesOf(...steps))
  const ids = steps.map(({ job }) => job.id)
  const find = (): Promise<Job[]> => within(store, (tx) => tx.findJobs(ids))
  const [first, second, third] = (await find()) as [Job, Job, Job]
  await saveIn(store, changesOf(claimed(first, 'w1'), claimed(second, 'w2'), claimed(third, 'w3')))
  const [failed, done] = (await find()) as [Job, Job]
  const timeout = { type: 'timeout', message: '', retryable: false }
  await saveIn(store, changesOf(fail(failed, timeout, momentAt(3_600_000)), complete(done, null, momentAt(5))))
  await store.close()
  const db = new Database(file)
  db.exec(`
    DROP INDEX jobs_error;
    DROP INDEX jobs_timeout;
    DROP INDEX jobs_worked;
    DROP INDEX jobs_created;
    DROP INDEX jobs_ended;
    DROP TABLE tags;
    ALTER TABLE jobs DROP COLUMN error_type;
    ALTER TABLE jobs DROP COLUMN timeout_kind;
    UPDATE jobs SET worker_id = NULL WHERE state <> 'active';
    PRAGMA user_version = 10;
  `)
  db.close()
  store = await openFile(file)
  const listed = async (filter: Partial<JobFilter>): Promise<string[]> => {
    const page = await store.jobs({ ...ANY_JOB, ...filter }, null, { limit: 9, offset: 0 })
    return page.jobs.map(({ id }) => id)
  }
  expect(await listed({ errorType: 'timeout' })).toEqual([first.id])
  expect(await listed({ timeoutKind: 'execution' })).toEqual([first.id])
  expect(await listed({ worker: 'w1' })).toEqual([first.id])
  expect(await listed({ worker: 'w2' })).toEqual([second.id])
  expect(await listed({ worker: 'w3' })).toEqual([third.id])
  expect((await listed({ tag: 'red' })).toSorted()).toEqual([first.id, second.id].toSorted())
  expect(await listed({ tag: 'blue' })).toEqual([first.id])
  await store.close()
})
