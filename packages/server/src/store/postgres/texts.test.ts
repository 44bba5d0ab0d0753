import { expect, test } from 'vitest'
import { placeOf, Texts } from './texts.ts'

const lists = (length: number): readonly string[] => ['x'.repeat(length - '[""]'.length)]

/** A table that takes everything, and what it was given. */
function table() {
  const shared: string[] = []
  const texts = new Texts((given) => {
    for (const [, text] of given) shared.push(text)
    return Promise.resolve(given.map(([place, text]) => [place, text]))
  })
  return { shared, texts }
}

test('a text of up to 4 KB is shared when it comes again', async () => {
  const { shared, texts } = table()
  const text = JSON.stringify(lists(4_096))
  expect([texts.refOfText(text), texts.refOfText(text)]).toEqual([text, text])
  await texts.settled()
  expect(shared).toEqual([text])
  expect(texts.refOfText(text)).toBe(placeOf(text))
  expect(texts.value(placeOf(text))).toBe(texts.value(placeOf(text)))
})

test('a longer text stays in its rows however often it comes, and is not remembered', async () => {
  const { shared, texts } = table()
  const value = lists(4_097)
  const text = JSON.stringify(value)
  for (const _ of [1, 2, 3]) {
    expect(texts.ref(value)).toBe(text)
    await texts.settled()
  }
  expect(shared).toEqual([])
  expect(texts.value(text)).toEqual(value)
  expect(texts.value(text)).not.toBe(texts.value(text))
})

test('a longer text that an older server has shared can be read', () => {
  const { texts } = table()
  const value = lists(10_000)
  texts.learn([[7, JSON.stringify(value)]])
  expect(texts.value(7)).toEqual(value)
})
