/**
 * What the server offers over HTTP the SDK offers too. Every operation of the recorded description is reached by a method of the
 * client, or stands in the list of those that are left out, with the reason.
 */
import { readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { chain, Client, defineJob, type InProcessServer } from '@curfew/sdk'

const greet = defineJob('hello.greet')

/** Every method that makes a call, with whatever it needs. */
const METHODS: readonly ((client: Client) => unknown)[] = [
  // Jobs
  (c) => c.enqueue(greet, []),
  (c) => c.enqueueMany(greet, [[], []]),
  (c) => Promise.all([c.enqueue(greet, []), c.enqueue(greet, [])]),
  (c) => c.plan(greet, []),
  (c) => c.get('x'),
  (c) => c.waitForResult('x'),
  (c) => c.cancel('x'),
  (c) => c.retry('x'),
  (c) => c.retries('x'),
  (c) => c.progress('x'),
  (c) => c.checkpoint('x'),
  (c) => c.deleteCheckpoint('x'),
  (c) => c.explain('x'),
  (c) => c.patch('x', { priority: 1 }),
  (c) => c.activate('x'),
  (c) => c.list().next(),
  (c) => c.bulk.cancel({ ids: ['x'] }),
  (c) => c.bulk.retry({ ids: ['x'] }),
  (c) => c.bulk.delete({ ids: ['x'] }),
  // The server
  (c) => c.atRisk(),
  (c) => c.stats(),
  (c) => c.tenantStats('x'),
  (c) => c.audit().next(),
  (c) => c.events().next(),
  (c) => c.health(),
  (c) => c.manifest(),
  (c) => c.annotations.list().next(),
  (c) => c.annotations.add('deployed'),
  (c) => c.tokens.list(),
  (c) => c.tokens.create('x', ['read']),
  (c) => c.tokens.rotate('x', { overlap: '1h' }),
  (c) => c.tokens.revoke('x'),
  // Operators
  (c) => c.queues.list(),
  (c) => c.queues.get('x'),
  (c) => c.queues.stats('x'),
  (c) => c.queues.pause('x'),
  (c) => c.queues.drain('x'),
  (c) => c.queues.resume('x'),
  (c) => c.queues.config('x'),
  (c) => c.queues.configure('x', {}),
  (c) => c.queues.limiter('x'),
  (c) => c.queues.limit('x', null),
  (c) => c.deadLetter.list().next(),
  (c) => c.deadLetter.get('x'),
  (c) => c.deadLetter.retry('x'),
  (c) => c.deadLetter.retryMany({ all: true }),
  (c) => c.deadLetter.deleteMany({ all: true }),
  (c) => c.deadLetter.delete('x'),
  (c) => c.deadLetter.stats(),
  (c) => c.workers.list(),
  (c) => c.workers.get('x'),
  (c) => c.workers.health('x'),
  (c) => c.workers.delete('x'),
  (c) => c.workers.quiet('x'),
  (c) => c.workers.resume('x'),
  (c) => c.workers.terminate('x'),
  (c) => c.jobTypes.list(),
  (c) => c.jobTypes.get('x'),
  (c) => c.jobTypes.set('x', {}),
  (c) => c.jobTypes.delete('x'),
  (c) => c.limiters.list().next(),
  (c) => c.limiters.get('x'),
  (c) => c.pools.list(),
  (c) => c.pools.get('x'),
  (c) => c.pools.set('x', { queues: ['a'] }),
  (c) => c.pools.delete('x'),
  (c) => c.schemas.list(),
  (c) => c.schemas.get('x'),
  (c) => c.schemas.get('x', { version: '1' }),
  (c) => c.schemas.versions('x'),
  (c) => c.schemas.register('x', '1', {}),
  (c) => c.schemas.delete('x', '1'),
  // Cron, workflows, webhooks
  (c) => c.crons.upsert('x', { cron: '@daily', job: greet, input: [] }),
  (c) => c.crons.list(),
  (c) => c.crons.get('x'),
  (c) => c.crons.next('x'),
  (c) => c.crons.history('x'),
  (c) => c.crons.patch('x', { enabled: false }),
  (c) => c.crons.delete('x'),
  (c) => c.crons.trigger('x'),
  (c) => c.workflows.create(chain([])),
  (c) => c.workflows.get('x'),
  (c) => c.workflows.list().next(),
  (c) => c.workflows.progress('x'),
  (c) => c.workflows.cancel('x'),
  (c) => c.webhooks.list(),
  (c) => c.webhooks.get('x'),
  (c) => c.webhooks.subscribe({ url: 'http://127.0.0.1/', events: ['job.completed'] }),
  (c) => c.webhooks.patch('x', {}),
  (c) => c.webhooks.delete('x'),
  (c) => c.webhooks.rotateSecret('x'),
  (c) => c.webhooks.test('x'),
  (c) => c.webhooks.deliveries(),
  (c) => c.webhooks.deliveries({ subscription: 'x' }),
  (c) => c.webhooks.delivery('x'),
  (c) => c.webhooks.retryDelivery('x'),
  // Journeys
  (c) => c.journeys.deploy('x', '{}'),
  (c) => c.journeys.validate('{}'),
  (c) => c.journeys.definition('x'),
  (c) => c.journeys.definitions().next(),
  (c) => c.journeys.start('x', {}),
  (c) => c.journeys.status('x'),
  (c) => c.journeys.result('x'),
  (c) => c.journeys.submit('x', 'ask', {}),
  (c) => c.journeys.cancel('x'),
  (c) => c.journeys.explain('x'),
  (c) => c.journeys.history('x'),
  (c) => c.journeys.list().next(),
  (c) => c.schedules.list().next(),
  (c) => c.schedules.get('x'),
  (c) => c.schedules.delete('x'),
  (c) => c.apis.call('x', {}),
]

/** What no method of the client reaches, by method and path, and why. */
const LEFT_OUT: readonly (readonly [RegExp, reason: string])[] = [
  [/^POST \/ojs\/v1\/workers\//, 'the protocol of workers: the class Worker speaks it'],
  [/^POST \/ojs\/v1\/jobs\/(fetch|\{id\}\/(ack|nack|fail))$/, 'the protocol of workers, in another dialect'],
  [
    /^(PUT|POST) \/ojs\/v1\/jobs\/\{id\}\/(progress|checkpoint)$/,
    'the protocol of workers: ctx.progress, ctx.checkpoint',
  ],
  [/^(POST|DELETE|GET) \/ojs\/v1\/checkpoints\//, 'another dialect of the checkpoint of a job'],
  [/^(GET|DELETE|POST) \/ojs\/v1\/admin\/dead-letter/, 'the same as /ojs/v1/dead-letter'],
  [/^(GET|POST) \/ojs\/v1\/admin\/jobs(\/bulk|\/\{id\}(\/cancel)?$|$)/, 'the same as /ojs/v1/jobs'],
  [/^GET \/ojs\/v1\/admin\/(queues|workers)$/, 'the same as /ojs/v1/queues and /ojs/v1/workers'],
  [/^POST \/ojs\/v1\/admin\/queues\/\{name\}\/(pause|resume|drain)$/, 'the same as under /ojs/v1/queues'],
  [/^GET \/ojs\/v1\/admin\/schemas$/, 'the same as /ojs/v1/schemas'],
  [/^(POST|GET|DELETE) \/ojs\/v1\/schemas(\/|$)/, 'another dialect of /ojs/v1/admin/schemas'],
  [/^DELETE \/ojs\/v1\/workers\/\{id\}$/, 'the same as under /ojs/v1/admin/workers'],
  [/^POST \/ojs\/v1\/jobs\/\{id\}\/cancel$/, 'the same as DELETE'],
  [/^POST \/ojs\/v1\/workflows\/\{id\}\/cancel$/, 'the same as DELETE'],
  [/^POST \/ojs\/v1\/cron\/\{name\}\/(pause|resume)$/, 'crons.disable and crons.enable use PATCH'],
  [/^GET \/ojs\/v1\/(jobs\/\{id\}|queues\/\{name\})\/(events|progress\/stream)$/, 'client.events() with a filter'],
  [/^GET \/ojs\/v1\/events$/, 'events by polling; client.events() streams them'],
  [/^GET \/ojs\/v1\/webhooks\/subscriptions\/\{id\}\/deliveries$/, 'webhooks.deliveries({ subscription })'],
  [/^POST \/ojs\/v1\/admin\/(clock|reset)$/, 'only on a server for tests: the test kit turns the clock itself'],
  [/^GET \/ojs\/v1\/admin\/scheduling\/stats$/, 'counts of one server in the last minute, for dashboards'],
  [/^GET \/api\/v1\/board\//, 'what the board asks for; it may change with the board'],
  [/^(GET|POST|DELETE) \/api\/v1\/session$/, 'sessions of browsers; programs use tokens'],
  [
    /^GET \/(journeys\/\{id\}|openapi\.json|metrics|ojs\/v1\/metrics)$/,
    'not JSON for programs: a page, a description, metrics',
  ],
  [/^GET \/(health|healthz|ready|readyz)$/, 'for load balancers; client.health() asks /ojs/v1/health'],
]

/** Operations as `GET /ojs/v1/jobs/{id}`. */
function operations(): string[] {
  const file = new URL('./api-record/openapi.json', import.meta.url)
  const { paths } = JSON.parse(readFileSync(file, 'utf8')) as { paths: Record<string, Record<string, unknown>> }
  return Object.entries(paths).flatMap(([path, methods]) =>
    ['get', 'post', 'put', 'patch', 'delete'].flatMap((method) =>
      methods[method] === undefined ? [] : [`${method.toUpperCase()} ${path}`],
    ),
  )
}

const EXTENSIONS = ['exchange', 'orders', 'long-poll', 'limits', 'bulk-enqueue', 'job-filters', 'workflows', 'job-logs']

/** A server that takes everything, and answers something that ends every wait. */
function recorder(): { readonly server: InProcessServer; readonly calls: string[] } {
  const calls: string[] = []
  const body = JSON.stringify({
    extensions: EXTENSIONS.map((name) => `urn:curfew:ext:${name}`),
    ...{ state: 'completed', phase: 'SUCCEEDED', status: 'ok', items: [], jobs: [], workflows: [], queues: [] },
  })
  const server: InProcessServer = {
    handler: async ({ method, url }) => {
      calls.push(`${method} ${url.split('?')[0] ?? ''}`)
      return { status: 200, headers: {}, body }
    },
  }
  return { server, calls }
}

async function turns(count: number): Promise<void> {
  for (let n = 0; n < count; n += 1) await new Promise((resolve) => void setImmediate(resolve))
}

/** The operation that a call is: the one with the most literal path. */
function operationOf(call: string, known: readonly string[]): string | undefined {
  const fits = known.filter((operation) =>
    new RegExp(
      `^${operation
        .replaceAll('.', '\\.')
        .replaceAll(/\{path\}/g, '.+')
        .replaceAll(/\{\w+\}/g, '[^/]+')}$`,
    ).test(call),
  )
  return fits.sort((a, b) => a.split('{').length - b.split('{').length)[0]
}

test('every operation of the server is reached by a method of the client, or is left out for a reason', async () => {
  const known = operations()
  const { server, calls } = recorder()
  for (const method of METHODS) {
    const client = new Client({ server, retries: 0 })
    const before = calls.length
    // What the method makes of the answer does not matter here; one that waits on is ended with its client.
    await Promise.race([Promise.resolve(method(client)).catch(() => {}), turns(50)])
    await client.close()
    expect(calls.length, `${String(method)} makes no call`).toBeGreaterThan(before)
  }
  const reached = new Set(calls.map((call) => operationOf(call, known)))
  const isLeftOut = (operation: string): boolean => LEFT_OUT.some(([pattern]) => pattern.test(operation))
  expect(known.filter((operation) => !reached.has(operation) && !isLeftOut(operation))).toEqual([])
  // A reason for what is reached, or for what is not there, is out of date.
  const stale = LEFT_OUT.filter(([pattern]) => !known.some((each) => pattern.test(each) && !reached.has(each)))
  expect(stale.map(([pattern]) => String(pattern))).toEqual([])
})
