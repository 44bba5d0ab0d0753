/** The cron entries of the SDK against the whole server: jobs with their types, on a schedule. */
import { expect, test } from 'vitest'
import { z } from 'zod'
import { seededRandom } from '@curfew/core'
import { Client, defineJob, InputError, RequestError } from '@curfew/sdk'
import { at, TestServer } from '../harness.ts'

const report = defineJob('report.make', {
  input: z.object({ kind: z.enum(['daily', 'weekly']) }),
  queue: 'reports',
  limits: { timeout: '10m' },
})
const DAILY = { cron: '0 18 * * *', job: report, input: { kind: 'daily' } } as const

async function open() {
  const server = await TestServer.open()
  const { handler } = server
  return { server, client: new Client({ server: { handler }, host: server.clock, random: seededRandom(11) }) }
}

test('an entry holds a job as its kind says, and fires it', async () => {
  const { server, client } = await open()
  const entry = await client.crons.upsert('daily', {
    ...DAILY,
    timezone: 'Europe/Berlin',
    overlap: 'enqueue',
    description: 'Every evening',
    options: { totalTimeout: '1h', priority: 5, meta: { of: 'ours' }, delay: '10s' },
  })
  expect(entry).toMatchObject({
    name: 'daily',
    expression: '0 18 * * *',
    timezone: 'Europe/Berlin',
    overlap_policy: 'enqueue',
    enabled: true,
    description: 'Every evening',
    type: 'report.make',
    args: [{ kind: 'daily' }],
    next_run_at: '2026-01-01T17:00:00.000Z',
    run_count: 0,
  })
  expect(await client.crons.get('daily')).toEqual(entry)
  await server.advance(5 * 3_600_000)
  const [job] = (await server.get('/ojs/v1/jobs')).body.jobs
  expect(job).toMatchObject({
    type: 'report.make',
    queue: 'reports',
    priority: 5,
    args: [{ kind: 'daily' }],
    state: 'scheduled',
    scheduled_at: at(5 * 3_600_000 + 10_000),
    meta: { of: 'ours', cron_name: 'daily' },
    x_limits: { timeout_ms: 600_000, total_ms: 3_600_000 },
  })
})

test('entries are registered again, listed, changed, switched, fired and removed', async () => {
  const { client } = await open()
  await client.crons.upsert('b', DAILY)
  await client.crons.upsert('a', { ...DAILY, enabled: false })
  await client.crons.upsert('b', { ...DAILY, input: { kind: 'weekly' } })
  expect((await client.crons.list()).map(({ name, args }) => [name, args])).toEqual([
    ['a', [{ kind: 'daily' }]],
    ['b', [{ kind: 'weekly' }]],
  ])
  expect((await client.crons.list({ enabled: false })).map(({ name }) => name)).toEqual(['a'])
  expect((await client.crons.enable('a')).next_run_at).toBe('2026-01-01T18:00:00.000Z')
  expect((await client.crons.disable('a')).next_run_at).toBeNull()
  expect(await client.crons.patch('b', { cron: '@every 1h', overlap: 'enqueue', description: null })).toMatchObject({
    expression: '@every 1h',
    overlap_policy: 'enqueue',
    next_run_at: at(3_600_000),
  })
  expect(await client.crons.next('b', { count: 2 })).toEqual([new Date(at(3_600_000)), new Date(at(7_200_000))])
  expect(await client.crons.trigger('b')).toMatchObject({ type: 'report.make', meta: { cron_name: 'b' } })
  expect(await client.crons.trigger('b')).toBeNull()
  await client.crons.delete('b')
  await expect(client.crons.get('b')).rejects.toMatchObject({ code: 'not_found' })
})

test('what is wrong is refused: an input before it is sent, an expression by the server', async () => {
  const { client } = await open()
  const wrong = { kind: 'hourly' } as unknown as { kind: 'daily' }
  await expect(client.crons.upsert('x', { ...DAILY, input: wrong })).rejects.toThrow(InputError)
  const refused = client.crons.upsert('x', { ...DAILY, cron: '0 25 * * *' })
  await expect(refused).rejects.toThrow(RequestError)
  await expect(refused).rejects.toMatchObject({ code: 'invalid_request', details: { field: 'expression' } })
  expect(await client.crons.list()).toEqual([])
})
