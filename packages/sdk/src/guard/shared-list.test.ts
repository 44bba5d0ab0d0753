import { expect, test } from 'vitest'
import { ListReader, ListWriter } from './shared-list.ts'

const attempt = (jobId: string, lease: number) => ({ key: `${jobId}#${String(lease)}`, jobId, lease })

function pair(): { writer: ListWriter; reader: ListReader } {
  const writer = new ListWriter()
  return { writer, reader: new ListReader(writer.buffer) }
}

test('what was put in is read until it is taken out', () => {
  const { writer, reader } = pair()
  const [first, second] = [attempt('01a1f06a-f49a-7481-bfe6-1efd65e60b07', 2 ** 40), attempt('b', 1)]
  expect(writer.add(first)).toBe(true)
  expect(writer.add(second)).toBe(true)
  expect(reader.read()).toEqual([first, second])
  expect(writer.remove(first.key)).toBe(true)
  expect(writer.remove(first.key)).toBe(false)
  expect(reader.read()).toEqual([second])
})

test('places are used again, however often attempts come and go', () => {
  const { writer, reader } = pair()
  const stays = attempt('stays', 9_999)
  writer.add(stays)
  for (let n = 0; n < 5_000; n += 1) {
    expect(writer.add(attempt(`job-${String(n)}`, n + 1))).toBe(true)
    if (n >= 700) expect(writer.remove(`job-${String(n - 700)}#${String(n - 699)}`)).toBe(true)
  }
  const left = reader.read().map(({ lease }) => lease)
  expect(left.sort((one, other) => one - other)).toEqual([
    ...Array.from({ length: 700 }, (_, n) => 4_301 + n),
    stays.lease,
  ])
})

test('what does not fit is refused, and leaves nothing behind', () => {
  const { writer, reader } = pair()
  expect(writer.add(attempt('x'.repeat(49), 1))).toBe(false)
  expect(writer.add(attempt('ä', 1))).toBe(false)
  for (let n = 0; n < 1_024; n += 1) expect(writer.add(attempt(String(n), 1))).toBe(true)
  expect(writer.add(attempt('one more', 1))).toBe(false)
  expect(reader.read()).toHaveLength(1_024)
  expect(reader.begun(0)).toBe(1_024)
})

test('an attempt that goes by a message counts once its message was read, and only then do the attempts after it', () => {
  const { writer, reader } = pair()
  writer.add(attempt('a', 1))
  expect(reader.begun(0)).toBe(1)
  writer.posts(true)
  writer.add(attempt('b', 1))
  expect(reader.begun(0)).toBe(1)
  expect(reader.begun(1)).toBe(3)
  // Announced once more: it was counted already.
  writer.posts(false)
  expect(reader.begun(1)).toBe(3)
  expect(reader.begun(2)).toBe(3)
})

test('attempts are counted beyond what 32 bits hold', () => {
  for (const before of [2 ** 31 - 2, 2 ** 32 - 2, 2 ** 40]) {
    const writer = new ListWriter(before)
    const reader = new ListReader(writer.buffer, before)
    for (let n = 1; n <= 4; n += 1) {
      expect(writer.add(attempt(String(n), n))).toBe(true)
      expect(reader.begun(0)).toBe(before + n)
    }
    expect(reader.read().map(({ lease }) => lease)).toEqual([1, 2, 3, 4])
  }
})
