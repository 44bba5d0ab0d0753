/** Workers as the engine meets them: found, created on first sight, and touched by whatever they say. */
import { absorbBeat, isGhost, workerWakeAt, type Worker } from '@curfew/core'
import type { Unit } from '../kernel/unit.ts'

export function newWorker(unit: Unit, id: string): Worker {
  const worker: Worker = {
    id,
    hostname: null,
    pid: null,
    queues: [],
    concurrency: null,
    labels: [],
    startedAt: null,
    state: 'running',
    draining: false,
    directive: 'continue',
    registered: false,
    known: false,
    createdAt: unit.now,
    lastSeenAt: unit.now,
    lastBeatAt: null,
    activeJobs: 0,
    beat: null,
    beatSeq: null,
    handlers: {},
    diedAt: null,
    wakeAt: null,
    version: 0,
  }
  return armed(unit, worker)
}

/** The worker as it stands; one that is unseen or was declared dead begins anew, as a stranger. */
export function livingWorker(unit: Unit, id: string): Worker {
  const worker = unit.worker(id)
  return worker?.diedAt === null ? worker : newWorker(unit, id)
}

/** The call was sent before its worker deregistered. It changes nothing. */
export function isLateCall(unit: Unit, workerId: string, seq: number | null): boolean {
  const worker = unit.worker(workerId)
  return worker !== null && isGhost(worker, seq, unit.livenessWith(null).workerTimeoutMs, unit.now)
}

/** Any call of a worker is a sign of life. An earlier `wakeAt` stays: it will find the later sign when it comes. */
export function seen(unit: Unit, worker: Worker): Worker {
  return worker.lastSeenAt === unit.now ? worker : { ...worker, lastSeenAt: unit.now }
}

export function armed(unit: Unit, worker: Worker): Worker {
  return { ...worker, wakeAt: workerWakeAt(worker, unit.livenessWith(worker)) }
}

/** Notes a sign of life of a worker that exists; strangers are not created for it. */
export async function touch(unit: Unit, workerId: string | null | undefined): Promise<void> {
  if (workerId === null || workerId === undefined) return
  await unit.load({ workers: [workerId] })
  touchLoaded(unit, workerId)
}

/** As `touch`, for a worker that was loaded. */
export function touchLoaded(unit: Unit, workerId: string): void {
  const worker = unit.worker(workerId)
  if (worker !== null && worker.diedAt === null && worker.lastSeenAt !== unit.now) unit.putWorker(seen(unit, worker))
}

/** Before a record is replaced: what its last beat said of the jobs it holds is kept on their rows. */
export async function absorbHeld(unit: Unit, worker: Worker): Promise<void> {
  if (worker.beat === null) return
  for (const job of await unit.heldBy(worker.id)) unit.keep(absorbBeat(job, worker))
}
