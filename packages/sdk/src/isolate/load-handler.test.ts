import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { loadHandler } from './load-handler.ts'

let home = ''
beforeEach(() => {
  home = mkdtempSync(join(tmpdir(), 'curfew-load-'))
})
afterEach(() => {
  rmSync(home, { recursive: true })
})

test.each(['mail.tsx', 'mail.jsx'])('a module with JSX is loaded (%s)', async (name) => {
  const file = join(home, name)
  writeFileSync(
    file,
    '/** @jsx h */\nconst h = (tag, _props, ...children) => `<${tag}>${children.join("")}</${tag}>`\n' +
      'export const handler = (_ctx, [name]) => <p>Hello {name}</p>\n',
  )
  const loaded = await loadHandler(pathToFileURL(file).href, 'handler')
  if (!loaded.ok || typeof loaded.handler !== 'function') throw new Error(JSON.stringify(loaded))
  expect(await loaded.handler(undefined as never, ['Ada'])).toBe('<p>Hello Ada</p>')
})
