/** Fields that are nearly known: told of wherever limits are sent, and refused by servers that are strict. */
import { afterEach, describe, expect, test } from 'vitest'
import { TestServer, type Reply } from '../harness.ts'

let server: TestServer
afterEach(() => server.close())

const lenient = async (): Promise<TestServer> => (server = await TestServer.open())
const strict = async (): Promise<TestServer> => (server = await TestServer.open({ settings: { strict: true } }))

const MISSPELT = { type: 'test.job', args: [], totalTimeout: 5, options: { ttl: 5 } }
const WARNINGS = [
  'totalTimeout is not a known field and has no effect. Did you mean total_timeout?',
  'options.ttl is not a known field and has no effect. Did you mean enqueue_ttl?',
]

function expectRefusal(reply: Reply, field: string, nearest: string): void {
  expect(reply.status, reply.text).toBe(422)
  expect(reply.body['error']).toMatchObject({ code: 'validation_error', details: { field, nearest } })
  expect(reply.body['error'].message).toContain(`Did you mean ${nearest}?`)
}

describe('a misspelt limit', () => {
  test('is warned of by the enqueue and kept as a field of its sender', async () => {
    await lenient()
    const { status, body } = await server.post('/ojs/v1/jobs', MISSPELT)
    expect(status).toBe(201)
    expect(body.job).toMatchObject({ x_warnings: WARNINGS, totalTimeout: 5 })
    expect(await server.job(body.job.id)).toMatchObject({ totalTimeout: 5 })
  })

  test('is warned of for its own job in a batch and in a bulk', async () => {
    await lenient()
    const jobs = [{ type: 'test.job', args: [] }, MISSPELT]
    const batch = (await server.post('/ojs/v1/jobs/batch', { jobs })).body.jobs
    const bulk = (await server.post('/ojs/v1/jobs/bulk', { jobs })).body.items as unknown as { job: object }[]
    for (const [plain, warned] of [batch, bulk.map(({ job }) => job)]) {
      expect(plain).not.toHaveProperty('x_warnings')
      expect(warned).toMatchObject({ x_warnings: WARNINGS })
    }
  })

  test.each(['/ojs/v1/jobs/batch', '/ojs/v1/jobs/bulk'])('beside the jobs of %s is warned of for all', async (path) => {
    const jobs = [{ type: 'test.job', args: [] }]
    const beside = { timeout: 5, options: { timeout: 5 }, defaults: {}, atomicty: 'atomic', totalTimeout: 5 }
    const own = { customer: 'acme', batch_name: 'first', ttl: null }
    await lenient()
    const { status, body } = await server.post(path, { jobs, ...beside, ...own })
    expect(status).toBeLessThan(300)
    const told = (body['x_warnings'] as string[]).map((warning) => warning.replace(/ is not .* Did you mean/, ' →'))
    expect(told).toEqual([
      'timeout → jobs[].timeout?',
      'options → jobs[].options?',
      'defaults → jobs[].options?',
      'atomicty → atomicity?',
      'totalTimeout → jobs[].total_timeout?',
    ])
    expect((await server.post(path, { jobs, ...own })).body).not.toHaveProperty('x_warnings')
    await server.close()
    await strict()
    expect((await server.post(path, { jobs, ...own })).status).toBeLessThan(300)
    expectRefusal(await server.post(path, { jobs, timeout: 5 }), 'timeout', 'jobs[].timeout')
    expectRefusal(await server.post(path, { jobs, atomicty: 'atomic' }), 'atomicty', 'atomicity')
    expect((await server.get('/ojs/v1/jobs')).body.jobs).toHaveLength(1)
  })

  test('is warned of in a minimal answer too, and nothing else is added', async () => {
    await lenient()
    const jobs = [{ type: 'test.job', args: ['"x_warnings"'] }, MISSPELT]
    const send = (path: string): Promise<Reply> => server.call('POST', path, { jobs }, { prefer: 'return=minimal' })
    const batch = (await send('/ojs/v1/jobs/batch')).body.jobs
    const bulk = (await send('/ojs/v1/jobs/bulk')).body.items as unknown as { job: object }[]
    for (const [plain, warned] of [batch, bulk.map(({ job }) => job)]) {
      expect(Object.keys(plain ?? {})).toEqual(['id', 'state'])
      expect(warned).toEqual({ id: expect.any(String) as string, state: 'available', x_warnings: WARNINGS })
    }
  })

  test.each(['Options', 'optoins', 'option', 'opts'])(
    'in %s is warned of: all of it would be ignored',
    async (name) => {
      await lenient()
      const { body } = await server.post('/ojs/v1/jobs', { type: 'test.job', args: [], [name]: { total_timeout: 5 } })
      expect(body.job['x_warnings']).toEqual([`${name} is not a known field and has no effect. Did you mean options?`])
      await server.close()
      await strict()
      const refused = await server.post('/ojs/v1/jobs', { type: 'test.job', args: [], [name]: { total_timeout: 5 } })
      expectRefusal(refused, name, 'options')
    },
  )

  test('is warned of where options differ from the top level, which counts', async () => {
    await lenient()
    const job = { type: 'test.job', args: [], timeout: 60, queue: 'a', options: { timeout: 5, queue: 'a' } }
    const { body } = await server.post('/ojs/v1/jobs', job)
    const told = 'options.timeout has no effect: timeout differs from it and counts. Send one of them.'
    expect(body.job).toMatchObject({ timeout: 60, x_warnings: [told] })
    expect((await server.post('/ojs/v1/jobs/plan', job)).body['warnings']).toContain(told)
    await server.close()
    await strict()
    const refused = await server.post('/ojs/v1/jobs', job)
    expect([refused.status, refused.body['error'].details.field]).toEqual([422, 'options.timeout'])
  })

  test('is warned of by plan', async () => {
    await lenient()
    expect((await server.post('/ojs/v1/jobs/plan', MISSPELT)).body.warnings).toEqual(expect.arrayContaining(WARNINGS))
  })

  test.each([
    ['beside the schedule', { type: 'test.job', totalTimeout: 5, timeZone: 'UTC' }, ['totalTimeout', 'timeZone']],
    [
      'in a template',
      { job_template: { type: 'test.job', options: { grace: 5 } }, tz: 'UTC' },
      ['job_template.options.grace', 'tz'],
    ],
  ])('is warned of by a cron entry: %s', async (_, more, fields) => {
    await lenient()
    const { status, body } = await server.post('/ojs/v1/cron', { name: 'nightly', cron: '0 3 * * *', ...more })
    expect(status).toBe(201)
    const warnings = body['x_warnings'] as string[]
    expect(warnings.map((warning) => warning.split(' ')[0])).toEqual(fields)
    expect(body).toMatchObject({ cron: { x_warnings: warnings }, cron_job: { x_warnings: warnings } })
    const fired = await server.post('/ojs/v1/cron/nightly/trigger')
    expect(fired.body.job['x_warnings']).toHaveLength(1)
    expect((await server.get('/ojs/v1/cron/nightly')).body['cron']).not.toHaveProperty('x_warnings')
  })

  test('is warned of by a change of a cron entry', async () => {
    await lenient()
    await server.post('/ojs/v1/cron', { name: 'nightly', cron: '0 3 * * *', type: 'test.job' })
    const changed = await server.call('PATCH', '/ojs/v1/cron/nightly', { options: { timeoutMs: 5 } })
    expect(changed.body['x_warnings']).toEqual([
      'options.timeoutMs is not a known field and has no effect. Did you mean timeout_ms?',
    ])
  })

  test('is warned of by a workflow: its own, those of its lists, and those of its steps', async () => {
    await lenient()
    const { status, body } = await server.post('/ojs/v1/workflows', {
      type: 'chain',
      workflowTimeout: 60,
      timeout: 60,
      options: { ttl: 5 },
      steps: [
        { type: 'a', args: [], grace: 5 },
        { type: 'group', timeout: 5, jobs: [{ type: 'b', args: [], retry: { attempts: 5 } }] },
      ],
    })
    expect(status).toBe(201)
    const told = (body['x_warnings'] as string[]).map((warning) => warning.replace(/ is not .* Did you mean/, ' →'))
    expect(told).toEqual([
      'workflowTimeout → workflow_timeout?',
      'timeout → workflow_timeout?',
      'options.ttl → enqueue_ttl?',
      'steps[0].grace → grace_period?',
      'steps[1].timeout → options.timeout?',
      'steps[1].jobs[0].retry.attempts → max_attempts?',
    ])
  })

  test.each(['dependsOn', 'depend_on', 'depends', 'dependencies', 'dependancies', 'needs', 'runAfter'])(
    'or a misspelt depends_on: %s is warned of, because the order of steps would be lost',
    async (name) => {
      const first = { id: 'a', type: 'a', args: [] }
      const list = { id: 'c', type: 'group', [name]: ['a'], jobs: [{ type: 'c', args: [] }] }
      const steps = [first, { id: 'b', type: 'b', args: [], [name]: ['a'] }, list]
      await lenient()
      const { status, body } = await server.post('/ojs/v1/workflows', { steps })
      expect(status).toBe(201)
      expect(body['x_warnings']).toEqual(
        [1, 2].map(
          (index) => `steps[${String(index)}].${name} is not a known field and has no effect. Did you mean depends_on?`,
        ),
      )
      await server.close()
      await strict()
      for (const step of steps.slice(1))
        expectRefusal(
          await server.post('/ojs/v1/workflows', { steps: [first, step] }),
          `steps[1].${name}`,
          'depends_on',
        )
    },
  )

  test('is warned of once in a step, its options and a list of steps', async () => {
    await lenient()
    const { body } = await server.post('/ojs/v1/workflows', {
      steps: [
        { id: 'a', type: 'a', args: [], ID: 'a', step_id: 'a', name: 'first' },
        { id: 'b', type: 'b', args: [], options: { depends_on: ['a'] } },
        { id: 'c', type: 'group', x_on_timeout: 'discard', depends_on: ['a'], jobs: [{ type: 'c', args: [] }] },
      ],
    })
    const told = (body['x_warnings'] as string[]).map((warning) => warning.replace(/ is not .* Did you mean/, ' →'))
    expect(told).toEqual([
      'steps[0].step_id → id?',
      'steps[0].ID → id?',
      'steps[1].options.depends_on → depends_on?',
      'steps[2].x_on_timeout → options.x_on_timeout?',
    ])
  })

  test.each([
    ['a queue', 'PUT', '/ojs/v1/admin/queues/mail/config', { defaultTimeout: 5 }, 'default_timeout'],
    [
      'a queue, in its retention',
      'PUT',
      '/ojs/v1/admin/queues/mail/config',
      { retention: { complete: 5 } },
      'completed',
    ],
    ['a job type', 'PUT', '/api/v1/job-types/test.job', { totalTimeout: 5 }, 'total_timeout'],
    ['the caps of a job type', 'PUT', '/api/v1/job-types/test.job', { caps: { timout: 5 } }, 'timeout'],
    ['a change of a job', 'PATCH', '/ojs/v1/jobs/:id', { timeoutMs: 5 }, 'timeout_ms'],
  ])('is refused by %s, with the name that was meant', async (_, method, path, body, nearest) => {
    await lenient()
    const id = await server.enqueue()
    const reply = await server.call(method, path.replace(':id', id), body)
    expect(reply.status).toBeGreaterThanOrEqual(400)
    expect(reply.text).toContain(`Did you mean ${nearest}?`)
  })

  test('is refused in the limits of a handler, with the name that was meant', async () => {
    await lenient()
    const reply = await server.register('w', { handlers: { a: { heartbeatTimeout: 5 } } })
    expect(reply.status).toBe(400)
    expect(reply.text).toContain('Did you mean heartbeat_timeout?')
  })
})

describe('fields of the sender', () => {
  test('that are near no known one are kept without a word, also by a strict server', async () => {
    await strict()
    const own = { customer: 'acme', x_timeout: 5, x_ttl: 7, time: 'noon' }
    const { status, body } = await server.post('/ojs/v1/jobs', { type: 'test.job', args: [], ...own })
    expect(status).toBe(201)
    expect(body.job).toMatchObject(own)
    expect(body.job).not.toHaveProperty('x_warnings')
  })
})

describe('a strict server refuses a misspelt limit', () => {
  test('at enqueue, in a plan, a batch and a bulk, and stores nothing', async () => {
    await strict()
    const plain = { type: 'test.job', args: [] }
    for (const path of ['/ojs/v1/jobs', '/ojs/v1/jobs/plan'])
      expectRefusal(await server.post(path, MISSPELT), 'totalTimeout', 'total_timeout')
    const batch = await server.post('/ojs/v1/jobs/batch', { jobs: [plain, MISSPELT] })
    expectRefusal(batch, 'totalTimeout', 'total_timeout')
    expect(batch.body['error']).toMatchObject({ details: { index: 1 } })
    expect((await server.get('/ojs/v1/jobs')).body.jobs).toEqual([])
    const bulk = await server.post('/ojs/v1/jobs/bulk', { jobs: [plain, MISSPELT] })
    expect(bulk.status).toBe(207)
    expect(bulk.body.items[1]).toMatchObject({ status: 'failed', error: { details: { field: 'totalTimeout' } } })
  })

  test('in cron entries and workflows, wherever it stands', async () => {
    await strict()
    const cron = { name: 'nightly', cron: '0 3 * * *' }
    expectRefusal(await server.post('/ojs/v1/cron', { ...cron, type: 'a', ttl: 5 }), 'ttl', 'enqueue_ttl')
    const template = { type: 'a', options: { ttl: 5 } }
    const nested = await server.post('/ojs/v1/cron', { ...cron, job_template: template })
    expectRefusal(nested, 'job_template.options.ttl', 'enqueue_ttl')
    expect((await server.get('/ojs/v1/cron/nightly')).status).toBe(404)
    await server.post('/ojs/v1/cron', { ...cron, type: 'a' })
    const changed = await server.call('PATCH', '/ojs/v1/cron/nightly', { options: { ttl: 5 } })
    expectRefusal(changed, 'options.ttl', 'enqueue_ttl')
    const steps = [
      { type: 'a', args: [] },
      { type: 'b', args: [], ttl: 5 },
    ]
    expectRefusal(await server.post('/ojs/v1/workflows', { type: 'chain', steps }), 'steps[1].ttl', 'enqueue_ttl')
  })
})

describe('two names for one thing', () => {
  test('are refused when they differ, naming the one to remove', async () => {
    await lenient()
    const retries = { retry: { max_attempts: 5 }, retry_policy: { max_attempts: 1 } }
    const reply = await server.post('/ojs/v1/jobs', { type: 'test.job', args: [], ...retries })
    expect(reply.status).toBe(422)
    expect(reply.body['error']).toMatchObject({ details: { field: 'retry_policy' } })
    expect(reply.body['error'].message).toContain('remove retry_policy')
  })

  test.each([
    ['type', { type: 'other' }],
    ['args', { args: [1] }],
    ['queue', { queue: 'mail' }],
    ['timeout', { timeout: 5 }],
    ['options', { options: { timeout: 5 } }],
  ])('a cron entry with %s beside job_template is refused', async (field, more) => {
    await lenient()
    const entry = { name: 'nightly', cron: '0 3 * * *', job_template: { type: 'test.job' } }
    const reply = await server.post('/ojs/v1/cron', { ...entry, ...more })
    expect(reply.status).toBe(400)
    expect(reply.body['error']).toMatchObject({ details: { field } })
    expect(reply.body['error'].message).toContain(`Remove ${field}`)
  })

  test('a cron entry can be sent back as it was shown', async () => {
    await lenient()
    const options = { queue: 'mail', timeout: 5 }
    await server.post('/ojs/v1/cron', { name: 'nightly', cron: '0 3 * * *', type: 'test.job', meta: { a: 1 }, options })
    const { cron } = (await server.get('/ojs/v1/cron/nightly')).body
    const reply = await server.post('/ojs/v1/cron', cron)
    expect(reply.status, reply.text).toBe(200)
    expect(reply.body['cron']).toMatchObject({ job_template: cron['job_template'] })
    expect(reply.body).not.toHaveProperty('x_warnings')
  })
})

describe('a visibility_timeout longer than the timeout', () => {
  const asked = { type: 'test.job', args: [], timeout: 10, visibility_timeout: 60 }
  const WARNING = /^visibility_timeout of 60 s \(set at enqueue\) is longer than the timeout of 10 s/

  test('is warned of by the enqueue and by plan', async () => {
    await lenient()
    const { body } = await server.post('/ojs/v1/jobs', asked)
    expect(body.job['x_warnings']).toEqual([expect.stringMatching(WARNING)])
    expect((await server.post('/ojs/v1/jobs/plan', asked)).body.warnings).toContain(body.job['x_warnings'][0])
  })

  test('is measured by the timeout that holds, whatever set it', async () => {
    await lenient()
    await server.call('PUT', '/ojs/v1/admin/queues/slow/config', { default_visibility_timeout: 60 })
    const queued = await server.post('/ojs/v1/jobs', { ...asked, queue: 'slow', visibility_timeout: undefined })
    expect(queued.body.job['x_warnings']).toEqual([expect.stringContaining('(set by the queue)')])
    const total = { ...asked, timeout: undefined, total_timeout: 30 }
    expect((await server.post('/ojs/v1/jobs', total)).body.job['x_warnings']).toEqual([
      expect.stringContaining('the timeout of 30 s'),
    ])
  })

  test('is warned of by a workflow, for steps that start now and later', async () => {
    await lenient()
    const plain = { type: 'test.job', args: [] }
    const { status, body } = await server.post('/ojs/v1/workflows', {
      type: 'chain',
      steps: [
        asked,
        plain,
        { type: 'group', options: { timeout: 10 }, jobs: [plain, { ...plain, visibility_timeout: 60 }] },
      ],
    })
    expect(status).toBe(201)
    const [first = '', second = '', ...more] = body['x_warnings'] as string[]
    expect([first.replace('Step 0: ', ''), second.replace('Step 2/1: ', '')]).toEqual([
      expect.stringMatching(WARNING),
      expect.stringMatching(WARNING),
    ])
    expect(more).toEqual([])
    const many = await server.post('/ojs/v1/workflows', {
      type: 'group',
      jobs: Array.from({ length: 30 }, () => asked),
    })
    expect(many.body['x_warnings']).toHaveLength(20)
  })

  test('is warned of by a cron entry, also by the limits of its queue', async () => {
    await lenient()
    const entry = { name: 'nightly', cron: '0 3 * * *' }
    const nested = await server.post('/ojs/v1/cron', { ...entry, job_template: asked })
    expect(nested.body['x_warnings']).toEqual([expect.stringMatching(WARNING)])
    const again = await server.post('/ojs/v1/cron', { ...entry, ...asked })
    expect(again.body['x_warnings']).toEqual([expect.stringMatching(WARNING)])
    const paused = await server.call('PATCH', '/ojs/v1/cron/nightly', { enabled: false })
    expect(paused.body).not.toHaveProperty('x_warnings')
    await server.call('PUT', '/ojs/v1/admin/queues/slow/config', { default_visibility_timeout: 60 })
    const options = { queue: 'slow', timeout: 10 }
    const template = { type: 'test.job', options }
    const changed = await server.call('PATCH', '/ojs/v1/cron/nightly', { job_template: template })
    expect(changed.body['x_warnings']).toEqual([expect.stringContaining('(set by the queue)')])
    const plain = await server.post('/ojs/v1/cron', { ...entry, type: 'test.job' })
    expect(plain.body).not.toHaveProperty('x_warnings')
  })

  test('gives no warning when it was not set, or was removed', async () => {
    await lenient()
    for (const visibility of [undefined, 10, 5]) {
      const { body } = await server.post('/ojs/v1/jobs', { ...asked, visibility_timeout: visibility })
      expect(body.job).not.toHaveProperty('x_warnings')
    }
  })
})
