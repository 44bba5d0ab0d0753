import type { Statement } from '../wire.ts'

/** Planned once for each connection, under its name. */
export const statement = (name: string, text: string): Statement => ({ name, text })
