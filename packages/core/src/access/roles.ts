/**
 * What a caller may do. A token has one or more roles; a route names the roles that may call it, and one of them is enough.
 *
 *   read      look at everything
 *   produce   enqueue and plan, start workflows and journeys, read one's results
 *   work      what workers call: register, fetch, ack, nack, heartbeat
 *   operate   retry, cancel, pause, quiet; may read as well
 *   admin     everything: limits, configuration, deletion, tokens
 */
export const ROLES = ['read', 'produce', 'work', 'operate', 'admin'] as const
export type Role = (typeof ROLES)[number]

const WITHIN: Readonly<Record<Role, readonly Role[]>> = {
  read: ['read'],
  produce: ['produce'],
  work: ['work'],
  operate: ['read', 'operate'],
  admin: ROLES,
}

/** These roles and those that they include, in the order of `ROLES`. */
export function rolesWithin(roles: readonly Role[]): readonly Role[] {
  const all = new Set(roles.flatMap((role) => WITHIN[role]))
  return ROLES.filter((role) => all.has(role))
}

/** Roles as bits: a check is one `&`. */
export function roleBits(roles: readonly Role[]): number {
  return roles.reduce((bits, role) => bits | (1 << ROLES.indexOf(role)), 0)
}
