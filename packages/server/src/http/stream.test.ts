/** How a stream reads a long log: a log that is counted, and a reader that takes one piece at a time. */
import { instant } from '@curfew/core'
import { expect, test } from 'vitest'
import type { Engine, Told } from '../engine/engine.ts'
import type { StoredEvent } from '../store/store.ts'
import { EventStream } from './stream.ts'

const event = (sequence: number): StoredEvent => ({
  sequence,
  type: 'job.enqueued',
  at: instant(sequence),
  subject: 'a',
  queue: 'q',
  jobType: 't',
  data: '{}',
})

class Log {
  readonly events: StoredEvent[]
  readonly #listeners = new Set<(told: Told) => void>()
  /** How often a piece of it was read, and how often others had their turn. */
  looks = 0
  turns = 0

  constructor(count: number) {
    this.events = Array.from({ length: count }, (_, index) => event(index + 1))
  }

  readonly engine = {
    store: {
      eventBounds: () => Promise.resolve({ first: 1, last: this.events.length }),
      eventsAfter: (place: number, most: number) => {
        this.looks += 1
        return Promise.resolve(this.events.slice(place, place + most))
      },
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
    listen: (listener: (told: Told) => void) => {
      this.#listeners.add(listener)
      return () => this.#listeners.delete(listener)
    },
  } as unknown as Engine

  /** Something happens: it is stored, and told. */
  happen(): void {
    const next = event(this.events.length + 1)
    this.events.push(next)
    for (const listener of this.#listeners) listener({ events: [next], live: [], changes: [], now: instant(0) })
  }
}

function readerOf(log: Log, from: number, gone = new AbortController().signal) {
  const filter = { types: [], queues: [], jobTypes: [], subject: null }
  const pieces = new EventStream(log.engine, filter, null).frames(from, gone)[Symbol.asyncIterator]()
  const seen: number[] = []
  return {
    seen,
    /** Takes one more piece; false at the end. */
    async take(): Promise<boolean> {
      const { value, done } = await pieces.next()
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
  expect([reader.seen.length, log.looks]).toEqual([500, 1])
  await reader.take()
  await reader.take()
  expect([reader.seen.length, log.looks, log.turns]).toEqual([1_500, 3, 2])
})

test('what happens while it catches up is told once, and in its place', async () => {
  const log = new Log(1_200)
  const reader = readerOf(log, 0)
  await reader.take()
  while (reader.seen.length < 1_200) {
    await reader.take()
    if (reader.seen.length < 1_200) log.happen()
  }
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
