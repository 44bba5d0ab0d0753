/** Lists, in all three dialects of paging. */
import { beforeAll, expect, test } from 'vitest'
import { TestServer, type Body } from '../harness.ts'

let server: TestServer
let newestFirst: string[]

beforeAll(async () => {
  server = await TestServer.open()
  newestFirst = []
  for (let n = 0; n < 7; n += 1) {
    newestFirst.unshift(await server.enqueue({ queue: n % 2 === 0 ? 'even' : 'odd', type: `t${String(n % 3)}` }))
    await server.advance(1)
  }
})

const idsOf = (jobs: { id: string }[]): string[] => jobs.map(({ id }) => id)

test('by limit and offset', async () => {
  const { jobs, pagination } = (await server.get('/ojs/v1/jobs?limit=3&offset=2')).body
  expect(idsOf(jobs)).toEqual(newestFirst.slice(2, 5))
  expect(pagination).toMatchObject({ total: 7, limit: 3, offset: 2, has_more: true })
})

test('by page and per_page', async () => {
  for (const [url, key] of [
    ['/ojs/v1/admin/jobs', 'items'],
    ['/ojs/v1/jobs', 'jobs'],
  ] as const) {
    const { body } = await server.get(`${url}?page=3&per_page=3`)
    expect(idsOf(body[key])).toEqual(newestFirst.slice(6))
    expect(body.pagination).toMatchObject({ total: 7, page: 3, per_page: 3, has_more: false })
  }
})

test('by cursor, to the end, with no empty page after it', async () => {
  const seen: string[] = []
  let url: string | null = '/ojs/v1/jobs?limit=2'
  let pages = 0
  while (url !== null && pages < 10) {
    const { jobs, pagination }: Body = (await server.get(url)).body
    seen.push(...idsOf(jobs))
    pages += 1
    url = pagination.has_more ? `/ojs/v1/jobs?limit=2&cursor=${String(pagination.next_cursor)}` : null
  }
  expect([seen, pages]).toEqual([newestFirst, 4])
})

test('a page that ends exactly at the end has no more', async () => {
  const { pagination } = (await server.get('/ojs/v1/jobs?limit=7')).body
  expect(pagination.has_more).toBe(false)
  expect(pagination).not.toHaveProperty('next_cursor')
  const half = (await server.get('/ojs/v1/jobs?queue=even&limit=2')).body
  const rest = (await server.get(`/ojs/v1/jobs?queue=even&limit=2&cursor=${half.pagination.next_cursor}`)).body
  expect([half.pagination.has_more, rest.jobs.length, rest.pagination.has_more]).toEqual([true, 2, false])
})

test('by filter, with the total of what matches', async () => {
  expect((await server.get('/ojs/v1/jobs?queue=odd')).body.pagination.total).toBe(3)
  expect((await server.get('/ojs/v1/jobs?type=t0')).body.pagination.total).toBe(3)
  expect((await server.get('/ojs/v1/jobs?queue=even&type=t0&state=available')).body.pagination.total).toBe(2)
  expect((await server.get('/ojs/v1/jobs?state=active')).body).toMatchObject({ jobs: [], pagination: { total: 0 } })
})

test('defaults and the most of each dialect', async () => {
  const shown = async (url: string): Promise<number> => (await server.get(url)).body.pagination.limit as number
  expect(await shown('/ojs/v1/jobs')).toBe(50)
  expect(await shown('/ojs/v1/jobs?limit=5000')).toBe(200)
  expect(await shown('/ojs/v1/admin/jobs')).toBe(20)
  expect(await shown('/ojs/v1/admin/jobs?per_page=5000')).toBe(100)
})

test.each(['limit=0', 'limit=x', 'limit=1.5', 'offset=-1', 'page=0', 'per_page=0', 'state=asleep', 'cursor=nope'])(
  '%s is refused',
  async (query) => {
    const reply = await server.get(`/ojs/v1/jobs?${query}`)
    expect([reply.status, reply.body.error.details.field]).toEqual([400, query.split('=')[0]])
  },
)

test('queues are listed and paged too', async () => {
  const { queues, pagination } = (await server.get('/ojs/v1/queues?limit=1')).body
  expect(queues).toMatchObject([{ name: 'even', status: 'active', paused: false, counts: { available: 4 } }])
  expect(pagination).toMatchObject({ total: 2, has_more: true })
  expect((await server.get('/ojs/v1/admin/queues?page=2&per_page=1')).body.items).toMatchObject([{ name: 'odd' }])
  expect((await server.get('/ojs/v1/queues?limit=2')).body.pagination.has_more).toBe(false)
})
