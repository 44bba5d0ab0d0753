/**
 * A run is written down, with all that follows from it in the same transaction: its end is announced, its compensation
 * begins, and the server that decides takes on the frames that no server works on yet.
 */
import {
  beginCompensation,
  handedOn,
  journeyEnded,
  journeyStarted,
  RUN_OWNER,
  ownerSign,
  OWNED_RUN,
  ownedRunId,
  ownersOf,
  isAtRest,
  isEntering,
  isFading,
  openSteps,
  RUN,
  uuidV7,
  wantsCompensation,
  type DocName,
  type Run,
} from '@curfew/core'
import type { JourneysContext } from './context.ts'
import { moveSchedule } from './schedules.ts'
import type { Unit } from '../kernel/unit.ts'

/** `before` null: it is new. `compensate`: although it succeeded. */
export async function saveRun(
  context: JourneysContext,
  unit: Unit,
  before: Run | null,
  after: Run,
  compensate = false,
): Promise<Run> {
  let run: Run = { ...after, root: handedOn(after.root, null, context.journeys.server) }
  if (before === null) unit.emit({ ...journeyStarted(run), at: unit.now })
  if (run.phase !== 'RUNNING' && (before === null || before.phase === 'RUNNING')) {
    if (compensate || wantsCompensation(run)) {
      const id = uuidV7(unit.now, context.random)
      run = { ...run, compensatedBy: id }
      await saveRun(context, unit, null, beginCompensation(run, id, unit.now, unit.moment.limits.run))
    }
    await moveSchedule(unit, run)
    unit.emit(journeyEnded(run))
  }
  await keep(context, unit, run.id, before === null ? new Set() : ownersOf(before), ownersOf(run))
  if (before === null) unit.addDoc(RUN, run.id, run)
  else unit.putDoc(RUN, run.id, run)
  if (context.store.shared && isPaused(run)) unit.emitLive(pausedEvent(run, unit))
  const saved = run
  unit.afterwards(() => {
    context.journeys.saved(saved)
  })
  return run
}

/** It rests, or takes submissions: what calls at other servers may be waiting for. */
function isPaused(run: Run): boolean {
  return run.phase === 'RUNNING' && (isAtRest(run) || (openSteps(run).length > 0 && !isEntering(run)))
}

function pausedEvent({ id, name }: Run, { now }: Unit): Parameters<Unit['emitLive']>[0] {
  const data = { journey_id: id, journey_name: name }
  return { type: 'journey.paused', at: now, subject: id, queue: null, jobType: null, data }
}

/** The documents that tell which servers look after a run. */
export function keptFor(run: Run | null): readonly DocName[] {
  if (run === null) return []
  return [...ownersOf(run)].map((server) => ({ kind: OWNED_RUN.kind, id: ownedRunId(server, run.id) }))
}

async function keep(
  context: JourneysContext,
  unit: Unit,
  runId: string,
  before: ReadonlySet<string>,
  after: ReadonlySet<string>,
): Promise<void> {
  const gone = [...before].filter((server) => !after.has(server)).map((server) => ownedRunId(server, runId))
  if (gone.length > 0) {
    await unit.load({ docs: gone.map((id): DocName => ({ kind: OWNED_RUN.kind, id })) })
    for (const id of gone) unit.putDoc(OWNED_RUN, id, null)
  }
  for (const server of after) {
    if (before.has(server)) continue
    unit.addDoc(OWNED_RUN, ownedRunId(server, runId), { server, run: runId })
    if (server === context.journeys.server) await giveSign(context, unit)
  }
}

/** Others must be able to tell that this server died, before it has anything that they could miss. */
export async function giveSign(context: JourneysContext, unit: Unit): Promise<void> {
  if (!context.store.shared) return
  const { server } = context.journeys
  const owner = await unit.loadedDoc(RUN_OWNER, server)
  if (owner === null || isFading(owner, unit.now)) unit.putDoc(RUN_OWNER, server, ownerSign(server, unit.now))
}
