/** The job that a run of a journey asks for: read as if a client had sent it, with the run as its parent. */
import type { Instant } from '../time/clock.ts'
import { readEnqueue, type EnqueueRequest } from './job/enqueue.ts'
import type { Fields } from './shape.ts'

export function readJobOfRun(runId: string, fields: Fields, now: Instant): EnqueueRequest {
  const sent = { ...fields, x_parent: { journey_id: runId } }
  return readEnqueue(JSON.stringify(sent), sent, now)
}
