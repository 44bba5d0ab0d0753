import { describe, expect, test } from 'vitest'
import { z } from 'zod'
import { entry } from '../job/entry.ts'
import { Client } from './client.ts'
import { defineJob } from '../job/define-job.ts'
import { InputError, UnsupportedError } from '../errors.ts'
import type { EnqueueMiddleware } from './middleware.ts'
import { idle, refused, ScriptedServer, turning, world, type Asked, type Line, type Said } from '../scripted.suite.ts'
import type { JobView } from '../wire/jobs.ts'

const mail = defineJob<[to: string]>('mail.send')
const ID = '01890000-0000-7000-8000-00000000000a'
const LIMITS: Said = { body: { extensions: ['urn:curfew:ext:limits'] } }
const NOTHING_OURS: Said = { body: { extensions: ['urn:ojs:ext:timeouts'] } }

const created = ({ body }: Asked): Said => ({ status: 201, body: { job: body as unknown } })
const createdAll = ({ body }: Asked): Said => ({ status: 201, body: { jobs: body.jobs as unknown } })

function open(rule: (asked: Asked, count: number) => Line | null = () => null, middleware: EnqueueMiddleware[] = []) {
  const { host, random } = world()
  const server = new ScriptedServer((asked, count) => {
    const line = rule(asked, count)
    if (line !== null) return line
    if (asked.url === '/ojs/manifest') return LIMITS
    return asked.url.endsWith('/batch') ? createdAll : created
  })
  return { host, server, client: new Client({ server, host, random, middleware }) }
}

describe('enqueue', () => {
  test('makes an id of its own for each job', async () => {
    const { server, client } = open()
    await client.enqueue(mail, ['a'])
    await client.enqueue(mail, ['b'])
    const ids = server.asked.map(({ body }) => body.id as string)
    expect(ids[0]).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-7/)
    expect(new Set(ids)).toHaveProperty('size', 2)
  })

  test('a wrong input never leaves', async () => {
    const { server, client } = open()
    await expect(client.enqueue(mail, [5n as never])).rejects.toBeInstanceOf(InputError)
    expect(server.asked).toEqual([])
  })

  test('what the server would ignore is refused, and says what', async () => {
    const { server, client } = open((asked) => (asked.url === '/ojs/manifest' ? NOTHING_OURS : null))
    const parent = { jobId: ID }
    await expect(client.enqueue(mail, ['a'], { onTimeout: 'discard', parent })).rejects.toThrow(/onTimeout, parent/)
    await expect(client.enqueue(mail, ['a'], { onTimeout: 'discard' })).rejects.toBeInstanceOf(UnsupportedError)
    await expect(client.enqueueMany([entry(mail, ['a'], { parent })])).rejects.toBeInstanceOf(UnsupportedError)
    await client.enqueue(mail, ['a'], { timeout: '30s', totalTimeout: '1m' })
    expect(server.urls).toEqual(['GET /ojs/manifest', 'POST /ojs/v1/jobs'])
  })

  test('what the server announced is sent', async () => {
    const { server, client } = open()
    await client.enqueue(mail, ['a'], { onTimeout: 'discard', totalTimeout: { ms: 1_500 } })
    expect(server.asked.at(-1)?.body).toMatchObject({ x_on_timeout: 'discard', options: { total_timeout_ms: 1_500 } })
  })

  test('a caller who gives up does not wait for what the server announces', async () => {
    const { client } = open((asked) => (asked.url === '/ojs/manifest' ? 'silent' : null))
    const gaveUp = new AbortController()
    const outcome = client.enqueue(mail, ['a'], { onTimeout: 'discard', signal: gaveUp.signal })
    await idle()
    gaveUp.abort(new Error('enough'))
    await expect(outcome).rejects.toThrow('enough')
  })
})

describe('middleware', () => {
  const noting =
    (log: string[], name: string): EnqueueMiddleware =>
    async (request, next) => {
      log.push(`${name} in`)
      const job = await next(request)
      log.push(`${name} out`)
      return job
    }

  test('lies around each enqueue like the skins of an onion', async () => {
    const log: string[] = []
    const { client } = open(undefined, [noting(log, 'a')])
    client.use(noting(log, 'b')).use(noting(log, 'c'))
    await client.enqueue(mail, ['x'])
    expect(log).toEqual(['a in', 'b in', 'c in', 'c out', 'b out', 'a out'])
  })

  test('may hand on another request, and sees the id', async () => {
    const seen: string[] = []
    const { server, client } = open()
    client.use((request, next) => {
      seen.push(request.options.id)
      return next({ ...request, options: { ...request.options, queue: 'slow', meta: { by: 'me' } } })
    })
    await client.enqueue(mail, ['x'])
    expect(server.asked[0]?.body).toMatchObject({ id: seen[0], meta: { by: 'me' }, options: { queue: 'slow' } })
  })

  test('may answer by itself; may throw, at once or later', async () => {
    const { server, client } = open(undefined, [
      (request, next) => {
        if (request.job.type === 'a.quiet') return Promise.resolve({ id: ID } as JobView)
        if (request.job.type === 'a.broken') throw new Error('broken')
        return next()
      },
    ])
    expect(await client.enqueue(defineJob('a.quiet'), [])).toEqual({ id: ID })
    await expect(client.enqueue(defineJob('a.broken'), [])).rejects.toThrow('broken')
    expect(server.asked).toEqual([])
    await client.enqueue(mail, ['x'])
    expect(server.asked).toHaveLength(1)
  })

  test('that hands on the same request twice enqueues one job', async () => {
    const { server, client } = open(({ method, body }, count) => {
      if (method === 'GET') return { body: { job: { id: server.asked[0]?.body.id as string } } }
      if (count === 1) return refused(500, 'internal_error')
      return refused(409, 'duplicate', { details: { existing_job_id: body.id as string } })
    })
    client.use(async (_, next) => next().catch(() => next()))
    const job = await client.enqueue(mail, ['x'])
    expect(job.id).toBe(server.asked[0]?.body.id)
  })
})

describe('enqueueMany', () => {
  test('sends all in one request, in order, with the same options', async () => {
    const { server, client } = open()
    const jobs = await client.enqueueMany(mail, [['a'], ['b']], { queue: 'slow' })
    expect(jobs).toMatchObject([{ args: ['a'] }, { args: ['b'] }])
    expect(server.asked).toHaveLength(1)
    expect(server.asked[0]?.body.jobs).toMatchObject([{ options: { queue: 'slow' } }, { options: { queue: 'slow' } }])
  })

  test('takes jobs of different kinds, each with its own options', async () => {
    const { server, client } = open()
    await client.enqueueMany([entry(mail, ['a'], { priority: 5 }), entry(defineJob<[n: number]>('a.count'), [1])])
    expect(server.asked[0]?.body.jobs).toMatchObject([
      { type: 'mail.send', args: ['a'], options: { priority: 5 } },
      { type: 'a.count', args: [1] },
    ])
  })

  test('with nothing to enqueue, no request is sent', async () => {
    const { server, client } = open()
    expect(await client.enqueueMany(mail, [])).toEqual([])
    expect(server.asked).toEqual([])
  })

  test('one wrong input and nothing leaves; the error names it', async () => {
    const { server, client } = open()
    await expect(client.enqueueMany(mail, [['a'], [5n as never], ['c']])).rejects.toMatchObject({
      name: 'InputError',
      message: expect.stringMatching(/^Entry 1: The input of mail\.send/),
      details: { index: 1, path: '/0' },
    })
    expect(server.asked).toEqual([])
  })

  test('sends the same with a layer that changes nothing as without', async () => {
    const count = defineJob('a.count', { input: z.object({ n: z.number() }), queue: 'slow', limits: { timeout: '5s' } })
    const options = {
      priority: 3,
      meta: { a: 'ä' },
      onTimeout: 'discard',
      totalTimeout: { ms: 1_500 },
      tags: ['x'],
      parent: { jobId: ID },
      inheritDeadline: true,
    } as const
    const bodies = []
    for (const middleware of [[], [(request, next) => next(request)] as EnqueueMiddleware[]]) {
      const { server, client } = open(undefined, middleware)
      await client.enqueueMany(count, [{ n: 1 }, { n: 2 }], options)
      await client.enqueueMany(mail, [['a']])
      bodies.push(server.asked.filter(({ method }) => method === 'POST').map(({ text }) => text))
    }
    expect(bodies[0]).toHaveLength(2)
    expect(bodies[0]).toEqual(bodies[1])
  })

  test('options that cannot be sent are refused, and nothing leaves', async () => {
    const { server, client } = open()
    const bad = client.enqueueMany(mail, [['a'], ['b']], { timeout: 'soon' as never })
    await expect(bad).rejects.toMatchObject({ name: 'InputError', message: expect.stringMatching(/^Entry 0: /) })
    await expect(client.enqueueMany(mail, [['a']], { queu: 'x' } as never)).rejects.toThrow(/no option queu/)
    expect(server.asked).toEqual([])
  })

  test('an input that does not fit its schema is named', async () => {
    const { server, client } = open()
    const count = defineJob('a.count', { input: z.object({ n: z.number() }) })
    await expect(client.enqueueMany(count, [{ n: 1 }, { n: 'x' as never }])).rejects.toMatchObject({
      message: expect.stringMatching(/^Entry 1: The input of a\.count does not fit/),
      details: { index: 1, path: '/n' },
    })
    expect(server.asked).toEqual([])
  })

  test('what only some servers understand is asked for once, and refused elsewhere', async () => {
    const { server, client } = open((asked) => (asked.url === '/ojs/manifest' ? refused(404, 'not_found') : null))
    const bad = client.enqueueMany(mail, [['a'], ['b']], { onTimeout: 'discard' })
    await expect(bad).rejects.toBeInstanceOf(UnsupportedError)
    expect(server.urls).toEqual(['GET /ojs/manifest'])
  })

  test('what the server refuses names the entry too', async () => {
    const { client } = open(() => refused(422, 'validation_error', { details: { index: 1, field: 'timeout' } }))
    await expect(client.enqueueMany(mail, [['a'], ['b']])).rejects.toMatchObject({ status: 422, details: { index: 1 } })
  })

  test('more jobs than fit into one batch are refused', async () => {
    const { client } = open()
    const inputs = Array.from({ length: 10_001 }, (): [string] => ['a'])
    await expect(client.enqueueMany(mail, inputs)).rejects.toBeInstanceOf(InputError)
  })

  test('a batch whose answer got lost is found as a whole', async () => {
    let first: { id: string }[] = []
    const { host, server, client } = open((asked, count) => {
      if (asked.method === 'GET') return { body: { job: first.find(({ id }) => asked.url.endsWith(id)) } }
      first = asked.body.jobs as { id: string }[]
      return count === 1 ? 'dead' : refused(409, 'duplicate', { details: { existing_job_id: first[0]?.id, index: 0 } })
    })
    const jobs = await turning(host, client.enqueueMany(mail, [['a'], ['b']]))
    expect(jobs).toMatchObject([{ args: ['a'] }, { args: ['b'] }])
    expect(server.urls).toHaveLength(4)
  })

  test('a duplicate at the first try is a duplicate', async () => {
    const { client } = open(({ body }) =>
      refused(409, 'duplicate', { details: { existing_job_id: (body.jobs as { id: string }[])[0]?.id } }),
    )
    await expect(client.enqueueMany(mail, [['a']])).rejects.toMatchObject({ code: 'duplicate' })
  })

  test('each job passes the layers by itself; what a layer answers is left out of the request', async () => {
    const { server, client } = open(undefined, [
      (request, next) =>
        (request.input as string[])[0] === 'b'
          ? Promise.resolve({ id: ID } as JobView)
          : next({ ...request, options: { ...request.options, meta: { layer: 1 } } }),
    ])
    const jobs = await client.enqueueMany(mail, [['a'], ['b'], ['c']])
    expect(jobs).toMatchObject([{ args: ['a'] }, { id: ID }, { args: ['c'] }])
    expect(server.asked[0]?.body.jobs).toMatchObject([
      { args: ['a'], meta: { layer: 1 } },
      { args: ['c'], meta: { layer: 1 } },
    ])
  })

  test('every layer hears of a batch that failed', async () => {
    const heard: unknown[] = []
    const { client } = open(
      () => refused(422, 'validation_error'),
      [
        (_, next) =>
          next().catch((error: unknown) => {
            heard.push(error)
            throw error
          }),
      ],
    )
    await expect(client.enqueueMany(mail, [['a'], ['b']])).rejects.toMatchObject({ status: 422 })
    expect(heard).toMatchObject([{ status: 422 }, { status: 422 }])
  })

  test('also when it failed because of one of them', async () => {
    const heard: unknown[] = []
    const { server, client } = open(undefined, [
      (request, next) => {
        if ((request.input as string[])[0] === 'b') throw new Error('broken')
        return next().catch((error: unknown) => {
          heard.push(error)
          throw error
        })
      },
    ])
    await expect(client.enqueueMany(mail, [['a'], ['b']])).rejects.toThrow('broken')
    expect(heard).toMatchObject([{ message: 'broken' }])
    expect(server.asked).toEqual([])
  })
})

describe('cancel', () => {
  const conflict = refused(409, 'conflict')

  test('what is over is refused', async () => {
    const { server, client } = open(() => conflict)
    await expect(client.cancel(ID)).rejects.toMatchObject({ code: 'conflict' })
    expect(server.urls).toEqual([`DELETE /ojs/v1/jobs/${ID}`])
  })

  test.each(['cancelled', 'completed'])(
    'after a lost answer a job that is %s tells whether it was heard',
    async (state) => {
      const { host, client } = open(({ method }, count) =>
        method === 'GET' ? { body: { job: { id: ID, state } } } : count === 1 ? 'dead' : conflict,
      )
      const outcome = turning(host, client.cancel({ id: ID }))
      if (state === 'cancelled') expect(await outcome).toMatchObject({ state })
      else await expect(outcome).rejects.toMatchObject({ code: 'conflict' })
    },
  )
})

describe('health', () => {
  test('a server in trouble says so', async () => {
    const { server, client } = open(() => ({ status: 503, body: { status: 'degraded' } }))
    expect(await client.health()).toEqual({ status: 'degraded' })
    expect(server.asked).toHaveLength(1)
  })

  test('health() rejects when the server refuses', async () => {
    await expect(open(() => refused(503, 'unavailable')).client.health()).rejects.toMatchObject({ status: 503 })
    await expect(open(() => refused(404, 'not_found')).client.health()).rejects.toMatchObject({ status: 404 })
  })
})

test('patch: null takes a limit away, undefined says nothing', async () => {
  const { server, client } = open(() => ({ body: { job: { id: ID } } }))
  await client.patch(ID, { timeout: null, totalTimeout: null, gracePeriod: '5s', onTimeout: null, expiresAt: null })
  expect(server.asked[0]).toMatchObject({ method: 'PATCH' })
  expect(server.asked[0]?.body).toEqual({
    timeout_ms: null,
    total_timeout: null,
    grace_period: 5,
    x_on_timeout: null,
    expires_at: null,
  })
})

describe('dead letters', () => {
  const shelf = (count: number, from = 0) =>
    Array.from({ length: count }, (_, n) => ({ id: `job-${String(from + n)}` }))

  function openShelf(dead: { id: string }[]) {
    const { client } = open(({ method, url }) => {
      if (method === 'POST') {
        dead.splice(
          dead.findIndex(({ id }) => url.includes(`/${id}/`)),
          1,
        )
        return { body: { job: {} } }
      }
      const query = new URLSearchParams(url.split('?')[1])
      const [offset, limit] = [Number(query.get('offset')), Number(query.get('limit'))]
      const jobs = dead.slice(offset, offset + limit)
      return { body: { jobs, pagination: { total: dead.length, has_more: offset + jobs.length < dead.length } } }
    })
    return client
  }

  test('that move up while they are retried are all seen, each once', async () => {
    const dead = shelf(450)
    const client = openShelf(dead)
    const seen: string[] = []
    for await (const { id } of client.deadLetter.list()) {
      seen.push(id)
      await client.deadLetter.retry(id)
    }
    expect(seen).toHaveLength(450)
    expect(dead).toEqual([])
  })

  test('that move down because new ones come are seen once', async () => {
    const dead = shelf(250)
    const seen: string[] = []
    for await (const { id } of openShelf(dead).deadLetter.list()) {
      seen.push(id)
      if (seen.length === 10) dead.unshift(...shelf(5, 1_000))
    }
    expect(seen).toHaveLength(255)
    expect(new Set(seen)).toHaveProperty('size', 255)
  })
})

describe('close', () => {
  test('lets calls under way finish, and refuses new ones', async () => {
    let answer: (said: Said) => void = () => {}
    const { client } = open(() => () => new Promise((resolve) => (answer = resolve)))
    const job = client.enqueue(mail, ['a'])
    await idle()
    let isClosed = false
    const closing = client.close().then(() => (isClosed = true))
    await expect(client.enqueue(mail, ['b'])).rejects.toMatchObject({ code: 'closed' })
    await expect(client.queues.list()).rejects.toMatchObject({ code: 'closed' })
    expect(isClosed).toBe(false)
    answer({ status: 201, body: { job: { id: ID } } })
    expect(await job).toEqual({ id: ID })
    await closing
  })

  test('ends a wait for a result', async () => {
    const { host, server, client } = open(() => 'silent')
    const result = client.waitForResult(ID)
    await idle()
    await Promise.all([client.close(), expect(result).rejects.toMatchObject({ code: 'closed' })])
    expect(server.asked[0]?.signal.aborted).toBe(true)
    expect(host.nextTimerAt()).toBeNull()
  })
})
