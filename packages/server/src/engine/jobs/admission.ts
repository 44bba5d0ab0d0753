/**
 * What a request must pass before its job comes into being: a queue that takes jobs, work that is not there yet, room.
 * Everything is looked at before anything is written, so that a refusal leaves nothing behind.
 *
 *   draining?   the queue takes no more jobs (422)
 *   unique?     a job for the same work: refused (409), kept instead, or replaced        core/job/unique.ts
 *   bounded?    no room: refused (429), waited for (`capacity-waiters.ts`), or made                 core/job/backpressure.ts
 *
 * Only requests pass here. What has begun is not refused half-way: the later steps of a workflow, retries, and what an
 * application has committed to the inbox.
 */
import { createHash } from 'node:crypto'
import {
  cancel,
  duplicateError,
  excess,
  isCrossed,
  isDue,
  makeRoom,
  OjsError,
  pressureOf,
  queueBound,
  queueEvent,
  queueFull,
  scheduledLike,
  uniqueVerdict,
  type Bound,
  type EnqueueRequest,
  type Job,
  type Pressure,
} from '@curfew/core'
import type { Queue } from '../../store/store.ts'
import type { Fingerprint } from '../kernel/needs.ts'
import type { Unit } from '../kernel/unit.ts'

/** How the request came in: by a call, which can be refused, or by the inbox, whose sender has committed and is gone. */
export type Door = 'request' | 'inbox'

/** What became of a request. */
export interface Enqueued {
  readonly job: Job
  /** There was a job for the same work: that one is `job`, and nothing was enqueued. */
  readonly deduplicated: boolean
  readonly pressure: Pressure | null
}

/** A request, its fingerprint, and how it came. */
export interface Asked {
  readonly request: EnqueueRequest
  readonly fingerprint: Fingerprint | null
  readonly door: Door
  /** Jobs that came with the same request: none of them makes room for, or is replaced by, another. */
  readonly companions: ReadonlySet<string>
}

/** Two tenants never share their work, even if it looks the same. */
export function fingerprintOf({ unique }: EnqueueRequest, tenant: string | null): Fingerprint | null {
  if (unique === null) return null
  const hash = createHash('sha256')
  if (tenant !== null) hash.update(JSON.stringify(tenant))
  return { key: hash.update(unique.text).digest('hex'), states: unique.policy.states }
}

/** The names to be locked for fingerprints: two requests for the same work come one after the other. */
export const lockFor = ({ key }: Fingerprint): string => `unique ${key}`

/** What stands between a request and its job. */
export type Passage =
  | { readonly kind: 'keep'; readonly existing: Job }
  | {
      readonly kind: 'admit'
      readonly request: EnqueueRequest
      readonly replaces: readonly Job[]
      readonly drops: readonly Job[]
      readonly bound: Bound | null
    }

/** True when neither uniqueness nor the bound of the queue can stand in the way. */
export function isFree({ fingerprint }: Asked, queue: Queue | null): boolean {
  return fingerprint === null && (queue === null || (queue.drainingAt === null && !isBounded(queue)))
}

const isBounded = ({ config }: Queue): boolean => config['backpressure'] !== undefined

/** Decides without writing. Throws the refusal. */
export async function passageFor(unit: Unit, asked: Asked): Promise<Passage> {
  const { request, door } = asked
  const queue = unit.queue(request.queue)
  if (request.id !== null && unit.job(request.id) !== null) throw idTaken(request.id)
  if (door === 'request' && queue !== null && queue.drainingAt !== null) throw isDraining(queue.name)
  const verdict = await sameWork(unit, asked)
  if (verdict.kind === 'keep') return verdict
  const bound = queue === null ? null : queueBound(queue.config)
  if (bound === null) return { ...verdict, drops: [], bound }
  const drops = await roomIn(unit, asked, bound, verdict.replaces)
  // The search for the oldest may have saved them; then they have to be found again.
  const replaces = drops.length === 0 ? verdict.replaces : await unit.loadedJobs(verdict.replaces.map(({ id }) => id))
  return { ...verdict, replaces, drops, bound }
}

/** What stands in the way, in words. */
export async function foreseen(unit: Unit, asked: Asked): Promise<string[]> {
  if (isFree(asked, unit.queue(asked.request.queue))) return []
  try {
    const passage = await passageFor(unit, asked)
    if (passage.kind === 'keep')
      return [`unique: ${passage.existing.id} is a job for the same work; it would be answered, and nothing enqueued.`]
    const { replaces, drops } = passage
    return [
      ...replaces.map(({ id }) => `unique: ${id} is a job for the same work; it would be replaced.`),
      ...drops.map(({ id }) => `The queue is full: ${id}, which has waited longest, would be dropped.`),
    ]
  } catch (error) {
    if (!(error instanceof OjsError)) throw error
    return [`It would be refused: ${error.message} (${error.code})`]
  }
}

/** Ends the jobs that the new one replaces or displaces; their owners hear of it. */
export function clearTheWay(unit: Unit, newId: string, { replaces, drops }: Extract<Passage, { kind: 'admit' }>): void {
  for (const job of replaces) unit.apply(cancel(job, unit.moment, { reason: 'replaced', by: newId }))
  for (const job of drops) unit.apply(makeRoom(job, unit.moment))
}

/** Tells that the line was crossed with the job that has just been admitted; and how deep the queue is by now. */
export function pressureAfter(unit: Unit, queue: string, bound: Bound | null): Pressure | null {
  if (bound === null) return null
  const depth = unit.depth(queue)
  if (isCrossed(bound, depth - 1)) {
    unit.emit(queueEvent('backpressure.warning', queue, unit.now, { depth, bound: bound.maxDepth }))
  }
  return pressureOf(bound, depth)
}

export const idTaken = (id: string): OjsError =>
  new OjsError('duplicate', 'A job with this id exists already.', { details: { existing_job_id: id } })

function isDraining(queue: string): OjsError {
  return new OjsError('queue_paused', `The queue "${queue}" is draining and takes no jobs until it is resumed.`, {
    details: { queue, status: 'draining' },
  })
}

async function sameWork(
  unit: Unit,
  { request, fingerprint, companions }: Asked,
): Promise<{ kind: 'keep'; existing: Job } | { kind: 'admit'; request: EnqueueRequest; replaces: readonly Job[] }> {
  if (request.unique === null || fingerprint === null) return { kind: 'admit', request, replaces: [] }
  await unit.load({ names: [lockFor(fingerprint)], unique: [fingerprint] })
  // Another server may have had them locked when what is due was settled.
  for (const job of unit.unique(fingerprint)) if (isDue(job.wakeAt, unit.now)) await unit.settle(job)
  const verdict = uniqueVerdict(request.unique.policy, unit.unique(fingerprint), unit.now)
  if (verdict.kind === 'refuse') throw duplicateError(verdict, fingerprint.key)
  if (verdict.kind === 'keep') return verdict
  const companion = verdict.replaces.find(({ id }) => companions.has(id))
  if (companion !== undefined)
    throw duplicateError({ kind: 'refuse', existing: companion, why: 'exists' }, fingerprint.key)
  const { replaces, scheduledLike: model } = verdict
  return { kind: 'admit', request: model === null ? request : scheduledLike(request, model), replaces }
}

/** The waiting jobs to drop so that the new one fits; none where there is room. */
async function roomIn(
  unit: Unit,
  { request: { queue }, door, companions }: Asked,
  bound: Bound,
  replaced: readonly Job[],
): Promise<readonly Job[]> {
  if (!unit.isMeasured(queue)) await unit.measure(queue)
  const depth = unit.depth(queue) - replaced.filter((job) => job.queue === queue).length
  const tooMany = excess(bound, depth)
  if (tooMany === 0) return []
  if (bound.strategy === 'drop_oldest') {
    const gone = new Set(replaced.map(({ id }) => id))
    const waiting = (await unit.oldestAvailable(queue, tooMany + gone.size)).filter(({ id }) => !gone.has(id))
    const oldest = waiting.slice(0, tooMany)
    // The search has saved what was decided so far; the depth has to be looked at again.
    await unit.measure(queue)
    const suffices = oldest.length === tooMany && !oldest.some(({ id }) => companions.has(id))
    if (suffices || door === 'inbox') return oldest
  }
  if (door === 'inbox') return []
  throw queueFull(queue, bound, depth)
}
