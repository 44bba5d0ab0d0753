/**
 * Loads what is due, lets `lifecycle.expire` decide, and saves it. The group commit does this before every group, and the
 * wake loop at the nearest `wakeAt`. Nothing else looks for expired work.
 */
import {
  absorbBeat,
  after,
  deathAt,
  FORGET_AFTER_MS,
  isDue,
  workerEvent,
  workerWakeAt,
  iso,
  type DocName,
  type Worker,
} from '@curfew/core'
import type { Unit } from './unit.ts'
import type { Opened } from './unit-rows.ts'

/** Each of workers, jobs and documents in one transaction: those of one instant are decided with one `now`, as far as they fit. */
export const MAX_DUE = 1_000

/** What the step needs to know of the house. */
export interface WakePorts {
  readonly isPolling: (workerId: string) => boolean
  readonly wakeDocs: (unit: Unit, docs: readonly DocName[]) => Promise<void>
  /** Lets the owners of what has ended hear of it. */
  readonly follow: (unit: Unit) => Promise<void>
}

/** Settles what is due; true when there may be more than one step could take. */
export async function wakeStep(
  unit: Unit,
  { dueWorkers, dueJobs, dueDocs }: Omit<Opened, 'life'>,
  { isPolling, wakeDocs, follow }: WakePorts,
): Promise<boolean> {
  unit.begin()
  for (const { id } of dueWorkers) await wakeWorker(unit, id, isPolling)
  // A job must not be judged before the worker that holds it has been.
  if (dueWorkers.length === MAX_DUE) return true
  // As they are by now: the death of their holder may have ended some.
  const jobs = dueWorkers.length === 0 ? dueJobs : await unit.loadedJobs(dueJobs.map(({ id }) => id))
  await unit.seeHolders(jobs)
  for (const job of jobs) {
    const pause = unit.pace.step()
    if (pause !== undefined) await pause
    await unit.settle(job)
  }
  await follow(unit)
  // Jobs go first: a workflow must not end before the members that end with it.
  if (dueJobs.length === MAX_DUE) return true
  if (dueDocs.length > 0) {
    await wakeDocs(unit, dueDocs)
    await follow(unit)
  }
  return dueDocs.length === MAX_DUE
}

async function wakeWorker(unit: Unit, workerId: string, isPolling: (workerId: string) => boolean): Promise<void> {
  const worker = await unit.loadedWorker(workerId)
  if (worker === null) return
  const life = unit.livenessWith(worker)
  if (worker.diedAt !== null) {
    if (isDue(after(worker.diedAt, FORGET_AFTER_MS), unit.now)) unit.removeWorker(worker.id)
    return
  }
  // An open long poll is a sign of life for as long as it is open.
  const seen = isPolling(worker.id) ? { ...worker, lastSeenAt: unit.now } : worker
  const dead = deathAt(seen, life)
  if (isDue(dead, unit.now)) return declareDead(unit, seen.id)
  if (dead === null && isDue(after(seen.lastSeenAt, FORGET_AFTER_MS), unit.now)) {
    if ((await unit.heldBy(seen.id)).length === 0) unit.removeWorker(seen.id)
    else unit.putWorker({ ...seen, wakeAt: after(unit.now, FORGET_AFTER_MS) })
    return
  }
  unit.putWorker({ ...seen, wakeAt: workerWakeAt(seen, life) })
}

/**
 * Every job whose reservation names the dead worker is recovered, each by whichever limit came first; jobs left to a
 * stall clock of their own keep what the last beat said. The row stays for an hour so that its health can be asked, and
 * with it what the worker is to be told: perhaps it was only slow, and still runs what it has lost.
 */
async function declareDead(unit: Unit, workerId: string): Promise<void> {
  const held = await unit.heldBy(workerId)
  const worker = await unit.loadedWorker(workerId)
  if (worker === null) return
  const recovered: string[] = []
  for (const job of held) {
    const settled = await unit.settle(job)
    if (settled === null || settled.hold === null) recovered.push(job.id)
    else unit.keep(absorbBeat(settled, worker))
  }
  const gone: Worker = {
    ...worker,
    known: false,
    registered: false,
    diedAt: unit.now,
    activeJobs: 0,
    wakeAt: after(unit.now, FORGET_AFTER_MS),
  }
  unit.putWorker(gone)
  unit.emit(
    workerEvent('worker.died', worker.id, unit.now, {
      last_heartbeat_at: worker.lastBeatAt === null ? null : iso(worker.lastBeatAt),
      last_seen_at: iso(worker.lastSeenAt),
      recovered_jobs: recovered,
    }),
  )
}
