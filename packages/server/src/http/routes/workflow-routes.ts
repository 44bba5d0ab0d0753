/** Workflows: begin, look, wait, cancel. */
import {
  cancelFields,
  flag,
  isWorkflowOver,
  MAX_VALUES_OF_MANY,
  notFound,
  OjsError,
  oneOf,
  readDoc,
  readWorkflow,
  renderSummary,
  renderWorkflow,
  renderWorkflowProgress,
  STEP,
  WORKFLOW,
  WORKFLOW_SHAPE,
  WORKFLOW_STATES,
  type Job,
  type Tree,
  type Workflow,
  type WorkflowState,
  type WorkflowStep,
} from '@curfew/core'
import { cancelWorkflow, createWorkflow } from '../../engine/workflows/workflow.ts'
import type { Engine } from '../../engine/engine.ts'
import { inPieces, nextTurn } from '../../engine/kernel/turns.ts'
import { until } from '../../engine/kernel/until.ts'
import { waitForCapacity } from '../../engine/queues/capacity-waiters.ts'
import type { Reads } from '../../store/store.ts'
import { CURSOR, patienceOf } from './job-routes.ts'
import { arrayOf, objectOf, type Answer } from '../api/message.ts'
import { PAGES, upTo } from '../api/query.ts'
import { param, queryOf, tenantOf, type Call, type Route } from '../api/route.ts'

const PAGE = 500
/** A list looks at no more workflows than this; the cursor moves on. */
const MAX_SCANNED = 5_000

const LIST_QUERY = { state: oneOf(...WORKFLOW_STATES), limit: PAGES.limit, cursor: CURSOR } as const
const LOOK_QUERY = { wait: flag(), timeout: upTo(1, 300) } as const

/** A call that speaks for a tenant sees the workflows of that tenant only. */
async function findWorkflow(reads: Reads, id: string, tenant: string | null): Promise<Workflow> {
  const doc = await reads.doc(WORKFLOW.kind, id)
  const workflow = doc === null ? null : readDoc<Workflow>(doc)
  if (workflow === null || !isOf(tenant, workflow)) throw notFound('workflow', id)
  return workflow
}

const isOf = (tenant: string | null, workflow: Workflow): boolean => tenant === null || workflow.tenant === tenant

async function treeOf(engine: Engine, id: string, tenant: string | null): Promise<Tree> {
  return engine.read(async (reads) => {
    const workflow = await findWorkflow(reads, id, tenant)
    const steps: WorkflowStep[] = []
    for (let after: string | null = null, more = true; more;) {
      const page = await reads.docs(STEP.kind, `${id}/`, after, PAGE)
      await nextTurn(engine.host)
      for (const doc of page) steps.push(readDoc<WorkflowStep>(doc))
      after = page.at(-1)?.id ?? null
      more = page.length === PAGE
    }
    const isAsked = steps.some(({ state, jobId }) => state === 'started' && jobId !== null)
    return { workflow, steps, jobs: isAsked ? await jobsOf(engine, reads, id) : new Map<string, Job>() }
  })
}

async function jobsOf(engine: Engine, reads: Reads, id: string): Promise<Map<string, Job>> {
  const jobs = new Map<string, Job>()
  for (let after: string | null = null, more = true; more;) {
    const page = await reads.owned({ kind: 'workflow', id }, after, PAGE)
    await nextTurn(engine.host)
    for (const job of page) jobs.set(job.id, job)
    after = page.at(-1)?.id ?? null
    more = page.length === PAGE
  }
  return jobs
}

async function create(call: Call): Promise<Answer> {
  const { engine } = call
  const tenant = tenantOf(call)
  const reading = readWorkflow(call.text, call.json, engine.now(), tenant, engine.settings.strict)
  const read = inPieces(engine.host, reading)
  const command = createWorkflow(engine, read instanceof Promise ? await read : read, tenant)
  const patience = patienceOf(call)
  const { tree, warnings } = await (patience === null
    ? engine.run(command)
    : waitForCapacity(engine, command, patience))
  const told = warnings.length === 0 ? '' : `"x_warnings":${JSON.stringify(warnings)}`
  return {
    status: 201,
    headers: { Location: `/ojs/v1/workflows/${tree.workflow.id}` },
    body: await inPieces(engine.host, renderWorkflow(tree, told)),
  }
}

async function shown({ engine }: Call, tree: Tree, extra = ''): Promise<Answer> {
  return { body: await inPieces(engine.host, renderWorkflow(tree, extra)) }
}

async function look(call: Call): Promise<Answer> {
  const id = param(call, 'id')
  if (queryOf(call, LOOK_QUERY).wait === true) await untilOver(call, id)
  return shown(call, await treeOf(call.engine, id, tenantOf(call)))
}

/** Waits until the workflow is over, the time is up, the caller is gone or the server stops. */
async function untilOver(call: Call, id: string): Promise<void> {
  const { engine, request } = call
  const timeoutMs = (queryOf(call, LOOK_QUERY).timeout ?? 30) * 1000
  const tenant = tenantOf(call)
  const isOver = async (): Promise<boolean> =>
    isWorkflowOver(await engine.read((reads) => findWorkflow(reads, id, tenant)))
  if (await isOver()) return
  await until(engine.host, {
    signals: [request.signal, engine.closing],
    ms: timeoutMs,
    listen: (end) => {
      // It may have ended between the first look and the listening. A look that fails is repeated below, and refused there.
      isOver().then((over) => {
        if (over) end()
      }, end)
      return engine.listen(({ events }) => {
        if (events.some(({ subject, type }) => subject === id && ENDINGS.includes(type))) end()
      })
    },
  })
  if (!(await isOver())) {
    const details = { workflow_id: id, state: 'running' }
    if (engine.closing.aborted)
      throw new OjsError('unavailable', 'The server is stopping, and the workflow is not over yet.', { details })
    throw new OjsError('request_timeout', `The workflow was not over within ${String(timeoutMs / 1000)} seconds.`, {
      details,
    })
  }
}

const ENDINGS: readonly string[] = ['workflow.completed', 'workflow.failed', 'workflow.cancelled']

async function cancel(call: Call): Promise<Answer> {
  const id = param(call, 'id')
  const tenant = tenantOf(call)
  // Whose it is never changes, so it can be looked at before anything is decided.
  if (tenant !== null) await call.engine.read((reads) => findWorkflow(reads, id, tenant))
  const workflow = await call.engine.run(cancelWorkflow(call.engine, id))
  return shown(call, await treeOf(call.engine, id, tenant), cancelFields(workflow))
}

async function progress(call: Call): Promise<Answer> {
  return {
    body: renderWorkflowProgress(await treeOf(call.engine, param(call, 'id'), tenantOf(call)), call.engine.now()),
  }
}

async function list(call: Call): Promise<Answer> {
  const { limit = 50, cursor = null, state = null } = queryOf(call, LIST_QUERY)
  const { found, next } = await call.engine.read((reads) =>
    newest(call.engine, reads, cursor, limit, state, tenantOf(call)),
  )
  return {
    body: objectOf({
      workflows: arrayOf(found.map((workflow) => renderSummary(workflow))),
      pagination: JSON.stringify({
        limit,
        has_more: next !== null,
        ...(next === null ? {} : { next_cursor: next }),
      }),
    }),
  }
}

async function newest(
  engine: Engine,
  reads: Reads,
  cursor: string | null,
  limit: number,
  state: WorkflowState | null,
  tenant: string | null,
): Promise<{ found: Workflow[]; next: string | null }> {
  const found: Workflow[] = []
  let before = cursor
  for (let scanned = 0; scanned < MAX_SCANNED; scanned += PAGE) {
    const page = await reads.docsBelow(WORKFLOW.kind, before, PAGE)
    await nextTurn(engine.host)
    for (const [index, doc] of page.entries()) {
      const workflow = readDoc<Workflow>(doc)
      before = doc.id
      if (isOf(tenant, workflow) && (state === null || workflow.state === state)) found.push(workflow)
      if (found.length === limit)
        return { found, next: index < page.length - 1 || page.length === PAGE ? before : null }
    }
    if (page.length < PAGE) return { found, next: null }
  }
  return { found, next: before }
}

export const WORKFLOW_ROUTES: readonly Route[] = [
  {
    method: 'POST',
    path: '/ojs/v1/workflows',
    tag: 'workflows',
    summary:
      'Begin a workflow: a chain, a group, a batch, or (without a type) a DAG by depends_on; lists may be nested',
    body: { shape: WORKFLOW_SHAPE, maxValues: MAX_VALUES_OF_MANY },
    answers: {
      201: 'The workflow as stored, nested and flat',
      429: 'A queue has not enough room for what starts now: nothing was stored',
    },
    handle: create,
  },
  {
    method: 'GET',
    path: '/ojs/v1/workflows',
    tag: 'workflows',
    summary: 'List workflows, newest first, without their steps',
    query: LIST_QUERY,
    handle: list,
  },
  {
    method: 'GET',
    path: '/ojs/v1/workflows/:id',
    tag: 'workflows',
    summary: 'A workflow with all its steps as they are now; with wait=true, when it is over',
    query: LOOK_QUERY,
    answers: { 408: 'Still not over when the wait was' },
    handle: look,
  },
  {
    method: 'DELETE',
    path: '/ojs/v1/workflows/:id',
    aliases: ['POST /ojs/v1/workflows/:id/cancel'],
    tag: 'workflows',
    summary:
      'Cancel a workflow: waiting jobs are cancelled; active jobs run on, and nothing follows from their results',
    answers: { 409: 'It is over already' },
    handle: cancel,
  },
  {
    method: 'GET',
    path: '/ojs/v1/workflows/:id/progress',
    tag: 'workflows',
    summary: 'How far a workflow is, between 0 and 1',
    handle: progress,
  },
]
