/**
 * Secrets that calls of journeys are made with. They are read when a call is made, sent in one header to the host that
 * the definition names, and removed from the answer: they appear in no context, answer, log or page.
 */
import type { CallAuth } from '@curfew/core'
import { CallRefused, type OutgoingAnswer } from '../outgoing.ts'

export interface Secrets {
  /** Null: this server does not know it. */
  valueOf(name: string): string | null
}

export const noSecrets: Secrets = { valueOf: () => null }

/** A header that proves who calls, and all texts that would give the secret away. */
export interface Proof {
  readonly header: string
  readonly value: string
  readonly secrets: readonly string[]
}

export function proofOf(auth: CallAuth, secrets: Secrets): Proof {
  const secret = secrets.valueOf(auth.secretRef)
  if (secret === null)
    throw new CallRefused(
      `this server does not know the secret ${JSON.stringify(auth.secretRef)}: set ${secretVariable(auth.secretRef)}, or add it to --secrets-file`,
    )
  const { header, scheme, username } = auth
  if (scheme === 'plain') return { header, value: secret, secrets: spellings(secret) }
  if (scheme === 'bearer') return { header, value: `Bearer ${secret}`, secrets: spellings(secret) }
  const pair = Buffer.from(`${username ?? ''}:${secret}`).toString('base64')
  return { header, value: `Basic ${pair}`, secrets: [pair, ...spellings(secret)] }
}

/** As it is, inside JSON, and inside a URL. */
const spellings = (secret: string): string[] => [
  ...new Set([secret, JSON.stringify(secret).slice(1, -1), encodeURIComponent(secret)]),
]

/** The environment variable that holds a secret. */
export function secretVariable(name: string): string {
  return `${SECRET_VARIABLES}${name.replaceAll(/[^A-Za-z0-9]/g, '_').toUpperCase()}`
}

export const SECRET_VARIABLES = 'CURFEW_SECRET_'

/** A called server may send back what was sent. */
export function withoutSecrets(answer: OutgoingAnswer, { secrets }: Proof): OutgoingAnswer {
  const clean = (text: string): string => secrets.reduce((left, secret) => left.replaceAll(secret, MASK), text)
  const headers = Object.fromEntries(Object.entries(answer.headers).map(([name, value]) => [name, clean(value)]))
  return { ...answer, headers, body: clean(answer.body) }
}

const MASK = '[secret]'
