import { RUN_OWNER, RUN, RUN_SCHEDULE } from '@curfew/core'
import type { Feature } from '../kernel/feature.ts'
import type { JourneysContext } from './context.ts'
import { wakeRunOwner } from './run-owners.ts'
import { reportRun } from './report.ts'
import { followRuns, wakeRun } from './runs.ts'
import { keptFor } from './saving.ts'
import { wakeSchedule } from './schedules.ts'

/** Runs of journeys: they hear of their jobs and of time, and are advanced by the server that owns them. */
export function journeys(context: JourneysContext): Feature {
  const own = context.journeys
  return {
    follows: { journey: (unit, ended) => followRuns(context, unit, ended) },
    wakes: {
      [RUN_OWNER.kind]: {
        wake: (unit, id) => {
          wakeRunOwner(context, unit, id)
        },
      },
      [RUN.kind]: {
        needs: (unit, id) => keptFor(unit.doc(RUN, id)),
        wake: (unit, id) => wakeRun(context, unit, id),
      },
      [RUN_SCHEDULE.kind]: { wake: (unit, id) => wakeSchedule(context, unit, id) },
    },
    onDurable: ({ events }) => {
      for (const event of events) reportRun(event, context.log, context.trace)
    },
    isBusy: () => own.isBusy,
    caughtUp: () => own.walked(),
    open: () => {
      own.open()
    },
    close: () => own.close(),
    reset: () => {
      own.forget()
    },
  }
}
