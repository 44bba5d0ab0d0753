/** Commands on tokens. What they change counts here when they answer, and on other servers when they hear of it. */
import {
  createToken,
  isSecretValid,
  MAX_TOKENS,
  millis,
  notFound,
  OjsError,
  readDoc,
  revokeToken,
  rotateToken,
  TOKEN,
  TOKEN_USE,
  type Instant,
  type Role,
  type Token,
  type TokenUse,
} from '@curfew/core'
import type { Context } from '../kernel/context.ts'
import type { Unit } from '../kernel/unit.ts'
import type { Access } from './access.ts'
import { digestsOf, newToken } from './secret.ts'

/** `text` is the token itself: it is shown once and not stored. */
export interface Issued {
  readonly token: Token
  readonly text: string
}

interface Creation {
  readonly name: string
  readonly roles: readonly Role[]
  readonly by: string | null
}

export async function create(context: Context, access: Access, { name, roles, by }: Creation): Promise<Issued> {
  if (access.isOpen && !roles.includes('admin'))
    throw new OjsError(
      'conflict',
      'The first token must have the role admin: without one, no further token could be made.',
      {
        details: { field: 'roles' },
        hint: 'Create a token with the role admin first, or start the server with --token.',
      },
    )
  if (access.tokens.length >= MAX_TOKENS && !access.tokens.some((token) => token.name === name))
    throw new OjsError('conflict', `There are ${String(MAX_TOKENS)} tokens already.`, {
      hint: 'Use the name of a token that was revoked.',
    })
  const { text, secret } = newSecret()
  const token = await change(context, access, name, (before, now) =>
    createToken(before, { name, roles, secret, createdBy: by }, now),
  )
  return { token, text }
}

export async function rotate(context: Context, access: Access, name: string, overlapMs: number): Promise<Issued> {
  const { text, secret } = newSecret()
  const token = await change(context, access, name, (before, now) =>
    rotateToken(inForce(before, name), secret, millis(overlapMs), now),
  )
  return { token, text }
}

export async function revoke(context: Context, access: Access, name: string): Promise<Token> {
  if (!access.hasCommandLineToken && access.hasRole('admin') && !access.hasRole('admin', name))
    throw new OjsError(
      'conflict',
      `${name} is the last token with the role admin: without it, no further token could be made.`,
      {
        details: { name },
        hint: 'Create another one first, or start the server with --token.',
      },
    )
  return change(context, access, name, (before, now) => revokeToken(inForce(before, name), now))
}

/** Of all tokens, when each was last used on any server. */
export async function lastUses(context: Context, access: Access): Promise<ReadonlyMap<string, Instant>> {
  const uses = new Map<string, Instant>()
  for (const doc of await context.look((reads) => reads.docs(TOKEN_USE.kind, '', null, 2 * MAX_TOKENS)))
    uses.set(doc.id, readDoc<TokenUse>(doc).usedAt)
  for (const { name } of access.tokens) {
    const here = access.usedAt(name)
    if (here !== null && here > (uses.get(name) ?? 0)) uses.set(name, here)
  }
  return uses
}

export function secretsInForce(token: Token, now: Instant): number {
  return token.secrets.filter((secret) => isSecretValid(token, secret, now)).length
}

function newSecret() {
  const { id, token: text } = newToken()
  const { hash, proofHash } = digestsOf(text)
  return { text, secret: { id, hash: hash.toString('hex'), proofHash: proofHash.toString('hex') } }
}

function inForce(token: Token | null, name: string): Token {
  if (token === null) throw notFound('token', name)
  if (token.revokedAt === null) return token
  throw new OjsError('conflict', `The token ${name} was revoked.`, {
    details: { name },
    hint: 'Create a new token; it may have the same name.',
  })
}

async function change(
  context: Context,
  access: Access,
  name: string,
  decide: (before: Token | null, now: Instant) => Token,
): Promise<Token> {
  const token = await context.run({
    name: 'token',
    needs: { docs: [{ kind: TOKEN.kind, id: name }] },
    run: (unit: Unit) => {
      const after = decide(unit.doc(TOKEN, name), unit.now)
      unit.putDoc(TOKEN, name, after)
      // Other servers read the tokens again when they hear it.
      unit.emitLive({
        type: 'token.changed',
        at: unit.now,
        subject: name,
        queue: null,
        jobType: null,
        data: { token: name, revoked: after.revokedAt !== null },
      })
      return after
    },
  })
  await access.load()
  return token
}
