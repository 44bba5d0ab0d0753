/** PUSH: one job, or many that stand or fall together, or each alone. And `plan`: the same decision, shown and not made. */
import {
  admit,
  atIndex,
  nearMissWarnings,
  OjsError,
  planFor,
  RUN,
  queueLimits,
  settleAtEnqueue,
  softDeadlineAt,
  totalAt,
  isDue,
  isTerminal,
  isWorkflowOver,
  limitWarnings,
  uuidV7,
  warningsFor,
  WORKFLOW,
  type AskedLimits,
  type Ceiling,
  type DocName,
  type EnqueueRequest,
  type Fragment,
  type Instant,
  type Job,
  type Limits,
  type NewJob,
  type Owner,
  type Parent,
  type Plan,
  type TypePolicy,
} from '@curfew/core'
import {
  clearTheWay,
  fingerprintOf,
  foreseen,
  idTaken,
  isFree,
  lockFor,
  passageFor,
  pressureAfter,
  type Asked,
  type Door,
  type Enqueued,
} from './admission.ts'
import { decideEach, needsOf as allNeeds, type Command, type Outcome } from '../kernel/command.ts'
import type { Queue } from '../../store/store.ts'
import type { JobsContext } from './context.ts'
import { isLimited, limitedBy, limitersOf } from '../queues/limiters.ts'
import { queueFor } from '../queues/queue.ts'
import { noteFullQueue } from '../queues/capacity-waiters.ts'
import { isUnchecked, misfits, refuseForBench, validate } from '../schemas/schemas.ts'
import type { Fingerprint, Needs } from '../kernel/needs.ts'
import type { Unit } from '../kernel/unit.ts'

/** One request. `more`: what its job is given besides, such as the tenant it came from. */
export function enqueue(
  context: JobsContext,
  request: EnqueueRequest,
  more: Admission = NOTHING_MORE,
  door: Door = 'request',
): Command<Enqueued> {
  const asked = askedBy(request, more, door, NO_COMPANIONS)
  const isPlain = request.parent === null && request.rateLimit === null && asked.fingerprint === null
  const needs = isPlain ? plainNeeds(request) : needsOf([request], [asked])
  return { name: 'enqueue', needs, run: (unit) => pass(context, unit, asked, more) }
}

/** What most requests need, made without ado: this is the busiest way through the server. */
function plainNeeds({ id, queue, type }: EnqueueRequest): Needs {
  return id === null ? { queues: [queue], types: [type] } : { added: [id], queues: [queue], types: [type] }
}

/** All or none. No job of the batch makes way for another. */
export function enqueueBatch(
  context: JobsContext,
  requests: readonly EnqueueRequest[],
  more: Admission = NOTHING_MORE,
): Command<Enqueued[]> {
  const companions = new Set<string>()
  const asked = requests.map((request) => askedBy(request, more, 'request', companions))
  return {
    name: 'enqueue',
    needs: needsOf(requests, asked),
    // Alone in its transaction, if it is long: several long ones together would keep all others waiting.
    size: requests.length,
    run: async (unit) => {
      companions.clear()
      const all: Enqueued[] = []
      for (const [index, one] of asked.entries()) {
        const pause = unit.pace.step()
        if (pause !== undefined) await pause
        try {
          const enqueued = await pass(context, unit, one, more)
          all.push(enqueued)
          if (!enqueued.deduplicated) companions.add(enqueued.job.id)
        } catch (error) {
          throw atIndex(error, index)
        }
      }
      return all
    },
  }
}

/** Many independent jobs: each is enqueued or refused on its own. */
export async function enqueueEach(
  context: JobsContext,
  requests: readonly EnqueueRequest[],
  more: Admission = NOTHING_MORE,
): Promise<Outcome<Enqueued>[]> {
  const parts = requests.map((request) => enqueue(context, request, more))
  const outcomes = await context.run<Outcome<Enqueued>[]>({
    name: 'enqueue',
    needs: allNeeds(parts),
    size: parts.length,
    run: (unit) => decideEach(unit, parts),
  })
  for (const outcome of outcomes) if (!outcome.ok) noteFullQueue(context, outcome.error)
  return outcomes
}

/** What an enqueue would mean. Nothing is stored. */
export function plan(context: JobsContext, request: EnqueueRequest, more: Admission = NOTHING_MORE): Command<Plan> {
  const asked = askedBy(request, more, 'request', NO_COMPANIONS)
  return {
    name: 'plan',
    needs: needsOf([request], [asked]),
    run: async (unit) => {
      const parent = request.parent === null ? NO_PARENT : await ceilingFor(unit, request, request.parent)
      const { job } = admit(newJob(context, unit, request, parent, more), unit.moment)
      const planned = planFor(job, context.settings.limits, context.settings.heartbeatIntervalMs, unit.now)
      return {
        ...planned,
        warnings: [
          ...nearMissWarnings(request.nearMisses),
          ...parent.warnings,
          ...(await foreseen(unit, asked)),
          ...(await misfits(context, unit, request)),
          ...planned.warnings,
        ],
      }
    },
  }
}

export function needsOf(requests: readonly EnqueueRequest[], asked: readonly Asked[] = []): Needs {
  const unique = asked.map(({ fingerprint }) => fingerprint).filter((fingerprint) => fingerprint !== null)
  return {
    // An id the server made is new; the store would refuse it otherwise.
    added: requests.map(({ id }) => id).filter((id) => id !== null),
    queues: requests.map(({ queue }) => queue),
    types: requests.map(({ type }) => type),
    docs: [...limitersOf(requests), ...requests.flatMap(({ parent }) => (parent === null ? [] : docsOf(parent)))],
    names: unique.map(lockFor),
    unique,
  }
}

/** The documents of a parent that is a workflow or a run. */
export function docsOf({ kind, id }: Parent): readonly DocName[] {
  if (kind === 'job') return []
  return [{ kind: kind === 'workflow' ? WORKFLOW.kind : RUN.kind, id }]
}

const NO_COMPANIONS: ReadonlySet<string> = new Set()

function askedBy(request: EnqueueRequest, { tenant }: Admission, door: Door, companions: ReadonlySet<string>): Asked {
  return { request, fingerprint: fingerprintOf(request, tenant ?? request.tenant), door, companions }
}

/** One of several that stand or fall together, and by what else their command does. `companions`: those before it. */
export async function enqueueAmong(
  context: JobsContext,
  unit: Unit,
  request: EnqueueRequest,
  more: Admission,
  companions: Set<string>,
): Promise<Job> {
  const { job } = await pass(context, unit, askedBy(request, more, 'request', companions), more)
  companions.add(job.id)
  return job
}

/**
 * From a request to its job. Most requests need nothing but their queue and type, which are loaded: they are decided at once,
 * without a promise. All others take the steps one after the other.
 */
function pass(context: JobsContext, unit: Unit, asked: Asked, more: Admission): Enqueued | Promise<Enqueued> {
  const { request } = asked
  if (context.settings.conformance) refuseForBench(request)
  const isPlain = isUnchecked(request, unit.type(request.type)) && isFree(asked, unit.queue(request.queue))
  if (!isPlain) return passInSteps(context, unit, asked, more)
  const job = admitJob(context, unit, request, more)
  return job instanceof Promise ? job.then(admitted) : admitted(job)
}

const admitted = (job: Job): Enqueued => ({ job, deduplicated: false, pressure: null })

async function passInSteps(context: JobsContext, unit: Unit, asked: Asked, more: Admission): Promise<Enqueued> {
  // 1. The arguments fit their schema.
  const isChecked = !isUnchecked(asked.request, unit.type(asked.request.type))
  const warnings = isChecked ? await validate(context, unit, asked.request) : []
  const given = warnings.length === 0 ? more : { ...more, warnings }
  if (isFree(asked, unit.queue(asked.request.queue)))
    return admitted(await admitJob(context, unit, asked.request, given))
  // 2. No job does the same work, and the queue has capacity; or others make way.
  const passage = await passageFor(unit, asked)
  if (passage.kind === 'keep') return { job: passage.existing, deduplicated: true, pressure: null }
  const { request, bound } = passage
  const id = request.id ?? uuidV7(unit.now, context.random)
  clearTheWay(unit, id, passage)
  // 3. The job comes into being.
  const job = await admitJob(context, unit, request, { ...given, id, fingerprint: asked.fingerprint })
  return { job, deduplicated: false, pressure: pressureAfter(unit, request.queue, bound) }
}

/** What a job is given besides what its request asks for. */
export interface Admission {
  readonly owner?: Owner
  /** The deadline of its owner; the nearer of this and a parent's counts. */
  readonly ceiling?: Ceiling | null
  readonly tenant?: string | null
  /** More of its envelope: `"parent_results":[…]`. */
  readonly body?: Fragment
  /** Warnings for the sender of the request. */
  readonly warnings?: readonly string[]
  /** The id it was promised, where the request names none. */
  readonly id?: string
  /** The fingerprint, where the caller has worked it out already. */
  readonly fingerprint?: Fingerprint | null
}

const NOTHING_MORE: Admission = {}

/**
 * The one way in which a job comes into being, be it by request, by a workflow or by the clock. Its queue and type must
 * have been loaded (`needsOf`). Whether it may come is not asked here (`admission.ts`): what has begun is not refused
 * half-way. Gives a promise only where a parent or a limiter has to be loaded, or the job is due at once.
 */
export function admitJob(
  context: JobsContext,
  unit: Unit,
  request: EnqueueRequest,
  more: Admission = NOTHING_MORE,
): Job | Promise<Job> {
  const docs = limitersOf([request])
  const isLoaded = request.parent === null && (docs.length === 0 || !unit.misses({ docs }))
  return isLoaded ? admitUnder(context, unit, request, NO_PARENT, more) : admitWhenLoaded(context, unit, request, more)
}

async function admitWhenLoaded(
  context: JobsContext,
  unit: Unit,
  request: EnqueueRequest,
  more: Admission,
): Promise<Job> {
  const docs = limitersOf([request])
  if (docs.length > 0) await unit.load({ docs })
  const above = request.parent === null ? NO_PARENT : await ceilingFor(unit, request, request.parent)
  return admitUnder(context, unit, request, above, more)
}

function admitUnder(
  context: JobsContext,
  unit: Unit,
  request: EnqueueRequest,
  above: Above,
  more: Admission,
): Job | Promise<Job> {
  const asked = newJob(context, unit, request, above, more)
  if (request.id !== null && unit.job(asked.id) !== null) throw idTaken(asked.id)
  const known = unit.queue(asked.queue)
  const queue = queueFor(unit, asked.queue)
  const limited = limitedBy(unit, queue, request)
  if (known === null || limited !== queue) unit.putQueue(limited)
  if (isLimited(limited)) context.limitedQueues.add(limited.name)
  const step = admit(asked, unit.moment)
  const { limits, heartbeatIntervalMs } = context.settings
  const warnings = [
    ...nearMissWarnings(request.nearMisses),
    ...(more.warnings ?? []),
    ...above.warnings,
    ...warningsFor(step.job, limits, heartbeatIntervalMs),
  ]
  const job =
    warnings.length === 0
      ? step.job
      : { ...step.job, body: `${step.job.body},"x_warnings":${JSON.stringify(warnings)}` }
  unit.apply(job === step.job ? step : { ...step, job })
  return isDue(job.wakeAt, unit.now) ? unit.settle(job).then((settled) => settled ?? job) : job
}

/** What the request, the policies of its type and queue, and its parent make of a job. */
function newJob(
  context: JobsContext,
  unit: Unit,
  request: EnqueueRequest,
  { ceiling }: Above,
  more: Admission,
): NewJob {
  return {
    id: request.id ?? more.id ?? uuidV7(unit.now, context.random),
    type: request.type,
    queue: request.queue,
    priority: request.priority,
    retry: request.retry,
    limits: limitsFor(context, unit, request),
    ceiling: nearer(ceiling, more.ceiling ?? null),
    parent: request.parent,
    owner: more.owner ?? null,
    uniqueKey: (more.fingerprint ?? fingerprintOf(request, more.tenant ?? request.tenant))?.key ?? null,
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
}

/** By queue, as it was found: of jobs that come together, most ask for what the one before has asked for. */
const lastSettled = new WeakMap<Queue, { asked: AskedLimits; type: TypePolicy | null; limits: Limits }>()

function limitsFor(context: JobsContext, unit: Unit, request: EnqueueRequest): Limits {
  const { asked } = request
  const [type, queue] = [unit.type(request.type), unit.queue(request.queue)]
  const last = queue === null ? undefined : lastSettled.get(queue)
  if (last !== undefined && last.asked === asked && last.type === type) return last.limits
  const limits = settleAtEnqueue({
    publish: asked,
    type: type === null ? null : { ...type.asked, caps: type.caps },
    queue: queue === null ? null : queueLimits(queue.config),
    server: context.settings.limits,
  })
  if (queue !== null) lastSettled.set(queue, { asked, type, limits })
  return limits
}

/** What is to be said of the limits of a job that is made later. Its queue and type must have been loaded. */
export function laterWarnings(context: JobsContext, unit: Unit, request: EnqueueRequest): readonly string[] {
  return limitWarnings(limitsFor(context, unit, request), context.settings.heartbeatIntervalMs)
}

function nearer(a: Ceiling | null, b: Ceiling | null): Ceiling | null {
  if (a === null || b === null) return a ?? b
  return a.at <= b.at ? a : b
}

/** What a parent means for its child. */
export interface Above {
  readonly ceiling: Ceiling | null
  readonly warnings: readonly string[]
}

export const NO_PARENT: Above = { ceiling: null, warnings: [] }

/** What matters of a parent. */
interface ParentLife {
  readonly state: string
  readonly isOver: boolean
  readonly deadlineAt: Instant | null
}

async function lifeOf(unit: Unit, { kind, id }: Parent): Promise<ParentLife | null> {
  if (kind === 'workflow') {
    const workflow = await unit.loadedDoc(WORKFLOW, id)
    if (workflow === null) return null
    return { state: workflow.state, isOver: isWorkflowOver(workflow), deadlineAt: workflow.deadlineAt }
  }
  if (kind === 'journey') {
    const run = await unit.loadedDoc(RUN, id)
    return run === null ? null : { state: run.phase, isOver: run.phase !== 'RUNNING', deadlineAt: run.deadlineAt }
  }
  const job = await unit.seeJob(id)
  if (job === null) return null
  return { state: job.state, isOver: isTerminal(job.state), deadlineAt: totalAt(job) ?? softDeadlineAt(job) }
}

/** A child may only be tighter than its parent. A parent with nothing left gets no children. */
export async function ceilingFor(
  unit: Unit,
  { inheritDeadline }: Pick<EnqueueRequest, 'inheritDeadline'>,
  parent: Parent,
): Promise<Above> {
  const found = await lifeOf(unit, parent)
  if (found === null) {
    throw new OjsError('validation_error', `x_parent names a ${parent.kind} that does not exist.`, {
      details: { field: 'x_parent' },
    })
  }
  if (!inheritDeadline) return NO_PARENT
  const { state, isOver, deadlineAt } = found
  if (isOver || isDue(deadlineAt, unit.now)) {
    throw new OjsError('deadline_exceeded', 'The parent is over, or has no time left to give; nothing was enqueued.', {
      details: { field: 'x_inherit_deadline', [`parent_${parent.kind}_id`]: parent.id, parent_state: state },
    })
  }
  return deadlineAt === null
    ? { ceiling: null, warnings: [NOTHING_TO_INHERIT[parent.kind]] }
    : { ceiling: { at: deadlineAt, source: 'parent' }, warnings: [] }
}

const NOTHING_TO_INHERIT: Readonly<Record<Parent['kind'], string>> = {
  job: 'x_inherit_deadline: the parent is waiting and has no total timeout, so there is no deadline to inherit.',
  workflow: 'x_inherit_deadline: the workflow has no workflow_timeout, so there is no deadline to inherit.',
  journey: 'x_inherit_deadline: the run has no deadline to inherit.',
}
