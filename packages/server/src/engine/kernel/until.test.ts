import { FakeClock } from '@curfew/core'
import { expect, test } from 'vitest'
import { until } from './until.ts'

/** Listens to nothing but what the test does, and tells how many listen. */
class Bell {
  readonly #hearing = new Set<() => void>()

  readonly listen = (end: () => void): (() => void) => {
    this.#hearing.add(end)
    return () => this.#hearing.delete(end)
  }

  ring(): void {
    for (const end of this.#hearing) end()
  }

  get listeners(): number {
    return this.#hearing.size
  }
}

async function isOver(wait: Promise<void>): Promise<boolean> {
  let over = false
  void wait.then(() => {
    over = true
  })
  for (let turn = 0; turn < 5; turn += 1) await Promise.resolve()
  return over
}

test('a wait ends when its time is up, and not before', async () => {
  const clock = new FakeClock()
  const bell = new Bell()
  const wait = until(clock, { ms: 1_000, listen: bell.listen })
  clock.advance(999)
  expect(await isOver(wait)).toBe(false)
  clock.advance(1)
  expect(await isOver(wait)).toBe(true)
  expect(bell.listeners).toBe(0)
})

test('a wait ends with the first of its signals, and stops listening', async () => {
  const [gone, closing, bell] = [new AbortController(), new AbortController(), new Bell()]
  const wait = until(new FakeClock(), { signals: [gone.signal, closing.signal], listen: bell.listen })
  expect(await isOver(wait)).toBe(false)
  expect(bell.listeners).toBe(1)
  closing.abort()
  expect(await isOver(wait)).toBe(true)
  expect(bell.listeners).toBe(0)
})

test('a wait ends with its event', async () => {
  const bell = new Bell()
  const wait = until(new FakeClock(), { ms: 1_000, listen: bell.listen })
  bell.ring()
  expect(await isOver(wait)).toBe(true)
  expect(bell.listeners).toBe(0)
})

test('an event that comes while the wait begins to listen leaves no listener behind', async () => {
  const bell = new Bell()
  const wait = until(new FakeClock(), {
    listen: (end) => {
      end()
      return bell.listen(end)
    },
  })
  expect(await isOver(wait)).toBe(true)
  expect(bell.listeners).toBe(0)
})

test('a signal that is aborted already ends the wait before it begins', async () => {
  const bell = new Bell()
  const wait = until(new FakeClock(), { signals: [AbortSignal.abort()], ms: 1_000, listen: bell.listen })
  expect(await isOver(wait)).toBe(true)
  expect(bell.listeners).toBe(0)
})
