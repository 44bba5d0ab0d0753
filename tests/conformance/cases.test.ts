/** The cases themselves: readable, told apart, and listed in the README with the paragraph they test. */
import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'
import { readCases } from './lib/cases.mjs'

const cases = readCases(fileURLToPath(new URL('cases', import.meta.url)))
const readme = readFileSync(new URL('README.md', import.meta.url), 'utf8')

test('every case can be read', () => {
  expect(cases.filter(({ problem }) => problem !== null)).toEqual([])
  expect(cases.length).toBeGreaterThan(100)
})

test('no two cases share an id', () => {
  expect(new Set(cases.map(({ id }) => id)).size).toBe(cases.length)
})

test('every case says how strongly the specification asks for it', () => {
  const strength = /^(must|should|may)$/
  expect(cases.filter(({ tags }) => tags.filter((tag) => strength.test(tag)).length !== 1)).toEqual([])
})

test.each(cases.map((one) => [one.id, one] as const))('the README says what %s tests', (id, { name, spec, tags }) => {
  const line = readme.split('\n').find((row) => row.startsWith(`| ${id} |`))
  expect(line).toBeDefined()
  expect(line).toContain(name)
  expect(line).toContain(spec.replace('#section-', ' §'))
  expect(line).toContain(`| ${tags[0]} |`)
})
