/**
 * The truth about every attempt: what the server committed, and what the handlers saw. Promises that need both are
 * checked here, at the commit that would break them.
 */
import {
  effectiveTotal,
  readStepDocument,
  softDeadlineAt,
  type Checkpoint,
  type Directive,
  type Job,
  type StoredStep,
  type Worker,
} from '@curfew/core'
import type { Change } from '../../../packages/server/src/store/store.ts'
import type { Commit } from '../disk.ts'
import type { Scene } from './scene.ts'
import type { SimulatedWorker } from './simulated-worker.ts'

export interface AttemptRecord {
  readonly jobId: string
  readonly lease: number
  readonly workerId: string
  readonly isManual: boolean
  readonly claimedAt: number
  /** An answer that names it reached the worker. */
  hasArrived: boolean
  arrivedAt: number | null
  /** How long it may wait in its worker for a free slot. */
  bufferMs: number
  begunAt: number | null
  /** How its handler ended; null: it did not, or never began. */
  ending: 'returned' | 'threw' | 'slept' | null
  /** Why its signal was aborted; null: it was not. */
  stop: string | null
  /** How the server ended it: a state, `interrupted`, or the type of the failure. */
  overBy: string | null
  /** On the server's clock: when it is asked to stop, and when the job is out of time. */
  readonly softAt: number
  readonly totalAt: number
  /** Steps that were stored when it was handed out. */
  readonly storedBefore: ReadonlySet<string>
}

export const isRunning = ({ begunAt, ending }: AttemptRecord): boolean => begunAt !== null && ending === null

/** Ends of an attempt that its own limits and those of its worker bring about. */
const LIMITS = ['timeout', 'total_timeout', 'stalled', 'visibility_timeout', 'worker_death']
/** A hand-back waits for a lost answer to be late, for the call that may bring it, and for the way. */
const RECOVERY_MS = 3_500
const SLACK_MS = 300
/** How long a hand-back takes while nothing is wrong. */
const RETURN_MS = 1_500

export class Ledger {
  readonly #scene: () => Scene
  readonly jobs = new Map<string, Job>()
  readonly attempts = new Map<string, AttemptRecord>()
  readonly workers = new Map<string, SimulatedWorker>()
  /** What is stored of the steps of each job. */
  readonly steps = new Map<string, ReadonlyMap<string, StoredStep>>()
  readonly #directives = new Map<string, { readonly at: number; readonly directive: Directive }[]>()
  readonly #left = new Set<string>()

  constructor(scene: () => Scene) {
    this.#scene = scene
  }

  attempt(jobId: string, lease: number): AttemptRecord | null {
    return this.attempts.get(`${jobId}#${String(lease)}`) ?? null
  }

  /**
   * An earlier attempt of the same job in a worker that is awake, whose handler was not asked to stop. What an operator
   * cancels and enqueues again may run beside its first attempt, until that one's worker can be reached.
   */
  runsElsewhere({ jobId, lease, workerId }: AttemptRecord): AttemptRecord | null {
    for (let earlier = lease - 1; earlier > 0; earlier -= 1) {
      const attempt = this.attempt(jobId, earlier)
      if (attempt === null || attempt.workerId === workerId) continue
      const worker = this.workers.get(attempt.workerId)
      if (worker === undefined || worker.isGone || worker.isAsleep) continue
      if (isRunning(attempt) && attempt.stop === null && attempt.overBy !== 'cancelled') return attempt
    }
    return null
  }

  /** Whether an operator's word stood at some moment since then. */
  hasStood(workerId: string, directive: Directive, since: number): boolean {
    const history = this.#directives.get(workerId) ?? []
    return history.some(
      (entry, index) => entry.directive === directive && (history[index + 1]?.at ?? Infinity) >= since,
    )
  }

  look(commits: readonly Commit[]): void {
    for (const { jobs, workers, checkpoints, events } of commits) {
      for (const { jobId, checkpoint } of checkpoints) this.#lookAtCheckpoint(jobId, checkpoint)
      for (const change of workers) this.#lookAtWorker(change)
      for (const change of jobs) this.#lookAtJob(change)
      for (const { type, subject } of events) this.#lookAtEvent(type, subject)
    }
  }

  // ---- Steps ----

  #lookAtCheckpoint(jobId: string, checkpoint: Checkpoint | null): void {
    const { steps } = readStepDocument(checkpoint === null ? null : (JSON.parse(checkpoint.state) as unknown))
    const stored = new Map(steps.map((step) => [step.name, step]))
    const { blame, tally } = this.#scene()
    const before = this.steps.get(jobId) ?? new Map<string, StoredStep>()
    for (const name of before.keys())
      if (!stored.has(name)) blame('stepKept', `${name} of ${jobId} was stored, and is not any more`)
    tally.add('steps: stored', stored.size - before.size)
    this.steps.set(jobId, stored)
  }

  /** Handed back until later: by a sleep. */
  #fellAsleep(before: Job, after: Job): void {
    const { blame } = this.#scene()
    if (after.attempt - after.interruptions !== before.attempt - before.interruptions - 1)
      blame('sleepUsesNoTry', `${before.id}#${String(before.lease)} fell asleep, and a try was used`)
    const totalAt = effectiveTotal(after)?.at ?? Infinity
    if ((after.scheduledAt ?? Infinity) >= totalAt)
      blame('sleepWithinTotal', `${before.id}#${String(before.lease)} sleeps beyond its total`)
  }

  // ---- Jobs ----

  #lookAtJob({ before, after }: Change<Job>): void {
    if (after === null) return
    this.jobs.set(after.id, after)
    const wasActive = before?.state === 'active'
    const isSame = after.state === 'active' && wasActive && before.lease === after.lease
    if (wasActive && !isSame) this.#ended(before, after)
    if (after.state === 'active' && !isSame) this.#claimed(after)
  }

  #claimed(job: Job): void {
    const { tally, tell, world, intervalMs, blame, onClaim } = this.#scene()
    const workerId = job.hold?.workerId ?? ''
    const attempt: AttemptRecord = {
      jobId: job.id,
      lease: job.lease,
      workerId,
      isManual: job.type === 'sim.manual',
      claimedAt: world.now,
      hasArrived: false,
      arrivedAt: null,
      bufferMs: Infinity,
      begunAt: null,
      ending: null,
      stop: null,
      overBy: null,
      softAt: softDeadlineAt(job) ?? Infinity,
      totalAt: effectiveTotal(job)?.at ?? Infinity,
      storedBefore: new Set(this.steps.get(job.id)?.keys()),
    }
    this.attempts.set(nameOf(attempt), attempt)
    tally.add('attempts')
    tell(() => `server: ${short(job.id)} lease ${String(job.lease)} is handed to ${workerId}`)
    onClaim(workerId)
    const worker = this.workers.get(workerId)
    const quietFor = intervalMs + SLACK_MS
    if (worker === undefined || worker.isGone || worker.state === 'running') return
    if (world.now - worker.stateSince > quietFor && world.now - worker.line.goodSince('beat', 'open') > quietFor)
      blame('quietTakesNothing', `${workerId} is ${worker.state} and was handed ${nameOf(attempt)}`)
  }

  #ended(before: Job, after: Job): void {
    const attempt = this.attempt(before.id, before.lease)
    if (attempt === null) return
    const overBy = endingOf(before, after)
    attempt.overBy = overBy
    this.#scene().tell(
      () => `server: ${short(before.id)} lease ${String(before.lease)} ends: ${overBy}; the job is ${after.state}`,
    )
    this.#scene().tally.add(`ended: ${overBy}`)
    if (overBy === 'interrupted' && after.state === 'scheduled') this.#fellAsleep(before, after)
    if (overBy === 'completed') this.#completed(attempt, after)
    else if (overBy === 'cancelled') this.#cancelled(attempt)
    else if (overBy !== 'interrupted') this.#failed(attempt, overBy)
  }

  #completed(attempt: AttemptRecord, job: Job): void {
    const { lease } = JSON.parse(job.result ?? '{}') as { lease?: number }
    if (lease !== attempt.lease || attempt.ending !== 'returned')
      this.#scene().blame('currentResult', `${nameOf(attempt)} was completed with the result ${String(job.result)}`)
  }

  #cancelled(attempt: AttemptRecord): void {
    const { world, intervalMs, later, blame } = this.#scene()
    const worker = this.workers.get(attempt.workerId)
    if (worker === undefined || !isRunning(attempt)) return
    const at = world.now
    later(intervalMs + SLACK_MS, () => {
      if (worker.isGone || worker.line.goodSince('beat') > at - intervalMs) return
      if (isRunning(attempt) && attempt.stop === null)
        blame('cancelTold', `${nameOf(attempt)} was cancelled ${String(world.now - at)} ms ago, and runs on`)
    })
  }

  #failed(attempt: AttemptRecord, overBy: string): void {
    const { blame, world, intervalMs } = this.#scene()
    const worker = this.workers.get(attempt.workerId)
    const isLimit = LIMITS.includes(overBy)
    if (attempt.ending === 'slept' && !isLimit)
      blame('sleepUsesNoTry', `${nameOf(attempt)} fell asleep, and ended by ${overBy}`)
    if (attempt.begunAt === null && !isLimit)
      blame('noTryBurnt', `${nameOf(attempt)} ended by ${overBy}, and its handler never began`)
    if (worker === undefined || worker.isGone || !isLimit) return
    const recoveryMs = intervalMs + RECOVERY_MS
    const isGood = world.now - worker.line.goodSince('beat', 'report') > recoveryMs
    if (!attempt.hasArrived && isGood && world.now - attempt.claimedAt > recoveryMs)
      blame('recovered', `${nameOf(attempt)} ended by ${overBy}, and never arrived at ${worker.id}`)
    const { arrivedAt, bufferMs, begunAt } = attempt
    const wasHere = arrivedAt !== null && worker.line.goodSince('beat', 'open', 'report') <= arrivedAt
    if (begunAt === null && wasHere && world.now - arrivedAt > bufferMs + RETURN_MS)
      blame('everyLeaseReturned', `${nameOf(attempt)} ended by ${overBy}, and ${worker.id} had not begun it`)
    const isSilence = overBy === 'visibility_timeout' || (overBy === 'stalled' && !attempt.isManual)
    const wasGood = worker.line.goodSince('beat', 'open', 'report') <= attempt.claimedAt - intervalMs
    if (isSilence && wasGood && attempt.begunAt !== null)
      blame('beatenFor', `${nameOf(attempt)} ended by ${overBy}, and ${worker.id} was there all the time`)
  }

  // ---- Workers ----

  #lookAtWorker({ before, after }: Change<Worker>): void {
    const { world, tell } = this.#scene()
    if (after === null) return
    const history = this.#directives.get(after.id) ?? []
    this.#directives.set(after.id, history)
    if (history.at(-1)?.directive === after.directive) return
    history.push({ at: world.now, directive: after.directive })
    tell(() => `server: ${after.id} should ${after.directive}`)
    if (after.directive === 'resume' && before?.directive !== 'resume') this.#resumed(after.id)
  }

  #resumed(workerId: string): void {
    const { world, intervalMs, later, blame } = this.#scene()
    const worker = this.workers.get(workerId)
    if (worker === undefined) return
    const at = world.now
    later(intervalMs + SLACK_MS, () => {
      if (worker.isGone || worker.isLeaving || worker.line.goodSince('beat') > at - intervalMs) return
      if (worker.askedQuietAt >= at - SLACK_MS || this.#isHeldBack(workerId, at)) return
      if (worker.state !== 'running')
        blame('resumed', `${workerId} is still ${worker.state} ${String(world.now - at)} ms after the resume`)
    })
  }

  /** An operator changed their mind. */
  #isHeldBack(workerId: string, since: number): boolean {
    return this.hasStood(workerId, 'quiet', since + 1) || this.hasStood(workerId, 'terminate', since + 1)
  }

  #lookAtEvent(type: string, subject: string): void {
    if (type === 'worker.stopped') this.#left.add(subject)
    else if ((type === 'worker.died' || type === 'worker.started') && this.#left.has(subject))
      this.#scene().blame('noDeathAfterLeaving', `${subject} deregistered, and then there was ${type}`)
  }
}

function endingOf(before: Job, after: Job): string {
  // Begun anew by hand in the same commit.
  if (after.attempt < before.attempt) return 'cancelled'
  if (after.interruptions > before.interruptions) return 'interrupted'
  if (after.state === 'completed' || after.state === 'cancelled') return after.state
  const { type } = JSON.parse(after.error ?? '{}') as { type?: string }
  return type ?? 'unknown'
}

export const nameOf = ({ jobId, lease }: { readonly jobId: string; readonly lease: number }): string =>
  `${jobId}#${String(lease)}`

/** Enough of an id to tell jobs apart in a story. */
export const short = (jobId: string): string => jobId.slice(-6)
