/**
 * Takes a walk of `core/workflow/flow.ts` through the store: shows it the steps it asks for, makes the jobs it wishes
 * for, and writes down what it changed.
 */
import {
  broken,
  OjsError,
  readEnqueue,
  STEP,
  stepDocId,
  WORKFLOW,
  type EnqueueRequest,
  type Flow,
  type Fragment,
  type Job,
  type Made,
  type Results,
  type Walk,
  type Workflow,
  type WorkflowStep,
} from '@curfew/core'
import { admitJob, needsOf, type Admission } from '../jobs/enqueue.ts'
import type { JobsContext } from '../jobs/context.ts'
import type { Unit } from '../kernel/unit.ts'

/** How jobs are made. */
export interface Making {
  /** What a step asks for, once its turn has come. */
  requestOf(step: WorkflowStep): EnqueueRequest
  enqueue(request: EnqueueRequest, more: Admission): Job | Promise<Job>
  /** A job was not let in: its queue takes nothing more, its arguments no longer fit. */
  refused(step: WorkflowStep, error: OjsError): Made
}

export async function takeWalk(
  context: JobsContext,
  unit: Unit,
  flow: Flow,
  walk: Walk,
  making: Making = fromTemplates(context, unit, flow.workflow),
): Promise<void> {
  let made: Made | undefined
  for (let wish = walk.next(); wish.done !== true; wish = walk.next(made)) {
    made = undefined
    const pause = unit.pace.step()
    if (pause !== undefined) await pause
    if (wish.value.kind === 'see') await show(unit, flow, wish.value.numbers)
    else made = await make(unit, flow, wish.value.step, wish.value.results, making)
  }
}

async function show(unit: Unit, flow: Flow, numbers: readonly number[]): Promise<void> {
  const { id } = flow.workflow
  const ids = numbers.map((number) => stepDocId(id, number))
  await unit.loadDocs(STEP, ids)
  for (const docId of ids) {
    const step = unit.doc(STEP, docId)
    if (step === null) throw broken(`step ${docId} is gone while its workflow runs`)
    flow.show(step)
  }
}

/** Steps whose turn comes later: what they ask for was kept with them. The walk hears of those that are refused. */
function fromTemplates(context: JobsContext, unit: Unit, { tenant }: Workflow): Making {
  return {
    requestOf: ({ template, path }) => {
      if (template === null) throw broken(`step ${path} is to start and has nothing to start with`)
      return readEnqueue(template, JSON.parse(template), unit.now, tenant)
    },
    enqueue: (request, more) => admitJob(context, unit, request, more),
    refused: (_, error) => ({ refused: error }),
  }
}

async function make(unit: Unit, flow: Flow, step: WorkflowStep, results: Results, making: Making): Promise<Made> {
  const { id, deadlineAt, tenant } = flow.workflow
  try {
    const request = making.requestOf(step)
    const needs = needsOf([request])
    if (unit.misses(needs)) await unit.load(needs)
    const job = await making.enqueue(request, {
      owner: { kind: 'workflow', id, step: flow.lineage(step.number).join('/') },
      ceiling: deadlineAt === null ? null : { at: deadlineAt, source: 'workflow' },
      tenant,
      body: membershipOf(flow.workflow, step, results),
    })
    return { jobId: job.id }
  } catch (error) {
    if (!(error instanceof OjsError)) throw error
    return making.refused(step, error)
  }
}

/** What a member carries besides what was asked for. */
function membershipOf({ id }: Workflow, { path }: WorkflowStep, { list, omitted }: Results): Fragment {
  const outermost = /^\d+/.exec(path)?.[0]
  return (
    `"workflow_id":"${id}",` +
    (outermost === undefined ? '' : `"workflow_step":${outermost},`) +
    `"x_workflow_path":"${path}","parent_results":[${list}]` +
    (omitted === 0 ? '' : `,"x_parent_results_omitted":${String(omitted)}`)
  )
}

/** The steps a job's end concerns: its own and the branches above it. */
export const lineageOf = (step: string | null): readonly number[] =>
  step === null || step === '' ? [] : step.split('/').map(Number)

/** Writes down what a walk has changed. */
export function saveFlow(unit: Unit, flow: Flow, before: Workflow): void {
  const { workflow } = flow
  if (workflow !== before) unit.putDoc(WORKFLOW, workflow.id, workflow)
  for (const step of flow.touched()) unit.putDoc(STEP, stepDocId(workflow.id, step.number), step)
  for (const event of flow.events) unit.emit(event)
  if (flow.overshootMs !== null) unit.noteRunOut('workflow', flow.overshootMs)
}
