/**
 * Tokens by name, as they are stored: never the token itself, only digests of it (`engine/access/secret.ts`). A rotation
 * adds a second secret under the same name; the first stays valid until its overlap ends. A revoked token stays in the
 * store, so that its name can be shown and a server that once had tokens never opens by itself.
 */
import { docKind } from '../doc.ts'
import { OjsError } from '../errors.ts'
import { days, hours, type Instant, type Millis } from '../time/clock.ts'
import { after, isDue } from '../time/sums.ts'
import { list, object, oneOf, text, whole } from '../wire/shape.ts'
import { ROLES, type Role } from './roles.ts'

export interface TokenSecret {
  /** Stands in the token, so that its secret is found without a search. */
  readonly id: string
  /** SHA-256 of the token, as hex. */
  readonly hash: string
  /** SHA-256 of what a session proves, as hex. */
  readonly proofHash: string
  readonly createdAt: Instant
  /** Null: until it is rotated or revoked. */
  readonly endsAt: Instant | null
}

export interface Token {
  readonly name: string
  readonly roles: readonly Role[]
  /** Newest last; two at most. */
  readonly secrets: readonly TokenSecret[]
  readonly createdAt: Instant
  /** The token that created it; null on a server that was open. */
  readonly createdBy: string | null
  readonly rotatedAt: Instant | null
  readonly revokedAt: Instant | null
}

export const TOKEN = docKind<Token>('token')

/** When a token was last used. Apart from the token, which servers read again whenever it changes. */
export interface TokenUse {
  readonly usedAt: Instant
}

export const TOKEN_USE = docKind<TokenUse>('token-use')

export const MAX_TOKENS = 1_000
export const DEFAULT_OVERLAP_MS: Millis = hours(24)
export const MAX_OVERLAP_MS: Millis = days(30)

export const TOKEN_NAME_SHAPE = text({
  pattern: /^[a-zA-Z0-9][a-zA-Z0-9._-]*$/,
  maxLength: 64,
  expected: 'the name of a token: letters, digits, ".", "_" and "-", at most 64',
})

export const NEW_TOKEN_SHAPE = object(
  { name: TOKEN_NAME_SHAPE, roles: list(oneOf(...ROLES), 1, ROLES.length) },
  { required: ['name', 'roles'], unknown: 'refuse' },
)

export const ROTATION_SHAPE = object({ overlap_ms: whole(0, MAX_OVERLAP_MS) }, { unknown: 'refuse' })

export interface NewToken {
  readonly name: string
  readonly roles: readonly Role[]
  readonly secret: Omit<TokenSecret, 'createdAt' | 'endsAt'>
  readonly createdBy: string | null
}

/** A revoked token's name may be used again. */
export function createToken(before: Token | null, asked: NewToken, now: Instant): Token {
  const { name, roles, secret, createdBy } = asked
  if (before !== null && before.revokedAt === null)
    throw new OjsError('conflict', `There is a token named ${name} already.`, {
      details: { name },
      hint: 'Rotate it, revoke it first, or choose another name.',
    })
  return {
    name,
    roles: ROLES.filter((role) => roles.includes(role)),
    secrets: [{ ...secret, createdAt: now, endsAt: null }],
    createdAt: now,
    createdBy,
    rotatedAt: null,
    revokedAt: null,
  }
}

/** The newest secret so far stays valid for the overlap; an older one ends at once. */
export function rotateToken(token: Token, secret: NewToken['secret'], overlapMs: Millis, now: Instant): Token {
  const last = token.secrets.at(-1)
  const old = last === undefined || overlapMs === 0 ? [] : [{ ...last, endsAt: after(now, overlapMs) }]
  return { ...token, secrets: [...old, { ...secret, createdAt: now, endsAt: null }], rotatedAt: now }
}

export function revokeToken(token: Token, now: Instant): Token {
  return { ...token, revokedAt: token.revokedAt ?? now }
}

export function isSecretValid({ revokedAt }: Token, { endsAt }: TokenSecret, now: Instant): boolean {
  return revokedAt === null && !isDue(endsAt, now)
}
