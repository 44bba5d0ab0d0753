import { describe, expect, test } from 'vitest'
import { Connection } from './connection.ts'
import { EnqueueLane } from './enqueue-lane.ts'
import type { WireJob } from '../job/enqueue-options.ts'
import { NetworkError } from '../errors.ts'
import { idle, refused, ScriptedServer, turning, world, type Asked, type Line, type Said } from '../scripted.suite.ts'
import type { JobView } from '../wire/jobs.ts'

const MANIFEST: Said = { body: { extensions: ['urn:curfew:ext:bulk-enqueue'] } }
const idOf = (n: number): string => `01890000-0000-7000-8000-${String(n).padStart(12, '0')}`

function job(n: number, more: object = {}): WireJob {
  const fields = { id: idOf(n), type: 'a.b', args: [n], ...more }
  const { id, ...template } = fields
  return {
    id,
    type: 'a.b',
    args: [n],
    ours: [],
    json: JSON.stringify(fields),
    template: JSON.stringify(template),
  }
}

const view = (n: number): JobView => ({
  id: idOf(n),
  type: 'a.b',
  queue: 'q',
  args: [n],
  state: 'available',
  attempt: 0,
})
const created = ({ body }: Asked): Said => ({ status: 201, body: { job: { ...body, state: 'available' } } })
const duplicate = (id: string): Said => refused(409, 'duplicate', { details: { existing_job_id: id } })

/** Answers a bulk: every job is created, unless `fate` knows better. */
const bulk =
  (fate: (id: string) => object | null = () => null): ((asked: Asked) => Said) =>
  ({ body }) => ({
    status: 207,
    body: {
      items: (body.jobs as JobView[]).map((sent, index) => {
        const error = fate(sent.id)
        return error === null ? { index, status: 'created', job: sent } : { index, status: 'failed', error }
      }),
    },
  })

/** Everything goes well, except what `rule` says. */
function open(rule: (asked: Asked, count: number) => Line | null = () => null) {
  const { host, random } = world()
  const counts = new Map<string, number>()
  const server = new ScriptedServer((asked) => {
    const count = (counts.get(asked.url) ?? 0) + 1
    counts.set(asked.url, count)
    const line = rule(asked, count)
    if (line !== null) return line
    if (asked.url === '/ojs/manifest') return MANIFEST
    if (asked.url === '/ojs/v1/jobs/bulk') return bulk()
    return asked.method === 'GET' ? { body: { job: view(Number(asked.url.slice(-12))) } } : created
  })
  const lane = new EnqueueLane(new Connection({ server, host, random }))
  const add = (n: number, signal?: AbortSignal): Promise<JobView> => lane.add(job(n), true, signal)
  return { host, server, lane, add }
}

const all = (...promised: Promise<unknown>[]): Promise<PromiseSettledResult<unknown>[]> => Promise.allSettled(promised)
const numbers = (count: number): number[] => Array.from({ length: count }, (_, index) => index)
const sizes = (server: ScriptedServer): number[] =>
  server.asked.filter(({ url }) => url.endsWith('/bulk')).map(({ body }) => (body.jobs as unknown[]).length)

describe('who travels with whom', () => {
  test('a lone call is sent by itself, before the turn is over, and asks nothing else', async () => {
    const { host, server, add } = open()
    const added = add(1)
    await new Promise<void>((resolve) => {
      process.nextTick(resolve)
    })
    expect(server.urls).toEqual(['POST /ojs/v1/jobs'])
    expect(await added).toMatchObject({ id: idOf(1), state: 'available' })
    expect(host.nextTimerAt()).toBeNull()
  })

  test('calls of one turn go as one request, and each gets its own job', async () => {
    const { server, add } = open()
    const jobs = await Promise.all(numbers(50).map((n) => add(n)))
    expect(jobs.map(({ id }) => id)).toEqual(numbers(50).map(idOf))
    expect(server.urls).toEqual(['GET /ojs/manifest', 'POST /ojs/v1/jobs/bulk'])
  })

  test('calls that took different ways through the same turn still go together', async () => {
    const { server, add } = open()
    const later = async (n: number, steps: number): Promise<JobView> => {
      for (let step = 0; step < steps; step += 1) await Promise.resolve()
      return add(n)
    }
    await Promise.all([add(0), later(1, 1), later(2, 7), later(3, 40)])
    expect(sizes(server)).toEqual([4])
  })

  test('calls one after another go one by one', async () => {
    const { server, add } = open()
    for (const n of numbers(3)) await add(n)
    expect(server.urls).toEqual(Array.from({ length: 3 }, () => 'POST /ojs/v1/jobs'))
  })

  test('while two requests are under way, new jobs gather until one returns', async () => {
    const answers: (() => void)[] = []
    const held = (asked: Asked): Promise<Said> =>
      new Promise((resolve) => {
        answers.push(() => {
          resolve(asked.url.endsWith('/bulk') ? bulk()(asked) : created(asked))
        })
      })
    const { server, add } = open((asked) => (asked.method === 'POST' ? held : null))
    const jobs: Promise<JobView>[] = []
    for (const n of numbers(6)) {
      jobs.push(add(n))
      await idle()
    }
    expect(server.urls).toEqual(['POST /ojs/v1/jobs', 'POST /ojs/v1/jobs'])
    answers.shift()?.()
    await idle()
    expect(sizes(server)).toEqual([4])
    for (const answer of answers) answer()
    expect(await Promise.all(jobs)).toHaveLength(6)
  })

  test('a request holds a thousand jobs, and no more', async () => {
    const { server, add } = open()
    await Promise.all(numbers(2_345).map((n) => add(n)))
    expect(sizes(server)).toEqual([1000, 1000, 345])
  })

  test('a request holds a million bytes, unless one job alone is larger', async () => {
    const { server, lane } = open()
    const large = (n: number, size: number): Promise<JobView> => lane.add(job(n, { pad: 'é'.repeat(size) }), true)
    await Promise.all([large(1, 200_000), large(2, 200_000), large(3, 200_000), large(4, 2_000_000), large(5, 5)])
    const bytes = server.asked.filter(({ method }) => method === 'POST').map(({ text }) => Buffer.byteLength(text))
    expect(sizes(server)).toEqual([2])
    expect(bytes.slice(0, 3).map((size) => size > 1_000_000)).toEqual([false, false, true])
    expect(server.urls.slice(1)).toEqual([
      'POST /ojs/v1/jobs/bulk',
      'POST /ojs/v1/jobs',
      'POST /ojs/v1/jobs',
      'POST /ojs/v1/jobs',
    ])
  })

  test('where the server takes one at a time, they go side by side, not all at once', async () => {
    let [open_, most] = [0, 0]
    const { server, add } = open((asked) => {
      if (asked.url === '/ojs/manifest') return { body: { extensions: [] } }
      return async () => {
        most = Math.max(most, (open_ += 1))
        await idle()
        open_ -= 1
        return created(asked)
      }
    })
    await Promise.all(numbers(100).map((n) => add(n)))
    expect(server.asked).toHaveLength(101)
    expect(most).toBe(32)
  })
})

describe('to each its own', () => {
  test('a refused job does not affect the others of its request', async () => {
    const error = {
      code: 'validation_error',
      message: 'No.',
      details: { field: 'timeout' },
      hint: 'h',
      request_id: 'r',
    }
    const { add } = open((asked) =>
      asked.url.endsWith('/bulk') ? bulk((id) => (id === idOf(1) ? error : null)) : null,
    )
    const [first, second, third] = await all(add(0), add(1), add(2))
    expect([first?.status, third?.status]).toEqual(['fulfilled', 'fulfilled'])
    expect(second).toMatchObject({
      reason: { name: 'RequestError', status: 422, details: { field: 'timeout' }, hint: 'h', requestId: 'r' },
    })
  })

  test('the same holds when all are refused', async () => {
    const { add } = open((asked) =>
      asked.url.endsWith('/bulk')
        ? (sent) => ({ ...bulk((id) => ({ code: 'invalid_request', message: id }))(sent), status: 422 })
        : null,
    )
    const outcomes = await all(add(0), add(1))
    expect(outcomes).toMatchObject([
      { reason: { status: 400, message: idOf(0) } },
      { reason: { status: 400, message: idOf(1) } },
    ])
  })

  test('when the request as a whole is refused, every caller gets the refusal', async () => {
    const { add } = open((asked) => (asked.url.endsWith('/bulk') ? refused(401, 'unauthenticated') : null))
    expect(await all(add(0), add(1))).toMatchObject([{ reason: { status: 401 } }, { reason: { status: 401 } }])
  })

  test('a job the answer does not speak of is not taken for enqueued', async () => {
    const { add } = open((asked) =>
      asked.url.endsWith('/bulk') ? { body: { items: [{ index: 0, job: view(0) }] } } : null,
    )
    const [first, second] = await all(add(0), add(1))
    expect(first?.status).toBe('fulfilled')
    expect(second).toMatchObject({ reason: { name: 'NetworkError' } })
  })

  test('a job that may be taken later is tried again by itself', async () => {
    const full = { code: 'QUEUE_FULL', message: 'Full.' }
    const { server, add } = open((asked) =>
      asked.url.endsWith('/bulk') ? bulk((id) => (id === idOf(1) ? full : null)) : null,
    )
    expect(await all(add(0), add(1))).toMatchObject([{ status: 'fulfilled' }, { status: 'fulfilled' }])
    expect(server.urls.at(-1)).toBe('POST /ojs/v1/jobs')
  })
})

describe('answers that got lost', () => {
  test('a lone call is repeated, and an echo of its own id means that it is done', async () => {
    const { host, server, add } = open((asked, count) =>
      asked.method === 'POST' ? (count === 1 ? 'dead' : duplicate(idOf(7))) : null,
    )
    expect(await turning(host, add(7))).toEqual(view(7))
    expect(server.urls).toEqual(['POST /ojs/v1/jobs', 'POST /ojs/v1/jobs', `GET /ojs/v1/jobs/${idOf(7)}`])
  })

  test('a shared request is repeated as it was; echoes are done, the rest is new', async () => {
    const echo = (id: string): object => ({ code: 'duplicate', message: 'd', details: { existing_job_id: id } })
    const { host, server, add } = open((asked, count) => {
      if (!asked.url.endsWith('/bulk')) return null
      return count === 1 ? 'dead' : bulk((id) => (id === idOf(1) ? null : echo(id)))
    })
    const outcomes = await turning(host, all(add(0), add(1), add(2)))
    expect(outcomes).toMatchObject([{ value: { id: idOf(0) } }, { value: { id: idOf(1) } }, { value: { id: idOf(2) } }])
    expect(sizes(server)).toEqual([3, 3])
    const [once, again] = server.asked.filter(({ url }) => url.endsWith('/bulk'))
    expect(again?.text).toBe(once?.text)
  })

  const chosen = (rule: (count: number) => Line, found: JobView = view(7)) => {
    const { host, server, lane } = open((asked, count) =>
      asked.method === 'POST' ? rule(count) : { body: { job: found } },
    )
    return { host, server, add: () => turning(host, lane.add(job(7), false)) }
  }

  test('an id of the caller’s that is taken at the first try is taken', async () => {
    const { server, add } = chosen(() => duplicate(idOf(7)))
    await expect(add()).rejects.toMatchObject({ code: 'duplicate', status: 409 })
    expect(server.asked).toHaveLength(1)
  })

  test('an id of the caller’s that is taken after a lost answer is its own, if the job is the same', async () => {
    const lost = (count: number): Line => (count === 1 ? 'dead' : duplicate(idOf(7)))
    expect(await chosen(lost).add()).toEqual(view(7))
    await expect(chosen(lost, { ...view(7), args: [8] }).add()).rejects.toMatchObject({ code: 'duplicate' })
    await expect(chosen(lost, { ...view(7), type: 'b.c' }).add()).rejects.toMatchObject({ code: 'duplicate' })
  })

  test('a duplicate of another job does not count as its own echo', async () => {
    const { add } = open((asked) => (asked.method === 'POST' ? duplicate(idOf(8)) : null))
    await expect(add(7)).rejects.toMatchObject({ code: 'duplicate' })
  })
})

describe('giving up', () => {
  test('before it was sent, it never is', async () => {
    const { server, add } = open()
    const gaveUp = new AbortController()
    const outcomes = all(add(0), add(1, gaveUp.signal), add(2))
    gaveUp.abort(new Error('enough'))
    expect(await outcomes).toMatchObject([{ status: 'fulfilled' }, { reason: { message: 'enough' } }, { value: {} }])
    expect(server.asked.at(-1)?.body.jobs).toMatchObject([{ id: idOf(0) }, { id: idOf(2) }])
  })

  test('while a long line waits, those behind are not held up', async () => {
    const { server, add } = open((asked) => (asked.url === '/ojs/manifest' ? { body: { extensions: [] } } : null))
    const gaveUp = new AbortController()
    const outcomes = all(...numbers(3_000).map((n) => add(n, n % 3 === 0 ? undefined : gaveUp.signal)))
    gaveUp.abort(new Error('enough'))
    const settled = await outcomes
    expect(settled.filter(({ status }) => status === 'fulfilled')).toHaveLength(1_000)
    expect(server.asked).toHaveLength(1_001)
  })

  test('nor when that was long ago', async () => {
    const { server, add } = open()
    await all(add(0), add(1, AbortSignal.abort()), add(2))
    expect(server.asked.at(-1)?.body.jobs).toMatchObject([{ id: idOf(0) }, { id: idOf(2) }])
  })

  test('afterwards, the others do not notice', async () => {
    const gaveUp = new AbortController()
    const { server, add } = open((asked) =>
      asked.url.endsWith('/bulk')
        ? (sent) => {
            gaveUp.abort(new Error('enough'))
            return bulk()(sent)
          }
        : null,
    )
    expect(await all(add(0), add(1, gaveUp.signal))).toMatchObject([
      { status: 'fulfilled' },
      { reason: { message: 'enough' } },
    ])
    expect(server.asked.at(-1)?.signal.aborted).toBe(false)
  })

  test('when all have, so does the request', async () => {
    const { server, add } = open((asked) => (asked.url.endsWith('/bulk') ? 'silent' : null))
    const [one, other] = [new AbortController(), new AbortController()]
    const outcomes = all(add(0, one.signal), add(1, other.signal))
    await idle()
    one.abort()
    expect(server.asked.at(-1)?.signal.aborted).toBe(false)
    other.abort()
    await outcomes
    expect(server.asked.at(-1)?.signal.aborted).toBe(true)
  })
})

describe('servers that are not what they seem', () => {
  test('one that has no bulk any more gets them one by one, and is asked anew', async () => {
    const { server, add } = open((asked) => (asked.url.endsWith('/bulk') ? refused(404, 'not_found') : null))
    expect(await all(add(0), add(1))).toMatchObject([{ status: 'fulfilled' }, { status: 'fulfilled' }])
    await all(add(2), add(3))
    expect(server.urls.filter((url) => url.endsWith('/manifest'))).toHaveLength(2)
  })

  test('a proxy that takes less gets less', async () => {
    const { server, add } = open((asked) =>
      asked.url.endsWith('/bulk') && (asked.body.jobs as unknown[]).length > 3 ? { status: 413, body: '' } : null,
    )
    const outcomes = await all(...numbers(10).map((n) => add(n)))
    expect(outcomes.every(({ status }) => status === 'fulfilled')).toBe(true)
    expect(sizes(server)).toEqual([10, 5, 3, 2, 5, 3, 2])
  })

  test('one that cannot be reached fails all that wait, and the next calls ask again', async () => {
    const { host, lane, add } = open((asked, count) => (asked.url === '/ojs/manifest' && count < 7 ? 'dead' : null))
    const large = [4, 5].map((n) => lane.add(job(n, { pad: 'x'.repeat(800_000) }), true))
    const outcomes = await turning(host, all(add(0), add(1), ...large))
    expect(outcomes).toHaveLength(4)
    for (const outcome of outcomes) expect(outcome).toMatchObject({ reason: { code: 'network' } })
    expect(await all(add(2), add(3))).toMatchObject([{ status: 'fulfilled' }, { status: 'fulfilled' }])
  })

  test('one that will not tell what it can do gets them one by one', async () => {
    const { server, add } = open((asked) => (asked.url === '/ojs/manifest' ? refused(500, 'internal_error') : null))
    await Promise.all([add(0), add(1)])
    expect(server.urls.slice(1)).toEqual(['POST /ojs/v1/jobs', 'POST /ojs/v1/jobs'])
  })

  test('an answer without results does not count as success', async () => {
    const { add } = open((asked) => (asked.url.endsWith('/bulk') ? { body: { hello: 1 } } : null))
    const [outcome] = await all(add(0), add(1))
    expect(outcome).toMatchObject({ reason: expect.any(NetworkError) })
  })
})
