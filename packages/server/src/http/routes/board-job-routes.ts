/** The record of one job with everything its clocks depend on, for the board and `curfew explain`. */
import { queueOrder, stepSpansIn, writeBoardJob, type BoardJob } from '@curfew/core'
import { findJob } from './job-routes.ts'
import { whatHolds } from './rate-limit-routes.ts'
import { MAX_COUNTED } from '../../store/store.ts'
import { JSON_MEDIA } from '../api/message.ts'
import type { Call, Route } from '../api/route.ts'

export const BOARD_JOB_ROUTES: readonly Route[] = [
  {
    method: 'GET',
    path: '/api/v1/board/jobs/:id',
    tag: 'board',
    summary: 'A job as it is stored, with its worker, the outages, its place in the queue and what holds it back',
    handle: async (call) => ({ media: JSON_MEDIA, body: writeBoardJob(await boardJob(call)) }),
  },
]

async function boardJob(call: Call): Promise<BoardJob> {
  const { engine } = call
  const { job, life } = await findJob(call)
  const heldBy = await whatHolds(engine, job)
  const { queue, checkpoint, ahead } = await engine.read(async (reads) => {
    const found = await reads.queue(job.queue)
    return {
      queue: found,
      checkpoint: job.checkpointSeq === 0 ? null : await reads.checkpoint(job.id),
      ahead: job.state === 'available' ? await reads.ahead(job, queueOrder(found?.config ?? {}), MAX_COUNTED) : null,
    }
  })
  return {
    now: engine.now(),
    job,
    life,
    signs: engine.recentSigns.of(job.id, engine.upAt),
    checkpointAt: checkpoint?.createdAt ?? null,
    steps: stepSpansIn(checkpoint?.state ?? null),
    queue: queue === null ? null : { name: queue.name, pausedAt: queue.pausedAt, drainingAt: queue.drainingAt },
    isHeld: heldBy !== null,
    place: ahead === null ? null : { ahead: ahead.total, isExact: ahead.isExact },
    heldBy,
  }
}
