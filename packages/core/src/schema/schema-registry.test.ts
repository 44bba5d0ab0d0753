import fc from 'fast-check'
import { expect, test } from 'vitest'
import { fullVersion, newerFirst } from './schema-registry.ts'

test.each([
  [2, '2.0.0'],
  ['2', '2.0.0'],
  ['2.1', '2.1.0'],
  ['02.001.0', '2.1.0'],
  ['1.2.3', '1.2.3'],
  ['1.2.3.4', null],
  ['v1', null],
  ['1.2.3-rc.1', null],
  ['', null],
  [-1, null],
  [1.5, '1.5.0'],
  [null, null],
  [{}, null],
])('%j is version %s', (written, expected) => {
  expect(fullVersion(written)).toBe(expected)
})

test('versions are ordered by their numbers, the newest first', () => {
  expect(['1.9.0', '1.10.0', '2.0.0', '1.10.1'].sort(newerFirst)).toEqual(['2.0.0', '1.10.1', '1.10.0', '1.9.0'])
  const version = fc.tuple(fc.nat(99), fc.nat(99), fc.nat(99))
  fc.assert(
    fc.property(version, version, (a, b) => {
      const difference = (b[0] - a[0]) * 1e6 + (b[1] - a[1]) * 1e3 + (b[2] - a[2])
      expect(Math.sign(newerFirst(a.join('.'), b.join('.')))).toBe(Math.sign(difference))
    }),
  )
})
