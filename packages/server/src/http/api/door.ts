/**
 * Who may come in, by the head of a request. On a server with tokens a call brings one of two things:
 *
 *   Authorization: Bearer …     a token. Web pages of other origins cannot send it.
 *   Cookie: curfew_session=…    a session, which a browser sends by itself. A call that changes something must also have
 *                               the header X-Curfew-Request, which a page of another origin cannot send without asking
 *                               this server first (CORS), and this server never agrees.
 *
 * The header wins: with a token that is refused, the cookie is not looked at.
 */
import { OjsError, ROLES, type Role } from '@curfew/core'
import type { Access } from '../../engine/access/access.ts'
import { ANYONE, isRefused, type Caller, type Refused } from '../../engine/access/caller.ts'
import type { HttpRequest } from './message.ts'
import { changesForAPage, foreignCall, READS } from './origin.ts'

const COOKIE = 'curfew_session'
/** Over TLS: browsers take this name only with Secure, for this host alone (RFC 6265bis §4.1.3.2). */
const SECURE_COOKIE = `__Host-${COOKIE}`
export const PAGE_HEADER = 'x-curfew-request'

export interface Door {
  readonly access: Access
  readonly allowedHosts: readonly string[]
  /** Callers reach this server by TLS, without a proxy. */
  readonly isTls: boolean
}

/** The caller of a route that these bits of roles may call. Throws a refusal. */
export function admit(door: Door, request: HttpRequest, bits: number, roles: readonly Role[]): Caller {
  const { access, allowedHosts } = door
  if (access.isOpen) {
    const foreign = foreignCall(request, allowedHosts)
    if (foreign !== null) throw foreign
    return ANYONE
  }
  const caller = callerOf(door, request)
  if (isRefused(caller)) throw refusalOf(caller)
  if (caller.via === 'session') refuseForeignPage(request)
  if ((caller.bits & bits) === 0) throw missingRole(caller, roles)
  return caller
}

/** Who calls a route that is open to everyone; null: it brings nothing, or nothing that counts. */
export function callerIfAny(door: Door, request: HttpRequest): Caller | null {
  if (door.access.isOpen) return ANYONE
  const caller = callerOf(door, request)
  return isRefused(caller) ? null : caller
}

function callerOf({ access, isTls }: Door, { headers }: HttpRequest): Caller | Refused {
  const { authorization, cookie } = headers
  if (authorization !== undefined) {
    const caller = access.byHeader(authorization)
    return isRefused(caller) && !/^Bearer +./i.test(authorization) ? { refused: 'nothing' } : caller
  }
  const session = cookie === undefined ? null : sessionIn(cookie, isTls)
  return session === null ? { refused: 'nothing' } : access.bySession(session)
}

// ---- Cookies ----

/** The session among the cookies. Over TLS only the cookie that no other host and no plain connection can have set. */
export function sessionIn(cookie: string, isTls: boolean): string | null {
  let plain: string | null = null
  for (const pair of cookie.split(';', 100)) {
    const at = pair.indexOf('=')
    const name = pair.slice(0, at).trim()
    if (name === SECURE_COOKIE) return pair.slice(at + 1).trim()
    if (name === COOKIE && !isTls) plain ??= pair.slice(at + 1).trim()
  }
  return plain
}

/** `Set-Cookie` for a session; null ends it. */
export function sessionCookie({ isTls }: Door, request: HttpRequest, session: string | null, maxAgeS: number): string {
  // Behind a proxy that ends TLS, the page's own address tells.
  const isSecure = isTls || request.headers['origin']?.startsWith('https://') === true
  const secure = isSecure ? '; Secure' : ''
  return `${isSecure ? SECURE_COOKIE : COOKIE}=${session ?? ''}; Path=/; Max-Age=${String(maxAgeS)}; HttpOnly; SameSite=Strict${secure}`
}

function refuseForeignPage(request: HttpRequest): void {
  if (READS.has(request.method)) return
  const foreign = changesForAPage(request)
  if (foreign !== null) throw foreign
  if ((request.headers[PAGE_HEADER] ?? '') !== '') return
  throw new OjsError('permission_denied', 'A change with a session needs the header X-Curfew-Request.', {
    details: { header: 'X-Curfew-Request' },
    hint: 'Send "X-Curfew-Request: 1" with every request that is not a GET, or send a token as "Authorization: Bearer <token>".',
  })
}

// ---- Refusals ----

function refusalOf(why: Refused): OjsError {
  switch (why.refused) {
    case 'nothing':
      return new OjsError('unauthenticated', 'A token is needed.')
    case 'unknown':
      return new OjsError('unauthenticated', 'The token that was sent is not valid.')
    case 'revoked':
      return new OjsError('unauthenticated', `The token ${why.name} was revoked.`, {
        details: { token: why.name },
        hint: 'Ask an administrator for another token.',
      })
    case 'rotated':
      return new OjsError(
        'unauthenticated',
        `The token ${why.name} was rotated, and the time for its old secret is over.`,
        {
          details: { token: why.name },
          hint: 'Use the secret that its last rotation gave.',
        },
      )
    case 'session':
      return new OjsError('unauthenticated', 'The session has ended.', {
        hint: 'Sign in again, or send "Authorization: Bearer <token>".',
      })
    case 'throttled':
      return new OjsError('rate_limited', 'Too many wrong tokens were sent to this server; this one was not checked.', {
        hint: 'Send it again after the time in Retry-After.',
      })
  }
}

function missingRole({ name, roles }: Caller, needed: readonly Role[]): OjsError {
  const wanted = ROLES.filter((role) => needed.includes(role))
  const has = roles.length === 0 ? 'none' : roles.join(', ')
  return new OjsError(
    'permission_denied',
    `This needs the role ${wanted.join(' or ')}; the token ${name ?? ''} has ${has}.`,
    {
      details: { required_roles: wanted, roles: [...roles] },
      hint: 'Use a token that has the role, or ask an administrator for one.',
    },
  )
}
