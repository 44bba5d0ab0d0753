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

/** The targets of links and pictures that are in this repository. */
function targetsOf(page: string): { file: string; anchor: string | undefined }[] {
  const withoutCode = read(page)
    .replaceAll(/^```.*?^```$/gms, '')
    .replaceAll(/`[^`\n]*`/g, '')
  return [...withoutCode.matchAll(/\]\(([^)\s]+)\)/g)]
    .map(([, target]) => target ?? '')
    .filter((target) => !/^(https?:|mailto:)/.test(target))
    .map((target) => {
      const [file = '', anchor] = target.split('#')
      return { file, anchor }
    })
}

const linksOf = (page: string): string[] =>
  targetsOf(page)
    .map(({ file }) => file)
    .filter((file) => file !== '')

/** As GitHub makes them from headings. */
function anchorsOf(page: string): Set<string> {
  const headings = [
    ...read(page)
      .replaceAll(/^```.*?^```$/gms, '')
      .matchAll(/^#+ (.*)$/gm),
  ]
  const slug = (text: string): string =>
    text
      .toLowerCase()
      .replaceAll(/[^\p{L}\p{N}_ -]/gu, '')
      .replaceAll(' ', '-')
  return new Set(headings.map(([, text]) => slug(text ?? '')))
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

test('the example of durable steps is the file that the types are checked of', () => {
  const [, block] = /^```ts\n(.*?)^```$/ms.exec(read('docs/steps.md')) ?? []
  expect(block).toBe(read('tests/docs-examples/steps.ts'))
})

test('every decision is listed under its own title', () => {
  const index = read('docs/adr/README.md')
  for (const page of DECISIONS) {
    const name = page.slice('docs/adr/'.length)
    const title = /^# \d{4}: (.*)$/m.exec(read(page))?.[1]
    expect(index).toContain(`| [${name.slice(0, 4)}](${name}) | ${String(title)} |`)
  }
})

test.each(ALL)('the links of %s lead to files and headings that exist', (page) => {
  const missing = linksOf(page).filter((target) => !existsSync(join(root, dirname(page), target)))
  expect(missing).toEqual([])
  const lost = targetsOf(page).filter(({ file, anchor }) => {
    const target = file === '' ? page : join(dirname(page), file)
    return anchor !== undefined && target.endsWith('.md') && !anchorsOf(target).has(anchor)
  })
  expect(lost).toEqual([])
})
