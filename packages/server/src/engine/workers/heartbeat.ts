/**
 * BEAT: a worker lives, and says which jobs it runs. One worker row is written however many jobs are active; their
 * clocks are derived from it when they come due. Only a job the worker stopped listing (or stopped vouching for) is
 * written: what the last beat said of it is kept on its own row.
 *
 * The answer tells the worker which state it should be in, which jobs it still holds, and which it must stop and why.
 */
import {
  elapsed,
  absorbBeat,
  desiredState,
  directiveAfter,
  extensionFor,
  furtherState,
  isDue,
  iso,
  jobEvent,
  millis,
  visibilityAt,
  signOfLife,
  wokenInTime,
  softDeadlineAt,
  withLog,
  workerEvent,
  WORKER_STATES,
  type Beat,
  type Instant,
  type Job,
  type LogBatch,
  type Millis,
  type Notice,
  type Worker,
  type WorkerState,
} from '@curfew/core'
import type { Command } from '../kernel/command.ts'
import type { JobsContext } from '../jobs/context.ts'
import { TOLD_FOR_MS, type Unit } from '../kernel/unit.ts'
import { armed, isLateCall, livingWorker, seen } from './workers.ts'

export interface BeatReport {
  readonly workerId: string
  readonly state: WorkerState
  readonly draining: boolean
  readonly activeJobs: number
  readonly jobIds: readonly string[]
  /** Null: every listed job is vouched for. */
  readonly proofs: readonly string[] | null
  readonly leases: Readonly<Record<string, number>>
  /** It lists the lease of each of its jobs: what is missing there it does not have. */
  readonly isComplete: boolean
  readonly visibilityMs: Millis | null
  /** Where handlers are stuck, by job. */
  readonly stacks: Readonly<Record<string, readonly string[]>>
  /** What attempts have logged since they were last heard of, by job. */
  readonly logs: Readonly<Record<string, LogBatch>>
  readonly seq: number | null
  /** What else the beat says of the worker, to update its record. */
  readonly facts: Partial<Pick<Worker, 'hostname' | 'pid' | 'queues' | 'concurrency' | 'labels' | 'startedAt'>>
}

export interface StopOrder {
  readonly jobId: string
  readonly reason: Notice['reason']
  readonly lease: number | null
}

export interface BeatAnswer {
  readonly state: WorkerState
  readonly extended: readonly string[]
  readonly stop: readonly StopOrder[]
  readonly unlisted: readonly Unlisted[]
  readonly reregister: boolean
  readonly serverTime: Instant
}

/** An attempt that the worker holds by the server's book, and does not list. */
export interface Unlisted {
  readonly jobId: string
  readonly lease: number
  readonly heldMs: Millis
}

/** No answer lists more of them. */
const MAX_UNLISTED = 1_000

const HAS_LEFT = { state: 'terminate', extended: [], stop: [], unlisted: [], reregister: true } as const

export async function heartbeat(context: JobsContext, report: BeatReport): Promise<BeatAnswer> {
  const answer = await context.run(beat(context, report))
  // A worker that is not running must not be given jobs by a poll it left open.
  if (answer.state !== 'running') context.polls.dismissFetches(report.workerId)
  return answer
}

export function beat(context: JobsContext, report: BeatReport): Command<BeatAnswer> {
  return {
    name: 'heartbeat',
    needs: {
      workers: [report.workerId],
      jobs: report.jobIds,
      notices: [report.workerId],
      ...(report.isComplete ? { held: [report.workerId] } : {}),
    },
    run: async (unit) => {
      if (isLateCall(unit, report.workerId, report.seq)) return { ...HAS_LEFT, serverTime: unit.now }
      const before = livingWorker(unit, report.workerId)
      const late = report.seq !== null && before.beatSeq !== null && report.seq < before.beatSeq
      if (!late) await keepWhatWasDropped(unit, before, report)
      const jobs = new Map(unit.jobs(report.jobIds).map((job) => [job.id, job]))
      const worker = late ? seen(unit, before) : beaten(unit, before, report)
      const judged = report.jobIds.map((id) => judge(unit, worker, report, id, jobs.get(id) ?? null))
      const others = await stopOthers(unit, worker, report)
      const unlisted = late || !report.isComplete ? [] : await unlistedOf(unit, worker, report, jobs)
      unit.putWorker(worker)
      if (!late) {
        extendAnonymous(unit, report, jobs)
        wakeInTime(unit, worker, jobs)
        keepStacks(unit, worker, report)
        const { beat: heard } = worker
        if (heard !== null)
          unit.afterwards(() => {
            context.recentSigns.beat(heard)
          })
      }
      keepLogs(unit, worker, report)
      if (worker.state === 'quiet' && before.state === 'running')
        unit.emit(workerEvent('worker.quiet', worker.id, unit.now))
      if (context.hasListeners)
        tellListeners(
          unit,
          worker,
          judged.filter(({ held }) => held).map(({ jobId }) => jobs.get(jobId)),
        )
      return {
        state: furtherState(
          desiredState(worker.directive, worker.state),
          context.settings.conformance ? testDirective(worker, jobs) : 'running',
        ),
        extended: late ? [] : judged.filter(({ held }) => held).map(({ jobId }) => jobId),
        stop: [...judged.map(({ stop }) => stop).filter((stop) => stop !== null), ...others],
        unlisted,
        reregister: !before.known,
        serverTime: unit.now,
      }
    },
  }
}

/** `worker.heartbeat` and, for each job whose reservation was extended, `job.heartbeat`: live only. */
function tellListeners(unit: Unit, worker: Worker, extended: readonly (Job | undefined)[]): void {
  unit.emitLive(
    workerEvent('worker.heartbeat', worker.id, unit.now, { state: worker.state, active_jobs: worker.activeJobs }),
  )
  for (const job of extended) {
    if (job === undefined) continue
    const visibleUntil = visibilityAt(job, unit.livenessWith(worker))
    unit.emitLive(
      jobEvent('job.heartbeat', job, unit.now, {
        worker_id: worker.id,
        attempt: job.attempt,
        visible_until: visibleUntil === null ? null : iso(visibleUntil),
      }),
    )
  }
}

function beaten(unit: Unit, before: Worker, report: BeatReport): Worker {
  const beat: Beat = {
    at: unit.now,
    jobs: new Set(report.jobIds),
    proofs: report.proofs === null ? null : new Set(report.proofs),
    leases: report.leases,
    visibilityMs: report.visibilityMs,
  }
  const worker: Worker = {
    ...seen(unit, before),
    ...report.facts,
    state: report.state,
    draining: report.draining,
    directive: directiveAfter(before.directive, report.state),
    known: true,
    lastBeatAt: unit.now,
    activeJobs: report.activeJobs,
    beat,
    beatSeq: report.seq ?? before.beatSeq,
  }
  return before.known && before.wakeAt !== null ? worker : armed(unit, worker)
}

/** Jobs the last beat covered and this one does not: their clocks go on from the last beat. */
async function keepWhatWasDropped(unit: Unit, before: Worker, report: BeatReport): Promise<void> {
  if (before.beat === null) return
  const listed = new Set(report.jobIds)
  const proofs = report.proofs === null ? listed : new Set(report.proofs)
  const covered = (id: string): boolean => before.beat?.proofs === null || before.beat?.proofs.has(id) === true
  const isDropped = (id: string): boolean => !listed.has(id) || (covered(id) && !proofs.has(id))
  // A job listed with a lease is looked at too: a stale one speaks for an attempt that is over, and covers nothing.
  const asked = [...before.beat.jobs].filter((id) => isDropped(id) || report.leases[id] !== undefined)
  for (const job of await unit.loadedJobs(asked)) {
    if (job.hold?.workerId === before.id && (isDropped(job.id) || isStale(report, job)))
      unit.keep(absorbBeat(job, before))
  }
}

/** No worker's row speaks for an anonymous reservation, so a beat that names the job is written on the job itself. */
function extendAnonymous(unit: Unit, report: BeatReport, jobs: ReadonlyMap<string, Job>): void {
  const proofs = report.proofs === null ? null : new Set(report.proofs)
  for (const job of jobs.values()) {
    if (job.hold === null || job.hold.workerId !== null || isStale(report, job)) continue
    const alive = signOfLife(job, unit.now)
    if (alive.hold === null) continue
    const visibleMs = extensionFor(job, report.visibilityMs)
    const signAt = proofs === null || proofs.has(job.id) ? alive.hold.signAt : job.hold.signAt
    const extended = { ...alive, hold: { ...alive.hold, signAt, visibleMs } }
    unit.keep(wokenInTime(extended, unit.livenessWith(null)))
  }
}

/** Writes the few rows for which this beat brought a deadline nearer than their `wakeAt`. */
function wakeInTime(unit: Unit, worker: Worker, jobs: ReadonlyMap<string, Job>): void {
  const life = unit.livenessWith(worker)
  for (const job of jobs.values()) {
    if (job.hold?.workerId !== worker.id) continue
    const armed = wokenInTime(job, life)
    if (armed.wakeAt !== job.wakeAt) unit.keep(armed)
  }
}

/** Kept with the reservation they speak of, for the failure of an attempt that runs out of time. */
function keepStacks(unit: Unit, worker: Worker, { jobIds, leases, stacks }: BeatReport): void {
  const told = jobIds.filter((id) => Object.hasOwn(stacks, id))
  for (const job of unit.jobs(told)) {
    const stack = stacks[job.id]
    if (stack === undefined || job.hold === null || job.hold.workerId !== worker.id || leases[job.id] !== job.lease)
      continue
    const isSame = job.hold.stack?.length === stack.length && job.hold.stack.every((line, at) => line === stack[at])
    if (!isSame) unit.keep({ ...job, hold: { ...job.hold, stack } })
  }
}

/** Of attempts that it holds, and that the beat names by their lease. A beat that was overtaken may bring lines as well. */
function keepLogs(unit: Unit, worker: Worker, { jobIds, leases, logs }: BeatReport): void {
  const told = jobIds.filter((id) => Object.hasOwn(logs, id))
  for (const job of unit.jobs(told)) {
    if (job.hold?.workerId !== worker.id || leases[job.id] !== job.lease) continue
    const logged = withLog(job, logs[job.id], unit.now)
    if (logged !== job) unit.keep(logged)
  }
}

/** Attempts a worker lost and does not list. A job listed without a lease stands for all its attempts. */
function stopOthers(unit: Unit, worker: Worker, { jobIds, leases }: BeatReport): Promise<StopOrder[]> {
  const listed = new Set(jobIds)
  const isListed = ({ jobId, lease }: Notice): boolean => listed.has(jobId) && (leases[jobId] ?? lease) === lease
  return stopOrders(
    unit,
    worker,
    unit.notices(worker.id).filter((notice) => !isListed(notice)),
  )
}

async function unlistedOf(
  unit: Unit,
  worker: Worker,
  report: BeatReport,
  listed: ReadonlyMap<string, Job>,
): Promise<Unlisted[]> {
  const stale = [...listed.values()].filter((job) => job.hold?.workerId === worker.id && isStale(report, job))
  const others = await unit.heldBeside(worker.id, new Set(report.jobIds), MAX_UNLISTED)
  return [...stale, ...others].slice(0, MAX_UNLISTED).map((job) => ({
    jobId: job.id,
    lease: job.lease,
    heldMs: job.startedAt === null ? millis(0) : elapsed(job.startedAt, unit.now),
  }))
}

/** Those of these notices that the worker still needs: not too old, and it has not finished the job itself since. */
export async function stopOrders(unit: Unit, worker: Worker, notices: readonly Notice[]): Promise<StopOrder[]> {
  if (notices.length === 0) return []
  const jobs = await unit.seeJobs(notices.map(({ jobId }) => jobId))
  const orders: StopOrder[] = []
  for (const notice of notices) {
    const { jobId, lease, at } = notice
    const job = jobs.get(jobId) ?? null
    if (elapsed(at, unit.now) < TOLD_FOR_MS && job?.closedBy?.workerId !== worker.id)
      orders.push({ jobId, reason: reasonOf(notice, job), lease })
    else unit.forgetNotices(worker.id, notice)
  }
  return orders
}

/** What was lost may have been cancelled since. */
function reasonOf({ reason }: Notice, job: Job | null): Notice['reason'] {
  return reason === 'lost' && isCancelled(job) ? 'cancelled' : reason
}

const isCancelled = (job: Job | null): boolean => job?.state === 'cancelled' && job.cancelReason !== 'workflow_timeout'

interface Judged {
  readonly jobId: string
  readonly held: boolean
  readonly stop: StopOrder | null
}

function judge(unit: Unit, worker: Worker, report: BeatReport, jobId: string, job: Job | null): Judged {
  const asked = report.leases[jobId]
  const stop = (reason: Notice['reason'], lease: number | null): Judged => ({
    jobId,
    held: false,
    stop: { jobId, reason, lease },
  })
  if (
    job !== null &&
    job.hold !== null &&
    !isStale(report, job) &&
    (job.hold.workerId === worker.id || job.hold.workerId === null)
  ) {
    const soft = isDue(softDeadlineAt(job), unit.now)
    return { jobId, held: true, stop: soft ? { jobId, reason: 'timeout', lease: job.lease } : null }
  }
  const finishedIt = job?.closedBy?.workerId === worker.id && (asked === undefined || asked === job.closedBy.lease)
  if (finishedIt) return { jobId, held: false, stop: null }
  const notice = unit
    .notices(worker.id)
    .findLast((told) => told.jobId === jobId && (asked === undefined || told.lease === asked))
  if (notice !== undefined) return stop(reasonOf(notice, job), notice.lease)
  return stop(isCancelled(job) ? 'cancelled' : 'lost', asked ?? job?.lease ?? null)
}

function isStale({ leases }: BeatReport, job: Job): boolean {
  const asked = leases[job.id]
  return asked !== undefined && asked !== job.lease
}

/** Test bench only: a job's meta may ask for a directive to the worker that runs it. */
function testDirective(worker: Worker, jobs: ReadonlyMap<string, Job>): WorkerState {
  for (const job of jobs.values()) {
    if (job.hold === null || (job.hold.workerId !== worker.id && job.hold.workerId !== null)) continue
    const { meta } = JSON.parse(`{${job.body}}`) as { meta?: { test_directive?: unknown } }
    const asked = WORKER_STATES.find((state) => state === meta?.test_directive)
    if (asked !== undefined) return asked
  }
  return 'running'
}
