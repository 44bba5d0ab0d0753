import { describe, expect, test } from 'vitest'
import fc from 'fast-check'
import { JOB_STATES, type NewEvent } from '@curfew/core'
import { anEvent, at } from '../builders.suite.ts'
import type { StateChange } from '../store.ts'
import { AFTER_LAST_EVENT, BEFORE_LAST_EVENT, NO_LAST_EVENT, newsFrom, piecesOf } from './news.ts'

const PAYLOAD_BYTES = 7_999
const LONGEST_END = `${BEFORE_LAST_EVENT}${String(Number.MAX_SAFE_INTEGER)}${AFTER_LAST_EVENT}`

const maybeState = fc.option(fc.constantFrom(...JOB_STATES), { nil: null })
const anyText = fc.string({ unit: 'binary', maxLength: 300 })
const anyChange: fc.Arbitrary<StateChange> = fc.record({
  id: fc.oneof(fc.uuid(), anyText),
  queue: fc.oneof(fc.constant('default'), anyText),
  type: fc.oneof(fc.constant('email.send'), anyText),
  from: maybeState,
  to: maybeState,
  tenant: fc.option(anyText, { nil: null }),
})
const anyLive: fc.Arbitrary<NewEvent> = anyText.map((text) => anEvent({ data: { text } }))

const key = (change: StateChange): string => JSON.stringify(change)

describe('news', () => {
  test('come whole, in pieces that fit, whatever they tell', () => {
    const changes = fc.oneof(fc.array(anyChange), fc.array(anyChange, { minLength: 200, maxLength: 400 }))
    fc.assert(
      fc.property(changes, fc.array(anyLive), fc.array(anyText), (told, live, orders) => {
        const pieces = piecesOf('me', { changes: told, live, orders }, at(5))
        for (const piece of pieces) {
          expect(Buffer.byteLength(piece + LONGEST_END)).toBeLessThanOrEqual(PAYLOAD_BYTES)
          expect(newsFrom(piece + NO_LAST_EVENT, 'me')).toBeNull()
        }
        const heard = pieces.map((piece) => newsFrom(piece + NO_LAST_EVENT, 'you'))
        expect(
          heard
            .flatMap((news) => news?.changes ?? [])
            .map(key)
            .sort(),
        ).toEqual(told.map(key).sort())
        expect(heard.flatMap((news) => news?.live ?? [])).toEqual(live)
        expect(heard.flatMap((news) => news?.orders ?? [])).toEqual(orders)
        expect(new Set(heard.map((news) => news?.wakeAt))).toEqual(new Set([at(5)]))
      }),
      { numRuns: 50 },
    )
  })

  test('of a thousand jobs that went the same way take few pieces', () => {
    const changes = Array.from({ length: 1_000 }, (_, n) => ({
      id: `019b796d-d600-78c6-8d13-${String(n).padStart(12, '0')}`,
      queue: 'default',
      type: 'email.send',
      from: 'available' as const,
      to: 'active' as const,
      tenant: null,
    }))
    expect(piecesOf('me', { changes, live: [], orders: [] }, null).length).toBeLessThanOrEqual(6)
  })

  test('are understood by servers of an earlier version, and theirs here', () => {
    const change = { id: 'a', queue: 'default', type: 'email.send', from: null, to: 'available' } as const
    const [piece = ''] = piecesOf(
      'me',
      {
        changes: [
          { ...change, tenant: 'acme' },
          { ...change, tenant: null },
        ],
        live: [],
        orders: ['w'],
      },
      null,
    )
    const { c, l, a, e } = JSON.parse(piece + NO_LAST_EVENT) as { c: unknown[][]; l: []; a: null; e: null }
    expect([l, a, e]).toEqual([[], null, null])
    const earlier = ['default', 'email.send', null, 'available', ['a']]
    expect(c.map((group) => group.slice(0, 5))).toEqual([earlier, earlier])
    const theirs = `{"w":"other","a":null,"c":${JSON.stringify([earlier])},"l":[]${NO_LAST_EVENT}`
    expect(newsFrom(theirs, 'me')).toMatchObject({ changes: [{ ...change, tenant: null }], orders: [] })
  })

  test('leave out an event that would not fit, and say the rest', () => {
    const live = [anEvent({ data: { text: 'x'.repeat(8_000) } }), anEvent({ subject: 'small' })]
    const heard = piecesOf('me', { changes: [], live, orders: [] }, null).map((piece) =>
      newsFrom(piece + NO_LAST_EVENT, 'you'),
    )
    expect(heard).toEqual([{ changes: [], live: [live[1]], orders: [], lastEvent: null, wakeAt: null, inbox: false }])
  })
})
