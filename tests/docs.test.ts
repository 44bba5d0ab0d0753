/** The documentation can be found: every page is in the index, says when to read it, and links to what exists. */
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { describe, expect, test } from 'vitest'

const root = fileURLToPath(new URL('..', import.meta.url))
const read = (path: string): string => readFileSync(join(root, path), 'utf8')
const pagesIn = (folder: string): string[] =>
  readdirSync(join(root, folder))
    .filter((name) => name.endsWith('.md'))
    .map((name) => join(folder, name))

const PAGES = pagesIn('docs').filter((page) => page !== join('docs', 'README.md'))
const DECISIONS = pagesIn('docs/adr').filter((page) => page !== join('docs', 'adr', 'README.md'))
const ALL = [
  ...['README.md', 'ARCHITECTURE.md', 'CONTRIBUTING.md', 'SECURITY.md', 'CHANGELOG.md'],
  ...pagesIn('docs'),
  ...pagesIn('docs/adr'),
]

/** The targets of links and pictures that are files of this repository, without their anchors. */
function linksOf(page: string): string[] {
  const withoutCode = read(page)
    .replaceAll(/^```.*?^```$/gms, '')
    .replaceAll(/`[^`\n]*`/g, '')
  return [...withoutCode.matchAll(/\]\(([^)\s]+)\)/g)]
    .map(([, target]) => target ?? '')
    .filter((target) => !/^(https?:|mailto:|#)/.test(target))
    .map((target) => target.split('#')[0] ?? '')
}

describe.each(PAGES)('%s', (page) => {
  test('begins with when to read it', () => {
    const [title, blank, first] = read(page).split('\n')
    expect([title?.startsWith('# '), blank]).toEqual([true, ''])
    expect(first).toMatch(/^Read this when /)
  })

  test('is in the index', () => {
    expect(linksOf('docs/README.md')).toContain(page.slice('docs/'.length))
  })
})

test('every decision is listed under its own title', () => {
  const index = read('docs/adr/README.md')
  for (const page of DECISIONS) {
    const name = page.slice('docs/adr/'.length)
    const title = /^# \d{4}: (.*)$/m.exec(read(page))?.[1]
    expect(index).toContain(`| [${name.slice(0, 4)}](${name}) | ${String(title)} |`)
  }
})

test.each(ALL)('the links of %s lead to files that exist', (page) => {
  const missing = linksOf(page).filter((target) => !existsSync(join(root, dirname(page), target)))
  expect(missing).toEqual([])
})
