/** A job within the application's own transaction, by the SDK, on a real PostgreSQL: seen when it has committed, once. */
import pg from 'pg'
import { beforeEach, describe, expect, inject, onTestFinished, test } from 'vitest'
import { openServer } from 'curfew'
import { Client, defineJob, enqueueInTransaction, JobFailedError } from '@curfew/sdk'

const url = inject('database')
const mail = defineJob<[to: string]>('mail.send', { queue: 'mail', limits: { onTimeout: 'discard' } })

let schema: string
let schemas = 0
beforeEach(() => {
  schema = `sdk_${String(process.pid)}_${String((schemas += 1))}`
})

async function application(role?: string): Promise<pg.Client> {
  const client = new pg.Client({ connectionString: url })
  await client.connect()
  onTestFinished(() => client.end())
  if (role !== undefined) await client.query(`SET ROLE ${role}`)
  return client
}

async function open(): Promise<Client> {
  const quiet = { info: () => {}, warn: () => {}, error: () => {} }
  const server = await openServer({ database: `${url ?? ''}?schema=${schema}`, log: quiet })
  onTestFinished(() => server.close())
  const client = new Client({ server })
  onTestFinished(() => client.close())
  return client
}

describe.skipIf(url === undefined)('on PostgreSQL', () => {
  test('what is rolled back never was; what is committed is enqueued at once, with all it says', async () => {
    const client = await open()
    expect(await client.connection.supports('inbox')).toBe(true)
    const app = await application()
    const events = client.events({ types: ['job.enqueued'] })
    const first = events.next()

    await app.query('BEGIN')
    const dropped = await enqueueInTransaction(app, mail, ['unknown'], { schema })
    await app.query('ROLLBACK')
    await app.query('BEGIN')
    const { id } = await enqueueInTransaction(app, mail, ['ada\u0000\ud800'], {
      schema,
      timeout: '30s',
      meta: { a: 1 },
    })
    await expect(client.get(id)).rejects.toMatchObject({ status: 404 })
    await app.query('COMMIT')

    expect((await first).value).toMatchObject({ subject: id })
    expect(await client.get(id)).toMatchObject({
      state: 'available',
      queue: 'mail',
      args: ['ada\u0000\ud800'],
      meta: { a: 1 },
      x_limits: { timeout_ms: 30_000, on_timeout: 'discard' },
    })
    await expect(client.get(dropped.id)).rejects.toMatchObject({ status: 404 })
    await events.return?.()
  })

  test('the example stores an order with the job that confirms it, or neither', async () => {
    const path = new URL('../../examples/transaction/order.mjs', import.meta.url).pathname
    const { placeOrder } = (await import(path)) as {
      placeOrder: (pg: pg.Client, order: object, options: object) => Promise<string>
    }
    const client = await open()
    const app = await application()
    await app.query(`CREATE TABLE ${schema}.orders (id text, amount int); SET search_path TO ${schema}`)
    await expect(placeOrder(app, { id: 'o-1', amount: 0 }, { schema })).rejects.toThrow('an order needs an amount')
    const events = client.events({ types: ['job.enqueued'] })
    const first = events.next()
    const id = await placeOrder(app, { id: 'o-2', amount: 5 }, { schema })
    expect((await first).value).toMatchObject({ subject: id })
    await events.return?.()
    expect((await app.query('SELECT id FROM orders')).rows).toEqual([{ id: 'o-2' }])
    expect(await client.get(id)).toMatchObject({ type: 'order.confirm', args: ['o-2'] })
  })

  test('a role that may only insert there can enqueue', async () => {
    const client = await open()
    const owner = await application()
    const role = `${schema}_shop`
    await owner.query(`CREATE ROLE ${role}`)
    onTestFinished(async () => {
      await owner.query(`DROP OWNED BY ${role}; DROP ROLE ${role}`)
    })
    await owner.query(`GRANT USAGE ON SCHEMA ${schema} TO ${role}; GRANT INSERT ON ${schema}.inbox TO ${role}`)
    const shop = await application(role)
    const { id } = await enqueueInTransaction(shop, mail, ['ada'], { schema, enqueueTtl: { ms: 300 } })
    const outcome: unknown = await settledResult(client, id)
    expect(outcome).toBeInstanceOf(JobFailedError)
    expect(outcome).toMatchObject({ code: 'enqueue_ttl_expired' })
  })

  /** The job may not be there yet. */
  async function settledResult(client: Client, id: string): Promise<unknown> {
    for (;;) {
      const outcome: unknown = await client.waitForResult(id, { timeout: '20s' }).catch((error: unknown) => error)
      if ((outcome as { status?: number }).status !== 404) return outcome
    }
  }
})
