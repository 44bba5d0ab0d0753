/**
 * Journeys: begun, looked at, submitted to, cancelled, explained. Plain JSON, errors as problem details. Calls speak of
 * how they themselves went: a run that failed is told with 200 like any other.
 */
import {
  anyObject,
  anything,
  badField,
  explainRun,
  flag,
  isUuidV7,
  object,
  OjsError,
  oneOf,
  PHASES,
  project,
  readParent,
  runUrl,
  startView,
  STATUS_MEMBERS,
  statusView,
  stepShown,
  text,
  whole,
  type Data,
  type Definition,
  type Parent,
  type Run,
} from '@curfew/core'
import { definitionOf } from '../engine/definitions.ts'
import { outcomeOf } from '../engine/journey-outcome.ts'
import { cancelRun, findRun, listRuns, startRun, submitStep } from '../engine/journey-runs.ts'
import { journeyPage, noJourneyPage } from './journey-page.ts'
import { untilEnded, wait } from './journey-waits.ts'
import { JSON_MEDIA, type Answer } from './message.ts'
import { pageAnswer } from './page.ts'
import { param, queryText, queryWhole, type Call, type Route } from './route.ts'

const plain = (value: unknown, more: Partial<Answer> = {}): Answer => ({
  body: JSON.stringify(value),
  media: JSON_MEDIA,
  ...more,
})

async function start(call: Call): Promise<Answer> {
  const { engine } = call
  const definition = await journeyNamed(call, param(call, 'id'), queryText(call, 'version'))
  const run = await startRun(engine, {
    definition,
    context: anyObject().read(call.json ?? {}, ''),
    ...partsOf(call),
    ...parentIn(call),
    receivedAt: null,
  }).catch(asBadRequest)
  if (definition.startMode === 'async')
    return plain(startView(run, definition.links), { status: 202, headers: { Location: runUrl(run.id) } })
  await wait(call, (signal) => engine.journeys.untilPause(run.id, signal))
  return shown(call, await runNamed(call, run.id), definition)
}

/** The outcome of a run that is over, or else its status. */
async function shown(call: Call, run: Run, definition: Definition | null): Promise<Answer> {
  const { engine } = call
  if (run.end !== null) return plain(await outcomeOf(engine.expressions, run, run.end, definition))
  return plain(statusView(run, engine.now(), definition?.links ?? true))
}

async function status(call: Call): Promise<Answer> {
  const run = await runNamed(call, param(call, 'id'))
  return plain(statusView(run, call.engine.now(), await linksOf(call, run)))
}

async function result(call: Call): Promise<Answer> {
  const { engine } = call
  const id = param(call, 'id')
  const timeoutS = queryWhole(call, 'timeout', 1, 300) ?? 30
  let run = await runNamed(call, id)
  if (run.end === null && call.query.get('wait') === 'true') {
    const isOver = async (): Promise<boolean> => (await findRun(engine, id))?.end !== null
    await wait(call, (signal) => untilEnded(engine, id, signal, isOver), timeoutS * 1000)
    run = await runNamed(call, id)
    if (run.end === null && engine.closing.aborted)
      throw new OjsError('unavailable', 'The server is stopping, and the run is not over yet.', {
        details: { journeyId: id, phase: run.phase },
      })
  }
  if (run.end === null) {
    throw new OjsError('conflict', 'The run is not over.', {
      details: { journeyId: id, phase: run.phase, remainingMs: run.deadlineAt - engine.now() },
      hint: 'Ask again later, or with wait=true.',
    })
  }
  return shown(call, run, await definitionFor(call, run))
}

async function submit(call: Call): Promise<Answer> {
  const { engine } = call
  const [id, step] = [param(call, 'id'), param(call, 'stepId')]
  await submitStep(engine, id, step, call.json ?? null, partsOf(call)).catch(asBadRequest)
  await wait(call, (signal) => engine.journeys.untilRest(id, signal))
  const run = await runNamed(call, id)
  const definition = await definitionFor(call, run)
  const answer = statusView(run, engine.now(), definition?.links ?? true)
  if (definition === null) return plain(answer)
  const { response, context } = stepShown(definition, run, step)
  return plain(project(answer, STATUS_MEMBERS, context, response))
}

async function cancel(call: Call): Promise<Answer> {
  const run = await cancelRun(call.engine, param(call, 'id'))
  return plain(statusView(run, call.engine.now(), await linksOf(call, run)))
}

async function list(call: Call): Promise<Answer> {
  const { engine } = call
  const phase = queryText(call, 'phase')
  const after = queryText(call, 'pageToken')
  if (after !== null && !isUuidV7(after)) throw badField('pageToken', 'pageToken must come from an earlier answer.')
  const filter = {
    ...given('name', queryText(call, 'journeyName')),
    ...given('phase', phase === null ? null : PHASE.read(phase, 'phase')),
    ...given('tag', queryText(call, 'tag')),
    ...given('subjectId', queryText(call, 'subjectId')),
    ...given('tenantId', queryText(call, 'tenantId')),
  }
  const { runs, next } = await listRuns(engine, filter, after, queryWhole(call, 'limit', 1, 200) ?? 50)
  const items: Data[] = []
  for (const run of runs) items.push(statusView(run, engine.now(), await linksOf(call, run)))
  return plain({ items, nextPageToken: next })
}

async function explain(call: Call): Promise<Answer> {
  return plain(explainRun(await runNamed(call, param(call, 'id')), call.engine.now()))
}

async function page(call: Call): Promise<Answer> {
  const id = param(call, 'id')
  const run = await findRun(call.engine, id)
  if (run === null) return pageAnswer(noJourneyPage(id), 404)
  return pageAnswer(journeyPage(run, explainRun(run, call.engine.now())))
}

// ---- What calls have in common ----

async function journeyNamed({ engine }: Call, name: string, version: string | null): Promise<Definition> {
  const found = await definitionOf(engine, name, version)
  if (found?.definition.kind === 'Journey') return found.definition
  throw new OjsError('not_found', `There is no journey with this name${version === null ? '' : ' and version'}.`, {
    details: { journeyName: name, ...(version === null ? {} : { version }) },
    hint: 'PUT /api/v1/definitions/{name} deploys one.',
  })
}

async function runNamed({ engine }: Call, id: string): Promise<Run> {
  const run = await findRun(engine, id)
  if (run !== null) return run
  throw new OjsError('not_found', 'There is no run with this id.', {
    details: { journeyId: id },
    hint: 'Check the id; runs are removed 7 days after their end.',
  })
}

async function definitionFor({ engine }: Call, { name, version }: Run): Promise<Definition | null> {
  return (await definitionOf(engine, name, version))?.definition ?? null
}

const linksOf = async (call: Call, run: Run): Promise<boolean> => (await definitionFor(call, run))?.links ?? true

/** What a definition may take over from a request. */
export function partsOf({ request, query }: Call): {
  headers: Record<string, string>
  query: Record<string, string>
} {
  const headers = Object.entries(request.headers).filter(
    (header): header is [string, string] => header[1] !== undefined,
  )
  return { headers: Object.fromEntries(headers), query: Object.fromEntries(query) }
}

function parentIn(call: Call): { parent: Parent | null; inheritDeadline: boolean } {
  const named = queryText(call, 'x_parent')
  const inherits = queryText(call, 'x_inherit_deadline')
  if (inherits !== null && inherits !== 'true' && inherits !== 'false')
    throw badField('x_inherit_deadline', 'x_inherit_deadline must be true or false.')
  const parent = named === null ? null : readParent(jsonIn(named))
  if (inherits === 'true' && parent === null) throw badField('x_inherit_deadline', 'x_inherit_deadline needs x_parent.')
  return { parent, inheritDeadline: inherits === 'true' }
}

function jsonIn(value: string): unknown {
  try {
    return JSON.parse(value) as unknown
  } catch {
    throw badField('x_parent', 'x_parent must be JSON, such as {"job_id":"…"}.')
  }
}

/** What does not match the schema of a definition is a bad request here. */
export function asBadRequest(error: unknown): never {
  if (!(error instanceof OjsError) || error.code !== 'schema_validation') throw error
  const { mistakes, ...details } = error.details
  throw new OjsError('invalid_request', error.message, { details: { ...details, errors: mistakes }, cause: error })
}

const given = <K extends string, T>(name: K, value: T | null): Partial<Record<K, T>> =>
  value === null ? {} : ({ [name]: value } as Record<K, T>)

// ---- The routes ----

const PHASE = oneOf(...PHASES)
const TAG = 'journeys'
const RUN_PATH = '/api/v1/journeys/:id'

export const JOURNEY_ROUTES: readonly Route[] = [
  {
    method: 'POST',
    path: `${RUN_PATH}/start`,
    tag: TAG,
    summary: 'Start a run of the journey with this name; the body becomes its context',
    body: { shape: object({}), optional: true },
    query: { version: text(), x_parent: text(), x_inherit_deadline: flag() },
    answers: {
      200: 'How it ended, or where it waits for somebody (startMode sync)',
      202: 'It has started (startMode async)',
      400: 'The body does not match the input schema',
      404: 'No such journey',
    },
    handle: start,
  },
  {
    method: 'GET',
    path: '/api/v1/journeys',
    tag: TAG,
    summary: 'List runs, newest first',
    query: {
      journeyName: text(),
      phase: PHASE,
      tag: text(),
      subjectId: text(),
      tenantId: text(),
      limit: whole(1, 200),
      pageToken: text(),
    },
    handle: list,
  },
  {
    method: 'GET',
    path: RUN_PATH,
    tag: TAG,
    summary: 'Where a run is, and how long it may still take',
    handle: status,
  },
  {
    method: 'GET',
    path: `${RUN_PATH}/result`,
    tag: TAG,
    summary: 'How a run ended; with wait=true, as soon as it has',
    query: { wait: flag(), timeout: whole(1, 300) },
    answers: { 409: 'It is not over' },
    handle: result,
  },
  {
    method: 'POST',
    path: `${RUN_PATH}/steps/:stepId`,
    tag: TAG,
    summary: 'Submit an open wait or webhook; answers when nothing is under way any more',
    body: { shape: anything(), optional: true },
    answers: {
      400: 'The body does not match the schema of the step, which stays open',
      409: 'The step is not open, the run is over, or its deadline was reached',
    },
    handle: submit,
  },
  {
    method: 'POST',
    path: `${RUN_PATH}/steps/cancel`,
    tag: TAG,
    summary: 'Cancel a run; one that is over stays as it ended',
    answers: { 409: 'The definition does not let it be cancelled' },
    handle: cancel,
  },
  {
    method: 'GET',
    path: `${RUN_PATH}/explain`,
    tag: TAG,
    summary: 'Where the time of a run went, state by state, and in words',
    handle: explain,
  },
  { method: 'GET', path: '/journeys/:id', tag: TAG, summary: 'A run on one page, for people (HTML)', handle: page },
]
