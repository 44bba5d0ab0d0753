/** The record of one job with everything its clocks depend on, for the board and `curfew explain`. */
import { writeBoardJob, type BoardJob } from '@curfew/core'
import { findJob } from './job-routes.ts'
import { whatHolds } from './rate-limit-routes.ts'
import type { Call, Route } from '../api/route.ts'

export const BOARD_JOB_ROUTES: readonly Route[] = [
  {
    method: 'GET',
    path: '/api/v1/board/jobs/:id',
    tag: 'board',
    summary: 'A job as it is stored, with its worker, the outages, its place in the queue and what holds it back',
    handle: async (call) => ({ body: writeBoardJob(await boardJob(call)) }),
  },
]

async function boardJob(call: Call): Promise<BoardJob> {
  const { engine } = call
  const { job, life } = await findJob(call)
  const heldBy = await whatHolds(engine, job)
  const { queue, checkpoint } = await engine.read(async (reads) => ({
    queue: await reads.queue(job.queue),
    checkpoint: job.checkpointSeq === 0 ? null : await reads.checkpoint(job.id),
  }))
  return {
    now: engine.now(),
    job,
    life,
    signs: null,
    checkpointAt: checkpoint?.createdAt ?? null,
    queue: queue === null ? null : { name: queue.name, pausedAt: queue.pausedAt, drainingAt: queue.drainingAt },
    isHeld: heldBy !== null,
    place: null,
    heldBy,
  }
}
