/**
 * Digests around a token. The store holds `hash` and `proofHash` only, and neither lets its reader in: a token cannot be
 * found from its hash, and a session needs the proof, of which the store has a hash.
 *
 *   token      curfew_<id>_<43 characters of chance>       sent as "Authorization: Bearer …"
 *   hash       SHA-256(token)                              compared; also the key that signs sessions
 *   proof      HMAC(token, "proof")                        stands in the session
 *   proofHash  SHA-256(proof)                              compared
 *   session    <id>.<end>.<proof>.<HMAC(hash, id.end.proof)>
 *
 * The signature keeps the holder of a session from moving its end: it does not know `hash`.
 */
import { createHash, createHmac, randomBytes, timingSafeEqual } from 'node:crypto'
import { instant, type Instant } from '@curfew/core'

export interface Digests {
  readonly hash: Buffer
  readonly proofHash: Buffer
}

const MAX_SESSION_LENGTH = 300

const sha256 = (data: string | Buffer): Buffer => createHash('sha256').update(data).digest()
const proofOf = (token: string): Buffer => createHmac('sha256', token).update('curfew session proof').digest()

export function newToken(): { readonly id: string; readonly token: string } {
  const id = randomBytes(6).toString('hex')
  return { id, token: `curfew_${id}_${randomBytes(32).toString('base64url')}` }
}

export const hashOf = (token: string): Buffer => sha256(token)

export function digestsOf(token: string): Digests {
  return { hash: sha256(token), proofHash: sha256(proofOf(token)) }
}

/** The id of its secret, if this is a token by its form. */
export function secretIdIn(token: string): string | null {
  return /^curfew_([0-9a-f]{12})_[\w-]{43}$/.exec(token)?.[1] ?? null
}

/** In constant time. */
export function isSame(a: Buffer, b: Buffer): boolean {
  return a.length === b.length && timingSafeEqual(a, b)
}

export interface Session {
  readonly secretId: string
  readonly endsAt: Instant
  readonly proof: Buffer
  readonly signed: string
  readonly signature: Buffer
}

export function sessionText(secretId: string, token: string, hash: Buffer, endsAt: Instant): string {
  const signed = `${secretId}.${endsAt.toString(36)}.${proofOf(token).toString('base64url')}`
  return `${signed}.${signatureOf(signed, hash).toString('base64url')}`
}

const SESSION = /^(([\w-]{1,32})\.([0-9a-z]{1,10})\.([\w-]{43}))\.([\w-]{43})$/

/** Null for what is not a session by its form. Nothing of it is proven yet. */
export function readSession(text: string): Session | null {
  const [, signed, secretId, end, proof, signature] =
    (text.length > MAX_SESSION_LENGTH ? null : SESSION.exec(text)) ?? []
  if (signed === undefined || secretId === undefined || proof === undefined || signature === undefined) return null
  const endsMs = parseInt(end ?? '', 36)
  if (!Number.isSafeInteger(endsMs)) return null
  return {
    secretId,
    endsAt: instant(endsMs),
    proof: Buffer.from(proof, 'base64url'),
    signed,
    signature: Buffer.from(signature, 'base64url'),
  }
}

/** Whether the session began with this token, and its end is the one it was given. */
export function isSessionOf({ proof, signed, signature }: Session, { hash, proofHash }: Digests): boolean {
  const isSigned = isSame(signatureOf(signed, hash), signature)
  return isSame(sha256(proof), proofHash) && isSigned
}

const signatureOf = (signed: string, hash: Buffer): Buffer =>
  createHmac('sha256', hash).update(`curfew session ${signed}`).digest()
