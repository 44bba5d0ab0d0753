/** Which indexes PostgreSQL takes for lists when there are many jobs, and what older data is found by. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { Client } from 'pg'
import { ANY_JOB, complete, fail, type Instant, type Job, type JobFilter } from '@curfew/core'
import { admitted, changesOf, claimed, momentAt, saveIn, within } from '../builders.suite.ts'
import { sortValues, WAYS, type Way } from '../job-lists.ts'
import { openBench } from './bench.suite.ts'
import { addressOf, connect } from './connection.ts'
import { LIST_STATEMENTS, listParameters } from './job-lists.ts'
import { exact } from './rows.ts'

const bench = await openBench()

describe('the plans of lists', () => {
  let client: Client

  beforeAll(async () => {
    const schema = bench.newSchema()
    await (await bench.open(schema)).close()
    client = await connect(addressOf(bench.url, schema), 'read')
    await client.query(`
      INSERT INTO jobs (
        id, version, state, queue, type, priority, seq, dead_letter, attempt, lease, interruptions, created_at,
        anchor_at, limits_set_at, error_count, checkpoint_seq, limits, retry, errors, given, life,
        tenant, worker_id, completed_at, discarded_at, error_type, timeout_kind)
      SELECT lpad(n::text, 12, '0'), 1,
        CASE WHEN n % 500 = 0 THEN 'discarded' WHEN n % 500 = 1 THEN 'active' WHEN n % 500 = 2 THEN 'available' ELSE 'completed' END,
        'q' || n % 20, 't', 0, n, false, 0, 0, 0, n, 0, 0, 0, 0, '{}', '{}', '', '', '',
        CASE WHEN n % 100 = 0 THEN 'acme' END, 'w' || n % 200,
        CASE WHEN n % 500 > 2 THEN n + 10 END, CASE WHEN n % 500 = 0 THEN n + 10 END,
        CASE WHEN n % 500 = 0 THEN 'timeout' END, CASE WHEN n % 1000 = 0 THEN 'execution' END
      FROM generate_series(1, 40000) n`)
    await client.query(`INSERT INTO bodies SELECT id, '"args":[]' FROM jobs`)
    await client.query(`INSERT INTO job_tags SELECT CASE WHEN seq % 500 = 7 THEN 'red' ELSE 'blue' END, id FROM jobs`)
    await client.query('ANALYZE')
  }, 60_000)
  afterAll(() => client.end())

  const FILTERS: readonly [Way, Partial<JobFilter>, ...string[]][] = [
    ['tag', { tag: 'red' }, 'job_tags_pkey'],
    ['timeout', { timeoutKind: 'execution' }, 'jobs_timeout'],
    ['error', { errorType: 'timeout' }, 'jobs_error'],
    ['error', { errorType: 'timeout', queue: 'q0', states: ['discarded'] }, 'jobs_error'],
    ['worker', { worker: 'w7' }, 'jobs_held', 'jobs_worked'],
    ['worker', { worker: 'w7', queue: 'q7', states: ['completed'] }, 'jobs_held', 'jobs_worked'],
    ['tenant', { tenant: 'acme', states: ['completed'] }, 'jobs_of_tenant'],
    ['aside', { states: ['discarded'] }, 'jobs_aside'],
    ['claim', { states: ['available'], queue: 'q2' }, 'jobs_(claim|deadline)'],
    ['created', { created: { after: 39_000 as Instant, before: null } }, 'jobs_created'],
    [
      'created',
      { created: { after: null, before: 900 as Instant }, queue: 'q1', states: ['completed'] },
      'jobs_created',
    ],
    ['ended', { ended: { after: 39_000 as Instant, before: 39_900 as Instant } }, 'jobs_ended'],
    ['ended', { ended: { after: null, before: 900 as Instant }, queue: 'q1', states: ['completed'] }, 'jobs_ended'],
    ['id', { queue: 'q3' }, 'jobs_pkey'],
  ]

  test.each(FILTERS)('by %s: %o', async (way, given, ...indexes) => {
    const filter = { ...ANY_JOB, ...given }
    const walk = { way, filter, before: null, look: 10_000 }
    const values = { ...sortValues(walk, exact), limit: 51, offset: 0 }
    for (const part of ['size', 'count', 'walked', 'sorted'] as const) {
      if (part === 'walked' && WAYS[way] === null) continue
      const asked = LIST_STATEMENTS[part][way]
      const { rows } = await client.query<{ 'QUERY PLAN': string }>(
        `EXPLAIN ${asked.statement.text.replaceAll(/^--.*$/gm, '')}`,
        listParameters(asked, values),
      )
      const plan = rows.map((row) => row['QUERY PLAN']).join('\n')
      for (const index of indexes) expect(plan).toMatch(new RegExp(`Index.* (using|on) ${index}`))
      expect(plan).not.toMatch(/Seq Scan on (jobs|job_tags)/)
    }
  })
})

test('jobs that an earlier version has written are found by what is stored of them', async () => {
  const schema = bench.newSchema()
  const store = await bench.open(schema)
  const steps = ['w1', 'w2', null].map(() => admitted({ body: '"args":[],"tags":["red","blue"]' }))
  await saveIn(store, changesOf(...steps))
  const jobs = (await within(store, (tx) => tx.findJobs(steps.map(({ job }) => job.id)))) as [Job, Job, Job]
  const find = (): Promise<Job[]> => within(store, (tx) => tx.findJobs(jobs.map(({ id }) => id)))
  await saveIn(store, changesOf(claimed(jobs[0], 'w1'), claimed(jobs[1], 'w2')))
  const [failed, done] = (await find()) as [Job, Job]
  const timeout = { type: 'timeout', message: '', retryable: false }
  await saveIn(store, changesOf(fail(failed, timeout, momentAt(3_600_000)), complete(done, null, momentAt(5))))
  await store.close()
  await bench.ask(`
    SET search_path = ${schema};
    DROP TABLE job_tags;
    ALTER TABLE jobs DROP COLUMN error_type, DROP COLUMN timeout_kind;
    DROP INDEX jobs_worked, jobs_created, jobs_ended;
    UPDATE jobs SET worker_id = NULL;
    DELETE FROM schema_migrations WHERE version > 6`)
  const again = await bench.open(schema)
  const listed = async (filter: Partial<JobFilter>): Promise<string[]> => {
    const page = await again.jobs({ ...ANY_JOB, ...filter }, null, { limit: 9, offset: 0 })
    return page.jobs.map(({ id }) => id)
  }
  expect(await listed({ errorType: 'timeout' })).toEqual([jobs[0].id])
  expect(await listed({ timeoutKind: 'execution' })).toEqual([jobs[0].id])
  expect(await listed({ worker: 'w1' })).toEqual([jobs[0].id])
  expect(await listed({ worker: 'w2' })).toEqual([jobs[1].id])
  expect(await listed({ tag: 'blue' })).toHaveLength(3)
})
