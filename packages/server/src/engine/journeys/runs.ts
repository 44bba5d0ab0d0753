/** Runs: begun, submitted to, cancelled, and taken on by time and by the jobs they wait for. */
import {
  beginRun,
  boundContext,
  cancel as cancelJob,
  cancelledRun,
  expireRun,
  graphOf,
  isDue,
  isEndOfRun,
  isTerminal,
  jobsEnded,
  locate,
  metadataOf,
  notFound,
  NOTHING_INBOUND,
  OjsError,
  openStep,
  passedOn,
  pathOf,
  readDoc,
  RUN,
  START_KEY,
  stateOf,
  submitted,
  uuidV7,
  type Data,
  type DataSchema,
  type Definition,
  type DocKind,
  type InboundRequest,
  type Instant,
  type Job,
  type Parent,
  type Phase,
  type Run,
  type RunStart,
  type State,
} from '@curfew/core'
import type { Reads } from '../../store/store.ts'
import { keyVerdicts } from '../api-keys.ts'
import { ceilingFor, docsOf, NO_PARENT } from '../jobs/enqueue.ts'
import type { JourneysContext } from './context.ts'
import { earlierRun, needsOfRepeat, type FindDoc, type Repeatable } from './repeats.ts'
import { saveRun } from './saving.ts'
import type { Unit } from '../kernel/unit.ts'

export interface StartRequest extends InboundRequest {
  readonly definition: Definition
  /** What was sent; the run's context, with what the definition binds besides. */
  readonly context: Data
  readonly parent: Parent | null
  readonly inheritDeadline: boolean
  /** When the clock began to run: for an Api when the request came, for a journey when it is accepted (null). */
  readonly receivedAt: Instant | null
  /** Null: a start like this one begins another run. */
  readonly repeatable: Repeatable | null
}

export interface Started {
  readonly run: Run
  /** The run was there: this start had come before. */
  readonly isRepeat: boolean
}

/** Stored, and being taken on. Bad input is refused, and nothing is stored. */
export async function startRun(context: JourneysContext, request: StartRequest): Promise<Started> {
  const { definition, parent, repeatable } = request
  const known = repeatable === null ? null : await context.read((reads) => earlierRun(findIn(reads), repeatable))
  // What was accepted once is not judged again: another version may be in force by now.
  if (known !== null) return { run: known, isRepeat: true }
  const input = { ...request.context, ...boundContext(definition.starting, request) }
  weigh(input)
  demand(context, definition.input, input, 'The request does not fit what the journey takes (spec.input.schema).')
  const metadata = metadataOf(definition, request.context, request)
  const keys = keyVerdicts(context.apiKeys, definition, request)
  const id = repeatable?.ownId ?? uuidV7(context.now(), context.random)
  const needs = repeatable === null ? {} : needsOfRepeat(repeatable)
  const started = await context.journeys.passingOn<Started>(id, passedOn(definition.starting, request), {
    name: 'journey',
    needs: parent === null ? needs : { ...needs, docs: [...(needs.docs ?? []), ...docsOf(parent)] },
    run: async (unit) => {
      const earlier = repeatable === null ? null : await earlierRun((kind, name) => unit.seeDoc(kind, name), repeatable)
      if (earlier !== null) return { run: earlier, isRepeat: true }
      const { ceiling } = parent === null ? NO_PARENT : await ceilingFor(unit, request, parent)
      const startedAt = request.receivedAt ?? unit.now
      const inheritedAt = ceiling?.at ?? null
      const start = startOf(repeatable)
      const asked = { id, definition, context: input, ...metadata, parent, inheritedAt, startedAt, start }
      const run = { ...beginRun(asked, unit.moment.limits.run), ...(keys === undefined ? {} : { keys }) }
      if (repeatable !== null && repeatable.keyId !== null) unit.putDoc(START_KEY, repeatable.keyId, { run: id })
      // The request itself may have taken all the time there was.
      const late = expireRun(run, unit.now, unit.moment.upAt)
      for (const { kind, overshootMs } of late?.ranOut ?? []) unit.noteRunOut(kind, overshootMs)
      return { run: await saveRun(context, unit, null, late?.run ?? run), isRepeat: false }
    },
  })
  if (started.run.id !== id) context.journeys.passNothingOn(id)
  return started
}

const startOf = (repeatable: Repeatable | null): RunStart | null =>
  repeatable === null ? null : { key: repeatable.keyId, print: repeatable.print }

const findIn =
  (reads: Reads): FindDoc =>
  async <T>({ kind }: DocKind<T>, id: string) => {
    const doc = await reads.doc(kind, id)
    return doc === null ? null : readDoc<T>(doc)
  }

/** Half of what a run may remember in all: it needs room for what it will learn. */
const MAX_INPUT = 2_097_152

/** What could not be kept is refused, rather than taken and then failed for. */
function weigh(input: unknown): void {
  if ((JSON.stringify(input) ?? '').length > MAX_INPUT)
    throw new OjsError('payload_too_large', 'The body is larger than the 2 MiB a run takes at once.')
}

function demand({ checkers }: JourneysContext, schema: DataSchema | null, value: unknown, message: string): void {
  const mistakes = checkers.misfitOf(schema, value)
  if (mistakes !== null) throw new OjsError('schema_validation', message, { details: { mistakes } })
}

/** As it is by now; whatever is due has been settled. */
export async function findRun(context: JourneysContext, id: string): Promise<Run | null> {
  const doc = await context.read((reads) => reads.doc(RUN.kind, id))
  return doc === null ? null : context.longDocs.recordOf<Run>(doc)
}

export interface RunFilter {
  readonly name?: string
  readonly phase?: Phase
  readonly tag?: string
  readonly subjectId?: string
  readonly tenantId?: string
}

/** Runs are read in pages: of few, then of as many as have so many characters, judged by the page before. */
const FIRST_PAGE = 16
const A_PAGE = 200
const A_PAGE_CHARACTERS = 1_048_576
/** Who looks for something rare goes on with the next page. */
const MAX_SCANNED = 5_000

/** Newest first; calls of Apis are not journeys, and are not listed. `next`: where to go on, if there may be more. */
export async function listRuns(
  context: JourneysContext,
  filter: RunFilter,
  after: string | null,
  limit: number,
): Promise<{ runs: Run[]; next: string | null }> {
  return context.read(async (reads) => {
    const runs: Run[] = []
    let from = after
    let size = FIRST_PAGE
    for (let scanned = 0; scanned < MAX_SCANNED;) {
      const page = await reads.docsBelow(RUN.kind, from, size)
      for (const [index, doc] of page.entries()) {
        from = doc.id
        const run = await context.longDocs.recordOf<Run>(doc)
        if (run.kind !== 'Api' && fits(run, filter)) runs.push(run)
        if (runs.length === limit) return { runs, next: index < page.length - 1 || page.length === size ? from : null }
      }
      if (page.length < size) return { runs, next: null }
      scanned += size
      const characters = page.reduce((sum, { body }) => sum + body.length, 0)
      size = Math.max(1, Math.min(A_PAGE, Math.floor((A_PAGE_CHARACTERS * size) / characters)))
    }
    return { runs, next: from }
  })
}

function fits({ name, phase, tags, attributes }: Run, filter: RunFilter): boolean {
  return (
    (filter.name === undefined || filter.name === name) &&
    (filter.phase === undefined || filter.phase === phase) &&
    (filter.tag === undefined || tags.includes(filter.tag)) &&
    (filter.subjectId === undefined || filter.subjectId === attributes['subjectId']) &&
    (filter.tenantId === undefined || filter.tenantId === attributes['tenantId'])
  )
}

/** A caller answers an open step. What does not fit its schema is refused, and the step stays open. */
export async function submitStep(
  context: JourneysContext,
  id: string,
  stepId: string,
  payload: unknown,
  from: InboundRequest,
): Promise<Run> {
  const found = await findRun(context, id)
  if (found === null) throw notFound('journey', id)
  const definition = await context.journeys.definitionOf(found)
  const step = openStep(found, stepId)
  if (step === null) {
    const refused = notOpen(found, stepId)
    context.noteRefusal('step', refused)
    throw refused
  }
  const state = stateAt(found, definition, step.visit)
  weigh(payload)
  if (state.type === 'wait' || state.type === 'webhook')
    demand(context, state.input, payload, `The submission does not fit what ${stepId} takes (input.schema).`)
  const inbound = definition.submitting[stepId] ?? NOTHING_INBOUND
  const keys = keyVerdicts(context.apiKeys, definition, from)
  return context.journeys.passingOn(id, passedOn(inbound, from), {
    name: 'step',
    needs: { docs: [{ kind: RUN.kind, id }] },
    run: async (unit) => {
      const run = unit.doc(RUN, id)
      if (run === null) throw notFound('journey', id)
      // What is due has been settled, unless another server held it just then.
      const current = expireRun(run, unit.now, unit.moment.upAt)?.run ?? run
      const open = stepIn(current, stepId)
      if (pathOf(open) !== pathOf(step)) throw notOpen(current, stepId)
      const after = submitted(current, open, payload, boundContext(inbound, from), unit.now)
      return saveRun(context, unit, run, keys === undefined ? after : { ...after, keys })
    },
  })
}

function stepIn(run: Run, stepId: string): NonNullable<ReturnType<typeof openStep>> {
  const step = openStep(run, stepId)
  if (step === null) throw notOpen(run, stepId)
  return step
}

function notOpen(run: Run, stepId: string): OjsError {
  const isLate = run.end?.terminationKind === 'Timeout'
  const [reason, message] =
    run.phase === 'RUNNING'
      ? ['not_active', `The step ${stepId} is not open: the journey is somewhere else.`]
      : isLate
        ? ['deadline_reached', `The time of the journey was up before ${stepId} was submitted.`]
        : ['journey_over', `The journey is over (${run.phase}).`]
  return new OjsError('conflict', message, { details: { reason, journey_id: run.id, phase: run.phase } })
}

function stateAt(run: Run, definition: Definition, visit: number): State {
  const found = locate(run.root, graphOf(run, definition), definition).find(({ frame }) => frame.visit === visit)
  if (found === undefined) throw notFound('step', String(visit))
  return stateOf(found.graph, found.frame.state)
}

/** A run that is over stays as it is. Jobs are locked before documents, so they are looked for first. */
export function cancelRun(context: JourneysContext, id: string): Promise<Run> {
  return context.run({
    name: 'cancel',
    run: async (unit) => {
      await unit.owned({ kind: 'journey', id }, true)
      const run = await unit.loadedDoc(RUN, id)
      if (run === null) throw notFound('journey', id)
      if (run.phase !== 'RUNNING') return run
      if (isDue(run.deadlineAt, unit.now)) return passTime(context, unit, run)
      if (!run.cancellable) {
        const details = { reason: 'not_cancellable', journey_id: id }
        throw new OjsError('conflict', 'This journey cannot be cancelled (spec.lifecycle.cancellable).', { details })
      }
      for (const job of await unit.owned({ kind: 'journey', id }, true))
        if (!isTerminal(job.state)) unit.apply(cancelJob(job, unit.moment, { reason: 'journey_cancelled' }))
      return saveRun(context, unit, run, cancelledRun(run, unit.now))
    },
  })
}

/** Time has come for a run: its deadline, a timer, a wait that lasted too long; or it has been kept long enough. */
export async function wakeRun(context: JourneysContext, unit: Unit, id: string): Promise<void> {
  const run = unit.doc(RUN, id)
  if (run === null) return
  if (run.phase === 'RUNNING') await passTime(context, unit, run)
  else if (isDue(run.purgeAt, unit.now)) await remove(unit, run)
}

/** With the key it was started by. */
async function remove(unit: Unit, { id, start }: Run): Promise<void> {
  unit.putDoc(RUN, id, null)
  const key = start?.key ?? null
  if (key === null) return
  const keyed = await unit.loadedDoc(START_KEY, key)
  if (keyed?.run === id) unit.putDoc(START_KEY, key, null)
}

async function passTime(context: JourneysContext, unit: Unit, run: Run): Promise<Run> {
  const passed = expireRun(run, unit.now, unit.moment.upAt)
  if (passed === null) return run
  for (const { kind, overshootMs } of passed.ranOut) unit.noteRunOut(kind, overshootMs)
  return saveRun(context, unit, run, passed.run)
}

/** Jobs ended that runs were waiting for. Each run is changed once, however many of its jobs have ended. */
export async function followRuns(context: JourneysContext, unit: Unit, ended: readonly Job[]): Promise<void> {
  const byRun = new Map<string, Job[]>()
  for (const job of ended) {
    const id = job.owner?.id ?? ''
    const jobs = byRun.get(id)
    if (jobs === undefined) byRun.set(id, [job])
    else jobs.push(job)
  }
  await unit.load({ docs: [...byRun.keys()].map((id) => ({ kind: RUN.kind, id })) })
  for (const [id, jobs] of byRun) {
    const run = unit.doc(RUN, id)
    if (run?.phase !== 'RUNNING') continue
    if (isDue(run.deadlineAt, unit.now)) {
      await passTime(context, unit, run)
      continue
    }
    // A job that ended with the run's own time: the run rests for the moment that is left, and ends by its own deadline.
    const heard = jobs.filter((job) => !isEndOfRun(run, job))
    const results = new Map(heard.map((job) => [job.id, resultOf(job)]))
    const after = jobsEnded(run, results, unit.now)
    if (after !== null) await saveRun(context, unit, run, after)
  }
}

function resultOf({ id, state, result, error }: Job): Data {
  return {
    ok: state === 'completed',
    state: isTerminal(state) ? state : 'removed',
    jobId: id,
    ...(state === 'completed' && result !== null ? { result: JSON.parse(result) as unknown } : {}),
    ...(state !== 'completed' && error !== null ? { error: JSON.parse(error) as unknown } : {}),
  }
}
