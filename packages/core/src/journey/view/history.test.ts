import { describe, expect, test } from 'vitest'
import { checkedContext, type KeyVerdict } from '../api-key.ts'
import type { ApiKeyCheck } from '../definition.ts'
import { masked } from './history.ts'

const JWT = 'eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJhZGEifQ.c2lnbmVk_by-me'
const shown = (text: string): unknown => masked({ text })['text']

test.each([
  'password',
  'apiKey',
  'x-api-key',
  'jwt',
  'idJwt',
  'signature',
  'X-Signature',
  'bearer',
  'sessionId',
  'pin',
])('a member %s is masked', (name) => {
  expect(masked({ in: [{ [name]: 'hunter2' }] })).toEqual({ in: [{ [name]: '[masked]' }] })
})

test.each([
  ['Bearer hunter2', '[masked]'],
  [JWT, '[masked]'],
  ['sent with Authorization: Bearer hunter2, and refused', 'sent with Authorization: Bearer [masked], and refused'],
  ['curl -H "authorization: basic dXNlcjpwYXNz" x', 'curl -H "authorization: basic [masked]" x'],
  [`the token ${JWT} has expired`, 'the token [masked] has expired'],
  [`{"a":"${JWT}"}`, '{"a":"[masked]"}'],
  ['eyJhbGciOiJkaXIifQ..aXY.Y2lwaGVy.dGFn', '[masked]'],
  ['https://a.example/x?token=hunter2', 'https://a.example/x?token=[masked]'],
  ['https://a.example/x?a=1&api_key=hunter2&b=2#c', 'https://a.example/x?a=1&api_key=[masked]&b=2#c'],
  ['see https://a.example/?X-Amz-Signature=hunter2 now', 'see https://a.example/?X-Amz-Signature=[masked] now'],
  [
    'https://a.example/?to=https://b.example/?access_token=hun?ter2',
    'https://a.example/?to=https://b.example/?access_token=[masked]',
  ],
  ['https://a.example/#id_token=hunter2&state=1', 'https://a.example/#id_token=[masked]&state=1'],
  ['client_secret=hunter2&grant_type=password', 'client_secret=[masked]&grant_type=password'],
  ['https://a.example/?sig=hunter2&otp=hunter2', 'https://a.example/?sig=[masked]&otp=[masked]'],
  ['cannot reach postgres://ada:hun:t@er2@db:5432/x', 'cannot reach postgres://[masked]@db:5432/x'],
  ['https://hunter2@a.example/x', 'https://[masked]@a.example/x'],
])('in the text %j the secret is masked', (text, expected) => {
  expect(shown(text)).toBe(expected)
})

test.each([
  'https://a.example/@ada/x?page=2&design=a&pins=3',
  'a basic subscription, and the bearer',
  'mail to ada@a.example: 7 = 5 + 2',
  'eyJ is how it begins',
  '1.2.3',
])('the text %j is shown as it is', (text) => {
  expect(shown(text)).toBe(text)
})

describe('the verdict of apiKeyValidate', () => {
  const check: ApiKeyCheck = { type: 'apiKeyCheck', profile: 'default', source: null, authVar: 'auth', next: 'done' }

  test.each<KeyVerdict>([{ keyId: 'partner-a' }, { problem: 'missing' }, { problem: 'invalid' }])(
    '%j is shown',
    (verdict) => {
      const context = checkedContext(check, { default: verdict }, {})
      expect(masked(context)).toEqual(context)
    },
  )

  test.each<unknown>([
    'hunter2',
    { keyId: 'a', secret: 'hunter2' },
    { keyId: { a: 1 } },
    { problem: 'hunter2' },
    { value: 1 },
  ])('%j is something else, and is masked', (apiKey) => {
    expect(masked({ auth: { apiKey } })).toEqual({ auth: { apiKey: '[masked]' } })
  })
})

test.each([
  ['eyJ', '-eyJ'],
  ['parts', 'eyJa.'],
  ['names', '&token'],
  ['letters', 'a'],
  ['addresses', '://'],
  ['users', '://a@'],
  ['schemes', 'bearer '],
  ['blanks', ' '],
])('a long text of %s takes time in proportion to its length', (_, piece) => {
  const start = performance.now()
  for (const end of ['', '=', '@', '\n']) shown(`x bearer ${piece.repeat(300_000)}${end}`)
  expect(performance.now() - start).toBeLessThan(2_000)
})
