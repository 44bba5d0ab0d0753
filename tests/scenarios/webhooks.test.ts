/** Webhooks, through the API: which endpoint gets which event, when it is tried again, and what becomes of it. */
import { createHmac } from 'node:crypto'
import { afterEach, describe, expect, test } from 'vitest'
import { days, seededRandom } from '@curfew/core'
import {
  BLOCKED,
  CallFailed,
  CallRefused,
  type OutgoingAnswer,
  type OutgoingCall,
} from '../../packages/server/src/engine/outgoing.ts'
import { openTestStore, outliving } from '../stores.ts'
import { at, idle, TestServer, type TestOptions } from '../harness.ts'

const SUBSCRIPTIONS = '/ojs/v1/webhooks/subscriptions'
const URL = 'https://example.com/hooks'

type Reaction = Partial<OutgoingAnswer> | Error | 'silence'

/** Endpoints of others: what they were sent, and what they say to it. */
class World {
  readonly calls: (OutgoingCall & { readonly at: number })[] = []
  react: (call: OutgoingCall, count: number) => Reaction = () => ({ status: 200 })
  clock: { now(): number } = { now: () => 0 }

  readonly send = async (call: OutgoingCall): Promise<OutgoingAnswer> => {
    this.calls.push({ ...call, at: this.clock.now() })
    const reaction = this.react(call, this.calls.length)
    if (reaction === 'silence') {
      await new Promise((_, reject) => {
        const abort = (): void => {
          reject(new CallFailed('the time was up', null))
        }
        call.signal.addEventListener('abort', abort, { once: true })
        if (call.signal.aborted) abort()
      })
    }
    if (reaction instanceof Error) throw reaction
    return { status: 200, headers: {}, body: '', truncated: false, ...(reaction as object) }
  }

  /** The types of the events that arrived, with their subjects. */
  heard(): string[] {
    return this.calls.map(({ body }) => (JSON.parse(body ?? '{}') as { type: string }).type)
  }
}

let open: TestServer[] = []
afterEach(async () => {
  for (const server of open) await server.close()
  open = []
})

async function start(options: TestOptions = {}, world = new World()): Promise<{ server: TestServer; world: World }> {
  const server = await TestServer.open({ send: world.send, ...options })
  world.clock = server.clock
  open.push(server)
  return { server, world }
}

async function subscribe(server: TestServer, more: Record<string, unknown> = {}) {
  const reply = await server.post(SUBSCRIPTIONS, { url: URL, events: ['job.completed'], ...more })
  expect(reply.status, reply.text).toBe(201)
  await idle()
  return reply.body['subscription'] as { id: string; secret: string; [field: string]: unknown }
}

/** Runs a job to its end. */
async function finish(server: TestServer, job: Record<string, unknown> = {}): Promise<string> {
  const { id } = await server.start(job)
  await server.ack(id, { result: { done: true } })
  await idle()
  return id
}

async function deliveries(server: TestServer, id: string) {
  const { body } = await server.get(`${SUBSCRIPTIONS}/${id}/deliveries`)
  return body['deliveries'] as {
    id: string
    job_id: string
    status: string
    attempts: number
    [field: string]: unknown
  }[]
}

describe('a subscription', () => {
  test('gets the events it asked for, as every other reader gets them', async () => {
    const { server, world } = await start()
    const { id } = await subscribe(server)
    const job = await finish(server)
    expect(world.calls).toHaveLength(1)
    const [call] = world.calls
    const event = (await server.events(job)).find(({ type }) => type === 'job.completed')
    expect(JSON.parse(call?.body ?? '')).toEqual(event)
    expect(call).toMatchObject({
      method: 'POST',
      url: URL,
      headers: {
        'Content-Type': 'application/json',
        'X-OJS-Event-Type': 'job.completed',
        'X-OJS-Subscription-ID': id,
        'X-OJS-Delivery-ID': expect.stringMatching(/^del_[0-9a-f-]{36}$/),
      },
    })
    expect(await deliveries(server, id)).toMatchObject([{ status: 'delivered', attempts: 1, event_id: event?.id }])
  })

  test('gets no event from before it, and no other event', async () => {
    const { server, world } = await start()
    await finish(server)
    await subscribe(server, { events: ['job.completed', 'worker.*'], filter: { queues: ['mail'] } })
    await finish(server)
    await server.register('w1')
    expect(world.calls).toHaveLength(0)
    await finish(server, { queue: 'mail' })
    expect(world.heard()).toEqual(['job.completed'])
  })

  test('that wants everything gets no event about its own deliveries', async () => {
    const { server, world } = await start()
    await subscribe(server, { events: ['*'] })
    await finish(server)
    await server.advance(600_000)
    expect(world.heard().toSorted()).toEqual(['job.completed', 'job.enqueued', 'job.started'])
  })

  test('that wants everything falls silent when the jobs are done, however many deliveries its limiter held back', async () => {
    const { server, world } = await start()
    await subscribe(server, { events: ['*'] })
    const sent = Array.from({ length: 20 }, () => ({ type: 'test.job', args: [] }))
    const ids = (await server.post('/ojs/v1/jobs/batch', { jobs: sent })).body.jobs.map(({ id }) => id)
    await idle()
    await server.fetch({ count: 20 })
    for (const id of ids) await server.ack(id)
    await server.advance(60_000)
    const events = await server.events()
    // Otherwise nothing was held back.
    expect(events.map(({ type }) => type)).toContain('rate_limit.exceeded')
    const ofJobs = events.filter(({ subject }) => ids.includes(subject)).map(({ id }) => id)
    expect(ofJobs).toHaveLength(3 * ids.length)
    const heard = world.calls.map(({ body }) => (JSON.parse(body ?? '{}') as { id: string }).id)
    expect(heard.toSorted()).toEqual(ofJobs.toSorted())
    await server.advance(600_000)
    expect(world.calls).toHaveLength(heard.length)
  })

  test('whose endpoint is the server itself cannot cause the events it gets', async () => {
    const { server, world } = await start()
    const cron = { name: 'c1', expression: '0 0 1 1 *', overlap_policy: 'allow', type: 'test.job', args: [] }
    expect((await server.post('/ojs/v1/cron', cron)).status).toBe(201)
    const answers: number[] = []
    world.react = ({ headers, body }) => {
      const lower = Object.fromEntries(Object.entries(headers).map(([name, value]) => [name.toLowerCase(), value]))
      // Without the refusal the loop would never end: a few rounds are enough to see it.
      if (world.calls.length <= 5)
        void server.call('POST', '/ojs/v1/cron/c1/trigger', body, lower).then(({ status }) => answers.push(status))
      return { status: 200 }
    }
    await subscribe(server, { events: ['job.enqueued'] })
    await server.enqueue()
    await server.advance(60_000)
    expect(answers).toEqual([403])
    expect(world.calls).toHaveLength(1)
  })

  test('that names the queue of the server itself is warned that it hears nothing of it', async () => {
    const { server, world } = await start()
    await subscribe(server, { events: ['*'] })
    const filter = { queues: ['curfew.webhooks'], job_types: ['curfew.webhook.deliver'] }
    const { x_warnings: warnings } = await subscribe(server, { events: ['*'], filter })
    expect(warnings).toEqual([
      expect.stringMatching(/"curfew.webhooks".*never delivered/),
      expect.stringMatching(/"curfew.webhook.deliver".*never delivered/),
    ])
    await finish(server)
    await server.advance(600_000)
    expect(world.heard().toSorted()).toEqual(['job.completed', 'job.enqueued', 'job.started'])
  })

  test('has a limiter that no job can take part in', async () => {
    const { server } = await start()
    const { id } = await subscribe(server)
    const limit = { key: `curfew.webhook/${id}`, concurrency: 0 }
    const reply = await server.post('/ojs/v1/jobs', { type: 'test.job', args: [], rate_limit: limit })
    expect(reply.status).toBe(422)
    expect(reply.body['error']).toMatchObject({ details: { field: 'rate_limit.key' } })
  })

  test('is one of many: each gets its own', async () => {
    const { server, world } = await start()
    await subscribe(server, { url: 'https://one.example/' })
    await subscribe(server, { url: 'https://two.example/', events: ['job.*'], filter: { job_types: ['test.job'] } })
    await finish(server)
    const urls = world.calls.map(({ url }) => url)
    expect(urls.filter((url) => url === 'https://one.example/')).toHaveLength(1)
    expect(urls.filter((url) => url === 'https://two.example/')).toHaveLength(3)
  })

  test('can be changed, turned off and on, and what happens meanwhile is not made up for', async () => {
    const { server, world } = await start()
    const { id } = await subscribe(server)
    const change = (body: object) => server.call('PATCH', `${SUBSCRIPTIONS}/${id}`, body)
    expect((await change({ active: false })).body).toMatchObject({ subscription: { id, active: false } })
    await finish(server)
    await change({ active: true, events: ['job.started'] })
    await idle()
    expect(world.calls).toHaveLength(0)
    await finish(server)
    expect(world.heard()).toEqual(['job.started'])
  })

  test('that is deleted hears nothing more, and what was under way to it is cancelled', async () => {
    const { server, world } = await start()
    const { id } = await subscribe(server)
    world.react = () => ({ status: 503 })
    await finish(server)
    const [delivery] = await deliveries(server, id)
    expect(delivery).toMatchObject({ status: 'retrying' })
    expect((await server.call('DELETE', `${SUBSCRIPTIONS}/${id}`)).body).toEqual({ deleted: true, id })
    expect((await server.job(delivery?.job_id ?? '')).state).toBe('cancelled')
    await finish(server)
    await server.advance(600_000)
    expect(world.calls).toHaveLength(1)
    for (const method of ['GET', 'DELETE', 'PATCH'])
      expect((await server.call(method, `${SUBSCRIPTIONS}/${id}`, method === 'PATCH' ? {} : undefined)).status).toBe(
        404,
      )
    expect(await server.eventTypes(id)).toEqual(['webhook.subscription.created', 'webhook.subscription.deleted'])
  })

  test('shows itself without its secret, which is shown once', async () => {
    const { server } = await start()
    const made = await subscribe(server, { metadata: { owner: 'me' }, timeout: 5 })
    expect(made.secret).toMatch(/^whsec_[A-Za-z0-9+/]{43}=$/)
    const one = await server.get(`${SUBSCRIPTIONS}/${made.id}`)
    expect(one.body['subscription']).toEqual({
      id: made.id,
      url: URL,
      events: ['job.completed'],
      metadata: { owner: 'me' },
      active: true,
      timeout: 5,
      created_at: at(0),
      updated_at: at(0),
    })
    const all = await server.get(SUBSCRIPTIONS)
    expect(all.body['subscriptions']).toEqual([one.body['subscription']])
    expect(one.text + all.text).not.toContain(made.secret)
    const own = await server.post(SUBSCRIPTIONS, { url: URL, events: ['*'], secret: 'a secret of my own' })
    expect(own.text).not.toContain('a secret of my own')
  })

  test('of a tenant gets events of its jobs, and of no other’s; and only the tenant sees it', async () => {
    const { server, world } = await start()
    const as = (tenant: string) => ({ 'x-ojs-tenant': tenant })
    const made = await server.call('POST', SUBSCRIPTIONS, { url: URL, events: ['*'] }, as('acme'))
    const { id, tenant_id: tenant } = made.body['subscription'] as { id: string; tenant_id: string }
    expect(tenant).toBe('acme')
    for (const owner of ['acme', 'other']) {
      const job = { type: 'test.job', args: [], options: { queue: owner } }
      await server.call('POST', '/ojs/v1/jobs', job, as(owner))
    }
    await server.enqueue()
    await server.register('w1')
    await idle()
    expect(world.calls.map(({ body }) => (JSON.parse(body ?? '') as { data: { queue: string } }).data.queue)).toEqual([
      'acme',
    ])
    const path = `${SUBSCRIPTIONS}/${id}`
    expect((await server.get(path, as('other'))).status).toBe(404)
    expect((await server.call('DELETE', path, undefined, as('other'))).status).toBe(404)
    expect((await server.get(SUBSCRIPTIONS, as('other'))).body['subscriptions']).toEqual([])
    expect((await server.get('/ojs/v1/webhooks/deliveries', as('other'))).body['deliveries']).toEqual([])
    expect((await server.get(path, as('acme'))).status).toBe(200)
    expect((await server.get(path)).status).toBe(200)
    expect((await server.get('/ojs/v1/webhooks/deliveries', as('acme'))).body['deliveries']).toHaveLength(1)
  })

  test('with a slip of the pen in it is made, with a warning', async () => {
    const { server } = await start()
    const { x_warnings: warnings } = await subscribe(server, { events: ['job.complted'] })
    expect(warnings).toEqual(['No event of this server fits "job.complted".'])
  })

  test.each([
    [{ url: 'http://example.com/' }, 422, 'url'],
    [{ url: undefined }, 400, 'url'],
    [{ events: [] }, 400, 'events'],
    [{ secret: 'short' }, 422, 'secret'],
    [{ filters: {} }, 400, 'filters'],
  ])('with %j is refused with %d, naming %s', async (more, status, field) => {
    const { server } = await start()
    const reply = await server.post(SUBSCRIPTIONS, { url: URL, events: ['*'], ...more })
    expect(reply.status).toBe(status)
    expect(reply.body['error']).toMatchObject({ details: { field } })
    expect((await server.get(SUBSCRIPTIONS)).body['subscriptions']).toEqual([])
  })
})

describe('signatures', () => {
  const hmac = (key: string | Buffer, text: string) => createHmac('sha256', key).update(text)

  test('are those of Standard Webhooks and of OJS, over what was sent', async () => {
    const { server, world } = await start()
    const { secret } = await subscribe(server)
    await finish(server)
    const [call] = world.calls
    if (call === undefined) throw new Error('no endpoint was called')
    const { headers, body } = call
    const stamp = String(Date.parse(at(0)) / 1000)
    const id = headers['webhook-id'] ?? ''
    expect(headers).toMatchObject({ 'webhook-timestamp': stamp, 'X-OJS-Timestamp': stamp, 'X-OJS-Delivery-ID': id })
    const key = Buffer.from(secret.slice(6), 'base64')
    expect(headers['webhook-signature']).toBe(`v1,${hmac(key, `${id}.${stamp}.${body ?? ''}`).digest('base64')}`)
    expect(headers['X-OJS-Signature']).toBe(`sha256=${hmac(secret, `${stamp}.${body ?? ''}`).digest('hex')}`)
  })

  test('are made with the old secret too, for a day after it was replaced', async () => {
    const { server, world } = await start()
    const { id, secret } = await subscribe(server)
    const rotated = (await server.post(`${SUBSCRIPTIONS}/${id}/rotate-secret`)).body
    expect(rotated['secret']).toMatch(/^whsec_/)
    expect(rotated['secret']).not.toBe(secret)
    await finish(server)
    await server.advance(86_400_000)
    await finish(server)
    const counts = world.calls.map(({ headers }) => [
      headers['webhook-signature']?.split(' ').length,
      headers['X-OJS-Signature']?.split(',').length,
    ])
    expect(counts).toEqual([
      [2, 2],
      [1, 1],
    ])
  })
})

describe('an endpoint that fails', () => {
  test('is tried again with growing waits, with the same delivery id, until it is given up', async () => {
    const { server, world } = await start()
    world.react = () => ({ status: 500, body: 'out of order' })
    const { id } = await subscribe(server)
    const begun = server.clock.now()
    await finish(server)
    await server.advance(42 * 3_600_000)
    const seconds = world.calls.map((call) => (call.at - begun) / 1000)
    const waits = [0, 30, 120, 600, 3_600, 14_400, 43_200, 86_400]
    expect(seconds).toEqual(waits.map((_, index) => waits.slice(0, index + 1).reduce((sum, wait) => sum + wait, 0)))
    expect(new Set(world.calls.map(({ headers }) => headers['webhook-id'])).size).toBe(1)
    expect(new Set(world.calls.map(({ headers }) => headers['webhook-timestamp'])).size).toBe(8)
    const [delivery] = await deliveries(server, id)
    expect(delivery).toMatchObject({
      status: 'dead',
      attempts: 8,
      error: {
        type: 'webhook_failed',
        message: 'the endpoint answered 500',
        details: { status: 500, response: 'out of order' },
      },
    })
    const dead = await server.get('/ojs/v1/dead-letter?queue=curfew.webhooks')
    expect(dead.body.jobs.map((job) => job.id)).toEqual([delivery?.job_id])
    expect((await server.events(id)).at(-1)).toMatchObject({
      type: 'webhook.dead',
      data: { subscription_id: id, delivery_id: delivery?.id, event_type: 'job.completed', attempts: 8 },
    })
  })

  test('and then works gets what it missed; so it does when asked to', async () => {
    const { server, world } = await start()
    const { id } = await subscribe(server)
    world.react = (_, count) => ({ status: count === 1 ? 503 : count === 2 ? 200 : 400 })
    await finish(server)
    await server.advance(30_000)
    expect(await deliveries(server, id)).toMatchObject([{ status: 'delivered', attempts: 2 }])
    await finish(server)
    const [dead] = await deliveries(server, id)
    expect(dead).toMatchObject({ status: 'dead', attempts: 1 })
    world.react = () => ({ status: 200 })
    const retried = await server.post(`/ojs/v1/webhooks/deliveries/${dead?.id ?? ''}/retry`)
    expect(retried.status).toBe(200)
    await idle()
    expect((await deliveries(server, id))[0]).toMatchObject({ id: dead?.id, status: 'delivered' })
    expect((await server.post(`/ojs/v1/webhooks/deliveries/${dead?.id ?? ''}/retry`)).status).toBe(409)
  })

  test('by being slow is cut off at its time, and tried again', async () => {
    const { server, world } = await start()
    const { id } = await subscribe(server, { timeout: 5 })
    world.react = () => 'silence'
    await finish(server)
    await server.advance(4_999)
    expect(world.calls[0]?.signal.aborted).toBe(false)
    await server.advance(1)
    expect(world.calls[0]?.signal.aborted).toBe(true)
    expect(await deliveries(server, id)).toMatchObject([
      { status: 'retrying', error: { message: 'no answer within 5 s' } },
    ])
  })

  test('by saying when to come back is believed', async () => {
    const { server, world } = await start()
    await subscribe(server)
    world.react = (_, count) => (count === 1 ? { status: 429, headers: { 'retry-after': '7' } } : { status: 200 })
    await finish(server)
    await server.advance(6_999)
    expect(world.calls).toHaveLength(1)
    await server.advance(1)
    expect(world.calls).toHaveLength(2)
  })

  test('by being gone is left alone from then on', async () => {
    const { server, world } = await start()
    const { id } = await subscribe(server)
    world.react = () => ({ status: 410 })
    await finish(server)
    expect((await server.get(`${SUBSCRIPTIONS}/${id}`)).body['subscription']).toMatchObject({
      active: false,
      inactive_reason: 'the endpoint answered 410',
    })
    await finish(server)
    await server.advance(600_000)
    expect(world.calls).toHaveLength(1)
    expect(await server.eventTypes(id)).toContain('webhook.subscription.disabled')
  })

  test.each([
    ['is not allowed to be called', new CallRefused(BLOCKED), BLOCKED],
    ['redirects', { status: 302 }, 'redirects are not followed'],
    ['refuses', { status: 404 }, 'answered 404'],
  ])('because it %s is not tried again', async (_, reaction, message) => {
    const { server, world } = await start()
    const { id } = await subscribe(server)
    world.react = () => reaction
    await finish(server)
    await server.advance(600_000)
    expect(world.calls).toHaveLength(1)
    expect(await deliveries(server, id)).toMatchObject([
      { status: 'dead', attempts: 1, error: { message: expect.stringContaining(message) } },
    ])
  })

  test('does not hold up the others', async () => {
    const { server, world } = await start()
    await subscribe(server, { url: 'https://slow.example/' })
    await subscribe(server, { url: 'https://fast.example/' })
    world.react = ({ url }) => (url.includes('slow') ? 'silence' : { status: 200 })
    for (let count = 0; count < 50; count += 1) await finish(server)
    expect(world.calls.filter(({ url }) => url.includes('fast'))).toHaveLength(50)
    expect(world.calls.filter(({ url }) => url.includes('slow'))).toHaveLength(4)
  })
})

describe('a test delivery', () => {
  test('is sent at once, signed, and tells what came back', async () => {
    const { server, world } = await start()
    const { id } = await subscribe(server, { active: false })
    world.react = () => ({ status: 201, body: 'thanks' })
    const reply = await server.post(`${SUBSCRIPTIONS}/${id}/test`)
    expect(reply.body).toEqual({ success: true, status_code: 201, response_time_ms: 0, response_body: 'thanks' })
    expect(world.heard()).toEqual(['webhook.test'])
    expect(world.calls[0]?.headers).toHaveProperty('webhook-signature')
    world.react = () => new CallRefused(BLOCKED)
    expect((await server.post(`${SUBSCRIPTIONS}/${id}/test`)).body).toEqual({
      success: false,
      response_time_ms: 0,
      error: BLOCKED,
    })
    expect(await deliveries(server, id)).toEqual([])
    expect((await server.post(`${SUBSCRIPTIONS}/sub_nobody/test`)).status).toBe(404)
  })
})

describe('a server that stops', () => {
  test('hands back what it was delivering, and the next one delivers it', async () => {
    const store = await openTestStore()
    const keep = outliving(store)
    const world = new World()
    world.react = () => 'silence'
    const first = await TestServer.open({ store: keep, send: world.send })
    const { id } = await subscribe(first)
    await finish(first)
    expect(await deliveries(first, id)).toMatchObject([{ status: 'delivering' }])
    await first.close()
    expect(world.calls[0]?.signal.aborted).toBe(true)
    world.react = () => ({ status: 200 })
    const { server } = await start({ store, clock: first.clock, random: seededRandom(8) }, world)
    await idle()
    expect(await deliveries(server, id)).toMatchObject([{ status: 'delivered' }])
    expect(world.calls).toHaveLength(2)
  })

  test('without a word loses nothing: neither what was under way, nor what was not looked at yet', async () => {
    const store = await openTestStore()
    const world = new World()
    world.react = () => 'silence'
    const first = await TestServer.open({ store, send: world.send })
    const { id } = await subscribe(first)
    await finish(first)
    // The first one is never heard of again; its timers are.
    const second = await TestServer.open({ store, send: world.send, clock: first.clock, random: seededRandom(8) })
    open.push(second)
    first.engine.beginClose()
    world.react = () => ({ status: 200 })
    await second.advance(600_000)
    expect((await deliveries(second, id)).map(({ status }) => status)).toEqual(['delivered'])
  })
})

describe('a place in the log', () => {
  test('that has been pruned is left with a word in the log, and what is left is delivered', async () => {
    const store = await openTestStore({ maxAgeMs: days(7), maxCount: 20 })
    const keep = outliving(store)
    const world = new World()
    const first = await TestServer.open({ store: keep, send: world.send })
    await subscribe(first)
    await first.close()
    // A server that does not know of subscriptions: it does not read the log for them.
    const second = await TestServer.open({
      store: outliving(store, { docs: () => Promise.resolve([]) }),
      random: seededRandom(8),
    })
    for (let count = 0; count < 30; count += 1) await finish(second)
    await second.close()
    const { server } = await start({ store, clock: second.clock, random: seededRandom(9) }, world)
    await server.advance(0)
    expect(server.logged.filter(({ message }) => message.includes('pruned'))).toHaveLength(1)
    const { last } = await store.eventBounds()
    expect(world.heard()).toEqual(world.heard().map(() => 'job.completed'))
    expect(world.calls.length).toBeGreaterThan(0)
    expect(world.calls.length).toBeLessThan(30)
    expect(last).toBeGreaterThan(90)
  })
})

describe('the queue of deliveries', () => {
  test('is the server’s own: no client may put into it or take from it', async () => {
    const { server } = await start()
    for (const job of [{ queue: 'curfew.webhooks' }, { type: 'curfew.webhook.deliver' }]) {
      const reply = await server.post('/ojs/v1/jobs', { type: 'test.job', args: [], ...job })
      expect(reply.status).toBe(422)
    }
    expect((await server.fetch({ queues: ['curfew.webhooks'] })).status).toBe(422)
    const exchange = { worker_id: 'w', fetch: { queues: ['curfew.webhooks'], count: 1 } }
    expect((await server.post('/ojs/v1/workers/exchange', exchange)).status).toBe(422)
  })
})

describe('what is counted', () => {
  test('deliveries by type of event and how they went', async () => {
    const { server, world } = await start()
    await subscribe(server)
    world.react = (_, count) => ({ status: count === 1 ? 500 : 200 })
    await finish(server)
    await server.advance(30_000)
    const name = 'ojs_webhook_delivery_count_total'
    expect(await server.metric(name, { event_type: 'job.completed', status: 'failed' })).toBe(1)
    expect(await server.metric(name, { event_type: 'job.completed', status: 'success' })).toBe(1)
  })
})
