/**
 * A lease that the worker holds, from the answer that brought it to the moment nothing is left to do for it.
 *
 *   buffered ─┬─→ waiting ──→ running ──→ over            the handler ended; its report is sent
 *             ├───────────────↗  └──────→ abandoned ──→ over    an inline handler did not stop in time: it may still run
 *             └──→ over                                 it never began: handed back, cancelled, or lost
 *
 * `buffered`: no slot is free yet. `waiting`: it has a slot, and an older attempt of its job steps aside.
 * A held lease is forgotten when its handler is over and its report was answered (or there is none to send).
 */
import { after, earliest, elapsed, millis, type Instant, type Millis } from '@curfew/core'
import type { Stop } from '../isolate/protocol.ts'
import type { Hold } from '../report.ts'
import { fenceAt, type Terms } from '../terms.ts'
import type { HandedJob } from '../wire.ts'
import type { HandlerFacts, LeaseName } from './inputs.ts'
import { bufferMs } from './prefetch.ts'

/** An isolate that should be dead is waited for this long; then the slot is freed without it. */
const KILL_PATIENCE_MS = millis(5_000)

export interface Held {
  readonly key: string
  readonly hold: Hold
  readonly job: HandedJob
  readonly terms: Terms
  readonly facts: HandlerFacts
  handler: 'buffered' | 'waiting' | 'running' | 'abandoned' | 'over'
  /** A report is on its way, or waits to be sent. */
  isReported: boolean
  /** That report hands the job back. */
  isHandedBack: boolean
  /** The first reason to stop: the one its signal gives. */
  stop: Stop | null
  /** The server does not count on this lease, whatever the first reason was. */
  isLost: boolean
  /**
   * When the session waits for the handler no longer. While `waiting`: for the attempt before it. While `buffered`: for a
   * free slot.
   */
  giveUpAt: Instant
  readonly arrivedAt: Instant
  /** When the handler was started. */
  begunAt: Instant
  /** The last sign of life of a handler that must give its own. */
  signAt: Instant
  /** The sending of the latest heartbeat that listed it and was answered; before the first one, the claim. */
  vouchedAt: Instant
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
    handler: 'buffered',
    isReported: false,
    isHandedBack: false,
    stop: null,
    isLost: false,
    giveUpAt: earliest(terms.softAt, after(now, bufferMs(terms))) ?? terms.softAt,
    arrivedAt: now,
    begunAt: now,
    signAt: now,
    vouchedAt: terms.startedAt,
  }
}

/** When the session gives up on a handler that must be gone at `endsAt`. */
export function giveUpAt({ isolated }: HandlerFacts, endsAt: Instant): Instant {
  return isolated ? after(endsAt, KILL_PATIENCE_MS) : endsAt
}

/** Takes a slot of the worker. */
export const takesSlot = ({ handler }: Held): boolean => handler === 'running' || handler === 'waiting'

/** Its handler was not started yet. */
export const isUnbegun = ({ handler }: Held): boolean => handler === 'buffered' || handler === 'waiting'

/** Code of the handler may be running. */
export const mayRun = ({ handler }: Held): boolean => handler === 'running' || handler === 'abandoned'

/** Why it was stopped; that it is lost counts for more than what came before. */
export const stoppedBy = ({ isLost, stop }: Held): Stop | null => (isLost ? { why: 'lost' } : stop)

/** How long it waited here before its handler was started. */
export const bufferedMs = ({ arrivedAt, begunAt }: Held): Millis => elapsed(arrivedAt, begunAt)

/** When a handler that must give signs of life counts as stalled. */
export function stallAt({ facts, terms, signAt }: Held): Instant | null {
  return facts.manual && terms.stallMs !== null ? after(signAt, terms.stallMs) : null
}

/**
 * When the server may hand the job to another worker because no heartbeat has arrived that lists it, and a moment before it:
 * by then a handler must be asked to stop. Null: the job has no such clock.
 */
export function lapse({ facts, terms, vouchedAt }: Held): { readonly warnAt: Instant; readonly at: Instant } | null {
  const stallMs = facts.manual ? null : terms.stallMs
  if (stallMs === null && terms.visibilityMs === null) return null
  const { warnAt, fenceAt: at } = fenceAt(
    vouchedAt,
    millis(Math.min(stallMs ?? Infinity, terms.visibilityMs ?? Infinity)),
  )
  return { warnAt, at }
}

/** The next moment at which something must be decided about this lease if nothing is heard. */
export function nextDueAt(held: Held): Instant | null {
  const warnAt = lapse(held)?.warnAt ?? null
  switch (held.handler) {
    case 'buffered':
    case 'waiting':
      return earliest(held.giveUpAt, warnAt)
    case 'running':
      return held.stop === null ? earliest(held.terms.softAt, stallAt(held), warnAt, held.giveUpAt) : held.giveUpAt
    default:
      return null
  }
}

export function leaseName({ hold }: Held): LeaseName {
  return { jobId: hold.jobId, lease: hold.lease ?? 0 }
}
