/** Whether a worker's report is about the attempt that is running, and what it is answered if not. */
import { OjsError } from '../../errors.ts'
import type { Hold, Job } from '../job.ts'

/** What a report carries to prove that it is about the attempt that is running. */
export interface Fence {
  readonly workerId?: string | undefined
  readonly attempt?: number | undefined
  readonly lease?: number | undefined
}

export type StaleReason = 'not_active' | 'not_owner' | 'stale_attempt'

export function staleReason(job: Job, fence: Fence, requireOwner = false): StaleReason | null {
  if (job.hold === null) return 'not_active'
  if (fence.workerId === undefined ? requireOwner : isForeign(job.hold, fence.workerId)) return 'not_owner'
  if (fence.attempt !== undefined && fence.attempt !== job.attempt) return 'stale_attempt'
  if (fence.lease !== undefined && fence.lease !== job.lease) return 'stale_attempt'
  return null
}

/** A reservation without a worker's id may be reported on by any worker. */
const isForeign = ({ workerId }: Hold, asker: string): boolean => workerId !== null && workerId !== asker

/**
 * Whether a report repeats the one by which this very worker ended this very attempt: its answer was lost, and the worker
 * sent it again. Only a lease proves that; the next claim ends it.
 */
export function repeatsReport(job: Job, fence: Fence, verb: 'ack' | 'nack'): boolean {
  const { hold, closedBy, state } = job
  if (hold !== null || closedBy === null || fence.lease === undefined || fence.workerId === undefined) return false
  if (fence.attempt !== undefined && fence.attempt !== closedBy.attempt) return false
  return (
    fence.lease === closedBy.lease &&
    fence.workerId === closedBy.workerId &&
    (verb === 'ack') === (state === 'completed')
  )
}

function staleText(reason: StaleReason): string {
  switch (reason) {
    case 'not_active':
      return 'The job is not active: its attempt is over, and this report came too late or was a repeat.'
    case 'not_owner':
      return 'The job is held by another worker; only the holder may report on it.'
    case 'stale_attempt':
      return 'The report is about an earlier attempt; the job has been handed out again since.'
  }
}

/** What is wrong with a report that is not about an earlier attempt; null for one that is. */
function aheadText(job: Job, { attempt, lease }: Fence): string | null {
  // After a retry by hand attempts are counted anew, leases never are: the lease is the surer word.
  if (lease !== undefined && lease < job.lease) return null
  if (attempt !== undefined && attempt > job.attempt)
    return `The report is about attempt ${String(attempt)}; the one that is running is attempt ${String(job.attempt)}.`
  return lease !== undefined && lease > job.lease ? 'The report carries a lease that has not been given yet.' : null
}

export function staleError(job: Job, reason: StaleReason, fence: Fence): OjsError {
  const ahead = reason === 'stale_attempt' ? aheadText(job, fence) : null
  return new OjsError('conflict', ahead ?? staleText(reason), {
    details: {
      job_id: job.id,
      current_state: job.state,
      expected_state: 'active',
      reason,
      ...(reason === 'not_active' && job.closedBy !== null
        ? {
            completed_by: {
              worker_id: job.closedBy.workerId,
              attempt: job.closedBy.attempt,
              x_lease: job.closedBy.lease,
            },
          }
        : {}),
    },
    hint:
      ahead === null
        ? 'Drop this result; the server has already decided about that attempt.'
        : 'Send attempt and x_lease as they came with the job.',
  })
}
