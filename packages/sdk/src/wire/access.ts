/** Tokens, the audit and notes of operators, field by field as the server writes them. */
import type { Role } from '@curfew/core'

export type TokenRole = Role

/** A token by its name; never its text. */
export interface TokenView {
  readonly name: string
  readonly roles: readonly TokenRole[]
  readonly state: 'valid' | 'revoked'
  /** How its newest text begins. */
  readonly prefix: string | null
  /** Two while a rotation overlaps. */
  readonly valid_secrets: number
  readonly old_secret_until: string | null
  readonly created_at: string
  readonly created_by: string | null
  readonly rotated_at: string | null
  readonly revoked_at: string | null
  readonly last_used_at: string | null
  readonly [field: string]: unknown
}

export interface IssuedTokenView extends TokenView {
  /** The token itself, which is shown once. */
  readonly token: string
}

/** A change that an operator or administrator made. */
export interface AuditEntryView {
  readonly id: string
  readonly time: string
  /** The name of the token. */
  readonly token: string
  readonly via: 'bearer' | 'session'
  readonly action: string
  readonly method: string
  readonly path: string
  readonly object: Readonly<Record<string, string>>
  readonly request_id: string
  readonly [field: string]: unknown
}

/** A note of an operator, such as a deploy. */
export interface AnnotationView {
  readonly id: string
  /** When it happened. */
  readonly time: string
  readonly text: string
  /** The name of the token that noted it. */
  readonly by: string | null
  readonly [field: string]: unknown
}
