/**
 * The board: a page that is the same at every address of the board, and the files it loads. Both hold no data, so they are
 * open without a token; everything they show, they ask of the API.
 *
 * The page names its files by relative addresses, and says with `<base>` how far up they are. So it works behind a proxy
 * that puts a prefix before every path, without knowing the prefix.
 */
import { readdirSync, readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { OjsError } from '@curfew/core'
import type { Answer } from '../api/message.ts'
import { param, type Call, type Route } from '../api/route.ts'
import { pageAnswer, pageOf } from './page.ts'

/** Beside what the server was compiled to; when it runs from its sources, where the last build put it. */
const PLACES = ['../../board/', '../../../dist/board/'].map((path) => fileURLToPath(new URL(path, import.meta.url)))

const PAGES = [
  ...['/', '/jobs', '/jobs/:id', '/timeouts', '/queues', '/queues/:name', '/workers', '/workers/:id', '/dead-letters'],
  ...['/workflows', '/workflows/:id', '/runs', '/runs/:id', '/cron', '/types', '/types/:type', '/incident'],
  ...['/settings', '/sign-in'],
]

/** Nothing inline, nothing from elsewhere, no text that becomes script. */
const POLICY = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "img-src 'self' data:",
  "connect-src 'self'",
  "base-uri 'self'",
  "form-action 'self'",
  "frame-ancestors 'none'",
  "require-trusted-types-for 'script'",
].join('; ')

const SAFE = {
  'X-Content-Type-Options': 'nosniff',
  'Referrer-Policy': 'no-referrer',
  'Cross-Origin-Opener-Policy': 'same-origin',
}

const MEDIA: Readonly<Record<string, string>> = {
  js: 'text/javascript; charset=utf-8',
  css: 'text/css; charset=utf-8',
  svg: 'image/svg+xml',
}

interface Files {
  readonly shell: string
  readonly byName: ReadonlyMap<string, { readonly text: string; readonly gzipped: string }>
}

let files: Files | null = null

/** Read once; null where the board was not built. */
function builtFiles(): Files | null {
  for (const place of files === null ? PLACES : []) {
    const folder = `${place}board/`
    const shown = namesIn(folder).filter((name) => mediaOf(name) !== undefined)
    if (shown.length === 0) continue
    files = {
      shell: readFileSync(`${place}index.html`, 'utf8'),
      byName: new Map(
        shown.map((name) => [
          name,
          { text: readFileSync(folder + name, 'utf8'), gzipped: readFileSync(`${folder}${name}.gz`, 'latin1') },
        ]),
      ),
    }
    break
  }
  return files
}

function namesIn(place: string): readonly string[] {
  try {
    return readdirSync(place)
  } catch {
    return []
  }
}

const mediaOf = (name: string): string | undefined => MEDIA[name.slice(name.lastIndexOf('.') + 1)]

const NOT_BUILT = pageOf({
  title: 'Curfew',
  refreshS: null,
  body: '<header><h1>The board is not built</h1></header><p>Run <code>npm run build</code> and start the server again.</p>',
})

function page({ request }: Call): Answer {
  const built = builtFiles()
  if (built === null) return pageAnswer(NOT_BUILT, 503)
  const path = request.url.replace(/\?.*$/s, '')
  const up = '../'.repeat(path.split('/').length - 2)
  return {
    media: 'text/html; charset=utf-8',
    headers: { ...SAFE, 'Content-Security-Policy': POLICY, 'Cache-Control': 'no-cache' },
    body: built.shell.replace(/<base href="[^"]*"/, `<base href="./${up}"`),
  }
}

function file(call: Call): Answer {
  const name = param(call, 'file')
  const found = builtFiles()?.byName.get(name)
  if (found === undefined) throw new OjsError('not_found', 'The board has no such file.')
  const headers = {
    ...SAFE,
    // The name of a file changes with what is in it.
    'Cache-Control': 'public, max-age=31536000, immutable',
    Vary: 'Accept-Encoding',
  }
  const media = mediaOf(name) ?? ''
  if (!/\bgzip\b/.test(call.request.headers['accept-encoding'] ?? '')) return { media, headers, body: found.text }
  return { media, headers: { ...headers, 'Content-Encoding': 'gzip' }, body: found.gzipped, isBytes: true }
}

export const BOARD_ROUTES: readonly Route[] = [
  ...PAGES.map((path): Route => ({
    method: 'GET',
    path,
    tag: 'board',
    summary: 'The board (HTML)',
    open: true,
    // Filters are the page's own, and go with its address.
    bindsQuery: true,
    handle: page,
  })),
  { method: 'GET', path: '/board/:file', tag: 'board', summary: 'A file of the board', open: true, handle: file },
]
