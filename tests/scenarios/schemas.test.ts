/** Schemas for arguments: registered, looked up, deleted; and what they mean for a job that is to be enqueued. */
import { afterEach, describe, expect, test } from 'vitest'
import { TestServer, type Reply } from '../harness.ts'

let server: TestServer
afterEach(() => server.close())

const start = async (): Promise<void> => {
  server = await TestServer.open()
}
const put = (type: string, version: string | number, schema: unknown, more: object = {}): Promise<Reply> =>
  server.call('PUT', `/ojs/v1/admin/schemas/${type}/${String(version)}`, { schema, ...more })
const mode = (type: string, validation: string): Promise<Reply> =>
  server.call('PUT', `/api/v1/job-types/${type}`, { validation })
const push = (job: object): Promise<Reply> => server.post('/ojs/v1/jobs', { type: 'email.send', args: [], ...job })

const FIRST = { type: 'array', prefixItems: [{ type: 'string' }], minItems: 1 }
const SECOND = {
  type: 'array',
  prefixItems: [{ type: 'object', required: ['to'], properties: { to: { type: 'string' } } }],
  minItems: 1,
}

describe('the registry', () => {
  test('keeps every version of a type, and knows the newest', async () => {
    await start()
    expect((await put('email.send', 9, FIRST)).body).toMatchObject({ type: 'email.send', version: 9, schema: FIRST })
    expect((await put('email.send', '10.0', SECOND)).status).toBe(201)
    expect((await server.get('/ojs/v1/admin/schemas/email.send')).body).toMatchObject({
      version: '10.0',
      schema: SECOND,
    })
    expect((await server.get('/ojs/v1/admin/schemas/email.send/9.0.0')).body).toMatchObject({
      version: 9,
      schema: FIRST,
    })
    expect((await server.get('/ojs/v1/schemas/email.send')).body['schema']).toMatchObject({ version: '10.0' })
    for (const path of ['/ojs/v1/admin/schemas/email.send/versions', '/ojs/v1/schemas/email.send/versions'])
      expect((await server.get(path)).body['versions']).toMatchObject([
        { version: '10.0', is_latest: true },
        { version: 9, is_latest: false },
      ])
    expect((await server.call('DELETE', '/ojs/v1/admin/schemas/email.send/10')).status).toBe(200)
    expect((await server.get('/ojs/v1/admin/schemas/email.send')).body).toMatchObject({ version: 9 })
    expect((await server.call('DELETE', '/ojs/v1/schemas/email.send/9')).status).toBe(200)
    for (const path of ['', '/9', '/versions'])
      expect((await server.get(`/ojs/v1/admin/schemas/email.send${path}`)).status).toBe(404)
  })

  test('is read and written by URI too', async () => {
    await start()
    const uri = 'urn:ojs:schema:email.send:v1'
    const made = await server.post('/ojs/v1/schemas', { uri, type: 'email.send', version: 1, schema: FIRST })
    expect(made.status).toBe(201)
    expect(made.body['schema']).toMatchObject({ uri, type: 'email.send', job_type: 'email.send', version: 1 })
    const path = `/ojs/v1/schemas/${encodeURIComponent(uri)}`
    expect((await server.get(path)).body['schema']).toMatchObject({ uri, schema: FIRST })
    expect((await server.get('/ojs/v1/schemas')).body).toMatchObject({ schemas: [{ uri }], pagination: { total: 1 } })
    expect((await server.get('/ojs/v1/admin/schemas')).body.items).toMatchObject([{ uri }])
    const other = await server.post('/ojs/v1/schemas', { uri, job_type: 'email.other', version: 1, schema: {} })
    expect(other.status).toBe(409)
    expect((await server.call('DELETE', path)).status).toBe(200)
    expect((await server.get(path)).status).toBe(404)
    expect(
      (await server.post('/ojs/v1/schemas', { uri, job_type: 'email.other', version: 1, schema: {} })).status,
    ).toBe(201)
  })

  test('does not change a version once it is there', async () => {
    await start()
    await put('email.send', 1, FIRST)
    for (const version of [1, '1.0', '1.0.0']) expect((await put('email.send', version, SECOND)).status).toBe(409)
    expect((await server.get('/ojs/v1/admin/schemas/email.send/1')).body['schema']).toEqual(FIRST)
  })

  test.each([
    ['email.send/1', {}, 'schema'],
    ['email.send/1', { schema: 7 }, 'schema'],
    ['email.send/1', { schema: { type: 'text' } }, 'schema'],
    ['email.send/1', { schema: { $ref: 'http://169.254.169.254/' } }, 'schema'],
    ['email.send/1', { schema: {}, version: 2 }, 'version'],
    ['email.send/1', { schema: {}, type: 'other' }, 'type'],
    ['email.send/1', { schema: {}, uri: 'no uri' }, 'uri'],
    ['email.send/1', { schema: {}, enforce: true }, 'enforce'],
    ['email.send/latest', { schema: {} }, 'version'],
    ['Email/1', { schema: {} }, 'type'],
  ])('refuses %s with %j, naming %s', async (path, body, field) => {
    await start()
    const reply = await server.call('PUT', `/ojs/v1/admin/schemas/${path}`, body)
    expect(reply.status).toBe(400)
    expect(reply.body['error']).toMatchObject({ details: { field } })
    expect((await server.get('/ojs/v1/schemas')).body).toMatchObject({ schemas: [] })
  })
})

describe('a job', () => {
  test('is not looked at because a schema of its type is registered', async () => {
    await start()
    await put('email.send', 1, FIRST)
    const { status, body } = await push({ args: [7], version: 1 })
    expect(status).toBe(201)
    expect(body.job['x_warnings']).toBeUndefined()
    expect(body.job['version']).toBe(1)
  })

  test('of a type with strict validation is refused, with the place and the reason, and nothing is stored', async () => {
    await start()
    await put('email.send', 1, FIRST)
    await put('email.send', 2, SECOND)
    await mode('email.send', 'strict')
    const { status, body } = await push({ args: [{ to: 7 }] })
    expect(status).toBe(422)
    expect(body['error']).toMatchObject({
      code: 'schema_validation',
      message: expect.stringContaining('args do not match the schema of email.send 2. args/0/to:'),
      details: {
        field: 'args',
        pointer: '/0/to',
        schema: 'urn:ojs:schema:email.send:v2',
        validation_errors: [{ keyword: 'type' }],
      },
    })
    expect((await server.get('/ojs/v1/jobs')).body.jobs).toEqual([])
    expect((await push({ args: [{ to: 'a' }] })).status).toBe(201)
    // By the version it names, if it names one.
    expect((await push({ args: ['a'], version: 1 })).status).toBe(201)
    expect((await push({ args: ['a'], version: 2 })).status).toBe(422)
    expect((await push({ args: ['a'], version: '1.0.0' })).status).toBe(201)
    expect((await push({ args: ['a'], version: 3 })).body['error']).toMatchObject({ details: { field: 'version' } })
    await server.call('DELETE', '/ojs/v1/admin/schemas/email.send/2')
    expect((await push({ args: ['a'] })).status).toBe(201)
  })

  test('of a type that warns is accepted, and carries what is wrong with it', async () => {
    await start()
    await mode('email.send', 'warn')
    expect((await push({})).body.job['x_warnings']).toEqual([expect.stringContaining('no schema')])
    await put('email.send', 1, FIRST)
    const { status, body } = await push({ args: [7] })
    expect(status).toBe(201)
    expect(body.job['x_warnings']).toEqual([expect.stringMatching(/^validation: args\/0: /)])
    expect((await push({ args: ['a'] })).body.job['x_warnings']).toBeUndefined()
    await mode('email.send', 'off')
    expect((await push({ args: [7] })).body.job['x_warnings']).toBeUndefined()
  })

  test('that names its schema is held to it, whatever its type says', async () => {
    await start()
    await put('email.send', 1, FIRST)
    const schema = 'urn:ojs:schema:email.send:v1'
    expect((await push({ args: ['a'], schema })).status).toBe(201)
    expect((await push({ args: [7], schema })).status).toBe(422)
    const unknown = await push({ args: [7], schema: 'https://example.com/elsewhere.json' })
    expect(unknown.status).toBe(201)
    expect(unknown.body.job['schema']).toBe('https://example.com/elsewhere.json')
    expect(unknown.body.job['x_warnings']).toEqual([expect.stringContaining('not registered here')])
    await mode('email.send', 'strict')
    expect((await push({ args: [7], schema: 'https://example.com/elsewhere.json' })).status).toBe(422)
  })

  test('in a batch takes all others with it; in bulk it falls alone', async () => {
    await start()
    await put('email.send', 1, FIRST)
    await mode('email.send', 'strict')
    const jobs = [['a'], [7], ['b']].map((args) => ({ type: 'email.send', args }))
    const batch = await server.post('/ojs/v1/jobs/batch', { jobs })
    expect(batch.status).toBe(422)
    expect(batch.body['error']).toMatchObject({ code: 'schema_validation', details: { index: 1, pointer: '/0' } })
    expect((await server.get('/ojs/v1/jobs')).body.jobs).toEqual([])
    await server.post('/ojs/v1/jobs/bulk', { jobs })
    expect((await server.get('/ojs/v1/jobs')).body.jobs).toHaveLength(2)
  })

  test('whose validation would take for ever is refused in time', async () => {
    await start()
    await put('email.send', 1, { items: { type: 'string', pattern: '^(a+)+$' } })
    await mode('email.send', 'strict')
    const { status, body } = await push({ args: [`${'a'.repeat(50)}!`] })
    expect(status).toBe(422)
    expect(body['error']['message']).toContain('takes longer than 50 ms')
    await server.advance(1_000)
    expect((await push({ args: ['aaa'] })).status).toBe(201)
  })

  describe('of a type whose schema takes for ever', () => {
    const HOSTILE = { items: { type: 'string', pattern: '^(a+)+$' } }
    const BAD = [`${'a'.repeat(40)}!`]
    const many = <T>(count: number, make: (index: number) => T): T[] => Array.from({ length: count }, (_, i) => make(i))
    /** What every piece of measured work takes, and how many there were. */
    const work = { tookMs: 0, pieces: 0 }
    const startMeasured = async (validation: string): Promise<void> => {
      Object.assign(work, { tookMs: 50, pieces: 0 })
      server = await TestServer.open({
        stopwatch: () => {
          work.pieces += 1
          return () => work.tookMs
        },
      })
      await put('email.send', 1, HOSTILE)
      await mode('email.send', validation)
      await put('email.honest', 1, FIRST)
      await mode('email.honest', 'strict')
    }
    const LONG = expect.stringContaining('takes longer than 50 ms')
    const LATELY = expect.stringMatching(/too much time lately.*Try again later, or mend the schema/)

    test('does not hold up the others in a bulk: most are not looked at, and say so', async () => {
      await startMeasured('warn')
      const [bulk, honest] = await Promise.all([
        server.post('/ojs/v1/jobs/bulk', { jobs: many(60, () => ({ type: 'email.send', args: BAD })) }),
        push({ type: 'email.other', args: ['a'] }),
      ])
      expect(bulk.body).toMatchObject({ succeeded: 60 })
      const { jobs } = (await server.get('/ojs/v1/jobs?type=email.send&limit=100')).body
      const warnings = jobs.map((job): unknown => job['x_warnings'])
      expect(warnings).toHaveLength(60)
      expect(warnings.filter((warning) => JSON.stringify(warning).includes('lately')).length).toBeGreaterThan(55)
      expect(warnings).toContainEqual([LONG])
      expect(warnings).toContainEqual([LATELY])
      expect(honest.status).toBe(201)
      expect(work.pieces).toBeLessThan(10)
      work.tookMs = 0.1
      expect((await push({ type: 'email.honest', args: ['a'] })).status).toBe(201)
      expect((await push({ args: ['aaa'] })).body.job['x_warnings']).toEqual([LATELY])
      // And has its time again later.
      await server.advance(5_000)
      expect((await push({ args: ['aaa'] })).body.job['x_warnings']).toBeUndefined()
    })

    test('is refused at once when many come together, until the schema has been at rest', async () => {
      await startMeasured('strict')
      const [honest, ...bad] = await Promise.all([
        push({ type: 'email.other', args: ['a'] }),
        ...many(60, () => push({ args: BAD })),
      ])
      expect(honest.status).toBe(201)
      const told = bad.map(({ status, body }): unknown[] => [status, body['error']['code'], body['error']['message']])
      expect(new Set(told.map(([status, code]) => `${String(status)} ${String(code)}`))).toEqual(
        new Set(['422 schema_validation']),
      )
      expect(told).toContainEqual([422, 'schema_validation', LONG])
      expect(told.filter(([, , message]) => String(message).includes('lately')).length).toBeGreaterThan(55)
      expect(bad.at(-1)?.body['error']['message']).toEqual(LATELY)
      expect(work.pieces).toBeLessThan(10)
      work.tookMs = 0.1
      expect((await push({ type: 'email.honest', args: ['a'] })).status).toBe(201)
      expect((await push({ args: ['aaa'] })).body['error']['message']).toEqual(LATELY)
      expect((await server.get('/ojs/v1/jobs?type=email.send')).body.jobs).toEqual([])
      await server.advance(5_000)
      expect((await push({ args: ['aaa'] })).status).toBe(201)
      work.tookMs = 50
      expect((await push({ args: BAD })).body['error']['message']).toEqual(LONG)
    })

    test('cannot get around that with many versions, nor by being registered anew', async () => {
      await startMeasured('strict')
      for (let version = 2; version <= 30; version += 1) await put('email.send', version, HOSTILE)
      await Promise.all(many(60, (index) => push({ args: BAD, version: 1 + (index % 30) })))
      expect(work.pieces).toBeLessThan(10)
      await server.call('DELETE', '/ojs/v1/admin/schemas/email.send/30')
      await put('email.send', 30, HOSTILE)
      expect((await push({ args: BAD })).body['error']['message']).toEqual(LATELY)
      expect(work.pieces).toBeLessThan(10)
    })
  })

  test('is refused before it is enqueued', async () => {
    await start()
    await put('email.send', 1, FIRST)
    await mode('email.send', 'strict')
    const planned = await server.post('/ojs/v1/jobs/plan', { type: 'email.send', args: [7] })
    expect(planned.body['warnings']).toEqual([expect.stringContaining('It would be refused: args do not match')])
  })

  test('goes through its life with the version it was given', async () => {
    await start()
    const job = await server.start({ version: '2.1' })
    expect(job['version']).toBe('2.1')
    await server.ack(job.id)
    expect((await server.job(job.id))['version']).toBe('2.1')
  })
})

test('the policy of a type takes no other word for validation', async () => {
  await start()
  const reply = await mode('email.send', 'loose')
  expect(reply.status).toBe(422)
  expect(reply.body['field']).toBe('validation')
})
