/**
 * Jobs that an application lays into the database within a transaction of its own: admitted when that has committed, as
 * an enqueue of that moment, once, by whichever server comes first. On a real PostgreSQL, by its clock.
 */
import { Client } from 'pg'
import { beforeEach, describe, expect, inject, onTestFinished, test, vi } from 'vitest'
import { instant, seededRandom, uuidV7 } from '@curfew/core'
import { openServer, type CurfewServer, type ServerOptions } from 'curfew'
import { TestServer, type Body } from '../harness.ts'

const url = inject('database')
const random = seededRandom(8)
const newId = (): string => uuidV7(instant(Date.now()), random)

let schema: string
let schemas = 0
beforeEach(() => {
  schema = `inbox_${String(process.pid)}_${String((schemas += 1))}`
})

type Logged = { level: string; fields: object; message: string }

async function opened(logged: Logged[] = [], options: ServerOptions = {}): Promise<CurfewServer> {
  const note = (level: string) => (fields: object, message: string) => void logged.push({ level, fields, message })
  const log = { info: note('info'), warn: note('warn'), error: note('error') }
  const server = await openServer({ database: `${url ?? ''}?schema=${schema}`, log, ...options })
  onTestFinished(() => server.close())
  return server
}

async function call(server: CurfewServer, method: string, path: string, body?: unknown) {
  const text = body === undefined ? '' : JSON.stringify(body)
  const { signal } = new AbortController()
  const response = await server.handler({ method, url: path, headers: {}, body: text, signal })
  return { status: response.status, text: response.body as string, body: JSON.parse(response.body as string) as Body }
}

const jobOf = (server: CurfewServer, id: string) => call(server, 'GET', `/ojs/v1/jobs/${id}`)
const poll = (server: CurfewServer, queue: string, wait_ms = 10_000) =>
  call(server, 'POST', '/ojs/v1/workers/fetch', { queues: [queue], wait_ms })

/** A connection of the application. */
async function application(): Promise<Client> {
  const client = new Client({ connectionString: url })
  await client.connect()
  onTestFinished(() => client.end())
  return client
}

const request = (id: string, more: object = {}): string => JSON.stringify({ id, type: 'a', args: [], ...more })
const lay = (client: Client, id: string, body = request(id)): Promise<unknown> =>
  client.query(`INSERT INTO ${schema}.inbox (id, body) VALUES ($1, $2)`, [id, body])
const tell = (client: Client): Promise<unknown> => client.query('SELECT pg_notify($1, $2)', [`${schema}_inbox`, ''])

async function rows<Row>(client: Client, sql: string): Promise<Row[]> {
  return (await client.query(sql)).rows as Row[]
}
const waiting = async (client: Client): Promise<string[]> =>
  (await rows<{ id: string }>(client, `SELECT id FROM ${schema}.inbox ORDER BY id`)).map(({ id }) => id)
const isEmpty = (client: Client): Promise<void> =>
  vi.waitFor(async () => expect(await waiting(client)).toEqual([]), { timeout: 10_000, interval: 10 })

test.runIf(url === undefined)('a store without an inbox announces none', async () => {
  const server = await TestServer.open()
  const { body } = await server.get('/ojs/manifest')
  expect(body.extensions).not.toContain('urn:curfew:ext:inbox')
  expect(body).not.toHaveProperty('x_inbox')
})

describe.skipIf(url === undefined)('on PostgreSQL', () => {
  test('work that is there already is laid aside with the reason, or simply done', async () => {
    const [server, client] = [await opened(), await application()]
    const [first, second, third] = [newId(), newId(), newId()]
    await lay(client, first, request(first, { unique: {} }))
    await lay(client, second, request(second, { unique: {} }))
    await lay(client, third, request(third, { unique: { on_conflict: 'ignore' } }))
    await tell(client)
    await isEmpty(client)
    expect((await jobOf(server, first)).body.job.state).toBe('available')
    for (const id of [second, third]) expect((await jobOf(server, id)).status).toBe(404)
    const refused = await rows<{ id: string; error: string }>(client, `SELECT id, error FROM ${schema}.inbox_refused`)
    expect(refused.map(({ id }) => id)).toEqual([second])
    expect(JSON.parse(refused[0]?.error ?? '{}')).toMatchObject({
      code: 'duplicate',
      details: { existing_job_id: first },
    })
  })

  test('what an application has committed comes into a queue that is full, or drains', async () => {
    const [server, client] = [await opened(), await application()]
    await call(server, 'PUT', '/ojs/v1/admin/queues/default/config', { backpressure: { max_depth: 1 } })
    const ids = [newId(), newId(), newId()]
    for (const id of ids) await lay(client, id)
    await tell(client)
    await isEmpty(client)
    await call(server, 'POST', '/ojs/v1/queues/default/drain')
    const last = newId()
    await lay(client, last)
    await tell(client)
    await isEmpty(client)
    for (const id of [...ids, last]) expect((await jobOf(server, id)).body.job.state).toBe('available')
  })

  test('the inbox is announced, with its place', async () => {
    const { body } = await call(await opened(), 'GET', '/ojs/manifest')
    expect(body.extensions).toContain('urn:curfew:ext:inbox')
    expect(body.x_inbox).toEqual({ schema, channel: `${schema}_inbox` })
  })

  test('a job is not seen before the transaction commits, and answers a poll at once when it has', async () => {
    const server = await opened()
    const app = await application()
    const id = newId()
    const polling = poll(server, 'paid')
    await app.query('BEGIN')
    await lay(app, id, request(id, { queue: 'paid' }))
    await tell(app)
    // An announcement of another server, heard after, would have brought it along.
    await call(server, 'POST', '/ojs/v1/jobs', { type: 'a', args: [], queue: 'other' })
    expect((await jobOf(server, id)).status).toBe(404)
    const began = performance.now()
    await app.query('COMMIT')
    expect((await polling).body.jobs).toMatchObject([{ id, attempt: 1 }])
    expect(performance.now() - began).toBeLessThan(900)
    await isEmpty(app)
  })

  test('a transaction that is rolled back leaves nothing', async () => {
    const server = await opened()
    const app = await application()
    const [lost, kept] = [newId(), newId()]
    await app.query('BEGIN')
    await lay(app, lost)
    await tell(app)
    await app.query('ROLLBACK')
    await lay(app, kept)
    await tell(app)
    await vi.waitFor(async () => expect((await jobOf(server, kept)).status).toBe(200))
    expect((await jobOf(server, lost)).status).toBe(404)
  })

  test('a row without an announcement is found with the next sign of life', async () => {
    const server = await opened()
    const app = await application()
    const id = newId()
    await lay(app, id)
    await vi.waitFor(async () => expect((await jobOf(server, id)).status).toBe(200), { timeout: 5_000 })
  })

  test('and also while the server is so busy that it never sleeps', async () => {
    const server = await opened()
    const app = await application()
    const id = newId()
    await lay(app, id)
    const giveUpAt = performance.now() + 5_000
    while ((await waiting(app)).length > 0 && performance.now() < giveUpAt)
      await call(server, 'POST', '/ojs/v1/workers/beat', { worker_id: 'w' })
    expect((await jobOf(server, id)).status).toBe(200)
  })

  test('a server that starts later finds what waits, however much it is, without waiting between', async () => {
    await (await opened()).close()
    const app = await application()
    const ids = Array.from({ length: 2_000 }, newId)
    await app.query(`INSERT INTO ${schema}.inbox (id, body) SELECT * FROM unnest($1::text[], $2::text[])`, [
      ids,
      ids.map((id) => request(id)),
    ])
    const server = await opened()
    await isEmpty(app)
    expect((await call(server, 'GET', '/ojs/v1/queues/default/stats')).body.available).toBe(2_000)
  })

  test('a job is admitted as an enqueue of that moment would be', async () => {
    const server = await opened([], { settings: { 'limits.caps.total-timeout': '1h' } })
    await call(server, 'PUT', '/api/v1/job-types/mail.send', { timeout: 7 })
    const app = await application()
    const id = newId()
    const args = '[12345678901234567890,  1.0, "\\ud800", {"__proto__": 1}]'
    await app.query('BEGIN')
    const { now: laidAt } = (await rows<{ now: Date }>(app, 'SELECT clock_timestamp() AS now'))[0] as { now: Date }
    await lay(app, id, `{"id":"${id}", "type":"mail.send","args": ${args}, "scheduled_at":"+PT1H", "x_own":1.0}`)
    await tell(app)
    await app.query('SELECT pg_sleep(0.3)')
    await app.query('COMMIT')
    await isEmpty(app)
    const { text, body } = await jobOf(server, id)
    expect(body.job).toMatchObject({
      state: 'scheduled',
      x_limits: { timeout_ms: 7_000, total_ms: 3_600_000, sources: { timeout: 'type', total: 'cap' } },
    })
    expect(text).toContain(`"args":${args}`)
    expect(text).toContain('"x_own":1.0')
    const createdAt = Date.parse(String(body.job.created_at))
    expect(createdAt - laidAt.getTime()).toBeGreaterThanOrEqual(300)
    expect(Date.parse(String(body.job.scheduled_at)) - createdAt).toBe(3_600_000)
    expect(Date.parse(String(body.job.x_limits.total_deadline)) - createdAt).toBe(3_600_000)
  })

  test('one whose job is there already is dropped, so an application may repeat itself', async () => {
    const logged: Logged[] = []
    const server = await opened(logged)
    const app = await application()
    const id = newId()
    await call(server, 'POST', '/ojs/v1/jobs', { id, type: 'first', args: [] })
    await lay(app, id)
    await tell(app)
    await isEmpty(app)
    expect((await jobOf(server, id)).body.job.type).toBe('first')
    expect(await rows(app, `SELECT * FROM ${schema}.inbox_refused`)).toEqual([])
    expect(logged).toEqual([])
  })

  const BAD: [string, (id: string) => string, string][] = [
    ['no JSON', () => 'secret {', 'invalid_payload'],
    ['no object', () => '["secret"]', 'invalid_request'],
    ['nested too deep', () => '['.repeat(65) + ']'.repeat(65), 'invalid_payload'],
    ['without a type', (id) => `{"id":"${id}","args":["secret"]}`, 'invalid_request'],
    ['with a bad limit', (id) => request(id, { timeout: 0 }), 'validation_error'],
    ['with an unknown parent', (id) => request(id, { x_parent: { job_id: newId() } }), 'validation_error'],
    ['with another id', () => request(newId()), 'invalid_request'],
    ['without an id', () => JSON.stringify({ type: 'a', args: [] }), 'invalid_request'],
    ['too large', (id) => request(id, { x_own: 'x'.repeat(10 * 1024 * 1024) }), 'payload_too_large'],
  ]

  test('a refused row is put aside with the reason, holds up no other, and is logged without its text', async () => {
    const logged: Logged[] = []
    const server = await opened(logged)
    const app = await application()
    const good = [newId(), newId()]
    const bad = BAD.map(([, make, code]) => {
      const id = newId()
      return { id, body: make(id), code }
    })
    await app.query('BEGIN')
    await lay(app, good[0] ?? '')
    for (const { id, body } of bad) await lay(app, id, body)
    await lay(app, 'no uuid', request('no uuid'))
    await lay(app, good[1] ?? '')
    await tell(app)
    await app.query('COMMIT')
    await isEmpty(app)
    for (const id of good) expect((await jobOf(server, id)).status).toBe(200)
    const refused = await rows<{ id: string; body: string; error: string; refused_at: string }>(
      app,
      `SELECT * FROM ${schema}.inbox_refused`,
    )
    const told = new Map(refused.map((row) => [row.id, row]))
    for (const { id, body, code } of bad) {
      const { body: kept, error } = told.get(id) ?? { body: '', error: '{}' }
      expect([kept === body, (JSON.parse(error) as { code: string }).code]).toEqual([true, code])
    }
    expect(JSON.parse(told.get('no uuid')?.error ?? '{}')).toMatchObject({
      code: 'invalid_request',
      details: { field: 'id' },
      message: expect.any(String),
    })
    expect(Math.abs(Number(refused[0]?.refused_at) - Date.now())).toBeLessThan(60_000)
    expect(logged.map(({ level }) => level)).toEqual(refused.map(() => 'warn'))
    expect(JSON.stringify(logged)).not.toContain('secret')
  })

  test('two servers admit each of many rows once', async () => {
    const servers = [await opened(), await opened()]
    const apps = await Promise.all([application(), application(), application()])
    const ids: string[] = []
    await Promise.all(
      apps.map(async (app) => {
        for (let n = 0; n < 20; n += 1) {
          await app.query('BEGIN')
          for (let each = 0; each < 15; each += 1) {
            const id = newId()
            await lay(app, id)
            ids.push(id)
          }
          await tell(app)
          await app.query('COMMIT')
        }
      }),
    )
    await isEmpty(apps[0])
    const events: { subject: string }[] = []
    for (let after = ''; ;) {
      const path = `/ojs/v1/events?types=job.enqueued&limit=1000${after === '' ? '' : `&after=${after}`}`
      const { body } = await call(servers[0] as CurfewServer, 'GET', path)
      events.push(...body.events)
      if (body['has_more'] !== true) break
      after = body.cursor
    }
    expect(events.map(({ subject }) => subject).sort()).toEqual([...ids].sort())
    expect(await rows(apps[0], `SELECT * FROM ${schema}.inbox_refused`)).toEqual([])
    const enqueued = await Promise.all(servers.map((server) => metric(server, 'ojs_job_enqueued_total')))
    expect(enqueued.reduce((sum, n) => sum + n, 0)).toBe(900)
  })

  async function metric(server: CurfewServer, name: string): Promise<number> {
    const { signal } = new AbortController()
    const { body } = await server.handler({ method: 'GET', url: '/metrics', headers: {}, body: '', signal })
    return Number(new RegExp(`^${name}\\{.*\\} (\\d+)$`, 'm').exec(body as string)?.[1] ?? 0)
  }

  test('the application needs no more than the right to use the schema and to insert', async () => {
    const server = await opened()
    const app = await application()
    const role = `app_${schema}`
    await app.query(`CREATE ROLE ${role}`)
    onTestFinished(async () => {
      await app.query('RESET ROLE')
      await app.query(`DROP OWNED BY ${role}; DROP ROLE ${role}`)
    })
    await app.query(`GRANT USAGE ON SCHEMA ${schema} TO ${role}; GRANT INSERT ON ${schema}.inbox TO ${role}`)
    await app.query(`SET ROLE ${role}`)
    const id = newId()
    await app.query(`INSERT INTO ${schema}.inbox (id, body) VALUES ($1, $2) ON CONFLICT DO NOTHING`, [id, request(id)])
    await tell(app)
    await vi.waitFor(async () => expect((await jobOf(server, id)).status).toBe(200))
    await expect(app.query(`SELECT * FROM ${schema}.inbox`)).rejects.toThrow('permission denied')
  })

  test('they are admitted in the order in which they were laid there, so a child may come with its parent', async () => {
    const server = await opened()
    const app = await application()
    const [child, parent] = [newId(), newId()].sort() as [string, string]
    await app.query('BEGIN')
    await lay(app, parent, request(parent, { total_timeout: 60 }))
    await lay(app, child, request(child, { x_parent: { job_id: parent }, x_inherit_deadline: true }))
    await tell(app)
    await app.query('COMMIT')
    const job = await vi.waitFor(async () => {
      const { status, body } = await jobOf(server, child)
      expect(status).toBe(200)
      return body.job
    })
    expect(job.x_limits).toMatchObject({ total_ms: 60_000, sources: { total: 'parent' } })
  })
})
