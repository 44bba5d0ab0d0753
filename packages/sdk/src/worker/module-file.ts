/**
 * The file that a handler's module is in. An application names it once, as `new URL('./x.ts', import.meta.url)` or with
 * `./x.js`; compilation changes the extension of the file, not of the name in the code. So either spelling finds the file
 * that is there.
 */
import { existsSync } from 'node:fs'
import { fileURLToPath, pathToFileURL } from 'node:url'

/** What a compiler makes of a source, and which source a compiled file comes from. */
const COUNTERPARTS: Readonly<Record<string, readonly string[]>> = {
  '.ts': ['.js'],
  '.js': ['.ts', '.tsx'],
  '.mts': ['.mjs'],
  '.mjs': ['.mts'],
  '.cts': ['.cjs'],
  '.cjs': ['.cts'],
  '.tsx': ['.jsx', '.js'],
  '.jsx': ['.tsx'],
}

/** The URL as it was given, unless that file is missing and exactly one counterpart is there. */
export function moduleFile(module: URL | string): string {
  const given = module instanceof URL ? module : module.startsWith('file:') ? new URL(module) : pathToFileURL(module)
  if (given.protocol !== 'file:' || existsSync(fileURLToPath(given))) return given.href
  const extension = /\.\w+$/.exec(given.pathname)?.[0] ?? ''
  const there = (COUNTERPARTS[extension] ?? [])
    .map((other) => withPath(given, given.pathname.slice(0, -extension.length) + other))
    .filter((url) => existsSync(fileURLToPath(url)))
  return (there.length === 1 ? there[0] : undefined)?.href ?? given.href
}

function withPath(url: URL, pathname: string): URL {
  const other = new URL(url)
  other.pathname = pathname
  return other
}
