/** Schedules of journeys: made by states, woken by time, moved on by the end of their runs, removed by people. */
import {
  afterRun,
  isDue,
  notFound,
  readDoc,
  replaced,
  RUN_SCHEDULE,
  scheduledRun,
  uuidV7,
  type Run,
  type RunSchedule,
  type WantedSchedule,
} from '@curfew/core'
import type { Command } from '../kernel/command.ts'
import type { JourneysContext } from './context.ts'
import { saveRun } from './saving.ts'
import type { Unit } from '../kernel/unit.ts'

/** Whether all that a walk wants can be: a schedule may have come meanwhile that the walk did not see. */
export function canSchedule(unit: Unit, wanted: readonly WantedSchedule[]): boolean {
  return wanted.every(
    ({ schedule, onExisting }) => onExisting !== 'fail' || unit.doc(RUN_SCHEDULE, schedule.id) === null,
  )
}

export function putSchedules(unit: Unit, wanted: readonly WantedSchedule[]): void {
  for (const { schedule } of wanted) {
    const before = unit.doc(RUN_SCHEDULE, schedule.id)
    unit.putDoc(RUN_SCHEDULE, schedule.id, before === null ? schedule : replaced(before, schedule))
  }
}

/** The next run of a schedule is due. */
export async function wakeSchedule(context: JourneysContext, unit: Unit, id: string): Promise<void> {
  const schedule = unit.doc(RUN_SCHEDULE, id)
  if (schedule === null || !isDue(schedule.nextAt, unit.now)) return
  const runId = uuidV7(unit.now, context.random)
  const [run, underway] = scheduledRun(schedule, runId, unit.now, unit.moment.limits.run)
  unit.putDoc(RUN_SCHEDULE, id, underway)
  await saveRun(context, unit, null, run)
}

/** A run has ended; if a schedule began it, the next one is set. */
export async function moveSchedule(unit: Unit, run: Run): Promise<void> {
  if (run.scheduleId === undefined) return
  const schedule = await unit.loadedDoc(RUN_SCHEDULE, run.scheduleId)
  if (schedule !== null) unit.putDoc(RUN_SCHEDULE, run.scheduleId, afterRun(schedule, run, unit.now))
}

export async function listSchedules(
  context: JourneysContext,
  after: string | null,
  limit: number,
): Promise<{ readonly items: readonly RunSchedule[]; readonly next: string | null }> {
  const docs = await context.read((reads) => reads.docs(RUN_SCHEDULE.kind, '', after, limit + 1))
  const items = docs.slice(0, limit).map((doc) => readDoc<RunSchedule>(doc))
  return { items, next: docs.length > limit ? (items.at(-1)?.id ?? null) : null }
}

export async function findSchedule(context: JourneysContext, id: string): Promise<RunSchedule | null> {
  const doc = await context.read((reads) => reads.doc(RUN_SCHEDULE.kind, id))
  return doc === null ? null : readDoc<RunSchedule>(doc)
}

/** A run that is under way goes on. */
export function deleteSchedule(id: string): Command<RunSchedule> {
  return {
    name: 'schedule',
    needs: { docs: [{ kind: RUN_SCHEDULE.kind, id }] },
    run: (unit) => {
      const schedule = unit.doc(RUN_SCHEDULE, id)
      if (schedule === null) throw notFound('schedule', id)
      unit.putDoc(RUN_SCHEDULE, id, null)
      return schedule
    },
  }
}
