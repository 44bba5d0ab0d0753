/**
 * Addresses of the board. Everything that is shown can be linked to, filters included. The board may lie behind a prefix
 * that only the document's base knows, so paths here always begin at the board itself.
 */
import { batch, signal } from '@preact/signals'

const PREFIX = new URL('.', document.baseURI).pathname

export const path = signal('/')
export const search = signal(new URLSearchParams())

function read(): void {
  const { pathname, search: query } = window.location
  batch(() => {
    path.value = pathname.startsWith(PREFIX) ? `/${pathname.slice(PREFIX.length)}` : '/'
    search.value = new URLSearchParams(query)
  })
}

/** The address of a page, or of the API, as the browser must ask for it. */
export const href = (to: string): string => PREFIX + to.replace(/^\//, '')

export function go(to: string, { replace = false } = {}): void {
  if (replace) window.history.replaceState(null, '', href(to))
  else window.history.pushState(null, '', href(to))
  read()
  if (!replace) {
    window.scrollTo(0, 0)
    // A screen reader reads the new page from its heading on.
    requestAnimationFrame(() => document.querySelector<HTMLElement>('h1')?.focus())
  }
}

/** Changes filters; null removes one. */
export function setFilters(changes: Readonly<Record<string, string | null>>): void {
  const next = new URLSearchParams(search.value)
  for (const [name, value] of Object.entries(changes))
    if (value === null || value === '') next.delete(name)
    else next.set(name, value)
  const query = next.toString()
  go(path.value + (query === '' ? '' : `?${query}`), { replace: true })
}

/** Plain clicks on links of the board stay in the page; all others are the browser's. */
export function startRouter(): void {
  read()
  window.addEventListener('popstate', read)
  document.addEventListener('click', (event) => {
    if (event.defaultPrevented || event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey) return
    const link = (event.target as Element).closest<HTMLAnchorElement>('a[data-board]')
    if (link === null) return
    event.preventDefault()
    go(`/${link.pathname.slice(PREFIX.length)}${link.search}`)
  })
}

/** The segments after this page's own, decoded; null where another page is meant. */
export function partsOf(pattern: string, at: string): readonly string[] | null {
  const [wanted, given] = [pattern.split('/'), at.split('/')]
  if (wanted.length !== given.length) return null
  const found: string[] = []
  for (const [index, segment] of wanted.entries()) {
    const value = given[index] ?? ''
    if (segment === ':') found.push(decode(value))
    else if (segment !== value) return null
  }
  return found
}

function decode(text: string): string {
  try {
    return decodeURIComponent(text)
  } catch {
    return text
  }
}
