import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { drained } from '../../builders.suite.ts'
import { OjsError } from '../../errors.ts'
import { readBatch } from '../job/enqueue-many.ts'
import { readEnqueue, type EnqueueRequest } from '../job/enqueue.ts'
import { ENQUEUE_SHAPE } from '../job/job-shapes.ts'
import { instant } from '../../time/clock.ts'
import { JOB_ALIASES, RETRY_ALIASES } from './aliases.ts'
import { nearMissWarnings, refuseNearMisses } from './near-miss-words.ts'
import { nearestName, nearMissesAmong, vocabulary } from './near-miss.ts'

const read = (more: Record<string, unknown>): EnqueueRequest => {
  const fields = { type: 'test.job', args: [], ...more }
  return readEnqueue(JSON.stringify(fields), fields, instant(0))
}
const nearest = (name: string): string | undefined => read({ [name]: 1 }).nearMisses[0]?.nearest

describe('a field of an enqueue', () => {
  test.each([
    ['totalTimeout', 'total_timeout'],
    ['TotalTimeout', 'total_timeout'],
    ['TOTAL_TIMEOUT', 'total_timeout'],
    ['total-timeout', 'total_timeout'],
    ['totaltimeout', 'total_timeout'],
    ['timeout_total', 'total_timeout'],
    ['total_timout', 'total_timeout'],
    ['totl_timeuot', 'total_timeout'],
    ['totalTimeoutMs', 'total_timeout_ms'],
    ['timeoutMs', 'timeout_ms'],
    ['timeout_seconds', 'timeout'],
    ['timeoutSeconds', 'timeout'],
    ['timeout_in_ms', 'timeout_ms'],
    ['timeout_millis', 'timeout_ms'],
    ['timout', 'timeout'],
    ['tiemout', 'timeout'],
    ['timeouts', 'timeout'],
    ['time_out', 'timeout'],
    ['ttl', 'enqueue_ttl'],
    ['ttlMs', 'enqueue_ttl_ms'],
    ['ttl_seconds', 'enqueue_ttl'],
    ['grace', 'grace_period'],
    ['gracePeriod', 'grace_period'],
    ['on_timeout', 'x_on_timeout'],
    ['onTimeout', 'x_on_timeout'],
    ['delay', 'scheduled_at'],
    ['delay_ms', 'scheduled_at'],
    ['runAt', 'scheduled_at'],
    ['attempts', 'retry.max_attempts'],
    ['maxRetries', 'retry.max_attempts'],
    ['max_retries', 'retry.max_attempts'],
    ['retryPolicy', 'retry_policy'],
    ['priorty', 'priority'],
    ['visibilityTimeout', 'visibility_timeout'],
    ['heartbeat-timeout', 'heartbeat_timeout'],
    ['max_attempt', 'retry.max_attempts'],
    ['maxRetires', 'retry.max_attempts'],
    ['time_limt', 'timeout'],
    ['executionTimout', 'timeout'],
    ['x_on_timeot', 'x_on_timeout'],
    ['x_inheritDeadline', 'x_inherit_deadline'],
  ])('%s is taken for %s', (name, known) => {
    expect(nearest(name)).toBe(known)
  })

  test.each([
    'customer',
    'order_id',
    'time',
    'types',
    'beta',
    'data',
    'user',
    'result_url',
    'x_timeout',
    'x_ttl',
    'x_anything',
    'x_total_timeout',
    'cron_name',
    'idempotency_key',
    'parent_id',
    'headline',
    'entry_count',
    'executed_at',
    'reserved_for',
    'Größe',
    '',
    'a'.repeat(10_000),
  ])('%s is left alone', (name) => {
    expect(nearest(name)).toBeUndefined()
  })

  test('is looked for in options and in retry too, by its path', () => {
    const { nearMisses } = read({ options: { timeoutMs: 5, retry: { attempts: 5 }, schema: 'a' } })
    expect(nearMisses).toEqual([
      { field: 'options.timeoutMs', nearest: 'timeout_ms' },
      { field: 'options.schema', nearest: 'schema' },
      { field: 'options.retry.attempts', nearest: 'max_attempts' },
    ])
    expect(read({ retry_policy: { maxRetries: 5 } }).nearMisses).toEqual([
      { field: 'retry_policy.maxRetries', nearest: 'max_attempts' },
    ])
  })

  test('that is known, in whatever dialect, is not a near miss', () => {
    expect(
      read({
        id: '0192f0c1-1111-7000-8000-000000000000',
        specversion: '1.0',
        timeout: 5,
        timeout_ms: 5_000,
        retry: { maxAttempts: 3, initialInterval: 'PT1S', backoff: 'linear', max_interval_ms: 9_000, jitter: false },
        meta: { totalTimeout: 5 },
        metadata: {},
        options: { tags: [], queue: 'mail', delay_until: '2030-01-01T00:00:00Z' },
        x_parent: { job_id: 'a' },
        attempt: 1,
        created_at: 'then',
      }).nearMisses,
    ).toEqual([])
  })

  test('is found in retry too when an alias or another spelling has a slip', () => {
    const misses = read({ retry: { backof: 'linear', max_retires: 5, max_interval_sm: 5, initial_dela: 5 } }).nearMisses
    expect(misses).toEqual([
      { field: 'retry.backof', nearest: 'backoff' },
      { field: 'retry.max_retires', nearest: 'max_attempts' },
      { field: 'retry.max_interval_sm', nearest: 'max_interval_ms' },
      { field: 'retry.initial_dela', nearest: 'initial_interval' },
    ])
  })

  test('is found in whatever place it stands, unless it holds a slip', () => {
    const harmless = Object.fromEntries(Array.from({ length: 900 }, (_, index) => [`own_${String(index)}`, index]))
    for (const [name, known] of [
      ['totalTimeout', 'total_timeout'],
      ['ttl', 'enqueue_ttl'],
      ['timeout_seconds', 'timeout'],
    ] as const)
      for (const fields of [{ [name]: 5 }, { options: { ...harmless, [name]: 5 } }])
        expect(read({ ...harmless, ...fields }).nearMisses.map(({ nearest: meant }) => meant)).toEqual([known])
  })

  test('null means that it was not sent', () => {
    expect(read({ totalTimeout: null, options: { ttl: null } }).nearMisses).toEqual([])
  })

  test('max_attempts has no effect beside retry, and is warned of when it says something else', () => {
    const miss = [{ field: 'max_attempts', nearest: 'retry.max_attempts' }]
    expect(read({ max_attempts: 5 }).nearMisses).toEqual(miss)
    expect(read({ max_attempts: 5, retry: { max_attempts: 4 } }).nearMisses).toEqual(miss)
    expect(read({ max_attempts: 3 }).nearMisses).toEqual([])
    expect(read({ max_attempts: 5, retry: { max_attempts: 5 } }).nearMisses).toEqual([])
  })

  test('is kept as it was sent, and told of each time, also when the same words were read before', () => {
    for (let time = 0; time < 3; time += 1) {
      const request = read({ totalTimeout: 7 })
      expect(request.body).toContain('"totalTimeout":7')
      expect(request.nearMisses).toHaveLength(1)
    }
  })

  test('belongs to its own entry of a batch', () => {
    const jobs = [
      { type: 'a', args: [] },
      { type: 'a', args: [], ttl: 5 },
    ]
    const { entries } = drained(readBatch(JSON.stringify({ jobs }), { jobs }, instant(0)))
    expect(entries.map(({ nearMisses }) => nearMisses)).toEqual([[], [{ field: 'ttl', nearest: 'enqueue_ttl' }]])
  })
})

describe('what is said', () => {
  const misses = [{ field: 'options.ttl', nearest: 'enqueue_ttl' }]

  test('names the field, its effect and the name that was meant', () => {
    expect(nearMissWarnings(misses)).toEqual([
      'options.ttl is not a known field and has no effect. Did you mean enqueue_ttl?',
    ])
    const many = Array.from({ length: 50 }, (_, index) => ({ field: `f${String(index)}`, nearest: 'timeout' }))
    expect(nearMissWarnings(many)).toHaveLength(21)
  })

  test('is a 422 where it is refused', () => {
    refuseNearMisses([])
    let thrown: unknown
    try {
      refuseNearMisses(misses)
    } catch (error) {
      thrown = error
    }
    expect(thrown).toBeInstanceOf(OjsError)
    expect(thrown).toMatchObject({
      code: 'validation_error',
      message: 'options.ttl is not a known field. Did you mean enqueue_ttl?',
      details: { field: 'options.ttl', nearest: 'enqueue_ttl' },
    })
  })
})

describe('whatever the name', () => {
  const known = vocabulary(['timeout', 'timeout_ms', 'total_timeout', 'enqueue_ttl', 'grace_period'], {
    ttl: 'enqueue_ttl',
  })

  test('one slip in a long name is found, and what is found is a known name', () => {
    const long = known.names.filter((name) => name.length >= 11)
    fc.assert(
      fc.property(fc.constantFrom(...long), fc.nat(30), fc.constantFrom('q', 'w', 'z'), (name, at, letter) => {
        const place = at % name.length
        for (const slip of [
          name.slice(0, place) + name.slice(place + 1),
          name.slice(0, place) + letter + name.slice(place),
          name.slice(0, place) + letter + name.slice(place + 1),
        ])
          expect(nearestName(slip, known)).toBe(name)
      }),
    )
    fc.assert(
      fc.property(fc.string(), (word) => {
        const found = nearestName(word, known)
        if (found !== null) expect(known.names).toContain(found)
      }),
    )
  })

  test('the search for slips has a bound, however many unknown names there are', () => {
    const names = Array.from({ length: 5_000 }, (_, index) => `timeoutt${'x'.repeat(index % 2)}`)
    expect(nearMissesAmong(names, known).length).toBeLessThanOrEqual(100)
  })
})

test('the tables of other names lead to known ones, and are found by every name in them', () => {
  const known = Object.keys(ENQUEUE_SHAPE.json['properties'] as object)
  for (const [alias, target] of Object.entries(JOB_ALIASES)) {
    expect(known, alias).toContain(target.split('.')[0])
    expect(known).not.toContain(alias)
    if (alias !== 'max_attempts') expect(nearest(alias), alias).toBe(target)
  }
  for (const [alias, target] of Object.entries(RETRY_ALIASES))
    expect(read({ retry: { [alias]: 1 } }).nearMisses, alias).toEqual([{ field: `retry.${alias}`, nearest: target }])
})
