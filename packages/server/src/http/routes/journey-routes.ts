/**
 * Journeys: begun, looked at, submitted to, cancelled, explained. Plain JSON, errors as problem details. Calls speak of
 * how they themselves went: a failed run is answered with 200 like any other.
 */
import {
  remaining,
  anyObject,
  anything,
  badField,
  explainRun,
  flag,
  historyOf,
  isEntering,
  NOTHING_INBOUND,
  object,
  OjsError,
  oneOf,
  openStep,
  PHASES,
  project,
  readIdempotencyKey,
  readParent,
  runUrl,
  startView,
  STATUS_MEMBERS,
  statusView,
  stepShown,
  takeOwnId,
  text,
  UUID_V7,
  type Data,
  type Definition,
  type Inbound,
  type Parent,
  type Run,
  type Shape,
} from '@curfew/core'
import { keyParameters } from '../../engine/api-keys.ts'
import { definitionOf } from '../../engine/definitions/definitions.ts'
import { outcomeOf } from '../../engine/journeys/outcome.ts'
import { repeatableOf } from '../../engine/journeys/repeats.ts'
import { cancelRun, findRun, listRuns, startRun, submitStep } from '../../engine/journeys/runs.ts'
import { journeyPage, noJourneyPage } from './journey-page.ts'
import { untilEnded, wait } from './journey-waits.ts'
import { JSON_MEDIA, type Answer } from '../api/message.ts'
import { pageAnswer } from './page.ts'
import { unknownParameter, upTo } from '../api/query.ts'
import { param, queryOf, type Call, type Route } from '../api/route.ts'

/** How long a submission waits for the server to enter the step it names. */
const MAX_ENTERING_MS = 5_000

const plain = (value: unknown, more: Partial<Answer> = {}): Answer => ({
  body: JSON.stringify(value),
  media: JSON_MEDIA,
  ...more,
})

async function start(call: Call): Promise<Answer> {
  const { engine } = call
  const version = queryOf(call, START_QUERY).version ?? null
  const inForce = await journeyNamed(call, param(call, 'id'), version)
  refuseUnbound(call, inForce.starting, inForce)
  const { context, ownId } = takeOwnId(anyObject().read(call.json === undefined ? {} : call.json, ''))
  const from = parentIn(call)
  const repeatable = repeatableOf(keyOf(call), { name: inForce.name, version, ownId, ...from, context })
  const asked = { definition: inForce, context, ...partsOf(call), ...from, receivedAt: null, repeatable }
  const { run, isRepeat } = await startRun(engine, asked).catch(asBadRequest)
  const replayed: Record<string, string> = isRepeat ? REPLAYED : {}
  // A start that is repeated leads to the version that its run began with.
  const definition = (isRepeat ? await definitionFor(call, run) : null) ?? inForce
  if (definition.startMode === 'async') {
    const headers = { Location: runUrl(run.id), ...replayed }
    return plain(startView(run, definition.links), { status: isRepeat ? 200 : 202, headers })
  }
  await wait(call, (signal) => engine.journeys.untilPause(run.id, signal))
  return { ...(await shown(call, await runNamed(call, run.id), definition)), headers: replayed }
}

export const REPLAYED = { 'Idempotency-Replayed': 'true' } as const

export const keyOf = ({ request }: Call): string | null => readIdempotencyKey(request.headers['idempotency-key'])

/** The outcome of a run that is over, or else its status. */
async function shown(call: Call, run: Run, definition: Definition | null): Promise<Answer> {
  const { engine } = call
  if (run.end !== null) return plain(await outcomeOf(engine, run, run.end, definition))
  return plain(statusView(run, engine.now(), definition?.links ?? true))
}

async function status(call: Call): Promise<Answer> {
  const run = await runNamed(call, param(call, 'id'))
  return plain(statusView(run, call.engine.now(), await linksOf(call, run)))
}

async function result(call: Call): Promise<Answer> {
  const { engine } = call
  const id = param(call, 'id')
  const { wait: waits = false, timeout: timeoutS = 30 } = queryOf(call, RESULT_QUERY)
  let run = await runNamed(call, id)
  if (run.end === null && waits) {
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
      details: { journeyId: id, phase: run.phase, remainingMs: remaining(run.deadlineAt, engine.now()) },
      hint: 'Ask again later, or with wait=true.',
    })
  }
  return shown(call, run, await definitionFor(call, run))
}

async function submit(call: Call): Promise<Answer> {
  const { engine } = call
  const [id, step] = [param(call, 'id'), param(call, 'stepId')]
  const found = await runNamed(call, id)
  if (call.query.others.length > 0) {
    const definition = await definitionFor(call, found)
    if (definition !== null) refuseUnbound(call, definition.submitting[step] ?? NOTHING_INBOUND, definition)
  }
  // The start was answered, but the server has not entered the step yet: the caller is not too early, the server is late.
  if (openStep(found, step) === null && isEntering(found))
    await wait(call, (signal) => engine.journeys.untilOpen(id, step, signal), MAX_ENTERING_MS)
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
  const { journeyName, phase, tag, subjectId, tenantId, pageToken = null, limit = 50 } = queryOf(call, LIST_QUERY)
  const filter = {
    ...given('name', journeyName),
    ...given('phase', phase),
    ...given('tag', tag),
    ...given('subjectId', subjectId),
    ...given('tenantId', tenantId),
  }
  const { runs, next } = await listRuns(engine, filter, pageToken, limit)
  const items: Data[] = []
  for (const run of runs) items.push(statusView(run, engine.now(), await linksOf(call, run)))
  return plain({ items, nextPageToken: next })
}

async function explain(call: Call): Promise<Answer> {
  return plain(explainRun(await runNamed(call, param(call, 'id')), call.engine.now()))
}

async function history(call: Call): Promise<Answer> {
  return plain(historyOf(await runNamed(call, param(call, 'id'))))
}

async function page(call: Call): Promise<Answer> {
  const id = param(call, 'id')
  const run = await findRun(call.engine, id)
  if (run === null) return pageAnswer(noJourneyPage(id), 404)
  const explained = explainRun(run, call.engine.now())
  const { redaction } = call
  if (redaction === null) return pageAnswer(journeyPage(run, explained))
  return pageAnswer(journeyPage(run, JSON.parse(redaction.text(JSON.stringify(explained))) as typeof explained))
}

// ---- What calls have in common ----

async function journeyNamed({ engine }: Call, name: string, version: string | null): Promise<Definition> {
  const found = await definitionOf(engine, name, version)
  if (found?.definition.kind === 'Journey') return found.definition
  throw new OjsError('not_found', `No journey with this name${version === null ? '' : ' and version'} is deployed.`, {
    details: { journeyName: name, ...(version === null ? {} : { version }) },
    hint: 'PUT /api/v1/definitions/{name} deploys one.',
  })
}

async function runNamed({ engine }: Call, id: string): Promise<Run> {
  const run = await findRun(engine, id)
  if (run !== null) return run
  throw new OjsError('not_found', 'No run has this id.', {
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
  return { headers: Object.fromEntries(headers), query: Object.fromEntries(query.texts) }
}

function parentIn(call: Call): { parent: Parent | null; inheritDeadline: boolean } {
  const { x_parent: parent = null, x_inherit_deadline: inheritDeadline = false } = queryOf(call, START_QUERY)
  if (inheritDeadline && parent === null) throw badField('x_inherit_deadline', 'x_inherit_deadline needs x_parent.')
  return { parent, inheritDeadline }
}

/** A parameter that neither the route nor the definition knows is an error: it would be ignored silently. */
export function refuseUnbound({ query, engine }: Call, { queryToContext }: Inbound, { apiKeys }: Definition): void {
  if (query.others.length === 0) return
  const bound = [...Object.keys(queryToContext), ...keyParameters(engine.apiKeys, apiKeys)]
  const unknown = query.others.find((name) => !bound.includes(name))
  if (unknown !== undefined) throw unknownParameter(unknown, [...Object.keys(query.declared), ...bound])
}

/** What does not match the schema of a definition is a bad request here. */
export function asBadRequest(error: unknown): never {
  if (!(error instanceof OjsError) || error.code !== 'schema_validation') throw error
  const { mistakes, ...details } = error.details
  throw new OjsError('invalid_request', error.message, { details: { ...details, errors: mistakes }, cause: error })
}

const given = <K extends string, T>(name: K, value: T | undefined): Partial<Record<K, T>> =>
  value === undefined ? {} : ({ [name]: value } as Record<K, T>)

// ---- The routes ----

const PARENT_IN_QUERY: Shape<Parent> = {
  json: { type: 'string', contentMediaType: 'application/json', description: 'JSON, such as {"job_id":"…"}' },
  read: (value, at) => readParent(jsonIn(value, at)),
}

function jsonIn(value: unknown, at: string): unknown {
  try {
    return JSON.parse(String(value)) as unknown
  } catch {
    throw badField(at, `${at} must be JSON, such as {"job_id":"…"}.`)
  }
}

const START_QUERY = { version: text(), x_parent: PARENT_IN_QUERY, x_inherit_deadline: flag() } as const
const LIST_QUERY = {
  journeyName: text(),
  phase: oneOf(...PHASES),
  tag: text(),
  subjectId: text(),
  tenantId: text(),
  limit: upTo(1, 200),
  pageToken: text({ pattern: UUID_V7, expected: 'a nextPageToken of an earlier answer' }),
} as const
const RESULT_QUERY = { wait: flag(), timeout: upTo(1, 300) } as const
const TAG = 'journeys'
const RUN_PATH = '/api/v1/journeys/:id'

export const JOURNEY_ROUTES: readonly Route[] = [
  {
    method: 'POST',
    path: `${RUN_PATH}/start`,
    tag: TAG,
    summary: 'Start a run of the journey with this name; the body becomes its context',
    body: { shape: object({}), optional: true },
    query: START_QUERY,
    bindsQuery: true,
    answers: {
      200: 'How it ended, or where it waits for input (startMode sync); the run of an earlier start with the same Idempotency-Key or x_journey_id',
      202: 'It has started (startMode async)',
      400: 'The body does not match the input schema',
      404: 'No such journey',
      409: 'The Idempotency-Key or x_journey_id was used for another start',
    },
    handle: start,
  },
  {
    method: 'GET',
    path: '/api/v1/journeys',
    tag: TAG,
    summary: 'List runs, newest first',
    query: LIST_QUERY,
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
    query: RESULT_QUERY,
    answers: { 409: 'It is not over' },
    handle: result,
  },
  {
    method: 'POST',
    path: `${RUN_PATH}/steps/:stepId`,
    tag: TAG,
    summary: 'Submit an open wait or webhook; answers when nothing is under way any more',
    body: { shape: anything(), optional: true },
    bindsQuery: true,
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
  {
    method: 'GET',
    path: `${RUN_PATH}/history`,
    tag: TAG,
    summary:
      'With what a run began, and state by state what was written and the context afterwards; secrets are masked',
    handle: history,
  },
  { method: 'GET', path: '/journeys/:id', tag: TAG, summary: 'A run on one page, for people (HTML)', handle: page },
]
