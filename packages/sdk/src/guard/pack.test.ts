import { expect, test } from 'vitest'
import { pack, unpack } from './pack.ts'
import type { GuardOrder, Watched } from './protocol.ts'

const begin = (jobId: string, lease: number | null, more: Partial<Watched> = {}): GuardOrder => ({
  op: 'begin',
  attempt: {
    key: `${jobId}#${String(lease ?? 3)}`,
    jobId,
    lease,
    manual: false,
    stallMs: null,
    visibilityMs: 30_000,
    listedAt: 100,
    graceMs: 1_000,
    hardAt: 500,
    softStop: { why: 'deadline', kind: 'execution', limitMs: 10, source: 'type' },
    ...more,
  },
})
const end = (key: string): GuardOrder => ({ op: 'end', key })

function there(orders: readonly GuardOrder[]): GuardOrder[] {
  const obeyed: GuardOrder[] = []
  unpack(structuredClone(pack(orders)), (order) => obeyed.push(order))
  return obeyed
}

test('every order arrives as it was given, in its place', () => {
  const orders: GuardOrder[] = [
    begin('a', 1),
    begin('b', 2),
    end('x#1'),
    end('y#2'),
    { op: 'contact', askedAt: 7 },
    begin('c', 1, { hardAt: 600 }),
    begin('d', null),
    begin('e', 4, { softStop: { why: 'deadline', kind: 'total', limitMs: 10, source: 'type' } }),
    begin('f', 4, { manual: true, stallMs: 5 }),
    begin('g', 4, { manual: true, stallMs: 6 }),
    end('a#1'),
  ]
  expect(there(orders)).toEqual(orders)
})

test.each<[keyof Watched, Partial<Watched>]>([
  ['manual', { manual: true }],
  ['stallMs', { stallMs: 5 }],
  ['visibilityMs', { visibilityMs: 5 }],
  ['graceMs', { graceMs: 5 }],
  ['listedAt', { listedAt: 5 }],
  ['hardAt', { hardAt: 5 }],
  ['softStop', { softStop: { why: 'deadline', kind: 'total', limitMs: 10, source: 'type' } }],
  ['softStop', { softStop: { why: 'deadline', kind: 'execution', limitMs: 11, source: 'type' } }],
  ['softStop', { softStop: { why: 'deadline', kind: 'execution', limitMs: 10, source: 'queue' } }],
])('an attempt keeps its own %s beside one that differs', (_, more) => {
  const orders = [begin('a', 1), begin('b', 1, more), begin('c', 1)]
  expect(there(orders)).toEqual(orders)
})

test('attempts with equal terms travel as one order, and so do ends', () => {
  expect(pack([begin('a', 1), begin('b', 2), end('x#1'), end('y#1')])).toMatchObject([
    { op: 'begins', jobIds: ['a', 'b'], leases: [1, 2] },
    { op: 'ends', keys: ['x#1', 'y#1'] },
  ])
})
