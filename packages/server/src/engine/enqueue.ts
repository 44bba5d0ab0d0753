/** PUSH: one job, or many that stand or fall together. And `plan`: the same decision, shown and not made. */
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
  type Job,
  type NewJob,
  type Parent,
  type Plan,
} from '@curfew/core'
import type { Command } from './corridor.ts'
import type { Engine } from './engine.ts'
import type { Unit } from './unit.ts'

export function enqueue(engine: Engine, request: EnqueueRequest): Command<Job> {
  return { name: 'enqueue', run: (unit) => admitOne(engine, unit, request) }
}

export function enqueueBatch(engine: Engine, requests: readonly EnqueueRequest[]): Command<Job[]> {
  return {
    name: 'enqueue',
    run: async (unit) => {
      const jobs: Job[] = []
      for (const [index, request] of requests.entries()) {
        try {
          jobs.push(await admitOne(engine, unit, request))
        } catch (error) {
          throw atIndex(error, index)
        }
      }
      return jobs
    },
  }
}

/** What an enqueue would mean. Nothing is stored. */
export function plan(engine: Engine, request: EnqueueRequest): Command<Plan> {
  return {
    name: 'plan',
    run: async (unit) => {
      const { asked, warnings } = await resolve(engine, unit, request)
      const { job } = admit(asked, unit.moment)
      const planned = planFor(job, engine.settings.limits, unit.now)
      return { ...planned, warnings: [...warnings, ...planned.warnings] }
    },
  }
}

async function admitOne(engine: Engine, unit: Unit, request: EnqueueRequest): Promise<Job> {
  const { asked, warnings } = await resolve(engine, unit, request)
  // An id the server made is new; the store would refuse it otherwise.
  if (request.id !== null && (await unit.job(asked.id)) !== null) {
    throw new OjsError('duplicate', 'A job with this id exists already.', { details: { existing_job_id: asked.id } })
  }
  if ((await unit.queue(asked.queue)) === null) {
    unit.putQueue({ name: asked.queue, createdAt: unit.now, pausedAt: null, config: {} })
  }
  const step = admit(asked, unit.moment)
  const told = [...warnings, ...impossibilities(step.job)]
  const job =
    told.length === 0 ? step.job : { ...step.job, body: `${step.job.body},"x_warnings":${JSON.stringify(told)}` }
  unit.apply(job === step.job ? step : { ...step, job })
  return isDue(job.wakeAt, unit.now) ? ((await unit.settle(job)) ?? job) : job
}

async function resolve(
  engine: Engine,
  unit: Unit,
  request: EnqueueRequest,
): Promise<{ asked: NewJob; warnings: string[] }> {
  const [type, queue] = [await unit.type(request.type), await unit.queue(request.queue)]
  const limits = settleAtEnqueue({
    publish: request.asked,
    type: type === null ? null : { ...type.asked, caps: type.caps },
    queue: queue === null ? null : queueLimits(queue.config),
    server: engine.settings.limits,
  })
  const { ceiling, warnings } = request.parent === null ? NO_PARENT : await ceilingFor(unit, request, request.parent)
  const asked: NewJob = {
    id: request.id ?? uuidV7(unit.now, engine.random),
    type: request.type,
    queue: request.queue,
    priority: request.priority,
    retry: request.retry,
    limits,
    ceiling,
    parent: request.parent,
    scheduledAt: request.scheduled?.at ?? null,
    expiresAt: request.expires?.at ?? null,
    resultTtlMs: request.resultTtlMs,
    traceId: request.traceId,
    body: request.body,
    given: request.given,
    pending: request.pending,
  }
  return { asked, warnings }
}

const NO_PARENT = { ceiling: null, warnings: [] as string[] }

/** A child may only be tighter than its parent. A parent with nothing left gets no children. */
async function ceilingFor(
  unit: Unit,
  { inheritDeadline }: EnqueueRequest,
  parent: Parent,
): Promise<{ ceiling: Ceiling | null; warnings: string[] }> {
  const found = parent.kind === 'job' ? await unit.job(parent.id) : null
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
