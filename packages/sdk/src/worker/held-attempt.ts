/**
 * An attempt that the worker holds a lease for, from the answer that brought it to the moment nothing is left to do for it.
 * It is one value that walks through named steps:
 *
 *   buffered ─┬─→ waiting ──→ buffered or running         the older attempt ended
 *             ├─→ running ──┬─→ over                       the handler ended; its report is sent
 *             │             └─→ abandoned ──→ over         an inline handler did not stop in time: it may still run
 *             └─→ over                                     it never began: handed back, cancelled, or lost
 *
 * `buffered`: no slot is free yet. `waiting`: an older attempt of its job has to end first; it takes no slot until then.
 * An attempt is forgotten when its handler is over and its report was answered (or there is none to send).
 */
import { after, earliest, elapsed, instant, isDue, millis, type Instant, type Millis } from '@curfew/core'
import type { Stop } from '../attempt/facts.ts'
import type { Hold } from '../attempt/report.ts'
import { lapseAt, type Terms } from '../attempt/terms.ts'
import type { HandedJob } from '../wire/jobs.ts'
import type { HandlerFacts, LeaseName } from './inputs.ts'
import { bufferMs } from './prefetch.ts'

/** An isolate that should be dead is waited for this long; then the slot is freed without it. */
const KILL_PATIENCE_MS = millis(5_000)

export type Step = 'buffered' | 'waiting' | 'running' | 'abandoned' | 'over'

export interface HeldAttempt {
  readonly key: string
  readonly hold: Hold
  /** Null from the start of its handler on: a worker that is busy holds hundreds of attempts whose reports are on their way. */
  job: HandedJob | null
  readonly terms: Terms
  readonly facts: HandlerFacts
  step: Step
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
  listedAt: Instant
  /** Its place among the attempts that were announced to the guard; 0: it was not announced. */
  watchNumber: number
}

export function newAttempt(
  key: string,
  hold: Hold,
  job: HandedJob,
  terms: Terms,
  facts: HandlerFacts,
  now: Instant,
): HeldAttempt {
  return {
    key,
    hold,
    job,
    terms,
    facts,
    step: 'buffered',
    isReported: false,
    isHandedBack: false,
    stop: null,
    isLost: false,
    giveUpAt: bufferUntil(terms, now),
    arrivedAt: now,
    begunAt: now,
    signAt: now,
    listedAt: terms.startedAt,
    watchNumber: 0,
  }
}

/** The handler of a job that is only handed back, or has no handler here. */
export const NO_HANDLER: HandlerFacts = { isolated: false, manual: false }

/** The terms of a job that is only handed back. */
export const NO_TERMS: Terms = {
  startedAt: instant(0),
  softAt: instant(Infinity),
  hardAt: instant(Infinity),
  killAt: instant(Infinity),
  graceMs: millis(0),
  stallMs: null,
  visibilityMs: null,
  softStop: { why: 'deadline', kind: 'execution', limitMs: 0, source: 'default' },
}

/** Until when a job with these terms may wait for a slot. */
export function bufferUntil(terms: Terms, now: Instant): Instant {
  return earliest(terms.softAt, after(now, bufferMs(terms))) ?? terms.softAt
}

/** When the session gives up on a handler that must be gone at `endsAt`. */
export function giveUpAt({ isolated }: HandlerFacts, endsAt: Instant): Instant {
  return isolated ? after(endsAt, KILL_PATIENCE_MS) : endsAt
}

/** Takes a slot of the worker. */
export const takesSlot = ({ step }: HeldAttempt): boolean => step === 'running'

/** Its handler was not started yet. */
export const isUnbegun = ({ step }: HeldAttempt): boolean => step === 'buffered' || step === 'waiting'

/** Code of the handler may be running. */
export const mayRun = ({ step }: HeldAttempt): boolean => step === 'running' || step === 'abandoned'

/** Why it was stopped; that it is lost counts for more than what came before. */
export const stoppedBy = ({ isLost, stop }: HeldAttempt): Stop | null => (isLost ? { why: 'lost' } : stop)

/** How long it waited here before its handler was started. */
export const bufferedMs = ({ arrivedAt, begunAt }: HeldAttempt): Millis => elapsed(arrivedAt, begunAt)

/** When a handler that must give signs of life counts as stalled. */
export function stallAt({ facts, terms, signAt }: HeldAttempt): Instant | null {
  return facts.manual && terms.stallMs !== null ? after(signAt, terms.stallMs) : null
}

/**
 * When its handler must be asked to stop because no heartbeat that lists it was answered, and when the server may hand the
 * job to another worker. That holds in the grace, too. Null: the job has no such clock, or its lease is lost already.
 */
export function lapseOf(held: HeldAttempt): ReturnType<typeof lapseAt> {
  const { step, isLost, facts, terms, listedAt } = held
  if (isLost || (step !== 'running' && !isUnbegun(held))) return null
  return lapseAt({ manual: facts.manual, stallMs: terms.stallMs, visibilityMs: terms.visibilityMs }, listedAt)
}

/** The server may be about to hand its job to another worker: it must not begin. */
export const hasLapsed = (held: HeldAttempt, now: Instant): boolean => isDue(lapseOf(held)?.warnAt ?? null, now)

/** The next moment at which something must be decided about this lease if nothing is heard; its lapse apart. */
export function nextDueAt(held: HeldAttempt): Instant | null {
  switch (held.step) {
    case 'buffered':
    case 'waiting':
      return held.giveUpAt
    case 'running':
      return held.stop === null ? earliest(held.terms.softAt, stallAt(held), held.giveUpAt) : held.giveUpAt
    default:
      return null
  }
}

export function leaseName({ hold }: HeldAttempt): LeaseName {
  return { jobId: hold.jobId, lease: hold.lease ?? 0 }
}
