/**
 * Which calls a server without a token takes. A browser sends requests to loopback on behalf of any web page, so where no
 * token proves who calls, the head of the request has to.
 *
 *   Host    must be a name of this machine or one of `allowedHosts`. A page that has its own name point to this machine
 *           (DNS rebinding) is of the same origin for the browser, but its name is in `Host`.
 *   Origin  must not be that of a page from elsewhere, for everything but reading. Browsers say so in `Sec-Fetch-Site`,
 *           and where they do not, in `Origin`. Programs send neither.
 *
 * No answer carries CORS headers, so a page from elsewhere cannot read one either.
 */
import { OjsError } from '@curfew/core'
import type { HttpRequest } from './message.ts'

type Head = Pick<HttpRequest, 'method' | 'headers'>

export const READS: ReadonlySet<string> = new Set(['GET', 'HEAD', 'OPTIONS'])
/** A name or an address, then perhaps a port. */
const HOST = /^(\[[0-9a-f:.]+\]|[^\s:@/?#[\]]+)(?::\d{1,5})?$/i
const LOOPBACK = /^(?:(?:[a-z0-9_-]+\.)*localhost\.?|127(?:\.(?:25[0-5]|2[0-4]\d|1?\d?\d)){3}|\[::1\])$/i
const HOST_PATTERN = /^(?:\.?[a-z0-9_-]+(?:\.[a-z0-9_-]+)*|\[[0-9a-f:.]+\])$/i

/** Why the call is not taken, or null. `allowedHosts`: names, and with a leading dot all names below one. */
export function foreignCall({ method, headers }: Head, allowedHosts: readonly string[]): OjsError | null {
  const { host } = headers
  // Only calls in the same process and HTTP/1.0 have no Host; browsers always send one.
  if (host !== undefined && !isServed(host, allowedHosts)) return foreignHost(host)
  return READS.has(method) ? null : changesForAPage({ headers })
}

/** Why a call that changes something is not taken: a page of another origin asks for it. */
export function changesForAPage({ headers }: Pick<Head, 'headers'>): OjsError | null {
  const { host, origin, 'sec-fetch-site': site } = headers
  // A proxy may have written its own `Host`, so here the browser's word counts, whatever the origin.
  if (site === 'same-origin') return null
  if (site !== undefined && site !== 'none') return foreignPage('Sec-Fetch-Site')
  return origin === undefined || isOriginOf(host, origin) ? null : foreignPage('Origin')
}

/** The names in a comma list, and the first that cannot be one. */
export function readAllowedHosts(text: string): { readonly hosts: readonly string[]; readonly bad: string | null } {
  const hosts = text
    .split(',')
    .map((part) => part.trim().toLowerCase())
    .filter((part) => part !== '')
  return { hosts, bad: hosts.find((name) => !HOST_PATTERN.test(name)) ?? null }
}

function isServed(host: string, allowedHosts: readonly string[]): boolean {
  const name = HOST.exec(host)?.[1]
  if (name === undefined) return false
  if (LOOPBACK.test(name)) return true
  const lower = name.toLowerCase().replace(/\.$/, '')
  return allowedHosts.some((allowed) =>
    allowed.startsWith('.') ? lower === allowed.slice(1) || lower.endsWith(allowed) : lower === allowed,
  )
}

/** Compared by the scheme of the origin, which says what a missing port means. `null` matches no origin. */
function isOriginOf(host: string | undefined, origin: string): boolean {
  if (host === undefined || !HOST.test(host) || !URL.canParse(origin)) return false
  const page = new URL(origin)
  const here = `${page.protocol}//${host}`
  return page.host !== '' && URL.canParse(here) && new URL(here).host === page.host
}

function foreignHost(host: string): OjsError {
  const name = JSON.stringify(host.slice(0, 100))
  return new OjsError('permission_denied', `This server has no token and does not serve the host name ${name}.`, {
    details: { header: 'Host' },
    hint: 'Call it as localhost or 127.0.0.1, name the host with --allowed-hosts (CURFEW_ALLOWED_HOSTS), or set a token.',
  })
}

function foreignPage(header: 'Origin' | 'Sec-Fetch-Site'): OjsError {
  return new OjsError('permission_denied', 'A web page of another origin may not change anything on this server.', {
    details: { header },
    hint: `Call from a program, which sends no ${header}, or from a page of this server; or set a token and send it.`,
  })
}
