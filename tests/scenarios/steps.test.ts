/** Durable steps: the SDK's worker on a server in the same process, on a clock turned by hand. */
import { describe, expect, test } from 'vitest'
import { Worker, type Context, type HandlerFunction, type WorkerSettings } from '@curfew/sdk'
import { idle, TestServer } from '../harness.ts'

const QUIET = { debug: () => {}, info: () => {}, warn: () => {}, error: () => {} }

interface Stage {
  readonly server: TestServer
  /** Another worker for the same jobs. */
  readonly join: (handler: HandlerFunction<unknown, unknown>) => Promise<Worker>
}

async function stage(handler: HandlerFunction<unknown, unknown>, settings: WorkerSettings = {}): Promise<Stage> {
  const server = await TestServer.open()
  const join: Stage['join'] = async (run) => {
    const worker = new Worker({ server, host: server.clock, random: () => 0.5, log: QUIET, ...settings })
    worker.handle('order.pay', { timeout: '10s', gracePeriod: '1s' }, run)
    await worker.start()
    await idle()
    return worker
  }
  await join(handler)
  return { server, join }
}

/** Enqueues an order, and lets the clock run until all is said. */
async function order(server: TestServer, more: Record<string, unknown> = {}): Promise<string> {
  const id = await server.enqueue({ type: 'order.pay', retry: { max_attempts: 3, jitter: false }, ...more })
  await idle()
  return id
}

/** What ran, in its order. */
function journal(): { readonly ran: string[]; readonly does: <T>(what: string, value?: T) => () => T | undefined } {
  const ran: string[] = []
  return {
    ran,
    does: (what, value) => () => {
      ran.push(what)
      return value
    },
  }
}

describe('a job with steps', () => {
  test('goes on after the last one that is stored when an attempt fails', async () => {
    const { ran, does } = journal()
    const { server } = await stage(async (ctx) => {
      const id = await ctx.step('charge', does('charge', { id: 7 }))
      await ctx.step('ship', does('ship'))
      if (ctx.attempt === 1) throw new Error('the line is down')
      await ctx.step('mail', does('mail'))
      return id
    })
    const id = await order(server)
    await server.advance(2_000)
    await idle()
    expect(await server.job(id)).toMatchObject({ state: 'completed', attempt: 2, result: { id: 7 } })
    expect(ran).toEqual(['charge', 'ship', 'mail'])
  })

  test('goes on after them on another worker when the first has died', async () => {
    const { ran, does } = journal()
    let isFirst = true
    const handler = async (ctx: Context): Promise<string> => {
      await ctx.step('charge', does('charge'))
      if (isFirst) await new Promise(() => {})
      await ctx.step('mail', does('mail'))
      return 'done'
    }
    const { server, join } = await stage(handler)
    const id = await order(server)
    isFirst = false
    await join(handler)
    // The attempt that never returns is ended at its deadline.
    await server.advance(15_000)
    await idle()
    expect(await server.job(id)).toMatchObject({ state: 'completed', result: 'done' })
    expect(ran).toEqual(['charge', 'mail'])
  })

  test('keeps its own checkpoint beside them: neither sees nor loses the other', async () => {
    const seen: unknown[] = []
    const { ran, does } = journal()
    const { server } = await stage(async (ctx) => {
      seen.push(ctx.lastCheckpoint)
      await ctx.checkpoint({ page: 1 })
      await ctx.step('charge', does('charge', 'paid'))
      await ctx.checkpoint({ page: 2 })
      if (ctx.attempt === 1) throw new Error('the line is down')
      return ctx.step('charge-2', does('charge-2', 'more'))
    })
    const id = await order(server)
    await server.advance(2_000)
    await idle()
    expect(seen).toEqual([null, { page: 2 }])
    expect(ran).toEqual(['charge', 'charge-2'])
    const { body } = await server.get(`/ojs/v1/jobs/${id}/checkpoint`)
    expect(body['state']).toMatchObject({
      $curfew_steps: [{ name: 'charge', result: 'paid' }, { name: 'charge-2' }],
      state: { page: 2 },
    })
  })

  test('goes on after them when it is retried by hand', async () => {
    const { ran, does } = journal()
    let isBroken = true
    const { server } = await stage(async (ctx) => {
      await ctx.step('charge', does('charge'))
      if (isBroken) throw new Error('the line is down')
      return ctx.step('mail', does('mail', 'sent'))
    })
    const id = await order(server, { retry: { max_attempts: 1 } })
    expect((await server.job(id)).state).toBe('discarded')
    isBroken = false
    await server.post(`/ojs/v1/admin/jobs/${id}/retry`)
    await idle()
    expect(await server.job(id)).toMatchObject({ state: 'completed', result: 'sent' })
    expect(ran).toEqual(['charge', 'mail'])
  })

  test('of which one is too slow fails with the step and its limit in the error', async () => {
    const { server } = await stage((ctx) => ctx.step('charge', { timeout: '2s' }, () => new Promise(() => {})))
    const id = await order(server, { retry: { max_attempts: 1 } })
    await server.advance(2_000)
    await idle()
    const { state, errors } = await server.job(id)
    expect([state, errors[0]]).toMatchObject([
      'discarded',
      {
        type: 'StepDeadlineError',
        message: 'Step "charge" was stopped: the step limit of 2000 ms (set by the step) has passed.',
        details: { step: 'charge', kind: 'step', limit_ms: 2_000 },
      },
    ])
  })

  test.each([
    ['its timeout', {}, { type: 'timeout', timeout_kind: 'execution', limit_ms: 10_000, source: 'handler' }],
    ['its total', { total_timeout: 8 }, { type: 'total_timeout', limit_ms: 8_000, source: 'publish', overshoot_ms: 0 }],
  ])('that is stopped within a step by %s ends with that limit and who set it', async (_, more, ending) => {
    const { server } = await stage((ctx) => ctx.step('charge', () => new Promise(() => {})))
    const id = await order(server, { retry: { max_attempts: 1 }, ...more })
    await server.advance(10_000)
    await idle()
    expect(await server.job(id)).toMatchObject({ state: 'discarded', error: ending })
  })

  test('whose results do not fit into a checkpoint fails once, and the step does not run again', async () => {
    const { ran, does } = journal()
    const { server } = await stage((ctx) => ctx.step('read', does('read', 'x'.repeat(2_000_000))))
    const id = await order(server)
    expect((await server.job(id)).errors).toMatchObject([{ type: 'StepError', code: 'steps_too_large' }])
    expect((await server.job(id)).state).toBe('discarded')
    expect(ran).toEqual(['read'])
  })
})

describe('a job that sleeps', () => {
  test('holds no slot, uses no attempt, and goes on when the time has come', async () => {
    const { ran, does } = journal()
    const { server } = await stage(
      async (ctx) => {
        await ctx.step('charge', does('charge'))
        await ctx.sleep('cool-down', '1m')
        await ctx.step('mail', does('mail'))
        return ctx.attempt
      },
      { concurrency: 1 },
    )
    const id = await order(server, { retry: { max_attempts: 1 } })
    expect(await server.job(id)).toMatchObject({ state: 'scheduled', x_interruptions: 1 })
    expect(ran).toEqual(['charge'])
    // The slot is free for another job.
    await order(server)
    expect(ran).toEqual(['charge', 'charge'])
    await server.advance(59_000)
    await idle()
    expect((await server.job(id)).state).toBe('scheduled')
    await server.advance(1_000)
    await idle()
    expect(await server.job(id)).toMatchObject({ state: 'completed', result: 1, attempt: 2 })
    expect(ran).toEqual(['charge', 'charge', 'mail', 'mail'])
  })

  test('sleeps on when an attempt comes too early, and is not kept longer', async () => {
    const { ran, does } = journal()
    const { server } = await stage(async (ctx) => {
      await ctx.sleep('cool-down', '1m')
      await ctx.step('mail', does('mail'))
    })
    const id = await order(server)
    await server.advance(30_000)
    await server.call('PATCH', `/ojs/v1/jobs/${id}`, { scheduled_at: null })
    await idle()
    expect(await server.job(id)).toMatchObject({ state: 'scheduled', x_interruptions: 2 })
    await server.advance(30_000)
    await idle()
    expect((await server.job(id)).state).toBe('completed')
    expect(ran).toEqual(['mail'])
  })

  test('for longer than its total fails at once, and says so', async () => {
    const { server } = await stage((ctx) => ctx.sleep('cool-down', '2h'))
    const id = await order(server, { total_timeout: 3_600 })
    const { state, errors } = await server.job(id)
    expect([state, errors[0]]).toMatchObject(['discarded', { type: 'StepError', code: 'sleep_beyond_total' }])
    expect(errors[0]?.message).toContain('total_timeout 3600000 ms, set by publish')
  })

  test('is ended by its total all the same', async () => {
    const { server } = await stage((ctx) => ctx.sleep('cool-down', '50s'))
    const id = await order(server, { total_timeout: 60 })
    await server.call('PATCH', `/ojs/v1/jobs/${id}`, { total_timeout: 30 })
    await server.advance(30_000)
    await idle()
    expect((await server.job(id)).errors.at(-1)).toMatchObject({ type: 'total_timeout', overshoot_ms: 0 })
  })

  test('whose handler swallows the error of the sleep sleeps nevertheless', async () => {
    const { server } = await stage(async (ctx) => {
      await ctx.sleep('cool-down', '1m').catch(() => {})
      return 'not yet'
    })
    const id = await order(server)
    expect((await server.job(id)).state).toBe('scheduled')
    await server.advance(60_000)
    await idle()
    expect(await server.job(id)).toMatchObject({ state: 'completed', result: 'not yet' })
  })
})

describe('x_not_before', () => {
  test('holds back a job that any worker hands back, by an instant or a length', async () => {
    const server = await TestServer.open()
    const { id } = await server.start()
    const reply = await server.nack(id, { message: 'later' }, { requeue: true, x_not_before: '+PT10M' })
    expect([reply.status, reply.body['state']]).toEqual([200, 'scheduled'])
    await server.advance(599_999)
    expect((await server.job(id)).state).toBe('scheduled')
    await server.advance(1)
    expect((await server.job(id)).state).toBe('available')
  })

  test('is refused without requeue, and at or after the total deadline; the job stays active', async () => {
    const server = await TestServer.open()
    const { id } = await server.start({ total_timeout: 600 })
    const plain = await server.nack(id, { message: 'later' }, { x_not_before: '+PT1M' })
    const late = await server.nack(id, { message: 'later' }, { requeue: true, x_not_before: '+PT10M' })
    expect([plain.status, late.status]).toEqual([400, 422])
    for (const { body } of [plain, late]) expect(body['error']).toMatchObject({ details: { field: 'x_not_before' } })
    expect((await server.job(id)).state).toBe('active')
  })
})
