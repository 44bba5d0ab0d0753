import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { at, drained, NOON } from '../../builders.suite.ts'
import { iso } from '../../time/clock.ts'
import { readBatch } from './enqueue-many.ts'
import { EnqueueMemory } from './enqueue-terms.ts'
import { readEnqueue, type EnqueueRequest } from './enqueue.ts'
import { withoutExpiry, withSchedule } from './given.ts'
import { overrideGiven, patchGiven } from './patch.ts'
import type { OjsError } from '../../errors.ts'
import { DEFAULT_RETRY } from '../../job/retry.ts'

/** Reads a body given as text, or as a value that is written first. */
function read(body: unknown): EnqueueRequest {
  const source = typeof body === 'string' ? body : JSON.stringify(body)
  return readEnqueue(source, JSON.parse(source), NOON)
}

const job = (fields: object): EnqueueRequest => read({ type: 'email.send', args: [], ...fields })
const bodyOf = (request: EnqueueRequest): Record<string, unknown> =>
  JSON.parse(`{${request.body}}`) as Record<string, unknown>
const givenOf = (request: { given: string }): Record<string, unknown> =>
  JSON.parse(`{${request.given}}`) as Record<string, unknown>

function refusal(act: () => unknown): { code: string; field: unknown } {
  try {
    act()
  } catch (error) {
    return { code: (error as OjsError).code, field: (error as OjsError).details['field'] }
  }
  return { code: 'taken', field: null }
}

describe('what must be there', () => {
  test('type and args; everything else has its default', () => {
    expect(read('{"type":"email.send","args":[1,"a",null]}')).toEqual({
      id: null,
      type: 'email.send',
      queue: 'default',
      priority: 0,
      pending: false,
      asked: {},
      retry: DEFAULT_RETRY,
      scheduled: null,
      expires: null,
      resultTtlMs: null,
      parent: null,
      inheritDeadline: false,
      nearMisses: [],
      schema: null,
      rateLimit: null,
      tenant: null,
      unique: null,
      traceId: null,
      body: '"args":[1,"a",null],"meta":{}',
      given: '',
    })
  })

  test.each([
    ['type', { type: undefined }],
    ['type', { type: null }],
    ['type', { type: '' }],
    ['type', { type: 'Email.send' }],
    ['type', { type: '1email' }],
    ['type', { type: 'email..send' }],
    ['type', { type: 'email send' }],
    ['type', { type: `a${'b'.repeat(255)}` }],
    ['args', { args: undefined }],
    ['args', { args: null }],
    ['args', { args: {} }],
    ['args', { args: 'a' }],
    ['id', { id: '' }],
    ['id', { id: '019539A4-B68C-7DEF-8000-1A2B3C4D5E6F' }],
    ['id', { id: '019539a4-b68c-4def-8000-1a2b3c4d5e6f' }],
    ['queue', { queue: 'Default' }],
    ['queue', { queue: '-a' }],
    ['queue', { queue: 'a'.repeat(129) }],
    ['priority', { priority: 101 }],
    ['priority', { priority: -101 }],
    ['priority', { priority: 1.5 }],
    ['priority', { options: { priority: '1' } }],
    ['meta', { meta: [] }],
    ['metadata', { options: { metadata: 'x' } }],
    ['tags[1]', { tags: ['a', 1] }],
    ['tags', { tags: 'a' }],
    ['pending', { pending: 'yes' }],
    ['specversion', { specversion: '2.0' }],
    ['schema', { schema: 1 }],
    ['options', { options: [] }],
    ['scheduled_at', { scheduled_at: '2030-01-01T00:00:00' }],
    ['scheduled_at', { scheduled_at: 'PT5S' }],
    ['scheduled_at', { scheduled_at: 5 }],
    ['delay_until', { options: { delay_until: '5s' } }],
    ['expires_at', { expires_at: 'soon' }],
  ])('a bad %s is a 400 that names it: %j', (field, fields) => {
    expect(refusal(() => job(fields))).toEqual({ code: 'invalid_request', field })
  })

  test.each([
    ['timeout', { timeout: 0 }],
    ['timeout_ms', { options: { timeout_ms: -1 } }],
    ['total_timeout', { timeout: 10, options: { total_timeout: 5 } }],
    ['timeout', { timeout: 1, options: { timeout_ms: 2 } }],
    ['retry.max_attempts', { retry: { max_attempts: -1 } }],
    ['retry_policy.max_attempts', { options: { retry_policy: { max_attempts: -1 } } }],
    ['retry', { retry: 5 }],
    ['result_ttl', { result_ttl: 0 }],
    ['x_on_timeout', { x_on_timeout: 'delete' }],
    ['x_parent', { x_parent: {} }],
    ['x_parent', { x_parent: { job_id: 'a', journey_id: 'b' } }],
    ['x_parent', { x_parent: { cron_id: 'a' } }],
    ['x_parent', { x_parent: { job_id: 5 } }],
    ['x_parent', { x_parent: { toString: 'a' } }], // names every object inherits are no parents
    ['x_parent', { x_parent: 'a' }],
    ['x_inherit_deadline', { x_inherit_deadline: true }],
  ])('a bad %s is a 422 that names it: %j', (field, fields) => {
    expect(refusal(() => job(fields))).toEqual({ code: 'validation_error', field })
  })

  test.each([[[]], ['a'], [1], [null]])('%j is not an enqueue request', (body) => {
    expect(refusal(() => readEnqueue(JSON.stringify(body), body, NOON)).code).toBe('invalid_request')
  })

  test('a unique policy is read with the job it is about, at the top or in options, and echoed as written', () => {
    const body = '{"type":"a","args":[ {"b" : 1.0} ],"options":{"unique": {"key" : ["b"]}, "queue":"q"}}'
    const request = read(body)
    expect(request.unique).toMatchObject({ text: '{"args":{"b":1},"type":"a"}', policy: { onConflict: 'reject' } })
    expect(request.body).toContain('"unique":{"key" : ["b"]}')
    const top = read('{"type":"a","args":[],"unique":{"keys":["queue"]},"options":{"unique":{"keys":["meta"]}}}')
    expect(top.unique?.text).toBe('{"queue":"default","type":"a"}')
    expect(refusal(() => read('{"type":"a","args":[],"unique":{"keys":["meta"]}}'))).toMatchObject({
      code: 'validation_error',
      field: 'unique.meta_keys',
    })
  })

  test('an underscore, a hyphen and 255 bytes are fine in a type', () => {
    expect(job({ type: 'retry.test.attempt-counter_2' }).type).toBe('retry.test.attempt-counter_2')
    expect(job({ type: 'a'.repeat(255) }).type).toHaveLength(255)
  })
})

describe('two dialects', () => {
  test('fields may stand in options, in milliseconds and under their other names', () => {
    const request = job({
      options: {
        queue: 'media',
        priority: 5,
        timeout_ms: 1500,
        delay_until: 'PT2S',
        retry_policy: { max_attempts: 9 },
        metadata: { a: 1 },
        tags: ['x'],
        x_on_timeout: 'discard',
        x_parent: { job_id: 'p' },
        x_inherit_deadline: true,
        result_ttl: 60,
      },
    })
    expect(request).toMatchObject({
      queue: 'media',
      priority: 5,
      asked: { timeout: 1500, onTimeout: 'discard' },
      scheduled: { at: at('12:00:02') },
      retry: { maxAttempts: 9 },
      parent: { kind: 'job', id: 'p' },
      inheritDeadline: true,
      resultTtlMs: 60_000,
    })
    expect(bodyOf(request)).toMatchObject({
      meta: { a: 1 },
      tags: ['x'],
      x_parent: { job_id: 'p' },
      x_inherit_deadline: true,
      result_ttl: 60,
    })
  })

  test('a top-level value wins over the same option', () => {
    const request = job({
      queue: 'top',
      priority: 1,
      timeout: 5,
      tags: ['top'],
      scheduled_at: '2030-01-01T00:00:00Z',
      retry: { max_attempts: 1 },
      options: {
        queue: 'under',
        priority: 2,
        timeout: 6,
        tags: ['under'],
        scheduled_at: '2031-01-01T00:00:00Z',
        retry: { max_attempts: 2 },
      },
    })
    expect(request).toMatchObject({
      queue: 'top',
      priority: 1,
      asked: { timeout: 5000 },
      retry: { maxAttempts: 1 },
      scheduled: { text: '2030-01-01T00:00:00Z' },
    })
    expect(bodyOf(request)['tags']).toEqual(['top'])
  })

  test('null at the top means not sent, so the option counts', () => {
    expect(job({ queue: null, options: { queue: 'under' } }).queue).toBe('under')
    expect(job({ options: null }).queue).toBe('default')
  })

  test.each([
    [{ retry: { max_attempts: 5 }, retry_policy: { max_attempts: 2 } }, 'retry_policy'],
    [{ retry: { max_attempts: 5 }, options: { retry_policy: {} } }, 'retry_policy'],
    [{ options: { retry: {}, retry_policy: { jitter: false } } }, 'retry_policy'],
    [{ scheduled_at: '2030-01-01T00:00:00Z', delay_until: '2031-01-01T00:00:00Z' }, 'delay_until'],
  ])('two names for one thing that differ are refused: %j', (more, field) => {
    expect(() => job(more)).toThrow(
      expect.objectContaining({
        code: 'validation_error',
        details: expect.objectContaining({ field }),
        message: expect.stringContaining(`remove ${field}`),
      }),
    )
  })

  test('two names for one thing that agree are one', () => {
    const policy = { max_attempts: 5 }
    expect(job({ retry: policy, retry_policy: { maxAttempts: 5 } }).retry.maxAttempts).toBe(5)
    const moment = '2030-01-01T00:00:00Z'
    expect(job({ scheduled_at: moment, delay_until: moment }).scheduled?.text).toBe(moment)
  })

  test('delay_until at the top wins over scheduled_at in options', () => {
    const request = job({ delay_until: '+PT5S', options: { scheduled_at: '2031-01-01T00:00:00Z' } })
    expect(request.scheduled?.at).toBe(at('12:00:05'))
  })

  test('metadata lies under meta, and meta wins', () => {
    const request = job({ meta: { a: 1, b: 2 }, options: { metadata: { b: 9, c: 3 } } })
    expect(bodyOf(request)['meta']).toEqual({ a: 1, b: 2, c: 3 })
  })

  test('merging changes no number: what was written stays', () => {
    const request = read(
      '{"type":"a","args":[],"meta":{"a":12345678901234567890},"options":{"metadata":{"b":1.0,"a":2}}}',
    )
    expect(request.body).toBe('"args":[],"meta":{"b":1.0,"a":12345678901234567890}')
  })

  test('a trace id is taken from meta, or from metadata', () => {
    expect(job({ meta: { trace_id: 't' } }).traceId).toBe('t')
    expect(job({ options: { metadata: { trace_id: 'm' } } }).traceId).toBe('m')
    expect(job({ meta: { trace_id: 5 } }).traceId).toBeNull()
  })
})

describe('what is given back', () => {
  test('unknown fields are kept as they were written; null and system fields are not', () => {
    const request = read(
      '{"type":"a","args":[],"version":1.0,"x_mine":{"n":12345678901234567890},"gone":null,' +
        '"state":"completed","attempt":7,"x_lease":3,"x_limits":{},"x_interruptions":1,"x_purge_at":"","x_warnings":[],"error":{},"worker_id":"w"}',
    )
    expect(request.body).toBe('"args":[],"meta":{},"version":1.0,"x_mine":{"n":12345678901234567890}')
  })

  test('a system field is ignored however its name is spelled', () => {
    expect(read(String.raw`{"type":"a","args":[],"stat\u0065":"completed"}`).body).toBe('"args":[],"meta":{}')
  })

  test('limits come back as they were given, never with a default', () => {
    expect(
      givenOf(job({ timeout: 5, options: { grace_period_ms: 0, visibility_timeout: 'PT1M', total_timeout_ms: 0 } })),
    ).toEqual({
      timeout: 5,
      grace_period_ms: 0,
      visibility_timeout: 'PT1M',
    })
    expect(job({}).given).toBe('')
  })

  test('client timestamps come back byte for byte, relative ones as absolute', () => {
    expect(givenOf(job({ scheduled_at: '2099-12-31T23:59:59+01:00', expires_at: '+PT90S' }))).toEqual({
      scheduled_at: '2099-12-31T23:59:59+01:00',
      expires_at: iso(at('12:01:30')),
    })
  })

  test('the retry policy comes back whole where one was sent', () => {
    expect(bodyOf(job({ retry: { max_attempts: 5 } }))['retry']).toMatchObject({
      max_attempts: 5,
      initial_interval: 'PT1S',
    })
    expect('retry' in bodyOf(job({}))).toBe(false)
  })

  test('__proto__ is plain data wherever it stands', () => {
    const request = read(
      '{"type":"a","args":[{"__proto__":1}],"__proto__":{"polluted":1},"meta":{"__proto__":2},"options":{"metadata":{"constructor":3},"__proto__":4}}',
    )
    expect(request.body).toBe(
      '"args":[{"__proto__":1}],"meta":{"constructor":3,"__proto__":2},"__proto__":{"polluted":1}',
    )
    expect(({} as Record<string, unknown>)['polluted']).toBeUndefined()
  })

  test('meta beyond 64 KiB is refused, measured in bytes', () => {
    expect(refusal(() => job({ meta: { a: 'x'.repeat(65_536 - 8) } })).code).toBe('taken')
    expect(refusal(() => job({ meta: { a: 'x'.repeat(65_536 - 7) } }))).toEqual({
      code: 'payload_too_large',
      field: 'meta',
    })
    expect(refusal(() => job({ meta: { a: 'ä'.repeat(33_000) } })).code).toBe('payload_too_large')
  })
})

describe('batches', () => {
  const batch = (body: string): readonly EnqueueRequest[] => drained(readBatch(body, JSON.parse(body), NOON)).entries

  test('every entry is a request of its own, cut out as it was written', () => {
    const requests = batch('{"jobs":[{"type":"a","args":[1.0]}, {"type":"b","args":[],"x":2}]}')
    expect(requests.map(({ type, body }) => [type, body])).toEqual([
      ['a', '"args":[1.0],"meta":{}'],
      ['b', '"args":[],"meta":{},"x":2'],
    ])
  })

  test('a refusal names the entry and the field, and keeps its code', () => {
    const act = (): unknown => batch('{"jobs":[{"type":"a","args":[]},{"type":"b","args":[],"timeout":0}]}')
    expect(act).toThrow(expect.objectContaining({ code: 'validation_error', details: { field: 'timeout', index: 1 } }))
  })

  test('no jobs, and things that are no jobs, are refused', () => {
    expect(refusal(() => batch('{}'))).toEqual({ code: 'invalid_request', field: 'jobs' })
    expect(refusal(() => batch('{"jobs":[]}'))).toEqual({ code: 'invalid_request', field: 'jobs' })
    expect(refusal(() => batch('{"jobs":[1]}'))).toEqual({ code: 'invalid_request', field: 'jobs[0]' })
  })

  test('the message of a refusal names the entry once', () => {
    const first = '{"type":"a","args":[]}'
    expect(() => batch(`{"jobs":[${first},1]}`)).toThrow(/^jobs\[1\] must be an object\.$/)
    expect(() => batch(`{"jobs":[${first},{"type":"b"}]}`)).toThrow(/^jobs\[1\]: args /)
  })
})

describe('PATCH', () => {
  const patch = (given: string, sent: unknown): ReturnType<typeof patchGiven> => patchGiven(given, sent, NOON)

  test('lies over what was given, by key', () => {
    const patched = patch('"timeout":5,"enqueue_ttl":60', { timeout: 9, priority: 3 })
    expect(patched).toMatchObject({
      asked: { timeout: 9000, ttl: 60_000 },
      priority: 3,
      given: '"timeout":9,"enqueue_ttl":60',
    })
  })

  test('a twin replaces its twin; in one body they must agree', () => {
    expect(givenOf(patch('"timeout":5', { timeout_ms: 700 }))).toEqual({ timeout_ms: 700 })
    expect(givenOf(patch('"timeout_ms":700', { timeout: 5 }))).toEqual({ timeout: 5 })
    expect(givenOf(patch('"timeout":5', { timeout: 1, timeout_ms: 1000 }))).toEqual({ timeout: 1, timeout_ms: 1000 })
    expect(refusal(() => patch('', { timeout: 1, timeout_ms: 1001 }))).toEqual({
      code: 'validation_error',
      field: 'timeout',
    })
    expect(givenOf(patch('"timeout":5', { timeout: null, timeout_ms: 700 }))).toEqual({ timeout_ms: 700 })
    expect(givenOf(patch('"timeout_ms":700', { timeout: 5, timeout_ms: null }))).toEqual({ timeout: 5 })
  })

  test('null, or zero milliseconds, removes the limit under both names', () => {
    for (const sent of [{ timeout: null }, { timeout_ms: null }, { timeout_ms: 0 }]) {
      expect(patch('"timeout":5,"grace_period":3', sent)).toMatchObject({
        asked: { grace: 3000 },
        given: '"grace_period":3',
      })
      expect(patch('"timeout_ms":5', sent)).toMatchObject({ asked: {}, given: '' })
    }
    expect(patch('"grace_period":3', { grace_period_ms: 0 })).toMatchObject({
      asked: { grace: 0 },
      given: '"grace_period_ms":0',
    })
    expect(patch('"x_on_timeout":"discard"', { x_on_timeout: null }).asked).toEqual({})
  })

  test('is taken in options too, the top wins', () => {
    expect(patch('', { options: { timeout: 5, priority: 1 }, priority: 2 })).toMatchObject({
      asked: { timeout: 5000 },
      priority: 2,
    })
  })

  test('moves and removes moments', () => {
    const given = '"scheduled_at":"2030-01-01T00:00:00Z","expires_at":"2031-01-01T00:00:00Z"'
    expect(patch(given, { scheduled_at: '+PT5S', expires_at: null })).toMatchObject({
      scheduled: { at: at('12:00:05') },
      expires: null,
    })
    expect(patch(given, { delay_until: 'PT5S' }).scheduled?.at).toBe(at('12:00:05'))
    expect(patch(given, {})).toMatchObject({
      scheduled: { text: '2030-01-01T00:00:00Z' },
      expires: { text: '2031-01-01T00:00:00Z' },
    })
    expect(refusal(() => patch(given, { scheduled_at: 'PT5S' }))).toEqual({
      code: 'invalid_request',
      field: 'scheduled_at',
    })
  })

  test('any other field is a 400, in options too', () => {
    expect(refusal(() => patch('', { queue: 'a' }))).toEqual({ code: 'invalid_request', field: 'queue' })
    expect(refusal(() => patch('', { options: { meta: {} } }))).toEqual({
      code: 'invalid_request',
      field: 'options.meta',
    })
    expect(refusal(() => patch('', { options: { options: {} } }))).toEqual({
      code: 'invalid_request',
      field: 'options.options',
    })
    expect(refusal(() => patch('', JSON.parse('{"__proto__":1}'))).field).toBe('__proto__')
  })

  test('the merged set is what is validated', () => {
    expect(refusal(() => patch('"timeout":60', { total_timeout: 59 }))).toEqual({
      code: 'validation_error',
      field: 'total_timeout',
    })
    expect(refusal(() => patch('"timeout":60', { total_timeout: 59, timeout: null })).code).toBe('taken')
  })

  test('priority null is the default priority, absent is unchanged', () => {
    expect(patch('', { priority: null }).priority).toBe(0)
    expect(patch('', {}).priority).toBeNull()
    expect(refusal(() => patch('', { priority: 101 }))).toEqual({ code: 'invalid_request', field: 'priority' })
  })
})

test('a manual retry reads the published limits back, and drops expires_at', () => {
  const { given } = job({
    timeout: 5,
    x_on_timeout: 'discard',
    scheduled_at: '2030-01-01T00:00:00Z',
    expires_at: '2031-01-01T00:00:00Z',
  })
  expect(overrideGiven(given, {}, NOON).asked).toEqual({ timeout: 5000, onTimeout: 'discard' })
  expect(JSON.parse(`{${withoutExpiry(given)}}`)).toEqual({
    timeout: 5,
    x_on_timeout: 'discard',
    scheduled_at: '2030-01-01T00:00:00Z',
  })
  expect(withoutExpiry('')).toBe('')
})

describe('rate_limit', () => {
  test('is read at the top or in options, and kept with what was given', () => {
    const asked = { key: 'stripe', concurrency: 2 }
    for (const request of [job({ rate_limit: asked }), job({ options: { rate_limit: asked } })]) {
      expect(request.rateLimit).toMatchObject({ key: 'stripe', terms: { concurrency: 2 }, onLimit: 'wait' })
      expect(givenOf(request)).toEqual({ rate_limit: asked })
    }
    expect(job({ rate_limit: null }).rateLimit).toBeNull()
  })

  test('a PATCH leaves it alone and cannot change it', () => {
    const { given } = job({ timeout: 5, rate_limit: { key: 'stripe' } })
    expect(givenOf(patchGiven(given, { timeout: 7 }, NOON))).toEqual({ timeout: 7, rate_limit: { key: 'stripe' } })
    expect(refusal(() => patchGiven(given, { rate_limit: { key: 'other' } }, NOON)).field).toBe('rate_limit')
  })

  test('a limiter that puts a job off changes only its schedule', () => {
    const { given } = job({ timeout: 5, rate_limit: { key: 'stripe' }, scheduled_at: '2026-01-01T12:00:00Z' })
    expect(givenOf({ given: withSchedule(given, at('12:30')) })).toEqual({
      timeout: 5,
      rate_limit: { key: 'stripe' },
      scheduled_at: iso(at('12:30')),
    })
  })
})

describe('requests that say the same', () => {
  // Few enough that the same is said again and again.
  const someTerms = fc
    .array(
      fc.constantFrom<object>(
        { queue: 'mail' },
        { queue: null },
        { priority: -5 },
        { timeout_ms: 1_000 },
        { timeout_ms: 2_000 },
        { timeout: 1 },
        { tags: ['a'] },
        { tags: ['a', 'b'] },
        { metadata: { trace_id: 't1' } },
        { metadata: { tenant_id: 'acme' } },
        { retry: { max_attempts: 2 } },
        { unique: { keys: ['type', 'args'] } },
        { scheduled_at: '+PT5M' },
        { expires_at: '+PT9M' },
        { x_parent: { job_id: 'p1' } },
        { x_colour: 'red' },
        { x_colour: 1.5 },
      ),
      { maxLength: 2 },
    )
    .map((parts): object => Object.assign({}, ...parts) as object)
  const someRequest = fc.record({
    terms: someTerms,
    options: fc.option(someTerms, { nil: undefined }),
    args: fc.constantFrom([1], ['two', { three: 3 }]),
    meta: fc.constantFrom(undefined, { trace_id: 'm1' }, { tenant_id: 'acme', note: 'n' }),
    id: fc.constantFrom(undefined, '019539a4-b68c-7def-8000-1a2b3c4d5e6f'),
    now: fc.constantFrom(NOON, at('12:01')),
    tenant: fc.constantFrom(null, 'acme'),
  })

  test('are read from memory as they are read without one', () => {
    const memory = new EnqueueMemory()
    fc.assert(
      fc.property(fc.array(someRequest, { minLength: 2, maxLength: 12 }), (requests) => {
        for (const { terms, options, args, meta, id, now, tenant } of requests) {
          const said = { type: 'email.send', args, meta, id, options, ...terms }
          const source = JSON.stringify(said)
          const result = (known: EnqueueMemory | null): unknown =>
            outcomeOf(() => readEnqueue(source, JSON.parse(source), now, tenant, false, known))
          expect(result(memory)).toEqual(result(null))
        }
      }),
      { numRuns: 300 },
    )
  })

  test('of a moment to come mean one that is as far away each time', () => {
    const source = JSON.stringify({ type: 'email.send', args: [], scheduled_at: '+PT5M', expires_at: '+PT9M' })
    const memory = new EnqueueMemory()
    for (const now of [NOON, at('12:00:01'), at('12:01:30')]) {
      const { scheduled, expires } = readEnqueue(source, JSON.parse(source), now, null, false, memory)
      expect([scheduled?.at, expires?.at]).toEqual([now + 300_000, now + 540_000])
    }
  })

  test('are remembered without what they came with', () => {
    setFlagsFromString('--expose-gc')
    const collect = runInNewContext('gc') as () => void
    const heap = (): number => {
      collect()
      return process.memoryUsage().heapUsed
    }
    const large = 'x'.repeat(200_000)
    const memory = new EnqueueMemory()
    const before = heap()
    for (let n = 0; n < 100; n += 1) {
      // Through bytes, as requests come: else the large text would be one.
      const source = Buffer.from(
        `{"type":"a","tags":["a tag of ${String(n)} and more"],"args":["${large}"]}`,
      ).toString()
      readEnqueue(source, JSON.parse(source), NOON, null, false, memory)
    }
    expect(heap() - before).toBeLessThan(5_000_000)
  })

  test('are read once by a memory, and by no other', () => {
    const source = JSON.stringify({ type: 'email.send', args: [], timeout: 5 })
    const terms = (memory: EnqueueMemory): unknown =>
      readEnqueue(source, JSON.parse(source), NOON, null, false, memory).asked
    const [one, other] = [new EnqueueMemory(), new EnqueueMemory()]
    expect(terms(one)).toBe(terms(one))
    expect(terms(other)).not.toBe(terms(one))
  })

  function outcomeOf(read: () => unknown): unknown {
    try {
      return read()
    } catch {
      return refusal(read)
    }
  }
})
