import { describe, expect, test } from 'vitest'
import { z } from 'zod'
import { defineJob } from '../job/define-job.ts'
import { InputError } from '../errors.ts'
import { enqueueInTransaction, type TransactionOptions } from './transaction.ts'

const mail = defineJob('mail.send', { input: z.tuple([z.string()]), queue: 'mail' })
const ID = '01890000-0000-7000-8000-00000000000a'

/** Writes down what it is asked. */
function recorder() {
  const asked: { text: string; values: unknown[] }[] = []
  return {
    asked,
    query: async (text: string, values: unknown[]): Promise<unknown> => {
      asked.push({ text, values })
      return { rows: [] }
    },
  }
}

test('one statement lays the request into the inbox and tells of it', async () => {
  const pg = recorder()
  const { id } = await enqueueInTransaction(pg, mail, ['ada'], { timeout: '30s', delay: '1m', onTimeout: 'discard' })
  expect(id).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-7/)
  expect(pg.asked).toHaveLength(1)
  const [{ text, values } = { text: '', values: [] }] = pg.asked
  expect(text).toBe(
    `WITH laid AS (INSERT INTO "curfew".inbox (id, body) VALUES ($1::text, $2::text)) SELECT pg_notify($3::text, '')`,
  )
  expect(values).toEqual([id, expect.any(String), 'curfew_inbox'])
  expect(JSON.parse(String(values[1]))).toEqual({
    id,
    type: 'mail.send',
    args: ['ada'],
    options: { queue: 'mail', timeout_ms: 30_000, scheduled_at: '+PT60S' },
    x_on_timeout: 'discard',
  })
})

test('the schema may be another, the id the caller’s', async () => {
  const pg = recorder()
  expect(await enqueueInTransaction(pg, mail, ['ada'], { schema: 'jobs_2', id: ID })).toEqual({ id: ID })
  expect(pg.asked[0]?.text).toContain('INTO "jobs_2".inbox')
  expect(pg.asked[0]?.values).toMatchObject([ID, expect.any(String), 'jobs_2_inbox'])
})

describe('what a server would refuse after the commit is refused before it', () => {
  test.each<[string, TransactionOptions, string]>([
    ['a priority out of range', { priority: 1_000 }, 'priority'],
    ['a queue that is none', { queue: 'No Queue' }, 'queue'],
    ['a total shorter than the timeout', { timeout: '10s', totalTimeout: '5s' }, 'total_timeout'],
    ['a policy that cannot be', { retry: { maxAttempts: -1 } }, 'retry.max_attempts'],
    ['a time without a zone', { scheduledAt: '2030-01-01T00:00:00' }, 'scheduled_at'],
    ['a schema that is none', { schema: 'x"; DROP TABLE jobs; --' }, 'schema'],
  ])('%s', async (_, options, field) => {
    const pg = recorder()
    const thrown: unknown = await enqueueInTransaction(pg, mail, ['ada'], options).catch((error: unknown) => error)
    expect(thrown).toBeInstanceOf(InputError)
    expect(thrown).toMatchObject({ details: { field } })
    expect(pg.asked).toEqual([])
  })

  test('an input that does not fit, or is too large', async () => {
    const pg = recorder()
    await expect(enqueueInTransaction(pg, mail, [5 as never])).rejects.toBeInstanceOf(InputError)
    await expect(enqueueInTransaction(pg, mail, ['x'.repeat(11 * 1024 * 1024)])).rejects.toThrow(/larger/)
    let deep: unknown[] = []
    for (let depth = 0; depth < 70; depth += 1) deep = [deep]
    await expect(enqueueInTransaction(pg, defineJob('a.b'), deep)).rejects.toThrow(/deeper/)
    expect(pg.asked).toEqual([])
  })
})

test('what the database says is thrown on', async () => {
  const boom = new Error('relation "curfew.inbox" does not exist')
  await expect(enqueueInTransaction({ query: () => Promise.reject(boom) }, mail, ['ada'])).rejects.toBe(boom)
})
