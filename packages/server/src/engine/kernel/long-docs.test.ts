import { FakeClock, instant, MAX_PIECE, type Doc, type DocKind, type LongText } from '@curfew/core'
import { expect, test } from 'vitest'
import { LongDocs } from './long-docs.ts'

/** Counts the turns of the event loop that are asked for. */
class CountingClock extends FakeClock {
  turns = 0
  override defer(run: () => void): void {
    this.turns += 1
    super.defer(run)
  }
}

const LONG = 3 * MAX_PIECE
const docOf = (body: string, id = 'a'): Doc => ({ kind: 'list', id, version: 1, wakeAt: instant(0), body })
const textOf = (filler: string, length = LONG): string => JSON.stringify(Array(length / 4).fill(filler))

test('a long body is parsed in turns, and the same body once', async () => {
  const clock = new CountingClock()
  const docs = new LongDocs(clock)
  const body = textOf('a')
  const first = await docs.read(docOf(body))
  expect(JSON.stringify(first) === body).toBe(true)
  const { turns } = clock
  expect(turns).toBeGreaterThanOrEqual(3)
  expect(docs.read(docOf(`${body.slice(0, 9)}${body.slice(9)}`))).toBe(first)
  expect(clock.turns).toBe(turns)
})

test('a body that another server wrote is read anew, even where the version is the same', async () => {
  const docs = new LongDocs(new FakeClock())
  await docs.read(docOf(textOf('a')))
  // Not toEqual: the difference of two long lists takes minutes to print.
  expect(JSON.stringify(await docs.read(docOf(textOf('b')))) === textOf('b')).toBe(true)
})

test('a short body is parsed at once, and is a value of its own each time', () => {
  const docs = new LongDocs(new FakeClock())
  const [first, second] = [docs.read(docOf('[1]')), docs.read(docOf('[1]'))]
  expect(first).toEqual([1])
  expect(second).not.toBe(first)
})

interface Listed {
  readonly entries: readonly string[]
}

/** Makes an entry a turn, and none twice. */
class Entries implements LongText<Listed> {
  readonly #made = new Set<string>();
  *of({ entries }: Listed): Generator<void, string> {
    for (const entry of entries) {
      if (this.#made.has(entry)) continue
      this.#made.add(entry)
      yield
    }
    return JSON.stringify({ entries })
  }
}

const LIST: DocKind<Listed> = {
  kind: 'list',
  wakeAt: () => null,
  long: { isLong: ({ entries }) => entries.length > 1, text: () => new Entries() },
}
const filled = (entry: string): string => entry.padEnd(LONG)

test('what was prepared is written without a turn, and is not parsed when it is read again', async () => {
  const clock = new CountingClock()
  const docs = new LongDocs(clock)
  const record = { entries: [filled('one'), filled('two')] }
  await docs.prepare(LIST, 'a', record)
  expect(clock.turns).toBe(2)
  const body = JSON.stringify(record)
  expect(docs.write(LIST, 'a', record)).toBe(body)
  expect(docs.read(docOf(body))).toBe(record)
  expect(clock.turns).toBe(2)
})

test('what is prepared does not replace what is stored', async () => {
  const docs = new LongDocs(new FakeClock())
  const stored = { entries: [filled('one'), filled('two')] }
  const body = String(await docs.write(LIST, 'a', stored))
  await docs.prepare(LIST, 'a', { entries: [filled('one'), filled('three')] })
  expect(docs.read(docOf(body))).toBe(stored)
})

test('a record that is not long is left to its writer', () => {
  const docs = new LongDocs(new FakeClock())
  expect(docs.write(LIST, 'a', { entries: ['one'] })).toBeNull()
  expect(docs.write({ kind: 'list', wakeAt: () => null }, 'a', { entries: ['one', 'two'] })).toBeNull()
})

test('only the last documents are remembered', async () => {
  const clock = new CountingClock()
  const docs = new LongDocs(clock)
  const body = textOf('a', MAX_PIECE + 4)
  await docs.read(docOf(body, 'first'))
  for (let n = 0; n < 64; n += 1) await docs.read(docOf(body, String(n)))
  const { turns } = clock
  await docs.read(docOf(body, '63'))
  expect(clock.turns).toBe(turns)
  await docs.read(docOf(body, 'first'))
  expect(clock.turns).toBeGreaterThan(turns)
})
