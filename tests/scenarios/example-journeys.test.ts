/** The journeys under examples/, each on a clock turned by hand: what they do in time, and what they do when it is up. */
import { readdirSync, readFileSync } from 'node:fs'
import { FakeClock, seededRandom } from '@curfew/core'
import { Client, Worker, type JourneyDefinition } from '@curfew/sdk'
import { afterEach, describe, expect, test } from 'vitest'
import { parse } from 'yaml'
import { CallFailed, type OutgoingCall, type Send } from '../../packages/server/src/engine/outgoing.ts'
import { idle, TestServer } from '../harness.ts'

const folder = new URL('../../examples/journeys/', import.meta.url)
const names = readdirSync(folder, { withFileTypes: true }).flatMap((entry) => (entry.isDirectory() ? [entry.name] : []))

const yamlOf = (name: string): string => readFileSync(new URL(`${name}/journey.yaml`, folder), 'utf8')

const definitionOf = async (name: string): Promise<JourneyDefinition> =>
  ((await import(new URL(`${name}/journey.mjs`, folder).href)) as { definition: JourneyDefinition }).definition

interface Said {
  readonly body?: unknown
  readonly status?: number
  readonly afterMs?: number
}

/** Answers for `https://<name>.example`, as long after the call as the test says. */
class Services {
  readonly clock: FakeClock
  readonly calls: OutgoingCall[] = []
  answers: Record<string, Said | ((call: OutgoingCall) => Said)> = {}

  constructor(clock: FakeClock) {
    this.clock = clock
  }

  readonly send: Send = (call) => {
    this.calls.push(call)
    const given = this.answers[new URL(call.url).hostname.split('.')[0] ?? ''] ?? { status: 404 }
    const { body = {}, status = 200, afterMs = 0 } = typeof given === 'function' ? given(call) : given
    return new Promise((resolve, reject) => {
      const headers = { 'content-type': 'application/json' }
      const answer = (): void => resolve({ status, headers, body: JSON.stringify(body), truncated: false })
      const timer = afterMs === 0 ? null : this.clock.setTimer(afterMs, answer)
      call.signal.addEventListener('abort', () => {
        timer?.cancel()
        reject(new CallFailed('the time was up', null))
      })
      if (timer === null) answer()
    })
  }
}

let server: TestServer

afterEach(async () => {
  await server.close()
})

/** The example, deployed as a person would: as YAML. */
async function open(name: string): Promise<{ client: Client; services: Services }> {
  const services = new Services(new FakeClock())
  server = await TestServer.open({ clock: services.clock, send: services.send })
  const client = new Client({ server, host: server.clock, random: seededRandom(11) })
  const { metadata } = (await definitionOf(name)).toJSON()
  await client.journeys.deploy(metadata.name, yamlOf(name))
  return { client, services }
}

/** How it ends when so much time has passed. */
async function after<T>(ms: number, work: Promise<T>): Promise<T> {
  work.catch(() => {})
  await server.advance(ms)
  return work
}

const failure = async (ms: number, work: Promise<unknown>): Promise<unknown> =>
  after(ms, work).then(
    () => {
      throw new Error('it did not fail')
    },
    (error: unknown) => error,
  )

test('there are eight of them', async () => {
  server = await TestServer.open()
  expect(names).toHaveLength(8)
})

test.each(names)('%s is the same in YAML and as a program, and nothing is doubtful about it', async (name) => {
  const definition = await definitionOf(name)
  expect(definition.toJSON()).toEqual(parse(yamlOf(name)))
  const { client } = await open(name)
  const { errors, warnings } = await client.journeys.validate(definition)
  expect(errors).toEqual([])
  // An answer that is only waited for until the deadline is the point of two of them.
  const expected = ['compensation-after-timeout', 'api-multiplexing'].includes(name) ? ['EXEC-3'] : []
  expect(warnings.map(({ code }) => code)).toEqual(expected)
  // The same content, said in the other way, is the same version.
  await client.journeys.deploy(definition)
})

test('the journey of docs/journeys.md ends as it says there', async () => {
  const page = readFileSync(new URL('../../docs/journeys.md', import.meta.url), 'utf8')
  const [, yaml = ''] = /--data-binary '\n(apiVersion: v1\n.*?)'\n/s.exec(page) ?? []
  server = await TestServer.open()
  const client = new Client({ server, host: server.clock, random: seededRandom(11) })
  await client.journeys.deploy('approval', yaml)
  const run = await client.journeys.start('approval')
  await server.advance(3_000)
  await expect(client.journeys.result(run)).rejects.toMatchObject({
    code: 'NOT_DECIDED',
    terminatedAtState: 'remind',
  })
  const quick = await client.journeys.start('approval')
  await server.advance(0)
  await client.journeys.submit(quick, 'approve', { approved: true })
  expect((await client.journeys.result(quick)).phase).toBe('SUCCEEDED')
})

describe('sync-api-with-fallback', () => {
  test('the backup gets what is left, and the caller an answer in time', async () => {
    const { client, services } = await open('sync-api-with-fallback')
    const ask = (): Promise<unknown> => client.apis.call('price-quote', { sku: 'tea' })
    services.answers = {
      pricing: { body: { price: 12, from: 'pricing' } },
      backup: { body: { price: 13, from: 'backup' } },
    }
    expect(await after(0, ask())).toEqual({ sku: 'tea', price: 12, from: 'pricing' })
    services.answers['pricing'] = { afterMs: 5_000 }
    expect(await after(1_500, ask())).toMatchObject({ from: 'backup' })
    expect(services.calls.at(-1)?.headers).toMatchObject({ 'X-Curfew-Remaining-Ms': '500' })
    services.answers['backup'] = { afterMs: 5_000 }
    expect(await failure(2_000, ask())).toMatchObject({ status: 503, code: 'QUOTE_TIMEOUT' })
    services.answers = {}
    expect(await failure(0, ask())).toMatchObject({ status: 502, code: 'NO_PRICE' })
  })
})

describe('kyc-with-callback-and-sla', () => {
  const begin = async () => {
    const { client, services } = await open('kyc-with-callback-and-sla')
    services.answers = { kyc: { status: 202, body: { id: 'check-1' } } }
    const run = await after(0, client.journeys.start('kyc', { customer: 'Ada' }))
    return { client, services, run }
  }

  test('the callback decides', async () => {
    const { client, run } = await begin()
    await client.journeys.submit(run, 'verdict', { result: 'clear' })
    expect(await client.journeys.result(run)).toMatchObject({ status: 'CLEARED', output: { check: 'check-1' } })
  })

  test('after four hours the provider is reminded, and may still decide', async () => {
    const { client, services, run } = await begin()
    await server.advance(4 * 3_600_000)
    expect(await client.journeys.status(run)).toMatchObject({
      currentState: 'lateVerdict',
      remainingMs: 20 * 3_600_000,
    })
    expect(services.calls.map(({ url }) => new URL(url).pathname)).toEqual(['/checks', '/checks/check-1/reminders'])
    await expect(client.journeys.submit(run, 'verdict', { result: 'clear' })).rejects.toMatchObject({ status: 409 })
    await client.journeys.submit(run, 'lateVerdict', { result: 'suspicious' })
    await expect(client.journeys.result(run)).rejects.toMatchObject({ code: 'KYC_REFUSED' })
  })

  test('after a day the promise is broken, to the millisecond', async () => {
    const { client, run } = await begin()
    await server.advance(86_400_000 - 1)
    expect((await client.journeys.status(run)).phase).toBe('RUNNING')
    await server.advance(1)
    await expect(client.journeys.result(run)).rejects.toMatchObject({
      code: 'KYC_SLA_BREACHED',
      terminationKind: 'Timeout',
      terminatedAtState: 'lateVerdict',
    })
  })
})

describe('parallel-race-with-timer', () => {
  test.each([
    ['quick', { body: { book: 'Emma' }, afterMs: 500 }, 500, { book: 'Emma', personal: true }],
    ['slow', { body: { book: 'Emma' }, afterMs: 3_000 }, 2_000, { book: 'The bestseller', personal: false }],
    ['broken', { status: 500 }, 2_000, { book: 'The bestseller', personal: false }],
  ])('a %s service', async (_, answer, ms, expected) => {
    const { client, services } = await open('parallel-race-with-timer')
    services.answers = { taste: answer }
    const run = await after(0, client.journeys.start('recommendation', { user: 'ada' }))
    await server.advance(ms)
    expect((await client.journeys.result(run)).output).toEqual(expected)
  })
})

describe('approval-with-escalation', () => {
  const begin = async (amount: number) => {
    const { client, services } = await open('approval-with-escalation')
    services.answers = { mail: { status: 202 } }
    return { client, services, run: await after(0, client.journeys.start('approval', { invoice: 'R-1', amount })) }
  }

  test('a small invoice passes, a large one waits for a decision', async () => {
    const { client, run } = await begin(30)
    expect((await client.journeys.result(run)).phase).toBe('SUCCEEDED')
    const large = await after(0, client.journeys.start('approval', { invoice: 'R-2', amount: 3000 }))
    await client.journeys.submit(large, 'approve', { approved: false })
    await expect(client.journeys.result(large)).rejects.toMatchObject({ code: 'REFUSED' })
  })

  test('after a day the boss is asked, after another the run fails', async () => {
    const { client, services, run } = await begin(3000)
    await server.advance(86_400_000)
    expect((await client.journeys.status(run)).currentState).toBe('bossApproves')
    expect(JSON.parse(services.calls[0]?.body ?? '')).toEqual({ subject: 'Invoice R-1 waits for you' })
    await server.advance(86_400_000)
    await expect(client.journeys.result(run)).rejects.toMatchObject({ code: 'NOT_DECIDED', terminationKind: 'Fail' })
  })
})

describe('report-by-job-with-budget-hand-over', () => {
  const begin = async (takesMs: number) => {
    const { client, services } = await open('report-by-job-with-budget-hand-over')
    services.answers = { sales: { body: { total: 7 }, afterMs: 1_000 } }
    const left: number[] = []
    const stopped: unknown[] = []
    const worker = new Worker({ server, host: server.clock, random: () => 0.5, queues: ['reports'] })
    worker.handle('report.render', (ctx) => {
      left.push(ctx.remaining())
      return new Promise((resolve, reject) => {
        server.clock.setTimer(takesMs, () => resolve({ title: 'May' }))
        ctx.signal.addEventListener('abort', () => {
          stopped.push((ctx.signal.reason as { code: string }).code)
          reject(ctx.signal.reason as Error)
        })
      })
    })
    await worker.start()
    await idle()
    const run = await after(0, client.journeys.start('report', { month: 'may' }))
    return { client, run, left, stopped }
  }

  test('the job has what the figures left of the time', async () => {
    const { client, run, left } = await begin(2_000)
    await server.advance(3_500)
    expect((await client.journeys.result(run)).output).toEqual({ title: 'May' })
    // A tenth of the 4 s that are left is kept for stopping.
    expect(left).toEqual([3_600])
  })

  test('a job that is too slow ends with its run', async () => {
    const { client, run, stopped } = await begin(60_000)
    await server.advance(5_000)
    await expect(client.journeys.result(run)).rejects.toMatchObject({
      code: 'REPORT_TIMEOUT',
      terminatedAtState: 'render',
    })
    expect(stopped).toEqual(['deadline'])
    const jobs = []
    for await (const job of client.list({ queue: 'reports' })) jobs.push(job)
    expect(jobs).toMatchObject([
      { state: 'discarded', error: { type: 'total_timeout', details: { last_error: { soft_limit: 'total' } } } },
    ])
  })
})

describe('compensation-after-timeout', () => {
  test('the seat is given back when the payment takes too long, and only then', async () => {
    const { client, services } = await open('compensation-after-timeout')
    const told: unknown[] = []
    services.answers = {
      airline: ({ url, body }) => {
        if (url.endsWith('/seats')) return { status: 201, body: { id: 'seat-1' } }
        told.push(JSON.parse(body ?? ''))
        return {}
      },
      bank: { status: 201, afterMs: 500 },
    }
    const book = (): ReturnType<Client['journeys']['start']> =>
      client.journeys.start('flight', { flight: 'CF 1', card: '4711' })
    expect(await after(500, book())).toMatchObject({ phase: 'SUCCEEDED', output: { seat: 'seat-1', paid: true } })
    services.answers['bank'] = { afterMs: 30_000 }
    const late = await after(2_000, book())
    expect(late).toMatchObject({ phase: 'FAILED', error: { code: 'PAYMENT_TIMEOUT' }, terminatedAtState: 'charge' })
    await server.advance(0)
    expect(told).toEqual([{ seat: 'seat-1', because: 'Timeout' }])
    const { compensatedBy } = await client.journeys.status(late)
    expect(await client.journeys.result(compensatedBy ?? '')).toMatchObject({
      kind: 'Compensation',
      phase: 'SUCCEEDED',
      compensates: late.journeyId,
    })
  })
})

describe('loop-with-bounded-retries', () => {
  test('asks until it is ready, five times at most, and never past the budget', async () => {
    const { client, services } = await open('loop-with-bounded-retries')
    const begin = () => after(0, client.journeys.start('export', { export: '7' }))
    let asked = 0
    services.answers = { exports: () => ({ body: (asked += 1) < 3 ? { ready: false } : { ready: true, url: 'x' } }) }
    const ready = await begin()
    await server.advance(2_000)
    expect((await client.journeys.result(ready)).output).toEqual({ url: 'x', tries: 3 })

    services.answers = { exports: { body: { ready: false } } }
    const never = await begin()
    await server.advance(4_000)
    await expect(client.journeys.result(never)).rejects.toMatchObject({
      code: 'EXPORT_NOT_READY',
      reason: 'not ready after 5 tries',
    })

    services.answers = { exports: { afterMs: 5_000 } }
    const slow = await begin()
    await server.advance(10_000)
    await expect(client.journeys.result(slow)).rejects.toMatchObject({
      code: 'EXPORT_TIMEOUT',
      terminatedAtState: 'rest',
    })
  })
})

describe('api-multiplexing', () => {
  test('what is late is left out; a profile that is late makes all of it late', async () => {
    const { client, services } = await open('api-multiplexing')
    const load = (): Promise<unknown> => client.apis.call('start-page', { user: 'ada' })
    services.answers = {
      profiles: { body: { name: 'Ada' }, afterMs: 200 },
      orders: { body: { items: ['tea', 'ink'] }, afterMs: 100 },
      offers: { body: { items: ['pen', 'ink'] } },
    }
    expect(await after(200, load())).toEqual({
      known: true,
      name: 'Ada',
      orders: ['tea', 'ink'],
      offers: ['pen', 'ink'],
    })
    services.answers['offers'] = { afterMs: 5_000 }
    expect(await after(300, load())).toMatchObject({ name: 'Ada', offers: [] })
    services.answers['profiles'] = { afterMs: 5_000 }
    expect(await failure(1_000, load())).toMatchObject({ status: 504, code: 'PAGE_TIMEOUT' })
    services.answers['profiles'] = { status: 404 }
    expect(await failure(300, load())).toMatchObject({ status: 502, code: 'NO_PROFILE' })
  })
})
