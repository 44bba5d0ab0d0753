/** What handlers log: sent with what is sent anyway, stored with the job, bounded, and gone with it. */
import { describe, expect, test } from 'vitest'
import { Worker, type Context, type HandlerFunction, type InProcessServer } from '@curfew/sdk'
import { MAX_LOG_CHARACTERS, seconds } from '@curfew/core'
import { at, idle, TEST_SETTINGS, TestServer, type TestOptions } from '../harness.ts'

const QUIET = { debug: () => {}, info: () => {}, warn: () => {}, error: () => {} }

interface LogView {
  readonly lines: readonly { readonly at: string; readonly attempt: number; readonly message: string }[]
  readonly dropped: number
}

async function logOf(server: TestServer, id: string): Promise<LogView | undefined> {
  return (await server.get(`/ojs/v1/jobs/${id}`)).body['x_log'] as LogView | undefined
}

const messagesOf = async (server: TestServer, id: string): Promise<string[] | undefined> =>
  (await logOf(server, id))?.lines.map(({ message }) => message)

describe('log lines of a worker', () => {
  async function held(options: TestOptions = {}) {
    const server = await TestServer.open(options)
    await server.register('w')
    const { id } = await server.start({ retry: { jitter: false } }, { worker_id: 'w' })
    return { server, id, fence: { worker_id: 'w', x_lease: 1 } }
  }
  const lines = (from: number, ...messages: string[]) => ({
    from,
    lines: messages.map((message) => ({ message })),
  })

  test('come with progress, a checkpoint, a heartbeat and the result, each stored once', async () => {
    const { server, id, fence } = await held()
    const path = `/ojs/v1/jobs/${id}`
    await server.call('PUT', `${path}/progress`, { progress: 0.1, ...fence, x_log: lines(0, 'a') })
    await server.call('PUT', `${path}/checkpoint`, { state: 1, ...fence, x_log: lines(0, 'a', 'b') })
    await server.advance(1_000)
    await server.beat('w', [id], { x_leases: { [id]: 1 }, x_logs: { [id]: lines(1, 'b', 'c') } })
    await server.ack(id, { ...fence, x_log: { from: 3, lines: [{ at: at(500), message: 'd', fields: { n: 1 } }] } })
    expect(await logOf(server, id)).toEqual({
      lines: [
        { at: at(0), attempt: 1, message: 'a' },
        { at: at(0), attempt: 1, message: 'b' },
        { at: at(1_000), attempt: 1, message: 'c' },
        { at: at(500), attempt: 1, message: 'd', fields: { n: 1 } },
      ],
      dropped: 0,
    })
  })

  test('of all attempts are kept, those of an exchange too, and explain tells them in their order', async () => {
    const { server, id, fence } = await held()
    await server.nack(id, { message: 'boom' }, { ...fence, x_log: lines(3, 'first') })
    await server.advance(2_000)
    await server.fetch({ worker_id: 'w' })
    await server.advance(1_000)
    const ack = { job_id: id, x_lease: 2, x_log: lines(0, 'second "quoted"\u001b[31m') }
    await server.post('/ojs/v1/workers/exchange', { worker_id: 'w', acks: [ack] })
    expect((await logOf(server, id))?.lines.map(({ attempt, message }) => [attempt, message])).toEqual([
      [1, 'first'],
      [2, 'second "quoted"\u001b[31m'],
    ])
    const { body } = await server.get(`/ojs/v1/jobs/${id}/explain`)
    const story = String(body['text'])
      .split('\n')
      .map((line) => line.slice(26))
    expect(story.slice(1, 4)).toEqual([
      expect.stringContaining('attempt 1 started'),
      '3 older log lines were dropped',
      'attempt 1 logged "first"',
    ])
    expect(story.slice(-3)).toEqual([
      'attempt 2 logged "second \\"quoted\\"\\u001b[31m"',
      'completed',
      expect.any(String),
    ])
    expect(body['log']).toMatchObject({ dropped: 3 })
  })

  test('of an attempt that is over, or of another lease, are not stored', async () => {
    const { server, id, fence } = await held()
    await server.beat('w', [id], { x_leases: { [id]: 9 }, x_logs: { [id]: lines(0, 'stale') } })
    await server.beat('v', [id], { x_leases: { [id]: 1 }, x_logs: { [id]: lines(0, 'of another worker') } })
    await server.ack(id, fence)
    const late = await server.call('PUT', `/ojs/v1/jobs/${id}/checkpoint`, {
      state: 1,
      ...fence,
      x_log: lines(0, 'late'),
    })
    expect([late.status, await logOf(server, id)]).toEqual([409, undefined])
  })

  test('are in the answer for one job only, and go with the job', async () => {
    const retention = { ...TEST_SETTINGS.retention, completedMs: seconds(10) }
    const { server, id, fence } = await held({ settings: { retention } })
    const acked = await server.ack(id, { ...fence, x_log: lines(0, 'secret') })
    expect(acked.text).not.toContain('secret')
    expect((await server.get('/ojs/v1/jobs')).text).not.toContain('secret')
    expect((await server.get(`/ojs/v1/jobs/${id}`)).text).toContain('secret')
    await server.advance(11_000)
    expect((await server.get(`/ojs/v1/jobs/${id}`)).status).toBe(404)
  })

  test('a worker cannot store more than the bound, however much it sends: the rest is cut and counted', async () => {
    const { server, id, fence } = await held()
    const hostile = Array.from({ length: 400 }, () => ({
      message: '\u0001'.repeat(1_500),
      fields: { x: 'y'.repeat(2_000) },
    }))
    for (let n = 0; n < 3; n += 1)
      expect(
        (
          await server.call('PUT', `/ojs/v1/jobs/${id}/progress`, {
            progress: 0.5,
            ...fence,
            x_log: { from: n * 400, lines: hostile },
          })
        ).status,
      ).toBe(200)
    const log = await logOf(server, id)
    expect(JSON.stringify(log?.lines).length).toBeLessThan(2 * MAX_LOG_CHARACTERS)
    expect((log?.dropped ?? 0) + (log?.lines.length ?? 0)).toBe(1_200)
    const stored = await server.store.job(id)
    expect(JSON.stringify(stored?.log?.lines).length).toBeLessThan(MAX_LOG_CHARACTERS + 200)
  })

  test.each([
    ['lines', { from: 0 }],
    ['lines', { lines: 'text' }],
    ['lines[0].message', { lines: [{}] }],
    ['lines[0].message', { lines: [{ message: 5 }] }],
    ['lines[0].fields', { lines: [{ message: 'a', fields: [1] }] }],
    ['lines[0].at', { lines: [{ message: 'a', at: 'today' }] }],
    ['from', { from: -1, lines: [] }],
  ])('a wrong %s is refused by name, and the attempt goes on', async (field, log) => {
    const { server, id, fence } = await held()
    const { status, body } = await server.ack(id, { ...fence, x_log: log })
    expect([status, (body.error as { details?: { field?: string } }).details?.field]).toEqual([400, `x_log.${field}`])
    expect((await server.job(id)).state).toBe('active')
  })

  test('fields whose names mean something to JavaScript do no harm', async () => {
    const { server, id } = await held()
    const text = `{"job_id":"${id}","worker_id":"w","x_lease":1,"x_log":{"lines":[{"message":"m","fields":{"__proto__":{"polluted":1},"constructor":2}}]}}`
    const answer = await server.handler({
      method: 'POST',
      url: '/ojs/v1/workers/ack',
      headers: { 'content-type': 'application/json' },
      body: text,
      signal: new AbortController().signal,
    })
    expect(answer.status).toBe(200)
    expect(({} as { polluted?: number }).polluted).toBeUndefined()
    expect((await server.get(`/ojs/v1/jobs/${id}`)).text).toContain(
      '"fields":{"__proto__":{"polluted":1},"constructor":2}',
    )
  })
})

describe('ctx.log', () => {
  async function stage(handler: HandlerFunction<unknown, unknown>) {
    const server = await TestServer.open()
    const calls: { readonly url: string; readonly body: string }[] = []
    const counted: InProcessServer = {
      handler: (request) => {
        calls.push({ url: request.url, body: request.body })
        return server.handler(request)
      },
    }
    const worker = new Worker({ server: counted, host: server.clock, random: () => 0.5, log: QUIET })
    worker.handle('order.pay', { timeout: '60s', gracePeriod: '1s' }, handler)
    await worker.start()
    await idle()
    const id = async (): Promise<string> => {
      const made = await server.enqueue({ type: 'order.pay', retry: { max_attempts: 2, jitter: false } })
      await idle()
      return made
    }
    return { server, calls, enqueue: id }
  }

  test('makes no call of its own: the lines go with the result, with their times and attempt', async () => {
    const work = async (ctx: Context): Promise<void> => {
      ctx.log('begins', { order: 7 })
      await new Promise<void>((resolve) => server.clock.setTimer(250, resolve))
      for (let n = 0; n < 5; n += 1) ctx.log(`line ${String(n)}`)
    }
    let server = null as unknown as TestServer
    const staged = await stage(work)
    server = staged.server
    const id = await staged.enqueue()
    await server.advance(250)
    await idle()
    const log = await logOf(server, id)
    expect(log?.lines[0]).toEqual({ at: at(0), attempt: 1, message: 'begins', fields: { order: 7 } })
    expect(log?.lines.slice(1)).toEqual(
      Array.from({ length: 5 }, (_, n) => ({ at: at(250), attempt: 1, message: `line ${String(n)}` })),
    )
    const carriers = staged.calls.filter(({ body }) => body.includes('"x_log'))
    expect(carriers.map(({ url }) => url)).toEqual(['/ojs/v1/workers/exchange'])
    expect(staged.calls.filter(({ url }) => url.includes('/jobs/'))).toEqual([])
  })

  test('of a handler that runs for long goes with the next heartbeat, and is not sent again with the failure', async () => {
    let fail: () => void = () => {}
    const { server, calls, enqueue } = await stage(async (ctx) => {
      ctx.log('waiting')
      await new Promise<void>((_, reject) => (fail = () => reject(new Error('down'))))
    })
    const id = await enqueue()
    expect(await messagesOf(server, id)).toBeUndefined()
    await server.advance(6_000)
    await idle()
    expect(await messagesOf(server, id)).toEqual(['waiting'])
    fail()
    await idle()
    expect((await server.job(id)).state).toBe('retryable')
    expect(calls.filter(({ body }) => body.includes('waiting')).map(({ url }) => url)).toEqual([
      '/ojs/v1/workers/heartbeat',
    ])
  })

  test('goes with progress and with steps, and no failed step takes it away', async () => {
    const { server, calls, enqueue } = await stage(async (ctx) => {
      ctx.log('before the step')
      await ctx.step('charge', () => 1)
      ctx.log('before the progress')
      await ctx.progress(0.5)
      ctx.log('before the failure')
      throw new Error('down')
    })
    const id = await enqueue()
    expect(await messagesOf(server, id)).toEqual(['before the step', 'before the progress', 'before the failure'])
    const carriers = calls.filter(({ body }) => body.includes('"x_log"')).map(({ url }) => url)
    expect(carriers).toEqual([
      `/ojs/v1/jobs/${id}/checkpoint`,
      `/ojs/v1/jobs/${id}/progress`,
      '/ojs/v1/workers/exchange',
    ])
  })

  test('survives a flood: the newest lines are there, and the number of those that are gone', async () => {
    const { server, enqueue } = await stage((ctx) => {
      for (let n = 0; n < 10_000; n += 1) ctx.log(`line ${String(n)}`)
    })
    const id = await enqueue()
    const log = await logOf(server, id)
    expect([log?.lines.length, log?.lines.at(-1)?.message, log?.dropped]).toEqual([100, 'line 9999', 9_900])
  })

  test('after the end of its attempt is lost, and harms nothing', async () => {
    let late: Context | null = null
    const { server, enqueue } = await stage((ctx) => {
      late = ctx
    })
    const id = await enqueue()
    ;(late as Context | null)?.log('too late')
    await server.advance(6_000)
    expect(await logOf(server, id)).toBeUndefined()
  })
})
