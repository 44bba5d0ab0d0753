import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { makeHandler } from './handlers.ts'

let home = ''
beforeEach(() => {
  home = mkdtempSync(join(tmpdir(), 'curfew-handlers-'))
})
afterEach(() => {
  rmSync(home, { recursive: true })
})

const put = (...names: string[]): void => {
  for (const name of names) writeFileSync(join(home, name), 'export default () => null\n')
}
const urlOf = (name: string): string => pathToFileURL(join(home, name)).href
const moduleOf = (module: URL | string): string | null =>
  makeHandler('video.transcode', { module, isolation: 'process' }, null, {}).module

describe('the module of a handler', () => {
  test.each([
    ['x.ts', 'x.js'],
    ['x.js', 'x.ts'],
    ['x.mts', 'x.mjs'],
    ['x.mjs', 'x.mts'],
    ['x.cts', 'x.cjs'],
    ['x.cjs', 'x.cts'],
    ['x.tsx', 'x.jsx'],
    ['x.jsx', 'x.tsx'],
    ['x.tsx', 'x.js'],
    ['x.js', 'x.tsx'],
  ])('given as %s is found as %s', (named, there) => {
    put(there)
    expect(moduleOf(new URL(urlOf(named)))).toBe(urlOf(there))
    expect(moduleOf(urlOf(named))).toBe(urlOf(there))
    expect(moduleOf(join(home, named))).toBe(urlOf(there))
  })

  test('that is there is taken as it was named, whatever lies beside it', () => {
    put('x.ts', 'x.js')
    expect(moduleOf(new URL(urlOf('x.ts')))).toBe(urlOf('x.ts'))
    expect(moduleOf(new URL(urlOf('x.js')))).toBe(urlOf('x.js'))
  })

  test('is not guessed: two candidates, or another extension, leave the name as it was given', () => {
    put('x.ts', 'x.tsx', 'y.mjs')
    expect(moduleOf(new URL(urlOf('x.js')))).toBe(urlOf('x.js'))
    expect(moduleOf(new URL(urlOf('y.js')))).toBe(urlOf('y.js'))
    expect(moduleOf(new URL(urlOf('none.js')))).toBe(urlOf('none.js'))
  })

  test('keeps its query, and is left alone when it is not a file', () => {
    put('a b.js')
    expect(moduleOf(new URL(`${urlOf('a b.ts')}?v=2`))).toBe(`${urlOf('a b.js')}?v=2`)
    expect(moduleOf(new URL('data:text/javascript,export default 1'))).toBe('data:text/javascript,export default 1')
  })
})
