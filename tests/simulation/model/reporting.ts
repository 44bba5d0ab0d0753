/** ACK, FAIL, progress and checkpoints, as the model sees them: the fence first, then what follows. */
import type { Call, FenceFields } from '../calls.ts'
import { OK, type Expected, type Model } from './model.ts'
import { isTimely, softStop, wind, type ModelJob } from './records.ts'
import { complete, endAttempt, handBack } from './rules.ts'

/**
 * Why a report does not speak for the attempt that is running (in this order). An anonymous reservation belongs to
 * every worker that reports on it.
 */
function staleReason({ hold, attempt, lease }: ModelJob, fence: FenceFields, ownerNeeded = false): string | null {
  if (hold === null) return 'not_active'
  const isForeign = hold.workerId !== null && fence.worker_id !== hold.workerId
  if (fence.worker_id === undefined ? ownerNeeded : isForeign) return 'not_owner'
  if (fence.attempt !== undefined && fence.attempt !== attempt) return 'stale_attempt'
  return fence.x_lease !== undefined && fence.x_lease !== lease ? 'stale_attempt' : null
}

function refuse(model: Model, job: ModelJob, reason: string): Expected {
  if (!model.rules.has(job.id)) model.rules.set(job.id, 'stale')
  return { status: 409, reason }
}

/** Whatever a worker says shows that it lives, even if it is refused. */
export function hear(model: Model, workerId: string | null | undefined): void {
  const worker = workerId === null || workerId === undefined ? undefined : model.workers.get(workerId)
  if (worker !== undefined) wind(worker.alive, model.now)
}

/** The worker's own report again, for the attempt that it ended: proved by the lease. */
function isRepeat({ closedBy, state }: ModelJob, { verb, body }: Extract<Call, { verb: 'ack' | 'nack' }>): boolean {
  if (closedBy === null || body.x_lease !== closedBy.lease) return false
  if (body.worker_id === undefined || body.worker_id !== closedBy.workerId) return false
  if (body.attempt !== undefined && body.attempt !== closedBy.attempt) return false
  return verb === 'ack' ? state === 'completed' : state !== 'completed'
}

export function report(model: Model, job: ModelJob, call: Extract<Call, { verb: 'ack' | 'nack' }>): Expected {
  const reason = staleReason(job, call.body, model.settings.requireOwner)
  if (reason === 'not_active' && isRepeat(job, call)) return { ...OK, shows: [job] }
  if (reason !== null) return refuse(model, job, reason)
  hear(model, job.hold?.workerId)
  if (call.verb === 'ack') complete(job, call.body.result, model.moment())
  else if (call.body.requeue === true || call.body.error === undefined) handBack(job, model.moment())
  else {
    const { type, code, retryable } = call.body.error
    const names = [type, code].filter((name) => name !== undefined)
    // A failure long before the soft deadline is an ordinary one, whatever it is called.
    const isTimeout = (names.includes('timeout') || names.includes('total_timeout')) && isTimely(job, model.now)
    const byTotal = isTimeout && softStop(job)?.limit === 'total'
    const shown = isTimeout ? 'timeout' : (type ?? code ?? 'error')
    endAttempt(job, { type: shown, names, isTimeout, byTotal, retryable, word: code, reported: true }, model.moment())
  }
  return { ...OK, shows: [job] }
}

/** Progress is best effort; a checkpoint is kept from the holder, and before the first start. */
export function sign(model: Model, job: ModelJob, call: Extract<Call, { verb: 'progress' | 'checkpoint' }>): Expected {
  const reason = staleReason(job, call.body)
  if (call.verb === 'progress') {
    const wrongLease = job.hold !== null && call.body.x_lease !== undefined && call.body.x_lease !== job.lease
    if (reason !== null) return wrongLease ? refuse(model, job, reason) : OK
  } else {
    const neverStarted = job.lease === 0 && ['scheduled', 'available', 'pending'].includes(job.state)
    if (reason !== null && !neverStarted) return refuse(model, job, reason)
    job.checkpoint = { sequence: (job.checkpoint?.sequence ?? 0) + 1, state: JSON.stringify(call.body.state) }
  }
  hear(model, job.hold?.workerId)
  wind(job.hold?.sign ?? null, model.now)
  wind(job.hold?.visible ?? null, model.now, job.hold?.visibility.ms)
  return OK
}
