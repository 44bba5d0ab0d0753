/**
 * What happens to a document when its `wakeAt` has come, by kind. It is called after the workers and the jobs that are
 * due, in the same transaction with the same now, and must leave the document with a later `wakeAt`, or none, or gone:
 * one that stays due would be woken for ever.
 */
import { broken, CRON, KEEPER, LIMITER, RUN, RUN_SCHEDULE, WEBHOOK, WORKFLOW, type DocName } from '@curfew/core'
import { wakeCron } from '../cron/cron.ts'
import type { Engine } from './engine.ts'
import { wakeKeeper } from '../journeys/keepers.ts'
import { wakeRun } from '../journeys/runs.ts'
import { wakeSchedule } from '../journeys/schedules.ts'
import { keptFor } from '../journeys/saving.ts'
import { forgetLimiter } from '../queues/limiters.ts'
import type { Unit } from './unit.ts'
import { wakeWebhook } from '../webhooks/webhooks.ts'
import { wakeWorkflow } from '../workflows/members.ts'

export type DocWaker = (engine: Engine, unit: Unit, id: string) => void | Promise<void>

const WAKERS: ReadonlyMap<string, DocWaker> = new Map<string, DocWaker>([
  [LIMITER.kind, forgetLimiter],
  [CRON.kind, wakeCron],
  [KEEPER.kind, wakeKeeper],
  [RUN.kind, wakeRun],
  [RUN_SCHEDULE.kind, wakeSchedule],
  [WEBHOOK.kind, wakeWebhook],
  [WORKFLOW.kind, wakeWorkflow],
])

export async function wakeDocs(engine: Engine, unit: Unit, docs: readonly DocName[]): Promise<void> {
  // For all runs at once: with a database elsewhere, asking for each of them would make the last ones late.
  await unit.load({ docs: docs.flatMap(({ kind, id }) => (kind === RUN.kind ? keptFor(unit.doc(RUN, id)) : [])) })
  for (const { kind, id } of docs) {
    const pause = unit.pace.step()
    if (pause !== undefined) await pause
    const wake = WAKERS.get(kind)
    if (wake === undefined) throw broken(`nobody knows what to do with ${kind} ${id}, which is due`)
    await wake(engine, unit, id)
  }
}
