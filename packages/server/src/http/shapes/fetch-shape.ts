/** FETCH on the wire: what is asked for, and jobs as they are handed out. */
import {
  HandedOutLimits,
  list,
  millis,
  object,
  policy,
  QUEUE_SHAPE,
  refuseReserved,
  renderHandedOut,
  whole,
  WORKER_ID_SHAPE,
  type Instant,
  type Json,
  type Millis,
} from '@curfew/core'
import { handBack, type FetchRequest, type Handed } from '../../engine/jobs/fetch.ts'
import type { Call } from '../api/route.ts'

export const MAX_WAIT_MS = 30_000

export const VISIBILITY = policy(whole(0, 315_360_000_000))
export const visibilityOf = (ms: number | undefined): Millis | null =>
  ms === undefined || ms === 0 ? null : millis(ms)

export const FETCH_FIELDS = {
  queues: list(QUEUE_SHAPE, 1, 1000),
  count: whole(1, 1000),
  visibility_timeout_ms: VISIBILITY,
  wait_ms: whole(0),
} as const
export const FETCH_SHAPE = object({ ...FETCH_FIELDS, worker_id: WORKER_ID_SHAPE }, { required: ['queues'] })

interface FetchFields {
  readonly queues: readonly string[]
  readonly count?: number
  readonly visibility_timeout_ms?: number
  readonly wait_ms?: number
}

export function fetchRequest(workerId: string | null, read: FetchFields, tenant: string | null): FetchRequest {
  for (const queue of read.queues) refuseReserved(queue, 'queues')
  return {
    queues: read.queues,
    count: read.count ?? 1,
    workerId,
    visibilityMs: visibilityOf(read.visibility_timeout_ms),
    waitMs: Math.min(read.wait_ms ?? 0, MAX_WAIT_MS),
    tenant,
  }
}

/** Jobs of a caller that disconnected before its answer was sent are handed back. */
export async function deliver({ engine, request }: Call, handed: readonly Handed[]): Promise<readonly Handed[]> {
  if (handed.length === 0) return handed
  if (request.signal.aborted) {
    await engine.run(handBack(handed))
    return []
  }
  request.ifUndelivered?.(() => {
    // If that fails, the worker learns of jobs it does not list with its next heartbeat, or the jobs lapse.
    engine.run(handBack(handed)).catch(() => {})
  })
  return handed
}

/** Each job as its worker gets it; lengths count from `answeredAt`. */
export function handedOut(handed: readonly Handed[], { visibilityMs }: FetchRequest, answeredAt: Instant): Json[] {
  const withoutSeconds = visibilityMs !== null
  const limits = new HandedOutLimits(answeredAt)
  return handed.map(({ job, checkpoint }) => renderHandedOut(job, { limits, checkpoint, withoutSeconds }))
}
