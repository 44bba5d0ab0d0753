/**
 * Definitions of kind Api: one call, one run, one answer, at the latest at the deadline. The time of a run begins with
 * the first line of the call, so a body that drips is on its own account; and an answer waits for nothing that is still
 * unwinding, nor for a store that does not answer.
 */
import {
  after,
  anyObject,
  before,
  beginRun,
  expireRun,
  millis,
  object,
  OjsError,
  runBudget,
  type Data,
  type Definition,
  type Instant,
  type Run,
} from '@curfew/core'
import { definitionOf } from '../../engine/definitions/definitions.ts'
import { apiForPath } from '../../engine/definitions/deployments.ts'
import type { Engine } from '../../engine/engine.ts'
import { apiAnswer } from '../../engine/journeys/outcome.ts'
import { repeatableOf, type Repeatable } from '../../engine/journeys/repeats.ts'
import { findRun, startRun } from '../../engine/journeys/runs.ts'
import { parseJson } from '../api/body.ts'
import { asBadRequest, keyOf, partsOf, refuseUnbound } from './journey-routes.ts'
import { wait } from './journey-waits.ts'
import { JSON_MEDIA, PROBLEM_MEDIA, type Answer } from '../api/message.ts'
import { param, type Call, type Route } from '../api/route.ts'

/** How long after the deadline to wait for the store to say how the run ended. After that the answer goes out without it. */
const PATIENCE_MS = millis(250)

async function serve(call: Call): Promise<Answer> {
  const { engine } = call
  // The head may have dripped: the time of the run began with its first byte.
  const waitedMs = millis(Math.max(0, Math.round(call.request.sinceFirstByteMs?.() ?? 0)))
  const receivedAt = before(engine.now(), waitedMs)
  const definition = await apiAt(call, `/apis/${param(call, 'path')}`)
  refuseUnbound(call, definition.starting, definition)
  const askedMs = definition.execution?.maxDurationMs ?? null
  const { deadlineAt } = runBudget(receivedAt, askedMs, engine.settings.limits.run, null)
  const asked = { call, definition, receivedAt, deadlineAt }
  const ended = await byThen(engine, after(deadlineAt, PATIENCE_MS), runOf(asked))
  return answerOf(asked, ended === NOT_YET ? { ...lateRun(asked), id: null } : ended)
}

interface Asked {
  readonly call: Call
  readonly definition: Definition
  readonly receivedAt: Instant
  readonly deadlineAt: Instant
}

/** What became of the call: a run that is over, as a rule. */
async function runOf(asked: Asked): Promise<Run> {
  const { call, definition, receivedAt, deadlineAt } = asked
  const { engine } = call
  const start = async (context: Data, of: Definition, repeatable: Repeatable | null): Promise<Run> => {
    const from = { ...partsOf(call), ...NO_PARENT, receivedAt }
    return (await startRun(engine, { definition: of, context, ...from, repeatable })).run
  }
  const body = await byThen(engine, deadlineAt, bodyOf(call))
  // The answer is that of every other run that timed out, whatever the body would have been.
  if (body === NOT_YET) return start({}, { ...definition, input: null }, null)
  const context = anyObject().read(body === undefined ? {} : body, '')
  const repeatable = repeatableOf(keyOf(call), {
    name: definition.name,
    version: null,
    ownId: null,
    ...NO_PARENT,
    context,
  })
  const run = await start(context, definition, repeatable).catch(asBadRequest)
  if (run.end !== null) return run
  await wait(call, (signal) => engine.journeys.untilPause(run.id, signal))
  return (await findRun(engine, run.id)) ?? run
}

const NO_PARENT = { parent: null, inheritDeadline: false } as const

async function bodyOf({ engine, request, json }: Call): Promise<unknown> {
  if (request.arriving === undefined) return json
  return parseJson(engine.host, await request.arriving(), request.headers, true)
}

async function answerOf(
  { call, definition: inForce }: Asked,
  run: Omit<Run, 'id'> & { id: string | null },
): Promise<Answer> {
  if (run.end === null) throw new OjsError('unavailable', 'The server is stopping; the run goes on without this call.')
  const { engine } = call
  // A call that is repeated is answered as its run's own version says.
  const own = run.version === inForce.version ? null : await definitionOf(engine, run.name, run.version)
  const definition = own?.definition ?? inForce
  const { status, body, isProblem } = await apiAnswer(
    engine,
    { id: run.id, context: run.root.context },
    run.end,
    definition,
  )
  return { status, body: JSON.stringify(body), media: isProblem ? PROBLEM_MEDIA : JSON_MEDIA }
}

/** A run that came to nothing but its deadline. */
function lateRun({ call: { engine }, definition, receivedAt, deadlineAt }: Asked): Run {
  const begun = { id: '', definition, context: {}, tags: [], attributes: {}, parent: null, inheritedAt: null }
  const run = beginRun({ ...begun, startedAt: receivedAt }, engine.settings.limits.run)
  return expireRun(run, deadlineAt, engine.upAt)?.run ?? run
}

async function apiAt({ engine }: Call, path: string): Promise<Definition> {
  const found = await apiForPath(engine, path)
  if (found?.definition.kind === 'Api') return found.definition
  throw new OjsError('not_found', 'No Api is deployed at this path.', {
    details: { path },
    hint: 'PUT /api/v1/definitions/{name} deploys one.',
  })
}

const NOT_YET = Symbol('not yet')

/** What has come of it by then. */
function byThen<T>(engine: Engine, at: Instant, work: Promise<T>): Promise<T | typeof NOT_YET> {
  return new Promise((resolve, reject) => {
    const timer = engine.timerAt(at, () => {
      resolve(NOT_YET)
    })
    work.then(resolve, reject).finally(() => {
      timer.cancel()
    })
  })
}

export const API_ROUTES: readonly Route[] = [
  {
    method: 'POST',
    path: '/api/v1/apis/*path',
    tag: 'journeys',
    summary: 'Call an Api by its name, or at the path its definition chose; the body becomes its context',
    body: { shape: object({}), optional: true },
    bindsQuery: true,
    answers: {
      200: 'Its output, or with the status that its definition chose',
      504: 'Its time was up, unless its definition chose another status for that',
    },
    handle: serve,
  },
]
