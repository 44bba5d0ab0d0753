/**
 * Cron entries: registered, changed and removed by people, fired by time. A firing is an enqueue like any other, with
 * budgets that start when it fires; the job, the entry and its next instant are saved together.
 *
 * A firing that cannot be (the job is one too many, its queue is full, its template asks for what is gone) is skipped with
 * an event that says why, and the schedule goes on: no entry may stand in the way of what else is due.
 */
import {
  armed,
  cancel,
  CRON,
  cronSkipped,
  cronTriggered,
  fired,
  isDue,
  nearMissWarnings,
  notFound,
  OjsError,
  overlapVerdict,
  patchCron as readPatch,
  registered,
  requestOf,
  type Cron,
  type CronAsked,
  type Instant,
  type Job,
} from '@curfew/core'
import { RowsMoved, StoreUnavailable } from '../../store/store.ts'
import { calendar } from './calendar.ts'
import { decideEach, type Command, type Outcome } from '../kernel/command.ts'
import type { JobsContext } from '../jobs/context.ts'
import { enqueue, laterWarnings } from '../jobs/enqueue.ts'
import type { Needs } from '../kernel/needs.ts'
import type { Unit } from '../kernel/unit.ts'

/** An entry as it is stored, and what of the request has no effect, or works against itself. */
export interface Written {
  readonly cron: Cron
  readonly warnings: readonly string[]
}

export function registerCron(context: JobsContext, asked: CronAsked): Command<Written & { readonly isNew: boolean }> {
  return {
    name: 'cron',
    needs: needsEntry(asked.name),
    run: async (unit) => {
      const before = unit.doc(CRON, asked.name)
      if (before !== null && asked.tenant !== null && before.tenant !== asked.tenant)
        throw new OjsError('conflict', 'An entry with this name exists already, and does not belong to this tenant.', {
          details: { field: 'name' },
        })
      const cron = put(unit, before, registered(before, asked, calendar, unit.now))
      const warnings = [...nearMissWarnings(asked.nearMisses), ...(await limitsWarnedOf(context, unit, cron))]
      return { cron, warnings, isNew: before === null }
    },
  }
}

export function patchCron(context: JobsContext, name: string, text: string, sent: unknown): Command<Written> {
  return {
    name: 'cron',
    needs: needsEntry(name),
    run: async (unit) => {
      const before = found(unit, name)
      const asked = readPatch(before, text, sent, unit.now, context.settings.strict)
      const cron = put(unit, before, registered(before, asked, calendar, unit.now))
      // A template that was kept is not read again: an entry can be switched off whatever it holds.
      const ofLimits = cron.template === before.template ? [] : await limitsWarnedOf(context, unit, cron)
      return { cron, warnings: [...nearMissWarnings(asked.nearMisses), ...ofLimits] }
    },
  }
}

async function limitsWarnedOf(context: JobsContext, unit: Unit, cron: Cron): Promise<readonly string[]> {
  const needs = { queues: [cron.queue], types: [cron.type] }
  if (unit.misses(needs)) await unit.load(needs)
  return laterWarnings(context, unit, requestOf(cron, unit.now, unit.now, true))
}

/** Jobs it has fired go on. */
export function deleteCron(name: string): Command<Cron> {
  return {
    name: 'cron',
    needs: needsEntry(name),
    run: (unit) => {
      const cron = found(unit, name)
      withdraw(unit, cron, null)
      unit.putDoc(CRON, name, null)
      return cron
    },
  }
}

/** A firing beside the schedule, by hand, whether the entry is on or off. Null: it waits for the one before it. */
export function triggerCron(context: JobsContext, name: string): Command<{ cron: Cron; job: Job | null }> {
  return {
    name: 'cron',
    needs: needsEntry(name),
    run: async (unit) => {
      const cron = found(unit, name)
      const verdict = overlapVerdict(cron, await openJobs(unit, cron))
      if (verdict.kind === 'skip') {
        throw new OjsError(
          'conflict',
          'The entry has a job that is not over, and its overlap_policy allows no other.',
          {
            details: { overlap_policy: cron.overlap, existing_job_id: verdict.open.id },
          },
        )
      }
      if (verdict.kind === 'wait') {
        const waiting = { ...cron, waitingAt: unit.now }
        unit.putDoc(CRON, name, waiting)
        return { cron: waiting, job: null }
      }
      const admission = admissionOf(context, cron, unit.now, unit.now, true, verdict.cancels)
      await unit.load(admission.needs ?? {})
      const job = await admission.run(unit)
      const after = fired(cron, unit.now)
      unit.putDoc(CRON, name, { ...after, waitingAt: cron.waitingAt })
      unit.emit(cronTriggered(after, job, unit.now, unit.now, true))
      return { cron: after, job }
    },
  }
}

/** Called when something of an entry is due: a firing, or a local time that the clocks skip. */
export async function wakeCron(context: JobsContext, unit: Unit, name: string): Promise<void> {
  let cron = await unit.loadedDoc(CRON, name)
  if (cron === null) return
  const { gap } = cron
  if (gap !== null && isDue(gap.at, unit.now)) {
    unit.emit(cronSkipped(cron, 'dst_skip', gap.at, unit.now, { local_time: gap.local }))
    cron = rearmed(context, unit, cron, gap.at)
  }
  const { nextRunAt } = cron
  if (nextRunAt !== null && isDue(nextRunAt, unit.now)) {
    // Whatever was missed meanwhile is made up for by this one (OJS cron §7.3).
    cron = rearmed(context, unit, await tick(context, unit, cron, nextRunAt), unit.now)
  }
  unit.putDoc(CRON, name, cron)
}

/** A firing that waits comes when the last of those before it has ended. */
export async function followCron(context: JobsContext, unit: Unit, ended: readonly Job[]): Promise<void> {
  const names = [...new Set(ended.map(({ owner }) => owner?.id ?? ''))]
  await unit.loadDocs(CRON, names)
  for (const name of names) {
    const cron = unit.doc(CRON, name)
    if (cron === null || cron.waitingAt === null) continue
    if ((await openJobs(unit, cron)).length > 0) continue
    unit.putDoc(CRON, name, await fire(context, unit, cron, cron.waitingAt, []))
  }
}

/** The entry after a tick, which is a firing, or waits for one, or is skipped. */
async function tick(context: JobsContext, unit: Unit, cron: Cron, scheduledAt: Instant): Promise<Cron> {
  const verdict = overlapVerdict(cron, await openJobs(unit, cron))
  if (verdict.kind === 'fire') return fire(context, unit, cron, scheduledAt, verdict.cancels)
  if (verdict.kind === 'wait') return { ...cron, waitingAt: scheduledAt }
  const { reason, open } = verdict
  unit.emit(cronSkipped(cron, reason, scheduledAt, unit.now, { existing_job_id: open.id, active_job_id: open.id }))
  return cron
}

async function fire(
  context: JobsContext,
  unit: Unit,
  cron: Cron,
  scheduledAt: Instant,
  cancels: readonly Job[],
): Promise<Cron> {
  const outcome = await admitted(context, unit, cron, scheduledAt, cancels)
  if (outcome.ok) {
    const after = fired(cron, unit.now)
    unit.emit(cronTriggered(after, outcome.value, scheduledAt, unit.now, false))
    return after
  }
  const { code, message, details } = outcome.error
  context.log.warn({ cron: cron.name, code }, 'a firing was skipped: its job could not be admitted')
  const existing = details['existing_job_id']
  unit.emit(
    cronSkipped(cron, code.toLowerCase(), scheduledAt, unit.now, {
      message,
      ...(existing === undefined ? {} : { existing_job_id: existing }),
    }),
  )
  return { ...cron, waitingAt: null }
}

/** Firings that broke more than themselves, by engine: the last of each entry. */
const broken = new WeakMap<JobsContext, Map<string, { readonly at: Instant; readonly error: OjsError }>>()

/**
 * A refusal is undone alone. What cannot be undone alone (it broke, or was refused when part of it was saved already)
 * takes the transaction with it; everything in it is then decided again, without this firing.
 */
async function admitted(
  context: JobsContext,
  unit: Unit,
  cron: Cron,
  scheduledAt: Instant,
  cancels: readonly Job[],
): Promise<Outcome<Job>> {
  const known = broken.get(context)?.get(cron.name)
  if (known?.at === scheduledAt) return { ok: false, error: known.error }
  try {
    const [outcome] = await decideEach(unit, [firing(context, cron, scheduledAt, unit.now, cancels)])
    return outcome ?? { ok: false, error: new OjsError('internal_error', 'A firing has no outcome.') }
  } catch (error) {
    if (error instanceof RowsMoved || error instanceof StoreUnavailable) throw error
    const refusal =
      error instanceof OjsError
        ? error
        : new OjsError('internal_error', 'Something went wrong inside the server.', { cause: error })
    if (refusal !== error) context.log.error({ cron: cron.name, err: error }, 'a firing broke')
    const noted = broken.get(context) ?? new Map<string, { at: Instant; error: OjsError }>()
    broken.set(context, noted.set(cron.name, { at: scheduledAt, error: refusal }))
    throw new RowsMoved(`a firing of ${cron.name} could not be undone alone`, error)
  }
}

/** A template that cannot be read any more is refused like everything else that cannot be. */
function firing(
  context: JobsContext,
  cron: Cron,
  scheduledAt: Instant,
  now: Instant,
  cancels: readonly Job[],
): Command<Job> {
  try {
    return admissionOf(context, cron, scheduledAt, now, false, cancels)
  } catch (error) {
    if (!(error instanceof OjsError)) throw error
    return {
      name: 'cron',
      run: () => {
        throw error
      },
    }
  }
}

function admissionOf(
  context: JobsContext,
  cron: Cron,
  scheduledAt: Instant,
  now: Instant,
  manual: boolean,
  cancels: readonly Job[],
): Command<Job> {
  const request = requestOf(cron, scheduledAt, now, manual)
  const admission = enqueue(context, request, { owner: { kind: 'cron', id: cron.name, step: null } })
  return {
    name: 'cron',
    needs: admission.needs ?? {},
    run: async (unit) => {
      for (const job of cancels) unit.apply(cancel(job, unit.moment, { by: 'cron', reason: 'overlap' }))
      const { job, deduplicated } = await admission.run(unit)
      if (!deduplicated) return job
      throw new OjsError('duplicate', 'A job for the same work exists already.', {
        details: { existing_job_id: job.id },
      })
    },
  }
}

/** A zone may leave the database, and an expression may be read more strictly one day: then nothing more comes. */
function rearmed(context: JobsContext, unit: Unit, cron: Cron, after: Instant): Cron {
  try {
    return armed(cron, calendar, after)
  } catch (error) {
    context.log.error({ cron: cron.name, err: error }, 'a schedule cannot be read any more; it fires no longer')
    unit.emit(cronSkipped(cron, 'invalid_schedule', after, unit.now))
    return { ...cron, nextRunAt: null, gap: null }
  }
}

function put(unit: Unit, before: Cron | null, after: Cron): Cron {
  if (before !== null) withdraw(unit, before, after)
  unit.putDoc(CRON, after.name, after)
  return after
}

/** A firing that waited and will not come after all. */
function withdraw(unit: Unit, before: Cron, after: Cron | null): void {
  if (before.waitingAt === null || (after !== null && after.waitingAt !== null)) return
  unit.emit(cronSkipped(before, 'withdrawn', before.waitingAt, unit.now))
}

async function openJobs(unit: Unit, { name, overlap }: Cron): Promise<Job[]> {
  return overlap === 'allow' ? [] : unit.owned({ kind: 'cron', id: name }, true)
}

function found(unit: Unit, name: string): Cron {
  const cron = unit.doc(CRON, name)
  if (cron === null) throw notFound('cron entry', name)
  return cron
}

const needsEntry = (name: string): Needs => ({ docs: [{ kind: CRON.kind, id: name }] })
