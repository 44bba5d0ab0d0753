/**
 * A lease that the worker holds, from the answer that brought it to the moment nothing is left to do for it.
 *
 *   waiting ──→ running ──→ over            the handler ended; its report is sent
 *                  └──────→ abandoned ──→ over    an inline handler did not stop in time: it may still run
 *
 * A held lease is forgotten when its handler is over and its report was answered (or there is none to send).
 */
import { after, earliest, millis, type Instant } from '@curfew/core'
import type { Stop } from '../isolate/protocol.ts'
import type { Hold } from '../report.ts'
import type { Terms } from '../terms.ts'
import type { HandedJob } from '../wire.ts'
import type { HandlerFacts, LeaseName } from './inputs.ts'

/** An isolate that should be dead is waited for this long; then the slot is freed without it. */
const KILL_PATIENCE_MS = millis(5_000)

export interface Held {
  readonly key: string
  readonly hold: Hold
  readonly job: HandedJob
  readonly terms: Terms
  readonly facts: HandlerFacts
  handler: 'waiting' | 'running' | 'abandoned' | 'over'
  /** A report is on its way, or waits to be sent. */
  isReported: boolean
  /** That report hands the job back. */
  isHandedBack: boolean
  /** The first reason to stop: the one its signal gives. */
  stop: Stop | null
  /** The server does not count on this lease, whatever the first reason was. */
  isLost: boolean
  /** When the session waits for the handler no longer. While `waiting`: for the attempt before it. */
  giveUpAt: Instant
  /** The last sign of life of a handler that must give its own. */
  signAt: Instant
}

export function newHeld(
  key: string,
  hold: Hold,
  job: HandedJob,
  terms: Terms,
  facts: HandlerFacts,
  now: Instant,
): Held {
  return {
    key,
    hold,
    job,
    terms,
    facts,
    handler: 'running',
    isReported: false,
    isHandedBack: false,
    stop: null,
    isLost: false,
    giveUpAt: giveUpAt(facts, terms.hardAt),
    signAt: now,
  }
}

/** When the session gives up on a handler that must be gone at `endsAt`. */
export function giveUpAt({ isolated }: HandlerFacts, endsAt: Instant): Instant {
  return isolated ? after(endsAt, KILL_PATIENCE_MS) : endsAt
}

/** Takes a slot of the worker. */
export const takesSlot = ({ handler }: Held): boolean => handler === 'running' || handler === 'waiting'

/** Code of the handler may be running. */
export const mayRun = ({ handler }: Held): boolean => handler === 'running' || handler === 'abandoned'

/** Why it was stopped; that it is lost counts for more than what came before. */
export const stoppedBy = ({ isLost, stop }: Held): Stop | null => (isLost ? { why: 'lost' } : stop)

/** When a handler that must give signs of life counts as stalled. */
export function stallAt({ facts, terms, signAt }: Held): Instant | null {
  return facts.manual && terms.stallMs !== null ? after(signAt, terms.stallMs) : null
}

/** The next moment at which something must be decided about this lease if nothing is heard. */
export function nextDueAt(held: Held): Instant | null {
  switch (held.handler) {
    case 'waiting':
      return held.giveUpAt
    case 'running':
      return held.stop === null ? earliest(held.terms.softAt, stallAt(held), held.giveUpAt) : held.giveUpAt
    default:
      return null
  }
}

export function leaseName({ hold }: Held): LeaseName {
  return { jobId: hold.jobId, lease: hold.lease ?? 0 }
}
