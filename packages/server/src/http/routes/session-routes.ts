/** Sessions: a browser exchanges a token for a cookie that scripts cannot read, and asks who it is. */
import { elapsed, iso, OjsError } from '@curfew/core'
import type { Caller } from '../../engine/access/caller.ts'
import { callerIfAny, sessionCookie } from '../api/door.ts'
import { JSON_MEDIA, type Answer } from '../api/message.ts'
import type { Call, Route } from '../api/route.ts'

const NO_STORE = { 'Cache-Control': 'no-store' }

function view(caller: Caller | null): object {
  return {
    authenticated: caller !== null && caller.name !== null,
    // False: the server has no tokens, and everyone may do everything.
    token_required: caller?.via !== 'open',
    name: caller?.name ?? null,
    // With those that they include: what may be shown and what must be hidden.
    roles: caller?.roles ?? [],
    via: caller === null ? null : caller.via,
    expires_at: caller?.endsAt == null ? null : iso(caller.endsAt),
  }
}

function signIn(call: Call): Answer {
  const { door, caller, engine, request } = call
  if (caller.via === 'open') return { media: JSON_MEDIA, body: JSON.stringify(view(caller)), headers: NO_STORE }
  const session = door.access.beginSession(request.headers['authorization'] ?? '')
  if (session === null)
    throw new OjsError('unauthenticated', 'A token is needed to sign in.', {
      hint: 'Send "Authorization: Bearer <token>"; a session cannot begin another.',
    })
  const maxAgeS = Math.floor(elapsed(engine.now(), session.endsAt) / 1_000)
  return {
    media: JSON_MEDIA,
    body: JSON.stringify(view({ ...caller, via: 'session', endsAt: session.endsAt })),
    headers: { ...NO_STORE, 'Set-Cookie': sessionCookie(door, request, session.text, maxAgeS) },
  }
}

export const SESSION_ROUTES: readonly Route[] = [
  {
    method: 'GET',
    path: '/api/v1/session',
    tag: 'access',
    summary: 'Who is calling: the name and the roles of the token; open, so that a page can ask whether to sign in',
    open: true,
    handle: ({ door, request }) => ({
      media: JSON_MEDIA,
      body: JSON.stringify(view(callerIfAny(door, request))),
      headers: NO_STORE,
    }),
  },
  {
    method: 'POST',
    path: '/api/v1/session',
    tag: 'access',
    summary: 'Sign in: exchanges the token of the Authorization header for a cookie that lasts 12 hours',
    handle: signIn,
  },
  {
    method: 'DELETE',
    path: '/api/v1/session',
    tag: 'access',
    summary: 'Sign out: removes the cookie',
    handle: ({ door, request }) => ({
      status: 204,
      body: '',
      headers: { ...NO_STORE, 'Set-Cookie': sessionCookie(door, request, null, 0) },
    }),
    answers: { 204: 'Signed out' },
  },
]
