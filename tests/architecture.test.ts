/** The files that the documents about the code name are there. */
import { existsSync, readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'

const root = fileURLToPath(new URL('..', import.meta.url))
const FOLDERS: Readonly<Record<string, string>> = {
  core: 'packages/core/src',
  sdk: 'packages/sdk/src',
  ...Object.fromEntries(['engine', 'http', 'store', 'net'].map((name) => [name, `packages/server/src/${name}`])),
}
const MENTION = /`(core|sdk|engine|http|store|net)\/([\w./-]+\.ts)`/g

function named(file: string): string[] {
  const text = readFileSync(`${root}/${file}`, 'utf8')
  return [...text.matchAll(MENTION)].map(([, folder = '', path = '']) => `${FOLDERS[folder] ?? ''}/${path}`)
}

test.each(['ARCHITECTURE.md', 'docs/internals.md'])('every file that %s names is there', (file) => {
  const files = named(file)
  expect(files.length).toBeGreaterThan(5)
  expect(files.filter((path) => !existsSync(`${root}/${path}`))).toEqual([])
})

test('the paths of an enqueue, an ack, an expiry and a call of a journey can be followed from file to file', () => {
  const [, ack = '', time = '', call = ''] = readFileSync(`${root}/ARCHITECTURE.md`, 'utf8').split('\n## The path of ')
  for (const path of [ack, time, call]) expect(path.match(MENTION)?.length ?? 0).toBeGreaterThanOrEqual(5)
})
