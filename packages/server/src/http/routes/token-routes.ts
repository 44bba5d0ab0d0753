/** Tokens by name: made, listed, rotated and revoked. The token itself is shown once, in the answer that made it. */
import {
  DEFAULT_OVERLAP_MS,
  iso,
  NEW_TOKEN_SHAPE,
  ROTATION_SHAPE,
  TOKEN_NAME_SHAPE,
  type Instant,
  type Token,
} from '@curfew/core'
import { create, lastUses, revoke, rotate, secretsInForce, type Issued } from '../../engine/access/tokens.ts'
import { JSON_MEDIA, type Answer } from '../api/message.ts'
import { bodyOf, param, type Call, type Route } from '../api/route.ts'

const NO_STORE = { 'Cache-Control': 'no-store' }

const orNull = (at: Instant | null | undefined): string | null => (at == null ? null : iso(at))

function view(token: Token, now: Instant, usedAt: Instant | null): object {
  const { name, roles, createdAt, createdBy, rotatedAt, revokedAt, secrets } = token
  const [old, newest] = [secrets.at(-2), secrets.at(-1)]
  return {
    name,
    roles,
    state: revokedAt === null ? 'valid' : 'revoked',
    // Enough to tell which token a configuration holds.
    prefix: newest === undefined ? null : `curfew_${newest.id}`,
    valid_secrets: secretsInForce(token, now),
    old_secret_until: orNull(old !== undefined && secretsInForce(token, now) > 1 ? old.endsAt : null),
    created_at: iso(createdAt),
    created_by: createdBy,
    rotated_at: orNull(rotatedAt),
    revoked_at: orNull(revokedAt),
    last_used_at: orNull(usedAt),
  }
}

function issued({ engine }: Call, { token, text }: Issued, status: number): Answer {
  const body = { ...view(token, engine.now(), null), token: text }
  return { status, media: JSON_MEDIA, body: JSON.stringify(body), headers: NO_STORE }
}

const nameOf = (call: Call): string => TOKEN_NAME_SHAPE.read(param(call, 'name'), 'name')

export const TOKEN_ROUTES: readonly Route[] = [
  {
    method: 'GET',
    path: '/api/v1/tokens',
    tag: 'access',
    summary: 'All tokens by name, revoked ones included, and when each was last used',
    handle: async ({ engine, door }) => {
      const uses = await lastUses(engine, door.access)
      const now = engine.now()
      const items = door.access.tokens.map((token) => view(token, now, uses.get(token.name) ?? null))
      return { media: JSON_MEDIA, body: JSON.stringify({ items }), headers: NO_STORE }
    },
  },
  {
    method: 'POST',
    path: '/api/v1/tokens',
    tag: 'access',
    summary: 'Create a token; its text is in this answer and nowhere else',
    body: { shape: NEW_TOKEN_SHAPE },
    answers: { 201: 'Created', 409: 'There is a token of this name, or the first token has not the role admin' },
    handle: async (call) => {
      const { name, roles } = bodyOf(call, NEW_TOKEN_SHAPE)
      return issued(call, await create(call.engine, call.door.access, { name, roles, by: call.caller.name }), 201)
    },
  },
  {
    method: 'POST',
    path: '/api/v1/tokens/:name/rotate',
    tag: 'access',
    summary: 'A new secret for a token; the one before stays valid for overlap_ms (24 hours, if it is left out)',
    body: { shape: ROTATION_SHAPE, optional: true },
    answers: { 200: 'Its text is in this answer and nowhere else', 409: 'It was revoked' },
    handle: async (call) => {
      const { overlap_ms: overlapMs = DEFAULT_OVERLAP_MS } = bodyOf(call, ROTATION_SHAPE)
      return issued(call, await rotate(call.engine, call.door.access, nameOf(call), overlapMs), 200)
    },
  },
  {
    method: 'DELETE',
    path: '/api/v1/tokens/:name',
    tag: 'access',
    summary: 'Revoke a token: its secrets, sessions and open streams end',
    answers: { 200: 'Revoked', 409: 'It was revoked before, or it is the last with the role admin' },
    handle: async (call) => {
      const { engine, door } = call
      const token = await revoke(engine, door.access, nameOf(call))
      return { media: JSON_MEDIA, body: JSON.stringify(view(token, engine.now(), door.access.usedAt(token.name))) }
    },
  },
]
