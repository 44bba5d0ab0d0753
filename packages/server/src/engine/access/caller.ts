/** Who calls, as far as the server can tell. */
import { ROLES, roleBits, rolesWithin, type Instant, type Role } from '@curfew/core'

export interface Caller {
  /** The name of the token; null on a server without tokens. */
  readonly name: string | null
  /** With those that they include. */
  readonly roles: readonly Role[]
  readonly bits: number
  /** `open`: the server has no tokens. */
  readonly via: 'bearer' | 'session' | 'open'
  /** Of a session. */
  readonly endsAt: Instant | null
  /** Aborted when the token does not count any more; null: it always does. */
  readonly ended: AbortSignal | null
}

/** Why a call has no caller. `nothing`: it brings neither token nor session; `throttled`: too many wrong ones came, and this one was not looked at. */
export type Refused =
  | { readonly refused: 'nothing' | 'unknown' | 'throttled' | 'session' }
  | { readonly refused: 'revoked' | 'rotated'; readonly name: string }

export const isRefused = (verdict: Caller | Refused): verdict is Refused => 'refused' in verdict

export const ANYONE: Caller = {
  name: null,
  roles: ROLES,
  bits: roleBits(ROLES),
  via: 'open',
  endsAt: null,
  ended: null,
}

export function callerOf(
  { name, roles }: { readonly name: string; readonly roles: readonly Role[] },
  via: Caller['via'],
  endsAt: Instant | null,
  ended: AbortSignal | null,
): Caller {
  const all = rolesWithin(roles)
  return { name, roles: all, bits: roleBits(all), via, endsAt, ended }
}
