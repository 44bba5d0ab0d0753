/**
 * The command on a real PostgreSQL: what it serves stays there, deadlines hold by the database's clock, what hinders it
 * is said in one line, and the schema is brought up to date by hand as well. (Moving into a database: `moving.test.ts`.)
 */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { Client } from 'pg'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { plusLag } from '../machine-lag.ts'
import { Cluster } from '../postgres/cluster.ts'
import { curfew, lines, ServerProcess, temporaryDirectory, until } from './server-process.ts'
import { MIGRATIONS } from '../../packages/server/src/store/postgres/migrations/migrate.ts'

let cluster: Cluster
let schemas = 0

beforeAll(async () => {
  cluster = await Cluster.start({ access: ['host all guarded all scram-sha-256'] })
  await ask("CREATE ROLE guarded LOGIN PASSWORD 'right'")
})

afterAll(() => cluster.remove())

/** A corner of its own for each test. */
const newPlace = (): { url: string; schema: string } => {
  const schema = `place_${String(schemas++)}`
  return { url: `${cluster.url()}?schema=${schema}`, schema }
}

const serve = (url: string, ...flags: string[]): Promise<ServerProcess> =>
  ServerProcess.start({ flags: ['--database', url, ...flags] })

async function ask(sql: string): Promise<Record<string, unknown>[]> {
  const client = new Client({ connectionString: cluster.url() })
  await client.connect()
  try {
    return (await client.query(sql)).rows as Record<string, unknown>[]
  } finally {
    await client.end()
  }
}

describe('a server on a database', () => {
  test('takes, hands out and ends jobs, and has them still when it is started again', async () => {
    const { url } = newPlace()
    const before = await serve(url)
    const [done, waiting] = [await before.enqueue({ args: [1] }), await before.enqueue({ args: [2] })]
    const [{ id, x_lease }] = await before.fetch({ worker_id: 'w' })
    expect(id).toBe(done.id)
    const acked = await before.post('/ojs/v1/workers/ack', {
      job_id: done.id,
      worker_id: 'w',
      x_lease,
      result: { a: 1 },
    })
    expect(acked.status).toBe(200)
    expect((await before.stop()).code).toBe(0)
    expect(before.log.map(({ msg }) => msg)).toEqual(['serving', 'stopping', 'stopped'])

    const after = await serve(url)
    expect(await after.job(done.id as string)).toMatchObject({ state: 'completed', result: { a: 1 } })
    expect(await after.fetch()).toMatchObject([{ id: waiting.id as string, args: [2] }])
    await after.kill()

    const again = await serve(url)
    expect(await again.job(waiting.id as string)).toMatchObject({ state: 'active' })
    expect((await again.stop()).code).toBe(0)
  })

  test('tells of the database and of its clock', async () => {
    const server = await serve(newPlace().url)
    const { status, body } = await server.get('/health')
    expect(status).toBe(200)
    expect(body).toMatchObject({ status: 'ok', backend: { type: 'postgres', status: 'ok' } })
    expect(Math.abs(body.clock_offset_ms as number)).toBeLessThan(plusLag(500))
    expect(body.clock_error_ms).toBeGreaterThanOrEqual(0)
    expect(body.clock_error_ms).toBeLessThan(plusLag(500))
    expect(body).not.toHaveProperty('clock_distrusted')
    expect((await server.get('/metrics')).text).toMatch(/^curfew_clock_error_seconds 0\.\d+$/m)
    expect((await server.get('/ojs/manifest')).body.backend).toBe('postgres')
    await server.stop()
  })

  test('ends an attempt at its deadline', async () => {
    const server = await serve(newPlace().url)
    await server.enqueue({ options: { timeout_ms: 300, grace_period_ms: 100 } })
    const [{ id, x_limits }] = await server.fetch()
    const deadlineAt = Date.parse(x_limits.hard_deadline as string)
    const timeouts = async (): Promise<{ readAt: number; time: string } | undefined> => {
      const { body } = await server.get('/ojs/v1/events?types=job.timeout')
      const found = (body.events as { type: string; time: string }[]).find(({ type }) => type === 'job.timeout')
      return found === undefined ? undefined : { readAt: Date.now(), time: found.time }
    }
    const seen = await until('the attempt is over', timeouts)
    expect(seen.readAt).toBeGreaterThanOrEqual(deadlineAt - 50)
    expect(seen.readAt).toBeLessThanOrEqual(plusLag(deadlineAt + 500))
    const ended = await server.job(id as string)
    expect(ended).toMatchObject({ state: 'retryable', error: { type: 'timeout', timeout_kind: 'execution' } })
    expect(Date.parse(ended.error.deadline as string)).toBe(deadlineAt)
    await server.stop()
  })

  test('goes by a clock that is turned by hand, if it is asked to', async () => {
    const server = await serve(newPlace().url, '--conformance', '--clock', 'manual')
    expect((await server.get('/health')).body).not.toHaveProperty('clock_error_ms')
    await server.register('w')
    await server.enqueue({ options: { timeout_ms: 20_000, grace_period_ms: 0 } })
    const [{ id }] = await server.fetch({ worker_id: 'w' })
    const turn = (ms: number) => server.post('/ojs/v1/admin/clock', { advance_ms: ms })
    expect((await turn(19_999)).status).toBe(200)
    expect(await server.job(id as string)).toMatchObject({ state: 'active' })
    await turn(1)
    expect(await server.job(id as string)).toMatchObject({ state: 'retryable', error: { type: 'timeout' } })
    // There was no outage while the clock stood still: the silence of the worker counts.
    expect((await server.get('/ojs/v1/workers/w')).status).toBe(200)
    await turn(10_000)
    expect((await server.get('/ojs/v1/workers/w')).status).toBe(404)
    expect((await server.get('/ojs/v1/events?types=worker.died')).body.events).toMatchObject([{ type: 'worker.died' }])
    await server.stop()
  })
})

describe('what hinders it is said in one line:', () => {
  const at = (change: (url: URL) => void): string => {
    const url = new URL(cluster.url())
    change(url)
    return url.href
  }
  const refused = async (url: string, ...args: string[]): Promise<string> => {
    const ended = await curfew([...(args.length === 0 ? ['serve', '--port', '0'] : args), '--database', url])
    expect(ended).toMatchObject({ code: 1, stdout: '' })
    expect(lines(ended.stderr)).toHaveLength(1)
    expect(ended.stderr).not.toMatch(/secret|wrong-one/)
    return ended.stderr
  }

  test('a wrong password, and none at all', async () => {
    const wrong = at((url) => {
      url.username = 'guarded'
      url.password = 'wrong-one'
    })
    expect(await refused(wrong)).toMatch(/^curfew: cannot open postgresql:.*: the user or the password is wrong$/m)
    expect(await refused(at((url) => (url.username = 'guarded')))).toContain('it asks for a password')
  })

  test('a host that cannot be found, a port without a listener', async () => {
    expect(await refused('postgres://u:secret@nowhere.invalid/jobs')).toContain(
      'the host of the database cannot be found',
    )
    expect(await refused(at((url) => (url.port = '1')))).toContain('the database does not accept connections')
  })

  test('a database that is not there', async () => {
    const nowhere = at((url) => (url.pathname = '/nowhere'))
    expect(await refused(nowhere)).toContain('there is no such database; create it first')
    expect(await refused(nowhere, 'migrate')).toContain('there is no such database; create it first')
  })

  test('a schema of a newer version', async () => {
    const { url, schema } = newPlace()
    await curfew(['migrate', '--database', url])
    await ask(`INSERT INTO ${schema}.schema_migrations VALUES (99, '0099-later', 'contract')`)
    for (const args of [[], ['migrate']])
      expect(await refused(url, ...args)).toMatch(/belongs to a newer version of Curfew: it has seen 0099-later/)
  })

  test('a part of an import', async () => {
    const { url, schema } = newPlace()
    await curfew(['migrate', '--database', url])
    await ask(`UPDATE ${schema}.life SET half_restored = true`)
    expect(await refused(url)).toContain('an import into it did not come to its end')
  })
})

describe('curfew migrate', () => {
  test('says what it did, or that there was nothing to do', async () => {
    const { url, schema } = newPlace()
    const migrate = (...args: string[]) => curfew(['migrate', '--database', url, ...args])
    expect(await migrate()).toMatchObject({
      code: 0,
      stdout: MIGRATIONS.map(({ name }) => `${url}: applied ${name}\n`).join(''),
      stderr: '',
    })
    expect(await migrate('--contract')).toMatchObject({ code: 0, stdout: `${url}: up to date, nothing to do\n` })
    // An older server can serve beside what only adds, but has no business migrating it.
    await ask(`INSERT INTO ${schema}.schema_migrations VALUES (99, '0099-later', 'expand')`)
    const refused = await migrate()
    expect(refused).toMatchObject({ code: 1 })
    expect(refused.stderr).toContain('belongs to a newer version of Curfew')
  })
})

describe('an import', () => {
  const anExport = async (change: (text: string) => string = (text) => text): Promise<string> => {
    const file = join(temporaryDirectory(), 'curfew.jsonl')
    const source = await ServerProcess.start()
    for (let n = 0; n < 3; n++) await source.enqueue()
    await source.stop()
    writeFileSync(file, change((await curfew(['export', '-', '--data', source.data])).stdout))
    return file
  }

  test('of a file that was cut leaves nothing in the database', async () => {
    const { url } = newPlace()
    const file = await anExport((text) => text.split('\n').slice(0, -2).join('\n') + '\n')
    const ended = await curfew(['import', file, '--database', url])
    expect(ended.code).toBe(1)
    expect(ended.stderr).toContain('Nothing was imported')
    const server = await serve(url)
    expect((await server.get('/ojs/v1/jobs')).body.pagination.total).toBe(0)
    await server.stop()
  })

  test('and an export are refused while a server is at work on the database', async () => {
    const { url } = newPlace()
    const server = await serve(url)
    const file = await anExport()
    for (const args of [
      ['export', '-'],
      ['import', file],
    ]) {
      const ended = await curfew([...args, '--database', url])
      expect(ended).toMatchObject({ code: 1, stdout: '' })
      expect(ended.stderr).toMatch(/A server was active on .* s ago\. Stop every server first/)
    }
    await server.stop()
  })
})
