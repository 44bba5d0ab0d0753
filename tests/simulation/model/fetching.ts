/** FETCH, as the model sees it. Which jobs were handed out is looked up; whether they may be is judged. */
import type { FetchBody, Fields } from '../calls.ts'
import type { Answer } from '../server.ts'
import { insist, Violation } from '../violation.ts'
import { resolveAtClaim } from './limits.ts'
import { OK, type Expected, type Model } from './model.ts'
import { expiryAt, totalAt, ttlAt, wind, type ModelJob, type ModelWorker, type Renewable } from './records.ts'

/** A fetch was carried out, or a poll was answered. */
export function fetched(model: Model, body: FetchBody, answer: Answer | null): Expected {
  if (isDismissed(model, body, answer)) return { ...OK, shows: [] }
  const worker = body.worker_id === undefined ? null : model.living(body.worker_id)
  const isQuiet =
    worker !== null && (worker.state !== 'running' || worker.directive === 'quiet' || worker.directive === 'terminate')
  if (worker !== null) wind(worker.alive, model.now)
  const shown = answer?.status === 200 ? (answer.body as { jobs: Fields[] }).jobs.map(({ id }) => String(id)) : null
  const claims = model.turn.sight.takeClaims(body.worker_id ?? null, shown)
  insist('durable', shown === null || shown.length === claims.length, () => {
    return `a fetch of ${String(worker?.id)} was answered with ${String(shown)}, and not all of it was stored`
  })
  insist('handOut', !isQuiet || claims.length === 0, () => `${String(worker?.id)} is quiet and was handed a job`)
  const jobs = claims.map(({ id }) => claim(model, id, worker, body))
  if (shown !== null && !isQuiet) checkOrder(model, jobs, body)
  return { ...OK, shows: jobs }
}

/** A poll that its worker left open when it deregistered: it is answered empty, and does not bring the worker back. */
function isDismissed(model: Model, { worker_id: id, wait_ms: waitMs = 0 }: FetchBody, answer: Answer | null): boolean {
  if (id === undefined || waitMs === 0 || model.left.get(id) !== model.now || answer?.status !== 200) return false
  return (answer.body as { jobs: Fields[] }).jobs.length === 0
}

function claim(model: Model, id: string, worker: ModelWorker | null, body: FetchBody): ModelJob {
  const { now } = model
  const job = model.jobs.get(id)
  if (job === undefined) throw new Violation('cause', `${id} was handed out and should not exist`)
  insist('oneLease', job.hold === null, () => `${id} was handed out while ${String(job.hold?.workerId)} holds it`)
  const deadlines = { total: totalAt(job), enqueue_ttl: ttlAt(job), expires_at: expiryAt(job) }
  const isLate = Object.values(deadlines).some((at) => at !== null && at <= now)
  insist('noLateStart', !isLate, () => {
    return `${id} (${job.state}) started at ${String(now)}; its deadlines are ${JSON.stringify(deadlines)}`
  })
  insist('cause', job.state === 'available', () => `${id} was handed out while it is ${job.state}`)
  insist('handOut', model.queues.get(job.queue)?.paused === false && body.queues.includes(job.queue), () => {
    return `${id} was handed out although its queue is paused, or was not asked for`
  })
  const limits = resolveAtClaim(
    job.limits,
    {
      known: worker?.known ?? false,
      handler: worker?.handlers[job.type] ?? {},
      visibilityMs: body.visibility_timeout_ms ?? null,
    },
    model.settings.limits,
  )
  const clock = (ms: number): Renewable => ({ since: now, ms })
  job.attempt += 1
  job.lease += 1
  job.state = 'active'
  job.closedBy = null
  job.hold = {
    ...limits,
    workerId: worker?.id ?? null,
    startedAt: now,
    sign: limits.heartbeat === null ? null : clock(limits.heartbeat.ms),
    visible: clock(limits.visibility.ms),
  }
  model.rules.set(id, 'limits')
  const used = job.attempt - job.interruptions
  insist('attempts', used <= Math.max(1, job.retry.maxAttempts), () => {
    return `${id} starts its attempt ${String(used)} of ${String(job.retry.maxAttempts)} (refunded: ${String(job.interruptions)})`
  })
  return job
}

/** Queues from left to right, then the highest priority, then the oldest; and nothing is left that could be had. */
function checkOrder(model: Model, jobs: readonly ModelJob[], { queues, count }: FetchBody): void {
  const rank = (job: ModelJob): readonly number[] => [
    queues.indexOf(job.queue),
    -job.priority,
    model.clockWentBack ? 0 : job.enqueuedAt,
  ]
  const comesBefore = (a: ModelJob, b: ModelJob): boolean => {
    const [left, right] = [rank(a), rank(b)]
    const differs = left.findIndex((value, index) => value !== right[index])
    return differs >= 0 && (left[differs] ?? 0) < (right[differs] ?? 0)
  }
  const waiting = [...model.jobs.values()].filter(
    ({ state, queue }) => state === 'available' && queues.includes(queue) && model.queues.get(queue)?.paused === false,
  )
  insist('handOut', jobs.length >= count || waiting.length === 0, () => {
    return `a fetch for ${String(count)} got ${String(jobs.length)} while ${waiting.map(({ id }) => id).join()} waited`
  })
  const last = jobs.at(-1)
  const later = [
    ...jobs.slice(1).map((job, index) => [job, jobs[index]] as const),
    ...waiting.map((job) => [job, last] as const),
  ]
  for (const [job, earlier] of later) {
    insist('handOut', earlier === undefined || !comesBefore(job, earlier), () => {
      return `${job.id} should have been handed out before ${String(earlier?.id)}`
    })
  }
}
