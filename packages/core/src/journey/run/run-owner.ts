/**
 * Which server works on a run. A run that rests in the store needs no server; a state that is to be entered, or a call that
 * is being made, needs the one that does it. Where there are several servers, each gives a sign of life while it works on
 * runs; when that sign is missing, another server takes them over.
 */
import { millis, seconds, type Instant } from '../../time/clock.ts'
import { after } from '../../time/sums.ts'
import { docKind } from '../../doc.ts'

export interface Keeper {
  readonly id: string
  /** Without a sign of life by then it is taken for dead. */
  readonly until: Instant
}

/** A run a server has something to do for: its document is `<server>/<run>`. */
export interface Kept {
  readonly server: string
  readonly run: string
}

export const KEEPER = docKind<Keeper>('keeper', ({ until }) => until)
export const KEPT = docKind<Kept>('kept')

export const keptDocId = (server: string, run: string): string => `${server}/${run}`

const TRUSTED_MS = seconds(10)
/** How often a server that keeps something says that it lives. */
export const KEEPER_SIGN_MS = seconds(3)

export function keeperSign(id: string, now: Instant): Keeper {
  return { id, until: after(now, TRUSTED_MS) }
}

/** The last sign of a server that stops: others need not wait. */
export function keeperFarewell(id: string, now: Instant): Keeper {
  return { id, until: after(now, millis(250)) }
}

/** The last sign is so old that it is worth giving another one. */
export function isFading({ until }: Keeper, now: Instant): boolean {
  return until < after(now, seconds(7))
}
