/** Names that belong to the server itself. */
import { badPolicy } from '../errors.ts'

/** Queues, types and limiters whose names begin with this are the server's own: it makes and runs their jobs itself. */
export const RESERVED_PREFIX = 'curfew.'
export const isReserved = (name: string): boolean => name.startsWith(RESERVED_PREFIX)

export function refuseReserved(name: string, field: string): void {
  if (isReserved(name))
    throw badPolicy(field, `Names that begin with "${RESERVED_PREFIX}" belong to the server itself; choose another.`)
}
