import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { hours, instant, minutes, seconds } from '../time/clock.ts'
import { OjsError } from '../errors.ts'
import { EVENT_TYPES } from '../events.ts'
import {
  DELIVERY_RETRY,
  DELIVERY_TOTAL_MS,
  DELIVERY_TYPE,
  deliveryDelayMs,
  deliveryLimitKey,
  rotateSecret,
  secretsOf,
  unheardOf,
  verdictOnAnswer,
  wants,
  WEBHOOK_QUEUE,
  type Webhook,
} from './webhook.ts'
import { patchWebhook, readWebhook } from '../wire/webhook.ts'

const now = instant(Date.UTC(2026, 0, 1))
const made = { id: 'sub_1', tenant: null, secret: 'whsec_bWFkZSBieSB0aGUgc2VydmVy', cursor: 7 }
const strict = { allowInsecure: false }
const sent = { url: 'https://example.com/hooks', events: ['job.completed'] }

function webhook(more: object = {}): Webhook {
  return readWebhook({ ...sent, ...more }, made, strict, now)
}

function refusal(more: object): { code: string; field: unknown } {
  try {
    webhook(more)
  } catch (error) {
    if (error instanceof OjsError) return { code: error.code, field: error.details['field'] }
    throw error
  }
  throw new Error(`${JSON.stringify(more)} was accepted`)
}

describe('a subscription', () => {
  test('has a default for everything but the address and the events', () => {
    expect(webhook()).toEqual({
      id: 'sub_1',
      tenant: null,
      url: 'https://example.com/hooks',
      events: ['job.completed'],
      filter: { queues: [], jobTypes: [] },
      metadata: null,
      active: true,
      inactiveReason: null,
      timeoutMs: 30_000,
      secret: made.secret,
      oldSecret: null,
      cursor: 7,
      lookAt: now + 300_000,
      createdAt: now,
      updatedAt: now,
    })
  })

  test.each([
    [{ url: undefined }, 'invalid_request', 'url'],
    [{ url: 'example.com' }, 'invalid_request', 'url'],
    [{ url: 'ftp://example.com/' }, 'invalid_request', 'url'],
    [{ url: 'https://' }, 'invalid_request', 'url'],
    [{ url: 'https://exa mple.com/' }, 'invalid_request', 'url'],
    [{ url: `https://example.com/${'a'.repeat(2_048)}` }, 'invalid_request', 'url'],
    [{ url: 'http://example.com/' }, 'validation_error', 'url'],
    [{ url: 'https://user:word@example.com/' }, 'validation_error', 'url'],
    [{ url: 'https://user@example.com/' }, 'validation_error', 'url'],
    [{ events: [] }, 'invalid_request', 'events'],
    [{ events: 'job.completed' }, 'invalid_request', 'events'],
    [{ events: ['job.**'] }, 'invalid_request', 'events[0]'],
    [{ events: ['*.completed'] }, 'invalid_request', 'events[0]'],
    [{ events: ['Job.Completed'] }, 'invalid_request', 'events[0]'],
    [{ filter: { queue: 'a' } }, 'invalid_request', 'filter.queue'],
    [{ filter: { queues: ['NO'] } }, 'invalid_request', 'filter.queues[0]'],
    [{ metadata: { note: 'x'.repeat(20_000) } }, 'invalid_request', 'metadata'],
    [{ timeout: 0 }, 'validation_error', 'timeout'],
    [{ timeout: 61 }, 'validation_error', 'timeout'],
    [{ secret: 'short' }, 'validation_error', 'secret'],
    [{ secret: 'x'.repeat(257) }, 'validation_error', 'secret'],
    [{ secret: 'whsec_not base64 at all!' }, 'validation_error', 'secret'],
    [{ headers: {} }, 'invalid_request', 'headers'],
  ])('%j is refused as %s, naming %s', (more, code, field) => {
    expect(refusal(more)).toEqual({ code, field })
  })

  test('may be plain http on a server for development', () => {
    expect(readWebhook({ ...sent, url: 'http://localhost:3000/' }, made, { allowInsecure: true }, now).url).toBe(
      'http://localhost:3000/',
    )
  })

  test('keeps a secret that was brought along', () => {
    expect(webhook({ secret: 'whk_test_secret_001' }).secret).toBe('whk_test_secret_001')
  })

  test('tells which of its patterns fit no event at all', () => {
    expect(unheardOf(['job.completed', 'job.complted', 'job.*', 'jobs.*', '*'])).toEqual(['job.complted', 'jobs.*'])
  })
})

describe('a change', () => {
  const later = instant(now + 1_000)
  const patch = (before: Webhook, change: object): Webhook => patchWebhook(before, change, 99, strict, later)

  test('touches only what it names', () => {
    const before = webhook({ filter: { queues: ['a'] }, metadata: { owner: 'me' }, timeout: 5 })
    expect(patch(before, { events: ['*'] })).toEqual({ ...before, events: ['*'], updatedAt: later })
  })

  test('null takes away what may be left out, and nothing else', () => {
    const before = webhook({ filter: { queues: ['a'] }, metadata: { owner: 'me' }, timeout: 5 })
    expect(patch(before, { filter: null, metadata: null, timeout: null })).toMatchObject({
      filter: { queues: [] },
      metadata: null,
      timeoutMs: 30_000,
    })
    for (const key of ['url', 'events', 'active']) expect(() => patch(before, { [key]: null })).toThrow(OjsError)
  })

  test('one that is turned on again begins at the end of the log', () => {
    const off = patch(webhook(), { active: false })
    expect(off).toMatchObject({ active: false, cursor: 7 })
    expect(patch(off, { active: true })).toMatchObject({ active: true, cursor: 99 })
    expect(patch(webhook(), { active: true })).toMatchObject({ cursor: 7 })
  })

  test('neither secret nor id can be changed by it', () => {
    for (const key of ['secret', 'id', 'cursor']) expect(() => patch(webhook(), { [key]: 'x' })).toThrow(OjsError)
  })
})

describe('a new secret', () => {
  test('signs beside the old one for a day, and alone from then on', () => {
    const rotated = rotateSecret(webhook(), 'the new secret of all', now)
    expect(secretsOf(rotated, now)).toEqual(['the new secret of all', made.secret])
    expect(secretsOf(rotated, instant(now + hours(24) - 1))).toHaveLength(2)
    expect(secretsOf(rotated, instant(now + hours(24)))).toEqual(['the new secret of all'])
  })
})

describe('what a subscription wants', () => {
  const event = { type: 'job.completed', subject: 'a job', queue: 'mail', jobType: 'email.send' }
  test.each([
    [['job.completed'], {}, true],
    [['job.failed'], {}, false],
    [['job.*'], {}, true],
    [['jo.*'], {}, false],
    [['worker.*', '*'], {}, true],
    [['job'], {}, false],
    [['*'], { queues: ['mail'] }, true],
    [['*'], { queues: ['other'] }, false],
    [['*'], { job_types: ['email.send'] }, true],
    [['*'], { job_types: ['email'] }, false],
    [['*'], { queues: ['mail'], job_types: ['other.type'] }, false],
  ])('%j with the filter %j: %s', (events, filter, expected) => {
    expect(wants(webhook({ events, filter }), event)).toBe(expected)
  })

  test('a filter holds back what belongs to no queue', () => {
    const died = { type: 'worker.died', subject: 'w1', queue: null, jobType: null }
    expect(wants(webhook({ events: ['*'] }), died)).toBe(true)
    expect(wants(webhook({ events: ['*'], filter: { queues: ['mail'] } }), died)).toBe(false)
  })

  test('never what happens to deliveries themselves, whatever the filter names', () => {
    const everything = [
      webhook({ events: ['*', 'job.*', 'rate_limit.*'] }),
      webhook({ events: ['*'], filter: { queues: [WEBHOOK_QUEUE], job_types: [DELIVERY_TYPE] } }),
    ]
    fc.assert(
      fc.property(fc.constantFrom(...EVENT_TYPES), fc.constantFrom(...everything), (type, subscription) => {
        const own = { type, subject: 'x', queue: WEBHOOK_QUEUE, jobType: DELIVERY_TYPE }
        expect(wants(subscription, own)).toBe(false)
        expect(wants(subscription, { ...own, queue: null })).toBe(false)
        expect(wants(subscription, { ...own, jobType: null })).toBe(false)
      }),
    )
    const limited = { subject: deliveryLimitKey('sub_1'), queue: null, jobType: null }
    for (const type of ['rate_limit.exceeded', 'rate_limit.released', 'rate_limit.dropped'])
      expect(wants(webhook({ events: ['*'] }), { ...limited, type })).toBe(false)
    const dead = { type: 'webhook.dead', subject: 'sub_1', queue: null, jobType: null }
    expect(wants(webhook({ events: ['*'] }), dead)).toBe(false)
  })

  test('but what happens to limiters of jobs, and to a cron entry with a name like those of the server', () => {
    const limited = { type: 'rate_limit.exceeded', subject: 'webhook/sub_1', queue: null, jobType: null }
    expect(wants(webhook({ events: ['*'] }), limited)).toBe(true)
    expect(wants(webhook({ events: ['*'] }), { ...limited, type: 'cron.triggered', subject: 'curfew.nightly' })).toBe(
      true,
    )
  })
})

describe("an endpoint's answer", () => {
  test.each([
    [200, undefined, { kind: 'delivered' }],
    [204, undefined, { kind: 'delivered' }],
    [301, undefined, { kind: 'dead' }],
    [400, undefined, { kind: 'dead' }],
    [404, undefined, { kind: 'dead' }],
    [410, undefined, { kind: 'gone' }],
    [429, undefined, { kind: 'retry', delayMs: null }],
    [429, '120', { kind: 'retry', delayMs: 120_000 }],
    [429, new Date(now + 5_000).toUTCString(), { kind: 'retry', delayMs: 5_000 }],
    [429, '999999999', { kind: 'retry', delayMs: hours(24) }],
    [429, 'soon', { kind: 'retry', delayMs: null }],
    [429, '0', { kind: 'retry', delayMs: null }],
    [429, new Date(now - 5_000).toUTCString(), { kind: 'retry', delayMs: null }],
    [500, '120', { kind: 'retry', delayMs: null }],
    [503, undefined, { kind: 'retry', delayMs: null }],
    [599, undefined, { kind: 'retry', delayMs: null }],
  ])('%d (Retry-After %s) means %j', (status, retryAfter, expected) => {
    expect(verdictOnAnswer(status, retryAfter, now)).toMatchObject(expected)
  })

  test('the waits are those of the specification, and all of them fit into the life of a delivery', () => {
    const waits = Array.from({ length: DELIVERY_RETRY.maxAttempts - 1 }, (_, index) => deliveryDelayMs(index + 1))
    expect(waits).toEqual([seconds(30), minutes(2), minutes(10), hours(1), hours(4), hours(12), hours(24)])
    const longest = waits.reduce((sum, wait) => sum + wait, 0) + DELIVERY_RETRY.maxAttempts * minutes(2)
    expect(longest).toBeLessThan(DELIVERY_TOTAL_MS)
    expect(deliveryDelayMs(99)).toBe(hours(24))
  })
})
