import { expect, test } from 'vitest'
import { CompiledExpressions } from './compiled.ts'

const of = (nodes: number) => ({ nodes })

test('keeps those that were used last', () => {
  const compiled = new CompiledExpressions<{ nodes: number }>()
  for (let n = 0; n < 1_000; n++) compiled.keep(`e${String(n)}`, of(1))
  expect(compiled.get('e0')).toBeDefined()
  compiled.keep('one more', of(1))
  expect(compiled.get('e0')).toBeDefined()
  expect(compiled.get('e1')).toBeUndefined()
  expect(compiled.get('e2')).toBeDefined()
})

test('keeps fewer when they are large', () => {
  const compiled = new CompiledExpressions<{ nodes: number }>()
  for (let n = 0; n < 20; n++) compiled.keep(`e${String(n)}`, of(20_000))
  expect(compiled.get('e9')).toBeUndefined()
  for (let n = 10; n < 20; n++) expect(compiled.get(`e${String(n)}`)).toBeDefined()
  compiled.clear()
  expect(compiled.get('e19')).toBeUndefined()
})
