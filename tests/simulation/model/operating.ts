/** Workers that come and go, directives, PATCH and retries by hand, as the model sees them. */
import type { Fields, RegisterBody } from '../calls.ts'
import type { Answer } from '../server.ts'
import { insist } from '../violation.ts'
import { momentIn } from './enqueueing.ts'
import { askedIn, contradicts, resolveAgain, type Asked } from './limits.ts'
import { CONFLICT, INVALID, NOT_FOUND, OK, type Expected, type Model } from './model.ts'
import { fits, isOver as hasEnded, totalAt, type ModelJob } from './records.ts'
import { endAttempt, giveUpAhead, release } from './rules.ts'

/** The record begins anew; the jobs it holds, what it is to be told and what an operator asked of it stay. */
export function register(model: Model, body: RegisterBody): Expected {
  const directive = model.workers.get(body.worker_id)?.directive ?? 'continue'
  const worker = model.anew(body.worker_id)
  worker.known = true
  worker.directive = directive
  const handlers: Record<string, Asked> = {}
  for (const [type, limits] of Object.entries(body.handlers ?? {})) handlers[type] = askedIn(limits)
  worker.handlers = handlers
  return OK
}

export function deregister(model: Model, workerId: string, answer: Answer | null): Expected {
  if (!model.workers.has(workerId)) return NOT_FOUND
  const held = model.heldBy(workerId)
  for (const job of held) endAttempt(job, { type: 'shutdown', names: [], lapsed: true }, model.moment())
  model.forget(workerId)
  model.left.set(workerId, model.now)
  if (answer?.status === 200) {
    const { requeued_jobs, discarded_jobs } = answer.body as { requeued_jobs: string[]; discarded_jobs: string[] }
    const isGone = ({ state }: ModelJob): boolean => state === 'discarded'
    const text = (ids: readonly string[]): string => [...ids].sort().join()
    const expected = (gone: boolean): string => text(held.filter((job) => isGone(job) === gone).map(({ id }) => id))
    insist('answers', text(requeued_jobs) === expected(false) && text(discarded_jobs) === expected(true), () => {
      return `${workerId} left; the answer tells of [${text(requeued_jobs)}] and [${text(discarded_jobs)}]`
    })
  }
  return OK
}

export function direct(model: Model, workerId: string, word: 'quiet' | 'terminate' | 'resume'): Expected {
  const worker = model.workers.get(workerId)
  if (worker === undefined) return NOT_FOUND
  if (word !== 'terminate' && (worker.directive === 'terminate' || worker.state === 'terminate')) return CONFLICT
  const runs = worker.directive === 'continue' && worker.state === 'running'
  worker.directive = word === 'resume' && runs ? 'continue' : word
  return OK
}

export function patch(model: Model, job: ModelJob, body: Fields): Expected {
  if (job.state === 'active' || hasEnded(job)) return CONFLICT
  if (Object.keys(body).length === 0) return { ...OK, shows: [job] }
  const asked = patched(job.asked, body)
  if (contradicts(asked)) return INVALID
  const { now } = model
  const scheduledAt = body['scheduled_at'] === undefined ? job.scheduledAt : momentIn(body, 'scheduled_at', now)
  const isMoved = scheduledAt !== job.scheduledAt
  job.asked = asked
  job.limits = resolveAgain(job.limits, model.limitsToday(job), new Set(Object.keys(namedIn(body))))
  job.scheduledAt = scheduledAt
  if (body['expires_at'] !== undefined) job.expiresAt = momentIn(body, 'expires_at', now)
  if (typeof body['priority'] === 'number') job.priority = body['priority']
  job.limitsSetAt = now
  model.rules.set(job.id, 'limits')
  const isLater = scheduledAt !== null && scheduledAt > now
  if (isLater && isMoved && job.state === 'available') job.state = 'scheduled'
  else if (!isLater && job.state === 'scheduled') release(job, now)
  // One that waits for its retry does not start before the moment it was moved to.
  if (isMoved && job.retryAt !== null) job.retryAt = Math.max(job.retryAt, scheduledAt ?? 0)
  const isOver = (totalAt(job) ?? Infinity) <= now
  if (!isOver && job.state === 'retryable' && !fits(job, job.retryAt ?? now, 0)) giveUpAhead(job, model.moment())
  model.settleJob(job)
  return { ...OK, shows: [job] }
}

/** Something for each limit that it speaks of. */
function namedIn(body: Fields): Asked {
  return askedIn(Object.fromEntries(Object.keys(body).map((key) => [key, key.startsWith('x_') ? 'retry' : 1])))
}

/** Laid over what was given: `null` removes. */
function patched(asked: Asked, body: Fields): Asked {
  const removed = namedIn(body)
  const kept = Object.entries(asked).filter(([name]) => removed[name as keyof Asked] === undefined)
  return { ...(Object.fromEntries(kept) as Asked), ...askedIn(body) }
}

/** Limits and clocks begin anew; history, checkpoint and lease are kept. */
export function retryByHand(model: Model, job: ModelJob, fromDeadLetters: boolean): Expected {
  if (fromDeadLetters && !job.deadLetter) return NOT_FOUND
  if (job.state !== 'discarded' && job.state !== 'cancelled') return CONFLICT
  job.limits = model.limitsToday(job)
  job.ceilingAt = null
  job.expiresAt = null
  job.attempt = 0
  job.interruptions = 0
  job.anchorAt = model.now
  job.limitsSetAt = model.now
  job.closedBy = null
  job.ending = null
  job.deadLetter = false
  job.purgeAt = null
  release(job, model.now)
  model.rules.set(job.id, 'limits')
  return { ...OK, shows: [job] }
}
