/** Tenants: a label on jobs, and a filter on the calls that name one. */
import { expect, test } from 'vitest'
import { seededRandom } from '@curfew/core'
import { Client, defineJob, Worker } from '@curfew/sdk'
import { idle, TestServer, type Reply } from '../harness.ts'

const JOB = { type: 'test.job', args: [] }
const as = (tenant: string): Record<string, string> => ({ 'x-ojs-tenant': tenant })
const ids = ({ body }: Reply): string[] => body.jobs.map(({ id }) => id)

async function push(server: TestServer, tenant: string, job: object = {}): Promise<string> {
  const reply = await server.call('POST', '/ojs/v1/jobs', { ...JOB, ...job }, as(tenant))
  expect(reply.status).toBe(201)
  return reply.body.job.id
}

const fetchAs = (server: TestServer, tenant: string, more: object = {}): Promise<Reply> =>
  server.call('POST', '/ojs/v1/workers/fetch', { queues: ['default'], count: 10, ...more }, as(tenant))

async function answered(poll: Promise<Reply>): Promise<boolean> {
  await idle()
  const open = Symbol('open')
  return (await Promise.race([poll, Promise.resolve(open)])) !== open
}

test('the header of an enqueue becomes meta.tenant_id, one by one, in batches and in bulk', async () => {
  const server = await TestServer.open()
  const one = await server.call('POST', '/ojs/v1/jobs', { ...JOB, meta: { a: 1 } }, as('acme'))
  expect(one.body.job['meta']).toEqual({ a: 1, tenant_id: 'acme' })
  const batch = await server.call('POST', '/ojs/v1/jobs/batch', { jobs: [JOB, JOB] }, as('acme'))
  expect(batch.body.jobs.map(({ meta }) => meta as unknown)).toEqual([{ tenant_id: 'acme' }, { tenant_id: 'acme' }])
  const bulk = await server.call('POST', '/ojs/v1/jobs/bulk', { jobs: [JOB] }, as('acme'))
  expect(bulk.body.items[0]?.['job'].meta).toEqual({ tenant_id: 'acme' })
  expect((await server.get('/ojs/v1/admin/tenants/acme/stats')).body['total_jobs']).toBe(4)
})

test('a header that is not a tenant, or that meta contradicts, is refused and changes nothing', async () => {
  const server = await TestServer.open()
  const reply = await server.call('POST', '/ojs/v1/jobs', JOB, as('a b'))
  expect([reply.status, reply.body.error.details.field]).toEqual([400, 'X-OJS-Tenant'])
  const other = await server.call('POST', '/ojs/v1/jobs', { ...JOB, meta: { tenant_id: 'beta' } }, as('acme'))
  expect([other.status, other.body.error.details.field]).toEqual([400, 'meta.tenant_id'])
  expect((await fetchAs(server, '')).status).toBe(400)
  expect((await server.get('/ojs/v1/jobs')).body.jobs).toEqual([])
})

test('meta.tenant_id alone makes it a tenant’s job, too', async () => {
  const server = await TestServer.open()
  const id = await server.enqueue({ meta: { tenant_id: 'acme' } })
  await server.enqueue({ meta: { tenant_id: 42 } })
  expect(ids(await fetchAs(server, 'acme'))).toEqual([id])
})

test('a fetch for a tenant gets its jobs only, in their order; without a header it gets all', async () => {
  const server = await TestServer.open()
  const a = [await push(server, 'a'), await push(server, 'a', { priority: 5 })]
  const b = await push(server, 'b')
  const untagged = await server.enqueue()
  expect(ids(await fetchAs(server, 'a'))).toEqual([a[1], a[0]])
  expect(ids(await fetchAs(server, 'c'))).toEqual([])
  expect(ids(await server.fetch({ count: 10 }))).toEqual([b, untagged])
})

test('an exchange fetches for a tenant as well', async () => {
  const server = await TestServer.open()
  await push(server, 'b')
  const own = await push(server, 'a')
  const asked = { worker_id: 'w', fetch: { queues: ['default'], count: 5 } }
  expect(ids(await server.call('POST', '/ojs/v1/workers/exchange', asked, as('a')))).toEqual([own])
})

test('a tenant’s poll is woken by its own jobs, and does not take the wake of others', async () => {
  const server = await TestServer.open()
  const forA = fetchAs(server, 'a', { wait_ms: 30_000 })
  const forB = fetchAs(server, 'b', { wait_ms: 30_000 })
  const forAll = server.fetch({ wait_ms: 30_000 })
  await server.advance(1_000)
  const first = await push(server, 'b')
  expect(ids(await forB)).toEqual([first])
  expect(await answered(forA)).toBe(false)
  const second = await server.enqueue()
  expect(ids(await forAll)).toEqual([second])
  const third = await push(server, 'a')
  expect(ids(await forA)).toEqual([third])
})

const LOOKS: [string, string, unknown][] = [
  ['GET', '', undefined],
  ['GET', '/explain', undefined],
  ['GET', '/result', undefined],
  ['GET', '/progress', undefined],
  ['PATCH', '', { priority: 5 }],
  ['DELETE', '', undefined],
  ['POST', '/cancel', {}],
]

test.each(LOOKS)('%s /jobs/:id%s of another tenant is not found, and does nothing', async (method, path, body) => {
  const server = await TestServer.open()
  const id = await push(server, 'a')
  const reply = await server.call(method, `/ojs/v1/jobs/${id}${path}`, body, as('b'))
  expect([reply.status, reply.body.error.code]).toEqual([404, 'not_found'])
  expect(await server.job(id)).toMatchObject({ state: 'available', priority: 0 })
  expect((await server.call(method, `/ojs/v1/jobs/${id}${path}`, body, as('a'))).status).toBe(200)
  const again = await push(server, 'a')
  expect((await server.call(method, `/ojs/v1/jobs/${again}${path}`, body)).status).toBe(200)
})

test('operators’ calls with a header keep to the tenant as well', async () => {
  const server = await TestServer.open()
  const [own, other] = [await push(server, 'a'), await push(server, 'b')]
  expect((await server.get(`/ojs/v1/admin/jobs/${own}`, as('b'))).status).toBe(404)
  expect((await server.call('POST', `/ojs/v1/admin/jobs/${own}/cancel`, undefined, as('b'))).status).toBe(404)
  const byIds = { confirm: true, job_ids: [own, other] }
  const bulk = await server.call('POST', '/ojs/v1/admin/jobs/bulk/cancel', byIds, as('a'))
  expect(bulk.body).toMatchObject({ succeeded: 1, failed: 1, errors: [{ job_id: other, code: 'not_found' }] })
  const byFilter = { confirm: true, filter: { queue: 'default' } }
  const none = await server.call('POST', '/ojs/v1/admin/jobs/bulk/cancel', byFilter, as('a'))
  expect(none.body).toMatchObject({ matched: 0 })
  expect((await server.job(other)).state).toBe('available')
})

test('lists show the tenant’s jobs, dead letters too', async () => {
  const server = await TestServer.open()
  const dead = { retry: { max_attempts: 1, on_exhaustion: 'dead_letter' } }
  const [a, b] = [await push(server, 'a', dead), await push(server, 'b', dead)]
  const listed = async (url: string, headers = {}): Promise<unknown[]> => {
    const { body } = await server.get(url, headers)
    const jobs = (body.jobs as { id: string }[] | undefined) ?? body.items
    return [jobs.map(({ id }) => id).sort(), body['pagination'].total as unknown]
  }
  expect(await listed('/ojs/v1/jobs', as('a'))).toEqual([[a], 1])
  expect(await listed('/ojs/v1/admin/jobs', as('b'))).toEqual([[b], 1])
  expect(await listed('/ojs/v1/jobs')).toEqual([[a, b].sort(), 2])
  await server.fetch({ count: 5 })
  await server.nack(a)
  await server.nack(b)
  expect(await listed('/ojs/v1/dead-letter', as('a'))).toEqual([[a], 1])
  expect((await server.call('POST', `/ojs/v1/dead-letter/${a}/retry`, {}, as('b'))).status).toBe(404)
  const all = await server.call('POST', '/ojs/v1/admin/dead-letter/retry', { confirm: true }, as('b'))
  expect(all.body).toMatchObject({ retried: 1 })
  expect(await listed('/ojs/v1/dead-letter')).toEqual([[a], 1])
})

test('the statistics of a tenant count its jobs by state', async () => {
  const server = await TestServer.open()
  await push(server, 'a')
  await push(server, 'a', { scheduled_at: '+PT1H' })
  await push(server, 'b')
  await fetchAs(server, 'a')
  const { body } = await server.get('/ojs/v1/admin/tenants/a/stats')
  expect(body).toMatchObject({ tenant_id: 'a', total_jobs: 2, active: 1, scheduled: 1, available: 0 })
  expect((await server.get('/ojs/v1/admin/tenants/unknown/stats')).body['total_jobs']).toBe(0)
  expect((await server.get('/ojs/v1/admin/tenants/a%20b/stats')).status).toBe(400)
})

test('a tenant stays with a job through its retries', async () => {
  const server = await TestServer.open()
  const id = await push(server, 'a', { retry: { max_attempts: 3, initial_interval: 'PT1S', jitter: false } })
  await fetchAs(server, 'a')
  await server.nack(id)
  await server.advance(1_000)
  expect(ids(await fetchAs(server, 'b'))).toEqual([])
  expect(ids(await fetchAs(server, 'a'))).toEqual([id])
})

test('a client and a worker of the SDK speak for their tenant', async () => {
  const server = await TestServer.open()
  const mail = defineJob<[to: string]>('mail.send')
  const clientOf = (tenant: string): Client =>
    new Client({ server, host: server.clock, random: seededRandom(tenant.length), tenant })
  const own = await clientOf('a').enqueue(mail, ['x'], { rateLimit: { key: 'mail', concurrency: 1 } })
  await clientOf('beta').enqueue(mail, ['y'])
  await expect(clientOf('beta').get(own)).rejects.toMatchObject({ status: 404 })
  const done: string[] = []
  const worker = new Worker({ server, host: server.clock, random: () => 0.5, tenant: 'a' })
  worker.handle(mail, (_, [to]) => void done.push(to))
  await worker.start()
  await server.advance(1_000)
  expect(done).toEqual(['x'])
  expect((await server.get('/ojs/v1/rate-limits/mail')).body).toMatchObject({ key: 'mail', concurrency: { limit: 1 } })
  await worker.stop()
})
