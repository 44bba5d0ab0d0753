import { describe, expect, test } from 'vitest'
import type { Duration } from '../durations.ts'
import { defineJob, type AnyJob } from './define-job.ts'
import { LastOptions, prepareOptions, toWire, type EnqueueOptions } from './enqueue-options.ts'
import { InputError } from '../errors.ts'

const ID = '01890000-0000-7000-8000-00000000000a'
const plain = defineJob('video.transcode')

async function wire(options: EnqueueOptions = {}, job: AnyJob = plain, input: unknown = ['v1']): Promise<unknown> {
  return JSON.parse((await toWire({ job, input, options: { id: ID, ...options } })).json)
}
const refused = (options: object): Promise<unknown> =>
  wire(options as EnqueueOptions).catch((thrown: unknown) => thrown)

test('an enqueue without options says only what it is', async () => {
  expect(await wire()).toEqual({ id: ID, type: 'video.transcode', args: ['v1'] })
})

test('every option has its place on the wire', async () => {
  const options: EnqueueOptions = {
    queue: 'media',
    priority: 5,
    timeout: '1h',
    gracePeriod: '1m',
    heartbeatTimeout: { ms: 1_500 },
    totalTimeout: '1d',
    enqueueTtl: 'PT30S',
    visibilityTimeout: '2h',
    onTimeout: 'discard',
    retry: { maxAttempts: 5, initialInterval: '2s', onExhaustion: 'dead_letter' },
    unique: {
      keys: ['args', 'meta'],
      argsKeys: ['user'],
      metaKeys: ['tenant'],
      period: '1h',
      states: ['available', 'completed'],
      onConflict: 'ignore',
    },
    scheduledAt: new Date(0),
    expiresAt: '2030-01-01T00:00:00Z',
    meta: { a: 1 },
    tags: ['x'],
    parent: { jobId: 'p' },
    inheritDeadline: true,
    pending: true,
    signal: new AbortController().signal,
  }
  expect(await wire(options)).toEqual({
    id: ID,
    type: 'video.transcode',
    args: ['v1'],
    meta: { a: 1 },
    options: {
      queue: 'media',
      priority: 5,
      timeout_ms: 3_600_000,
      grace_period: 60,
      heartbeat_timeout_ms: 1_500,
      total_timeout: 86_400,
      enqueue_ttl: 30,
      visibility_timeout_ms: 7_200_000,
      retry: { max_attempts: 5, initial_interval: 'PT2S', on_exhaustion: 'dead_letter' },
      unique: {
        keys: ['args', 'meta'],
        args_keys: ['user'],
        meta_keys: ['tenant'],
        period: 'PT3600S',
        states: ['available', 'completed'],
        on_conflict: 'ignore',
      },
      scheduled_at: '1970-01-01T00:00:00.000Z',
      expires_at: '2030-01-01T00:00:00Z',
      tags: ['x'],
      pending: true,
    },
    x_on_timeout: 'discard',
    x_parent: { job_id: 'p' },
    x_inherit_deadline: true,
  })
})

test('a delay is counted by the server', async () => {
  expect(await wire({ delay: '90s' })).toMatchObject({ options: { scheduled_at: '+PT90S' } })
  expect(await wire({ delay: { ms: 250 } })).toMatchObject({ options: { scheduled_at: '+PT0.25S' } })
})

test('no grace at all can be said', async () => {
  expect(await wire({ gracePeriod: { ms: 0 } })).toMatchObject({ options: { grace_period: 0 } })
})

test('what the publish says wins over the kind of job, field by field; undefined says nothing', async () => {
  const job = defineJob('video.transcode', {
    queue: 'media',
    priority: 3,
    limits: { timeout: '10s', onTimeout: 'discard', totalTimeout: '1m' },
    retry: { maxAttempts: 5, jitter: false },
  })
  const publish: object = { timeout: '20s', totalTimeout: undefined, retry: { maxAttempts: 2 } }
  const said = await wire(publish, job)
  expect(said).toMatchObject({
    options: {
      queue: 'media',
      priority: 3,
      timeout_ms: 20_000,
      total_timeout: 60,
      retry: { max_attempts: 2, jitter: false },
    },
    x_on_timeout: 'discard',
  })
  expect(await wire({ queue: 'fast', priority: 0 }, job)).toMatchObject({ options: { queue: 'fast', priority: 0 } })
})

describe('what only a server of ours understands is named', () => {
  test.each<[EnqueueOptions, string[]]>([
    [{}, []],
    [{ timeout: { ms: 1_500 }, visibilityTimeout: { ms: 1_500 }, totalTimeout: '2s', gracePeriod: '1s' }, []],
    [{ onTimeout: 'retry' }, ['onTimeout']],
    [{ totalTimeout: { ms: 1_500 } }, ['totalTimeout in milliseconds']],
    [{ parent: { jobId: 'p' }, inheritDeadline: true }, ['parent', 'inheritDeadline']],
  ])('%j', async (options, ours) => {
    expect((await toWire({ job: plain, input: [], options: { id: ID, ...options } })).ours).toEqual(ours)
  })
})

describe('refused before anything is sent', () => {
  test.each([
    ['a bare number', { timeout: 30 }, 'timeout'],
    ['a limit of nothing', { totalTimeout: '0s' }, 'totalTimeout'],
    ['an unknown option', { timeOut: '30s' }, 'timeOut'],
    ['an id of another kind', { id: 'a' }, 'id'],
    ['a deadline inherited without a parent', { inheritDeadline: true }, 'inheritDeadline'],
    ['a date that is none', { expiresAt: new Date(NaN) }, 'expiresAt'],
    ['two starts', { delay: '1s', scheduledAt: new Date(0) }, 'delay'],
    ['an unknown mode', { onTimeout: 'delete' }, 'onTimeout'],
  ])('%s', async (_, options, field) => {
    const thrown = await refused(options)
    expect(thrown).toBeInstanceOf(InputError)
    expect(thrown).toMatchObject({ details: { field } })
  })

  test('meta that is not JSON', async () => {
    expect(await refused({ meta: { at: new Date(0) } })).toMatchObject({ details: { path: '/at' } })
  })

  test('an input that is not JSON', async () => {
    await expect(wire({}, plain, [{ n: 1n }])).rejects.toMatchObject({ details: { path: '/0/n' } })
  })
})

test('unique is said by the job or by the enqueue, which may also take it back', async () => {
  const once = defineJob('mail.send', { unique: { onConflict: 'ignore' } })
  expect(await wire({}, once)).toMatchObject({ options: { unique: { on_conflict: 'ignore' } } })
  expect(await wire({ unique: true }, once)).toMatchObject({ options: { unique: {} } })
  expect(await wire({ unique: false }, once)).not.toHaveProperty('options')
  expect(await refused({ unique: { per: 'hour' } })).toMatchObject({ details: { field: 'unique.per' } })
})

test('a limiter is named by its key, with lengths in any form', async () => {
  const rateLimit = {
    key: 'stripe',
    concurrency: 5,
    rate: { limit: 100, period: '1m' },
    throttle: { limit: 10, period: { ms: 500 } },
    onLimit: 'drop',
  } as const
  expect(await wire({ rateLimit })).toMatchObject({
    options: {
      rate_limit: {
        key: 'stripe',
        concurrency: 5,
        rate: { limit: 100, period: 'PT60S' },
        throttle: { limit: 10, period: 'PT0.5S' },
        on_limit: 'drop',
      },
    },
  })
  expect(await wire({ rateLimit: { maxPerSecond: 5 } })).toMatchObject({
    options: { rate_limit: { max_per_second: 5 } },
  })
})

test.each([
  [{ key: 'a', burst: 2 }, 'rateLimit.burst'],
  [{ maxPerSecond: 1, key: 'a' }, 'rateLimit'],
  [{ key: 'a', rate: { limit: 1, period: 'soon' } }, 'rateLimit.rate.period'],
])('a rateLimit %j is refused before it is sent', async (rateLimit, field) => {
  const thrown = await refused({ rateLimit })
  expect(thrown).toBeInstanceOf(InputError)
  expect((thrown as InputError).details).toMatchObject({ field })
})

describe('options of an enqueue that equal those of the one before', () => {
  const FULL: EnqueueOptions = {
    queue: 'media',
    priority: 5,
    timeout: '1h',
    gracePeriod: '1m',
    heartbeatTimeout: { ms: 1_500 },
    totalTimeout: '1d',
    enqueueTtl: 'PT30S',
    visibilityTimeout: '2h',
    onTimeout: 'discard',
    retry: { maxAttempts: 5, nonRetryableErrors: ['auth.*'] },
    unique: { keys: ['args'], period: '1h' },
    rateLimit: { key: 'api', concurrency: 5 },
    delay: '5s',
    expiresAt: '2030-01-01T00:00:00Z',
    meta: { tenant: 'a', deep: { list: [1, { two: 2 }] } },
    tags: ['x', 'y'],
    parent: { jobId: ID },
    inheritDeadline: true,
    pending: false,
  }
  const CHANGED: EnqueueOptions = {
    queue: 'other',
    priority: 6,
    timeout: '2h',
    gracePeriod: '2m',
    heartbeatTimeout: { ms: 1_501 },
    totalTimeout: '2d',
    enqueueTtl: 'PT31S',
    visibilityTimeout: '3h',
    onTimeout: 'retry',
    retry: { maxAttempts: 5, nonRetryableErrors: ['auth.no'] },
    unique: { keys: ['args'], period: '2h' },
    rateLimit: { key: 'api', concurrency: 6 },
    delay: '6s',
    expiresAt: '2031-01-01T00:00:00Z',
    meta: { tenant: 'a', deep: { list: [1, { two: 3 }] } },
    tags: ['x', 'z'],
    parent: { jobId: ID.replace('a', 'b') },
    inheritDeadline: false,
    pending: true,
  }

  test('are prepared once, with another id and another signal', () => {
    const last = new LastOptions()
    const first = last.prepare(plain, { ...FULL, id: ID })
    const signal = new AbortController().signal
    expect(last.prepare(plain, { ...structuredClone(FULL), id: ID.replace('a', 'b'), signal })).toBe(first)
    expect(first).toEqual(prepareOptions(plain, FULL))
  })

  test.each(Object.entries(CHANGED))('are prepared anew where only this differs: %s', (name, value: unknown) => {
    const last = new LastOptions()
    last.prepare(plain, FULL)
    const changed = { ...FULL, [name]: value }
    const prepared = last.prepare(plain, changed)
    expect(prepared).toEqual(prepareOptions(plain, changed))
    expect(prepared).not.toEqual(prepareOptions(plain, FULL))
  })

  test.each(Object.keys(FULL).filter((name) => name !== 'parent'))(
    'are prepared anew without this, and again with it: %s',
    (name) => {
      const last = new LastOptions()
      const without = { ...FULL, [name]: undefined }
      for (const options of [FULL, without, FULL])
        expect(last.prepare(plain, options)).toEqual(prepareOptions(plain, options))
    },
  )

  test('are prepared anew after the same object was changed', () => {
    const last = new LastOptions()
    const [meta, tags, options] = [{ deep: { n: 1 } }, ['x'], { queue: 'a' }]
    const said = (): string => last.prepare(plain, { ...options, meta, tags }).after
    const texts = [said()]
    meta.deep.n = 2
    texts.push(said())
    tags.push('y')
    texts.push(said())
    options.queue = 'b'
    texts.push(said())
    expect(new Set(texts).size).toBe(4)
  })

  test('are prepared anew after a date in them was moved', () => {
    const [last, scheduledAt] = [new LastOptions(), new Date(0)]
    const before = last.prepare(plain, { scheduledAt }).after
    scheduledAt.setTime(1_000)
    expect(last.prepare(plain, { scheduledAt }).after).not.toBe(before)
  })

  test('are prepared anew for another job, and after the options of the job were changed', () => {
    const last = new LastOptions()
    const limits: { timeout: Duration } = { timeout: '1h' }
    const [one, two] = [defineJob('one', { queue: 'q', limits: limits }), defineJob('two', { queue: 'r' })]
    for (const job of [one, two, one]) expect(last.prepare(job, {})).toEqual(prepareOptions(job, {}))
    limits.timeout = '2h'
    expect(last.prepare(one, {})).toEqual(prepareOptions(one, {}))
  })

  test('that are refused are refused each time', () => {
    const last = new LastOptions()
    for (let times = 0; times < 2; times += 1)
      expect(() => last.prepare(plain, { inheritDeadline: true })).toThrow(InputError)
  })
})
