/** PUSH: one job, or many that stand or fall together, or each alone. And `plan`: the same decision, shown and not made. */
import {
  admit,
  atIndex,
  impossibilities,
  OjsError,
  planFor,
  queueLimits,
  settleAtEnqueue,
  softDeadlineAt,
  totalAt,
  isDue,
  isTerminal,
  uuidV7,
  type Ceiling,
  type EnqueueRequest,
  type Fragment,
  type Job,
  type NewJob,
  type Owner,
  type Parent,
  type Plan,
} from '@curfew/core'
import { decideEach, type Command, type Outcome } from './corridor.ts'
import type { Engine } from './engine.ts'
import { isLimited, limitedBy, limitersOf } from './limiters.ts'
import type { Needs, Unit } from './unit.ts'

export function enqueue(engine: Engine, request: EnqueueRequest): Command<Job> {
  return { name: 'enqueue', needs: needsOf([request]), run: (unit) => admitJob(engine, unit, request) }
}

export function enqueueBatch(engine: Engine, requests: readonly EnqueueRequest[]): Command<Job[]> {
  return {
    name: 'enqueue',
    needs: needsOf(requests),
    run: async (unit) => {
      const jobs: Job[] = []
      for (const [index, request] of requests.entries()) {
        try {
          jobs.push(await admitJob(engine, unit, request))
        } catch (error) {
          throw atIndex(error, index)
        }
      }
      return jobs
    },
  }
}

/** Many that have nothing to do with each other: each stands or falls alone. */
export function enqueueEach(engine: Engine, requests: readonly EnqueueRequest[]): Command<Outcome<Job>[]> {
  const parts = requests.map((request) => enqueue(engine, request))
  return {
    name: 'enqueue',
    needs: needsOf(requests),
    size: parts.length,
    run: (unit) => decideEach(unit, parts),
  }
}

/** What an enqueue would mean. Nothing is stored. */
export function plan(engine: Engine, request: EnqueueRequest): Command<Plan> {
  return {
    name: 'plan',
    needs: needsOf([request]),
    run: async (unit) => {
      const parent = request.parent === null ? NO_PARENT : await ceilingFor(unit, request, request.parent)
      const { asked, warnings } = resolve(engine, unit, request, parent, NOTHING_MORE)
      const { job } = admit(asked, unit.moment)
      const planned = planFor(job, engine.settings.limits, unit.now)
      return { ...planned, warnings: [...warnings, ...planned.warnings] }
    },
  }
}

export function needsOf(requests: readonly EnqueueRequest[]): Needs {
  return {
    // An id the server made is new; the store would refuse it otherwise.
    jobs: requests.map(({ id }) => id).filter((id) => id !== null),
    queues: requests.map(({ queue }) => queue),
    types: requests.map(({ type }) => type),
    docs: limitersOf(requests),
  }
}

/** What a job is given besides what its request asks for. */
export interface Admission {
  readonly owner?: Owner
  /** The deadline of whoever it belongs to; the nearer of this and a parent's counts. */
  readonly ceiling?: Ceiling | null
  readonly tenant?: string | null
  /** More of its envelope: `"parent_results":[…]`. */
  readonly body?: Fragment
}

const NOTHING_MORE: Admission = {}

/**
 * The one way in which a job comes into being, be it by request, by a workflow or by the clock. Its queue and type must
 * have been loaded (`needsOf`). Waits for nothing, unless there is a parent to be looked at.
 */
export function admitJob(
  engine: Engine,
  unit: Unit,
  request: EnqueueRequest,
  more: Admission = NOTHING_MORE,
): Job | Promise<Job> {
  const docs = limitersOf([request])
  if (docs.length > 0 && unit.misses({ docs }))
    return unit.load({ docs }).then(() => admitJob(engine, unit, request, more))
  if (request.parent === null) return admitUnder(engine, unit, request, NO_PARENT, more)
  return ceilingFor(unit, request, request.parent).then((parent) => admitUnder(engine, unit, request, parent, more))
}

function admitUnder(
  engine: Engine,
  unit: Unit,
  request: EnqueueRequest,
  parent: Above,
  more: Admission,
): Job | Promise<Job> {
  const { asked, warnings } = resolve(engine, unit, request, parent, more)
  if (request.id !== null && unit.job(asked.id) !== null) {
    throw new OjsError('duplicate', 'A job with this id exists already.', { details: { existing_job_id: asked.id } })
  }
  const known = unit.queue(asked.queue)
  const queue = known ?? { name: asked.queue, version: 0, createdAt: unit.now, pausedAt: null, config: {} }
  const limited = limitedBy(unit, queue, request)
  if (known === null || limited !== queue) unit.putQueue(limited)
  if (isLimited(limited)) engine.limitedQueues.add(limited.name)
  const step = admit(asked, unit.moment)
  const told = [...warnings, ...impossibilities(step.job)]
  const job =
    told.length === 0 ? step.job : { ...step.job, body: `${step.job.body},"x_warnings":${JSON.stringify(told)}` }
  unit.apply(job === step.job ? step : { ...step, job })
  return isDue(job.wakeAt, unit.now) ? unit.settle(job).then((settled) => settled ?? job) : job
}

function resolve(
  engine: Engine,
  unit: Unit,
  request: EnqueueRequest,
  { ceiling, warnings }: Above,
  more: Admission,
): { asked: NewJob; warnings: readonly string[] } {
  const [type, queue] = [unit.type(request.type), unit.queue(request.queue)]
  const limits = settleAtEnqueue({
    publish: request.asked,
    type: type === null ? null : { ...type.asked, caps: type.caps },
    queue: queue === null ? null : queueLimits(queue.config),
    server: engine.settings.limits,
  })
  const asked: NewJob = {
    id: request.id ?? uuidV7(unit.now, engine.random),
    type: request.type,
    queue: request.queue,
    priority: request.priority,
    retry: request.retry,
    limits,
    ceiling: nearer(ceiling, more.ceiling ?? null),
    parent: request.parent,
    owner: more.owner ?? null,
    uniqueKey: null,
    limitKey: request.rateLimit?.key ?? null,
    tenant: more.tenant ?? request.tenant,
    scheduledAt: request.scheduled?.at ?? null,
    expiresAt: request.expires?.at ?? null,
    resultTtlMs: request.resultTtlMs,
    traceId: request.traceId,
    body: more.body === undefined ? request.body : `${request.body},${more.body}`,
    given: request.given,
    pending: request.pending,
  }
  return { asked, warnings }
}

function nearer(a: Ceiling | null, b: Ceiling | null): Ceiling | null {
  if (a === null || b === null) return a ?? b
  return a.at <= b.at ? a : b
}

/** What a parent means for its child. */
interface Above {
  readonly ceiling: Ceiling | null
  readonly warnings: readonly string[]
}

const NO_PARENT: Above = { ceiling: null, warnings: [] }

/** A child may only be tighter than its parent. A parent with nothing left gets no children. */
async function ceilingFor(unit: Unit, { inheritDeadline }: EnqueueRequest, parent: Parent): Promise<Above> {
  const found = parent.kind === 'job' ? await unit.seeJob(parent.id) : null
  if (found === null) {
    throw new OjsError('validation_error', `x_parent names a ${parent.kind} that does not exist.`, {
      details: { field: 'x_parent' },
    })
  }
  if (!inheritDeadline) return { ceiling: null, warnings: [] }
  const deadlineAt = totalAt(found) ?? softDeadlineAt(found)
  if (isTerminal(found.state) || (deadlineAt !== null && deadlineAt <= unit.now)) {
    throw new OjsError('deadline_exceeded', 'The parent is over, or has no time left to give; nothing was enqueued.', {
      details: { field: 'x_inherit_deadline', parent_job_id: found.id, parent_state: found.state },
    })
  }
  return deadlineAt === null
    ? {
        ceiling: null,
        warnings: [
          'x_inherit_deadline: the parent is waiting and has no total timeout, so there is no deadline to inherit.',
        ],
      }
    : { ceiling: { at: deadlineAt, source: 'parent' }, warnings: [] }
}
