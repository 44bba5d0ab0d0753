/** How a stream reads a long log: a log that is counted, and a reader that takes one piece at a time. */
import { instant, type Job } from '@curfew/core'
import { describe, expect, test } from 'vitest'
import type { Engine } from '../../engine/engine.ts'
import type { Announcement } from '../../engine/kernel/context.ts'
import type { StoredEvent } from '../../store/store.ts'
import { EventStream } from './stream.ts'

const event = (sequence: number, data = '{}'): StoredEvent => ({
  sequence,
  type: 'job.enqueued',
  at: instant(sequence),
  subject: 'a',
  queue: 'q',
  jobType: 't',
  data,
})

class Log {
  readonly events: StoredEvent[]
  readonly #listeners = new Set<(told: Announcement) => void>()
  /** How often a piece of it was read, and how often others had their turn. */
  looks = 0
  turns = 0
  first = 1
  /** The job that streams end with. */
  job: Partial<Job> | null = null

  constructor(count: number) {
    this.events = Array.from({ length: count }, (_, index) => event(index + 1))
  }

  readonly engine = {
    store: {
      eventBounds: () => Promise.resolve({ first: this.first, last: this.events.length }),
      eventsAfter: (place: number, most: number) => {
        this.looks += 1
        const from = Math.max(place, this.first - 1)
        return Promise.resolve(this.events.slice(from, from + most))
      },
      job: () => Promise.resolve(this.job),
    },
    host: {
      setTimer: () => ({ cancel: () => {} }),
      defer: (run: () => void) => {
        this.turns += 1
        setImmediate(run)
      },
    },
    closing: new AbortController().signal,
    now: () => instant(0),
    listen: (listener: (told: Announcement) => void) => {
      this.#listeners.add(listener)
      return () => this.#listeners.delete(listener)
    },
  } as unknown as Engine

  /** Something happens: it is stored, and told. */
  happen(changes: Announcement['changes'] = [], data?: string): void {
    const next = event(this.events.length + 1, data)
    this.events.push(next)
    for (const listener of this.#listeners) listener({ events: [next], live: [], changes, now: instant(0) })
  }

  /** The oldest are no longer kept. */
  prune(count: number): void {
    this.first += count
  }
}

function readerOf(log: Log, from: number, gone = new AbortController().signal, endsWith: string | null = null) {
  const filter = { types: [], queues: [], jobTypes: [], subject: null }
  const pieces = new EventStream(log.engine, filter, endsWith).frames(from, gone)[Symbol.asyncIterator]()
  const seen: number[] = []
  const told: string[] = []
  const sizes: number[] = []
  return {
    seen,
    /** All frames by their names, and how large each piece was. */
    told,
    sizes,
    /** Takes one more piece; false at the end. */
    async take(): Promise<boolean> {
      const { value, done } = await pieces.next()
      sizes.push(String(value ?? '').length)
      for (const [, name] of String(value ?? '').matchAll(/^event: (.+)$/gm)) told.push(String(name))
      for (const [, time] of String(value ?? '').matchAll(/"time":"([^"]+)"/g)) seen.push(Date.parse(String(time)))
      return done !== true
    },
  }
}

const upTo = (last: number): number[] => Array.from({ length: last }, (_, index) => index + 1)

test('a reader far behind gets the log piece by piece, no faster than it takes them, and others have their turn', async () => {
  const log = new Log(3_000)
  const reader = readerOf(log, 0)
  await reader.take() // how soon to come back
  await reader.take()
  const first = reader.seen.length
  expect(first).toBeGreaterThan(0)
  expect(first).toBeLessThanOrEqual(100)
  expect(log.looks).toBe(1)
  await reader.take()
  await reader.take()
  expect([log.looks, log.turns]).toEqual([3, 2])
  expect(reader.seen.length).toBeGreaterThan(2 * first)
  expect(reader.seen).toEqual(upTo(reader.seen.length))
})

test('events during the catch-up are sent once, and in order', async () => {
  const log = new Log(1_200)
  const reader = readerOf(log, 0)
  await reader.take()
  while (reader.seen.length < 1_200) {
    await reader.take()
    if (reader.seen.length < 1_200) log.happen()
  }
  while (reader.seen.length < log.events.length) await reader.take()
  const more = reader.take()
  await new Promise((resolve) => setImmediate(resolve))
  log.happen()
  await more
  expect(reader.seen).toEqual(upTo(log.events.length))
})

test('a reader that hung up is not read for any more', async () => {
  const log = new Log(50_000)
  const gone = new AbortController()
  const reader = readerOf(log, 0, gone.signal)
  await reader.take()
  await reader.take()
  gone.abort()
  while (await reader.take());
  expect(log.looks).toBeLessThan(5)
})

describe('a reader that does not read', () => {
  const DATA = JSON.stringify({ text: 'x'.repeat(4_000) })
  /** More than is kept for it, and more than a piece should have. */
  const MANY = 5_000
  const MAX_PIECE = 80 * 1024
  const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve))

  /** A stream that gets events, and a reader that does not read. */
  async function live(log: Log, endsWith: string | null = null) {
    const reader = readerOf(log, log.events.length, undefined, endsWith)
    await reader.take()
    const first = reader.take()
    await turn()
    log.happen()
    await first
    return reader
  }

  test('has little kept for it, and gets everything in its order when it reads again', async () => {
    const log = new Log(10)
    const reader = await live(log)
    for (let n = 0; n < MANY; n += 1) log.happen([], DATA)
    while (reader.seen.length < MANY && (await reader.take())) if (reader.seen.length % 7 === 0) log.happen()
    while (reader.seen.length < log.events.length - 10 && (await reader.take()));
    expect(reader.seen).toEqual(upTo(log.events.length).slice(10))
    expect(Math.max(...reader.sizes)).toBeLessThan(MAX_PIECE)
    const more = reader.take()
    await turn()
    log.happen()
    await more
    expect(reader.seen.at(-1)).toBe(log.events.length)
  })

  test('gets a gap where the events it missed are no longer kept', async () => {
    const log = new Log(10)
    const reader = await live(log)
    for (let n = 0; n < MANY; n += 1) log.happen([], DATA)
    log.prune(3_000)
    while (reader.seen.at(-1) !== log.events.length && (await reader.take()));
    expect(reader.told.filter((name) => name === 'system.gap')).toHaveLength(1)
    const [before, after] = [reader.told.indexOf('system.gap'), reader.seen.indexOf(3_001)]
    expect([before, reader.seen.slice(after)]).toEqual([after, upTo(log.events.length).slice(3_000)])
  })

  test('hears the end of its job when it reads again, once, and last', async () => {
    const log = new Log(10)
    log.job = { id: 'a', state: 'active' }
    const reader = await live(log, 'a')
    for (let n = 0; n < MANY; n += 1) log.happen([], DATA)
    const ended = { id: 'a', queue: 'q', type: 't', from: 'active', to: 'completed', tenant: null } as const
    log.job = { id: 'a', queue: 'q', type: 't', state: 'completed', life: '' } as unknown as Job
    log.happen([ended])
    while (await reader.take());
    expect(reader.seen).toEqual(upTo(log.events.length).slice(10))
    expect(reader.told.lastIndexOf('job.enqueued')).toBe(reader.told.length - 2)
    expect(reader.told.at(-1)).toBe('job.state_changed')
  })
})
