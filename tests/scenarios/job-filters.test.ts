/** One filter for lists and bulk actions: what each name means, on both doors; and what a bulk action would do. */
import { beforeAll, describe, expect, test } from 'vitest'
import { at, TestServer, type Reply } from '../harness.ts'

const second = (n: number): string => at(n * 1_000)

let server: TestServer
/** Jobs by what became of them. */
const jobs: Record<string, string> = {}

const listed = async (query: string, headers = {}): Promise<string[]> => {
  const reply = await server.get(`/ojs/v1/jobs?limit=200&${query}`, headers)
  expect([reply.status, reply.text.slice(0, 200)]).toEqual([200, expect.anything()])
  return namesOf(reply.body.jobs)
}
const namesOf = (found: readonly { id: string }[]): string[] =>
  found.map(({ id }) => Object.keys(jobs).find((name) => jobs[name] === id) ?? id)
const name = (id: string): string => namesOf([{ id }])[0] ?? id

beforeAll(async () => {
  server = await TestServer.open()
  const run = async (as: string, job: Record<string, unknown>, worker = 'w1'): Promise<string> => {
    const { id } = await server.start(job, { worker_id: worker })
    jobs[as] = id
    await server.advance(1_000)
    return id
  }
  // One second each, from noon on.
  await server.ack(await run('done', { queue: 'a', tags: ['red', 'blue'], meta: { customer: 'x' } }))
  await server.nack(await run('failed', { queue: 'a', tags: ['red'], retry: { max_attempts: 1 } }, 'w2'), {
    type: 'DbDown',
    message: 'no',
  })
  await run('timeout', { queue: 'b', timeout: 1, grace_period: 0, retry: { max_attempts: 1 }, meta: { customer: 'x' } })
  await server.advance(10_000)
  await server.nack(await run('again', { queue: 'b', retry: { initial_interval: 'PT1H' } }), {
    type: 'DbDown',
    message: '',
  })
  jobs['unstarted'] = await server.enqueue({ queue: 'b', enqueue_ttl: 1 })
  await server.advance(5_000)
  jobs['waiting'] = await server.enqueue({ queue: 'a', tags: ['blue'], priority: 5 })
  await run('held', { queue: 'c', type: 'other' }, 'w2')
})

describe('a list of jobs', () => {
  test.each([
    ['error_type=timeout', ['timeout']],
    ['error_type=DbDown', ['again', 'failed']],
    ['error_type=DbDown&state=discarded', ['failed']],
    ['error_type=DbDown&queue=b&state=retryable', ['again']],
    ['error_type=enqueue_ttl_expired', ['unstarted']],
    ['error_type=nothing', []],
    ['timeout_kind=execution', ['timeout']],
    ['timeout_kind=enqueue_ttl', ['unstarted']],
    ['timeout_kind=total', []],
    ['tag=red', ['failed', 'done']],
    ['tag=blue&queue=a', ['waiting', 'done']],
    ['tag=red&error_type=DbDown', ['failed']],
    ['tag=green', []],
    ['worker=w2', ['held', 'failed']],
    ['worker=w1&state=completed', ['done']],
    ['worker=w2&state=active&queue=c', ['held']],
    ['type=other', ['held']],
    ['priority=5', ['waiting']],
    ['state=discarded,retryable', ['unstarted', 'again', 'timeout', 'failed']],
    ['meta={"customer":"x"}', ['timeout', 'done']],
    ['meta={"customer":"x"}&state=completed', ['done']],
    [`created_before=${second(2)}`, ['failed', 'done']],
    [`created_after=${second(0)}&created_before=${second(2)}`, ['failed']],
    [`until=${second(1)}`, ['done']],
    [`created_after=${second(13)}&queue=a`, ['waiting']],
    [`ended_before=${second(3)}`, ['failed', 'done']],
    [`ended_after=${second(1)}&error_type=DbDown`, ['failed']],
    [`ended_after=${second(0)}&state=completed`, ['done']],
    [`ended_after=${second(60)}`, []],
    [`enqueued_before=${second(1)}`, ['done']],
  ])('%s', async (query, expected) => {
    const { body } = await server.get(`/ojs/v1/jobs?${encodeURI(query)}`)
    expect(namesOf(body.jobs)).toEqual(expected)
    expect(body.pagination).toMatchObject({ total: expected.length, has_more: false })
    expect(body.pagination).not.toHaveProperty('total_is_lower_bound')
    const admin = await server.get(`/ojs/v1/admin/jobs?${encodeURI(query)}`)
    expect(namesOf(admin.body.items)).toEqual(expected)
  })

  test.each([
    'timeout_kind=late',
    'tag=',
    'error_type=',
    'state=asleep',
    'state=active,asleep',
    'created_after=yesterday',
    'ended_before=%2BPT5S',
    'priority=1000',
    'priority=high',
    'meta=[]',
    'meta=x',
    'cursor=1767268800000.nope',
  ])('refuses %s, naming the parameter', async (query) => {
    const reply = await server.get(`/ojs/v1/jobs?${query}`)
    expect(reply.status).toBe(400)
    expect(String(reply.body.error.details.field)).toMatch(new RegExp(`^${query.split('=')[0] ?? ''}`))
  })

  test.each([
    `created_after=${second(-1)}`,
    `ended_after=${second(0)}`,
    'error_type=DbDown',
    'tag=red',
    'worker=w1',
    'type=test',
  ])('by %s goes on from page to page', async (query) => {
    const all = await listed(query)
    const seen: string[] = []
    let next = ''
    for (let pages = 0; pages <= all.length; pages += 1) {
      const { body } = await server.get(`/ojs/v1/jobs?limit=1&${query}${next}`)
      seen.push(...namesOf(body.jobs))
      if (!body.pagination.has_more) break
      next = `&cursor=${String(body.pagination.next_cursor)}`
    }
    expect(seen).toEqual(all)
  })

  test('refuses the cursor of a list in another order', async () => {
    const { body } = await server.get(`/ojs/v1/jobs?limit=1&ended_after=${second(0)}`)
    const reply = await server.get(`/ojs/v1/jobs?cursor=${String(body.pagination.next_cursor)}`)
    expect([reply.status, reply.body.error.details.field]).toEqual([400, 'cursor'])
  })
})

describe('a dry run', () => {
  const dry = (url: string, body: object, method: 'POST' | 'DELETE' = 'POST'): Promise<Reply> =>
    server.call(method, url, { dry_run: true, ...body })

  test('of a bulk action says which jobs it would act on, and changes nothing', async () => {
    const before = (await server.get('/ojs/v1/jobs?limit=200')).text
    const reply = await dry('/ojs/v1/jobs/bulk/retry', { filter: { error_type: 'DbDown' } })
    expect(reply.status).toBe(200)
    expect(reply.body).toMatchObject({
      dry_run: true,
      action: 'retry',
      matched: 2,
      would_act_on: 2,
      skipped: 0,
      by_state: { discarded: 1, retryable: 1 },
      by_queue: { a: 1, b: 1 },
    })
    expect((reply.body['job_ids'] as string[]).map(name)).toEqual(['failed', 'again'])
    expect((await server.get('/ojs/v1/jobs?limit=200')).text).toBe(before)
  })

  test('needs no confirmation, neither from applications nor from administrators', async () => {
    const all = await dry('/ojs/v1/jobs/bulk/cancel', { filter: {} })
    expect(all.body).toMatchObject({ matched: 1, by_state: { available: 1 } })
    expect((await dry('/ojs/v1/admin/jobs/bulk/cancel', { filter: {} })).body).toMatchObject({ matched: 3 })
    expect((await dry('/ojs/v1/dead-letter/retry', {})).body).toMatchObject({ matched: 0, job_ids: [] })
    expect((await dry('/ojs/v1/dead-letter', {}, 'DELETE')).body).toMatchObject({ matched: 0 })
  })

  test('by ids counts those that would be refused', async () => {
    const ids = [jobs['waiting'], jobs['done'], '01890000-0000-7000-8000-000000000000']
    const reply = await dry('/ojs/v1/jobs/bulk/cancel', { job_ids: ids })
    expect(reply.body).toMatchObject({ matched: 3, would_act_on: 1, skipped: 2, job_ids: [jobs['waiting']] })
  })

  test('keeps to the limit, as the action does', async () => {
    const body = { filter: { tag: 'red', state: ['completed', 'discarded'] }, limit: 1 }
    const trial = await dry('/ojs/v1/jobs/bulk/delete', body)
    expect(trial.body).toMatchObject({ matched: 1, job_ids: [jobs['done']] })
  })
})

test('each name of the filter chooses the same jobs for a bulk action as for a list', async () => {
  const states = {
    state: ['scheduled', 'available', 'pending', 'active', 'completed', 'retryable', 'cancelled', 'discarded'],
  }
  const filters: Record<string, string>[] = [
    { error_type: 'DbDown' },
    { timeout_kind: 'execution' },
    { tag: 'red' },
    { worker: 'w1' },
    { created_after: second(0), created_before: second(2) },
    { ended_after: second(1), ended_before: second(20) },
    { queue: 'a', tag: 'blue' },
  ]
  for (const filter of filters) {
    const query = new URLSearchParams(filter).toString()
    const trial = await server.post('/ojs/v1/admin/jobs/bulk/delete', {
      dry_run: true,
      filter: { ...filter, ...states },
    })
    const list = (await server.get(`/ojs/v1/jobs?${query}`)).body
    expect([filter, trial.body['matched']]).toEqual([filter, list.pagination.total])
  }
})

test('a bulk action by a new name of the filter acts on these jobs alone', async () => {
  const done = await server.post('/ojs/v1/jobs/bulk/retry', { filter: { timeout_kind: 'execution' } })
  expect(done.body).toMatchObject({ total_matched: 1, retried: 1, items: [{ job_id: jobs['timeout'] }] })
  expect(await listed('timeout_kind=execution')).toEqual([])
  const gone = await server.post('/ojs/v1/admin/jobs/bulk/delete', { confirm: true, filter: { tag: 'red' } })
  expect(gone.body).toMatchObject({ matched: 2, succeeded: 2 })
  expect(await listed('tag=red')).toEqual([])
})

test('a list of many jobs looks at so many for a page, says how far, and goes on from there', async () => {
  const many = await TestServer.open()
  const rare = await many.enqueue({ type: 'rare' })
  await many.advance(1)
  const some = (type: string): object[] => Array.from({ length: 5_050 }, () => ({ type, args: [] }))
  for (const type of ['common', 'often']) {
    expect((await many.post('/ojs/v1/jobs/batch', { jobs: some(type) })).status).toBe(201)
    await many.advance(1)
  }
  const none = (await many.get('/ojs/v1/jobs?type=rare')).body
  expect(none.jobs).toEqual([])
  expect(none.pagination).toMatchObject({ total: 0, total_is_lower_bound: true, has_more: true, x_looked_at: 10_000 })
  // The oldest 100 of the first batch, and the job before them, were not looked at.
  expect(none.pagination.x_looked_back_to).toBe(at(1))
  const found = (await many.get(`/ojs/v1/jobs?type=rare&cursor=${String(none.pagination.next_cursor)}`)).body
  expect(found.jobs).toMatchObject([{ id: rare }])
  expect(found.pagination).toMatchObject({ total: 1, total_is_lower_bound: true, has_more: false })
  expect((await many.get('/ojs/v1/jobs?type=common&limit=2')).body).toMatchObject({
    jobs: [{ type: 'common' }, { type: 'common' }],
    pagination: { has_more: true, total_is_lower_bound: true },
  })
  expect((await many.get('/ojs/v1/jobs?limit=2')).body.pagination).toMatchObject({ total: 10_101, has_more: true })
  const trial = await many.post('/ojs/v1/jobs/bulk/cancel', { dry_run: true, filter: { type: 'rare' } })
  expect(trial.body).toMatchObject({ matched: 1, job_ids: [rare] })
  const all = await many.post('/ojs/v1/jobs/bulk/cancel', { dry_run: true, filter: { type: 'common' } })
  expect(all.body).toMatchObject({ matched: 5_050, by_queue: { default: 5_050 }, x_ids_omitted: 4_050 })
})
