/** Progress and checkpoints: what a running attempt tells of itself. Both reset its liveness clocks, never its timeout. */
import {
  jobEvent,
  notFound,
  OjsError,
  reportProgress,
  signOfLife,
  staleError,
  staleReason,
  utf8Length,
  withLog,
  type Checkpoint,
  type Fence,
  type Job,
  type Json,
  type LogBatch,
  type ProgressReport,
} from '@curfew/core'
import type { Command } from '../kernel/command.ts'
import type { Context } from '../kernel/context.ts'
import { needsOf } from './reports.ts'
import type { Unit } from '../kernel/unit.ts'
import { touch } from '../workers/workers.ts'

export interface ProgressCall extends Fence, ProgressReport {
  readonly jobId: string
  readonly checkpoint: Json | null
  readonly log?: LogBatch | null
}

/** Best effort: a report for a job that is not active, or by another worker, is answered and ignored. */
export function progress(context: Context, call: ProgressCall): Command<Job> {
  return {
    name: 'progress',
    needs: needsOf(call),
    by: call.workerId,
    run: async (unit) => {
      const job = unit.job(call.jobId)
      if (job === null) throw notFound('job', call.jobId)
      const reason = staleReason(job, call)
      const wrongLease = job.hold !== null && call.lease !== undefined && call.lease !== job.lease
      if (reason !== null && wrongLease) throw staleError(job, reason, call)
      if (reason !== null) return job
      const step = reportProgress(withLog(job, call.log, unit.now), call, unit.now)
      unit.apply(step)
      await touch(unit, job.hold?.workerId)
      if (call.checkpoint === null) return step.job
      return (await store(context, unit, step.job, { state: call.checkpoint, stepIndex: null, metadata: null })).job
    },
  }
}

export interface CheckpointCall extends Fence {
  readonly jobId: string
  readonly log?: LogBatch | null
  /** Its number within the attempt: one that was overtaken by a newer one is not stored. */
  readonly seq?: number | null
  readonly state: Json
  readonly stepIndex: number | null
  readonly metadata: Json | null
}

export interface Saved {
  readonly job: Job
  readonly checkpoint: Checkpoint
}

/** Accepted from the holder until the fence, and before the first start; kept across attempts. */
export function saveCheckpoint(context: Context, call: CheckpointCall): Command<Saved> {
  return {
    name: 'checkpoint',
    needs: needsOf(call),
    by: call.workerId,
    run: async (unit) => {
      const job = unit.job(call.jobId)
      if (job === null) throw notFound('job', call.jobId)
      // By the lease, not by the attempt: a retry by hand counts attempts from 0 again, and late calls are about those before it.
      const neverStarted = job.lease === 0 && ['scheduled', 'available', 'pending'].includes(job.state)
      const reason = staleReason(job, call)
      if (reason !== null && !neverStarted) throw staleError(job, reason, call)
      await touch(unit, job.hold?.workerId)
      const newer = reason === null && isOvertaken(job, call) ? await unit.checkpoint(job.id) : null
      if (newer !== null) return { job, checkpoint: newer }
      const logged = reason === null ? withLog(job, call.log, unit.now) : job
      return store(context, unit, signOfLife(logged, unit.now), call)
    },
  }
}

/** A repeat, or delayed on its way: what is stored came after it. */
function isOvertaken({ hold }: Job, { seq }: CheckpointCall): boolean {
  return seq !== undefined && seq !== null && hold?.saved !== undefined && seq <= hold.saved
}

export function deleteCheckpoint(jobId: string): Command<void> {
  return {
    name: 'checkpoint.delete',
    needs: { jobs: [jobId] },
    run: async (unit) => {
      const job = unit.job(jobId)
      if (job === null) throw notFound('job', jobId)
      if (job.checkpointSeq === 0) return
      await unit.checkpoint(jobId)
      unit.putCheckpoint(jobId, null)
      unit.keep({ ...job, checkpointSeq: 0 })
    },
  }
}

async function store(
  context: Context,
  unit: Unit,
  job: Job,
  saved: { state: Json; stepIndex: number | null; metadata: Json | null; seq?: number | null },
): Promise<Saved> {
  const most = context.settings.largestCheckpointBytes
  if (saved.state.length > most || utf8Length(saved.state) > most) {
    throw new OjsError('payload_too_large', `A checkpoint must not be larger than ${String(most)} bytes.`, {
      details: { field: 'state', max_bytes: most },
    })
  }
  await unit.checkpoint(job.id)
  const sequence = job.checkpointSeq + 1
  const { state, stepIndex, metadata, seq } = saved
  const checkpoint: Checkpoint = { jobId: job.id, sequence, state, stepIndex, metadata, createdAt: unit.now }
  const isNumbered = job.hold !== null && seq !== undefined && seq !== null
  const kept = { ...job, checkpointSeq: sequence, ...(isNumbered ? { hold: { ...job.hold, saved: seq } } : {}) }
  unit.putCheckpoint(job.id, checkpoint)
  unit.keep(kept)
  unit.emit(jobEvent('job.checkpointed', kept, unit.now, { sequence }))
  return { job: kept, checkpoint }
}
