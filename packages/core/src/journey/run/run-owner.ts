/**
 * Which server works on a run. A run that rests in the store needs no server; a state that is to be entered, or a call that
 * is being made, needs the one that does it. Where there are several servers, each gives a sign of life while it works on
 * runs; when that sign is missing, another server takes them over.
 */
import { millis, seconds, type Instant } from '../../time/clock.ts'
import { after } from '../../time/sums.ts'
import { docKind } from '../../doc.ts'

export interface RunOwner {
  readonly id: string
  /** Without a sign of life by then it is taken for dead. */
  readonly until: Instant
}

/** A run a server has something to do for: its document is `<server>/<run>`. */
export interface OwnedRun {
  readonly server: string
  readonly run: string
}

export const RUN_OWNER = docKind<RunOwner>('keeper', ({ until }) => until)
export const OWNED_RUN = docKind<OwnedRun>('kept')

export const ownedRunId = (server: string, run: string): string => `${server}/${run}`

const TRUSTED_MS = seconds(10)
/** How often a server that keeps something says that it lives. */
export const OWNER_SIGN_MS = seconds(3)

export function ownerSign(id: string, now: Instant): RunOwner {
  return { id, until: after(now, TRUSTED_MS) }
}

/** The last sign of a server that stops: others need not wait. */
export function ownerFarewell(id: string, now: Instant): RunOwner {
  return { id, until: after(now, millis(250)) }
}

/** The last sign is so old that it is worth giving another one. */
export function isFading({ until }: RunOwner, now: Instant): boolean {
  return until < after(now, seconds(7))
}
