/** Cron entries with several servers on one database: every tick is fired by one of them, and by one only. */
import { afterAll, beforeAll, expect, test } from 'vitest'
import { Cluster } from '../postgres/cluster.ts'
import { until } from '../process/server-process.ts'
import { Fleet, type Member } from './fleet.ts'

interface Told {
  readonly type: string
  readonly data: { readonly scheduled_at: string; readonly job_id: string; readonly run_count: number }
}

let database: Cluster
let fleet: Fleet

beforeAll(async () => {
  database = await Cluster.start()
  fleet = await Fleet.start({ database: database.url(), skewsMs: [90_000, -90_000, 0] })
})
afterAll(async () => {
  await fleet.stop()
  await database.remove()
})

async function get(path: string): Promise<Record<string, unknown>> {
  const reply = await fleet.call('GET', path)
  if (reply?.status !== 200) throw new Error(`no answer from ${path}`)
  return reply.body as Record<string, unknown>
}
const told = async (type: string): Promise<Told[]> =>
  ((await get(`/ojs/v1/events?types=${type}&limit=1000`)).events as Told[]).filter((event) => event.type === type)

test('each second fires once, while a server is killed, another stopped, and both come back', async () => {
  const registered = await fleet.call('POST', '/ojs/v1/cron', {
    name: 'second',
    expression: '* * * * * *',
    overlap_policy: 'allow',
    job_template: { type: 'test.tick', args: [] },
  })
  expect(registered?.status).toBe(201)
  const [first, second] = fleet.members as [Member, Member]
  const fired = (n: number) => until(`${String(n)} ticks`, async () => (await told('cron.triggered')).length >= n)
  await fired(3)
  await fleet.kill(first)
  await fired(5)
  fleet.pause(second)
  await fired(7)
  await fleet.start(first)
  fleet.resume(second)
  await fired(11)
  await fleet.call('PATCH', '/ojs/v1/cron/second', { enabled: false })

  const events = await told('cron.triggered')
  const at = events.map(({ data }) => Date.parse(data.scheduled_at))
  expect(new Set(at).size).toBe(at.length)
  expect(events.map(({ data }) => data.run_count)).toEqual(events.map((_, index) => index + 1))
  expect([...at].sort((a, b) => a - b)).toEqual(at)
  expect(at.every((instant) => instant % 1_000 === 0)).toBe(true)
  const jobs = (await get('/ojs/v1/jobs?limit=200')).jobs as { id: string; meta: { cron_triggered_at: string } }[]
  expect(jobs.map(({ id }) => id).sort()).toEqual(events.map(({ data }) => data.job_id).sort())
  expect(new Set(jobs.map(({ meta }) => meta.cron_triggered_at)).size).toBe(jobs.length)
  expect(await get('/ojs/v1/cron/second')).toMatchObject({ cron: { run_count: events.length } })
})

test('with enqueue, jobs of one entry follow each other whichever servers their ends are told', async () => {
  await fleet.call('POST', '/ojs/v1/cron', {
    name: 'queued',
    expression: '* * * * * *',
    overlap_policy: 'enqueue',
    job_template: { type: 'test.queued', args: [], options: { queue: 'queued' } },
  })
  const done: string[] = []
  await until('six are done', async () => {
    const reply = await fleet.call('POST', '/ojs/v1/workers/fetch', { queues: ['queued'], count: 10, wait_ms: 2_000 })
    const jobs = (reply?.body.jobs ?? []) as { id: string }[]
    expect(jobs.length).toBeLessThanOrEqual(1)
    for (const { id } of jobs) {
      expect((await fleet.call('POST', '/ojs/v1/workers/ack', { job_id: id }))?.status).toBe(200)
      done.push(id)
    }
    return done.length >= 6
  })
  await fleet.call('DELETE', '/ojs/v1/cron/queued')
  expect(new Set(done).size).toBe(done.length)
})
