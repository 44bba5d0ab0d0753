/** What a walk has thought out becomes true: one transaction, if the run is still as it was. */
import {
  cancel as cancelJob,
  isDue,
  isTerminal,
  OWNED_RUN,
  ownedRunId,
  handedOn,
  RUN,
  RUN_SCHEDULE,
  type Run,
  type Walked,
} from '@curfew/core'
import { needsOf as allNeeds, type Command } from '../kernel/command.ts'
import { admitJob, needsOf } from '../jobs/enqueue.ts'
import type { JourneysContext } from './context.ts'
import { saveRun } from './saving.ts'
import { canSchedule, putSchedules } from './schedules.ts'

export interface Taken {
  /** As it is now; null if it is gone. */
  readonly run: Run | null
  /** What was thought out is true now. Otherwise the run has changed meanwhile. */
  readonly isDone: boolean
}

/** The jobs it asks for are enqueued, those that are no longer needed are cancelled, and it rests where it came to. */
export function takeStep(context: JourneysContext, before: Run, walked: Walked): Command<Taken> {
  const { id } = before
  const requests = walked.jobs.map(({ request }) => request)
  const schedules = walked.schedules.map(({ schedule }) => ({ kind: RUN_SCHEDULE.kind, id: schedule.id }))
  const needs = allNeeds([
    { name: 'journey', needs: needsOf(requests), run: () => {} },
    { name: 'journey', needs: { jobs: walked.lostJobs, docs: [{ kind: RUN.kind, id }, ...schedules] }, run: () => {} },
  ])
  return {
    name: 'journey',
    needs,
    run: async (unit) => {
      const run = unit.doc(RUN, id)
      if (run === null || run.revision !== before.revision || isDue(run.deadlineAt, unit.now))
        return { run, isDone: false }
      if (!canSchedule(unit, walked.schedules)) return { run, isDone: false }
      putSchedules(unit, walked.schedules)
      for (const { jobId, request, isAwaited, isDetached } of walked.jobs) {
        await admitJob(context, unit, request, {
          id: jobId,
          ...(isAwaited ? { owner: { kind: 'journey', id, step: null } } : {}),
          ceiling: isDetached ? null : { at: run.deadlineAt, source: 'parent' },
        })
      }
      for (const jobId of walked.lostJobs) {
        const job = unit.job(jobId)
        if (job !== null && !isTerminal(job.state))
          unit.apply(cancelJob(job, unit.moment, { reason: 'journey_went_on' }))
      }
      return { run: await saveRun(context, unit, run, walked.run, walked.compensate), isDone: true }
    },
  }
}

/** What another server was doing for a run is done by this one from now on. */
export function takeOver(context: JourneysContext, from: string, id: string): Command<void> {
  const owned = ownedRunId(from, id)
  return {
    name: 'journey',
    needs: {
      docs: [
        { kind: RUN.kind, id },
        { kind: OWNED_RUN.kind, id: owned },
      ],
    },
    run: async (unit) => {
      const run = unit.doc(RUN, id)
      const root = run?.phase === 'RUNNING' ? handedOn(run.root, from, context.journeys.server) : run?.root
      if (run === null || root === undefined || root === run.root) {
        if (unit.doc(OWNED_RUN, owned) !== null) unit.putDoc(OWNED_RUN, owned, null)
        return
      }
      await saveRun(context, unit, run, { ...run, root, revision: run.revision + 1 })
    },
  }
}
