import { expect, test } from 'vitest'
import { OrderLine } from './order-line.ts'
import type { GuardOrder, Watched } from './protocol.ts'
import { ListReader } from './shared-list.ts'

const begin = (jobId: string, more: Partial<Watched> = {}): GuardOrder => ({
  op: 'begin',
  attempt: {
    key: `${jobId}#1`,
    jobId,
    lease: 1,
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
const end = (jobId: string): GuardOrder => ({ op: 'end', key: `${jobId}#1` })
const REGISTERED: GuardOrder = { op: 'registered', intervalMs: 5_000, timeoutMs: 30_000, askedAt: 0 }

function registered(): { line: OrderLine; reader: ListReader; listed: () => string[] } {
  const line = new OrderLine()
  line.add(REGISTERED)
  line.take()
  const reader = new ListReader(line.listed)
  return { line, reader, listed: () => reader.read().map(({ key }) => key) }
}

test('an attempt that needs no beat of its own is listed without a message', () => {
  const { line, reader, listed } = registered()
  expect(line.add(begin('a'))).toBe(false)
  expect(listed()).toEqual(['a#1'])
  expect(reader.begun(0)).toBe(1)
  expect(line.add(end('a'))).toBe(false)
  expect(listed()).toEqual([])
  expect(line.take()).toEqual([])
})

test.each<[string, Partial<Watched>]>([
  ['must give its own signs', { manual: true, stallMs: 60_000 }],
  ['has a clock that needs more beats', { visibilityMs: 19_999 }],
  ['has no lease', { lease: null }],
])('an attempt that %s goes by a message', (_, more) => {
  const { line, reader, listed } = registered()
  const order = begin('a', more)
  expect(line.add(order)).toBe(true)
  line.add(end('a'))
  expect(line.take()).toEqual([order, end('a')])
  expect(listed()).toEqual([])
  expect(reader.begun(0)).toBe(0)
  expect(reader.begun(1)).toBe(1)
})

test('before the worker is registered every attempt goes by a message', () => {
  const line = new OrderLine()
  expect(line.add(begin('a'))).toBe(true)
})

test('an order about a listed attempt comes after the attempt itself, and its end goes by a message', () => {
  const { line, listed } = registered()
  line.add(begin('a'))
  const log: GuardOrder = { op: 'log', key: 'a#1', lines: { from: 0, lines: [] } }
  expect(line.add(log)).toBe(true)
  line.add(log)
  // Beats list it all the same until the message is read.
  expect(listed()).toEqual(['a#1'])
  line.add(end('a'))
  expect(line.take()).toEqual([begin('a'), log, log, end('a')])
  expect(listed()).toEqual([])
})

test('contact is passed on a few times a second', () => {
  const { line } = registered()
  const told = [0, 100, 249, 250, 260, 499, 900].filter((askedAt) => {
    line.add({ op: 'contact', askedAt })
    return line.take().length > 0
  })
  expect(told).toEqual([0, 250, 900])
})
