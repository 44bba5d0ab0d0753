import { createHmac } from 'node:crypto'
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { InputError } from '../errors.ts'
import { verifyWebhook, WebhookError } from './webhook.ts'

const secret = `whsec_${Buffer.from('a key of exactly thirty-two byte').toString('base64')}`
const sentAt = 1_700_000_000
const now = sentAt * 1000
const body = JSON.stringify({ specversion: '1.0', id: 'evt_1', type: 'job.completed', subject: 'j', data: { n: 'ü' } })

function sign(text: string, key = secret, timestamp = String(sentAt), id = 'del_1'): string {
  const bytes = key.startsWith('whsec_') ? Buffer.from(key.slice(6), 'base64') : Buffer.from(key)
  return `v1,${createHmac('sha256', bytes).update(`${id}.${timestamp}.${text}`).digest('base64')}`
}

const headers = (more: Record<string, string> = {}) => ({
  'webhook-id': 'del_1',
  'webhook-timestamp': String(sentAt),
  'webhook-signature': sign(body),
  ...more,
})

describe('a webhook', () => {
  test('that is signed is read, from text and from bytes, in any case of the header names', () => {
    const event = { id: 'evt_1', type: 'job.completed', deliveryId: 'del_1', data: { n: 'ü' } }
    expect(verifyWebhook(body, headers(), secret, { now })).toMatchObject(event)
    expect(verifyWebhook(Buffer.from(body), new Headers(headers()), secret, { now })).toMatchObject(event)
    const shouted = Object.fromEntries(Object.entries(headers()).map(([name, value]) => [name.toUpperCase(), value]))
    expect(verifyWebhook(body, shouted, secret, { now })).toMatchObject(event)
  })

  test('may carry several signatures, and be checked with several secrets, while one is replaced', () => {
    const both = headers({ 'webhook-signature': `${sign(body, 'another secret of mine')} ${sign(body)}` })
    expect(verifyWebhook(body, both, secret, { now }).id).toBe('evt_1')
    expect(verifyWebhook(body, headers(), ['another secret of mine', secret], { now }).id).toBe('evt_1')
    const plain = headers({ 'webhook-signature': sign(body, 'another secret of mine') })
    expect(verifyWebhook(body, plain, 'another secret of mine', { now }).id).toBe('evt_1')
  })

  test.each([
    ['a changed body', `${body} `, headers()],
    ['another id', body, headers({ 'webhook-id': 'del_2' })],
    ['another time', body, headers({ 'webhook-timestamp': String(sentAt + 1) })],
    ['another secret', body, headers({ 'webhook-signature': sign(body, 'another secret of mine') })],
    ['a signature of another kind', body, headers({ 'webhook-signature': sign(body).replace('v1,', 'v2,') })],
    ['no signature in it', body, headers({ 'webhook-signature': '' })],
    ['a short signature', body, headers({ 'webhook-signature': 'v1,AAAA' })],
    ['no headers', body, {}],
    ['no number for a time', body, headers({ 'webhook-timestamp': 'now' })],
  ])('with %s is not believed', (_, text, given) => {
    expect(() => verifyWebhook(text, given, secret, { now })).toThrow(WebhookError)
  })

  test('that is five minutes old, or from the future, is not believed', () => {
    for (const [off, expected] of [
      [299, true],
      [301, false],
      [-299, true],
      [-301, false],
    ] as const) {
      const verify = () => verifyWebhook(body, headers(), secret, { now: now + off * 1000 })
      if (expected) expect(verify().id).toBe('evt_1')
      else expect(verify).toThrow(WebhookError)
    }
    expect(verifyWebhook(body, headers(), secret, { now: now + 3_600_000, tolerance: '2h' }).id).toBe('evt_1')
  })

  test('is never believed without a secret', () => {
    expect(() => verifyWebhook(body, headers(), '', { now })).toThrow(InputError)
    expect(() => verifyWebhook(body, headers(), [], { now })).toThrow(InputError)
  })

  test('is not believed when anything about it is changed', () => {
    fc.assert(
      fc.property(fc.nat(body.length - 1), fc.integer({ min: 1, max: 255 }), (place, flip) => {
        const bytes = Buffer.from(body)
        bytes[place] = (bytes[place] ?? 0) ^ flip
        expect(() => verifyWebhook(bytes, headers(), secret, { now })).toThrow(WebhookError)
      }),
    )
  })
})
