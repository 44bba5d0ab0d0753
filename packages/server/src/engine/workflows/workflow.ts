/**
 * Workflows: begun and cancelled. The rules are in `core/workflow/flow.ts`; `workflows/members.ts` takes one on when a
 * member ends or its time is up.
 *
 * The workflow's own document is locked before any of its steps is written, and after the jobs: the transaction that holds it decides
 * alone on the next step, however many servers report on its members.
 */
import {
  broken,
  cancel as cancelJob,
  Flow,
  nearMissWarnings,
  notFound,
  OjsError,
  STEP,
  stepDocId,
  uuidV7,
  WORKFLOW,
  workflowDeadline,
  type DocName,
  type Job,
  type Tree,
  type Workflow,
  type WorkflowRequest,
  type WorkflowStep,
} from '@curfew/core'
import type { Command } from '../kernel/command.ts'
import { ceilingFor, docsOf, enqueueAmong, laterWarnings, needsOf, NO_PARENT, type Above } from '../jobs/enqueue.ts'
import type { JobsContext } from '../jobs/context.ts'
import type { Unit } from '../kernel/unit.ts'
import { saveFlow, takeWalk } from './walk.ts'

export interface Created {
  readonly tree: Tree
  readonly warnings: readonly string[]
}

/** All or nothing: a step that cannot be enqueued now refuses the whole. */
export function createWorkflow(
  context: JobsContext,
  request: WorkflowRequest,
  tenant: string | null = null,
): Command<Created> {
  const requests = [...request.requests.values()]
  const id = request.id ?? uuidV7(context.now(), context.random)
  // One that the server names is new.
  const own: readonly DocName[] = request.id === null ? [] : [{ kind: WORKFLOW.kind, id }]
  const above = request.parent === null ? [] : docsOf(request.parent)
  const needs = needsOf(requests)
  return {
    name: 'workflow',
    needs: { ...needs, docs: [...(needs.docs ?? []), ...own, ...above] },
    size: request.steps.length,
    run: async (unit) => {
      if (request.id !== null && unit.doc(WORKFLOW, id) !== null) {
        throw new OjsError('duplicate', 'A workflow with this id exists already.', {
          details: { existing_workflow_id: id },
        })
      }
      const given = request.parent === null ? NO_PARENT : await ceilingFor(unit, request, request.parent)
      const flow = new Flow(begunAt(unit, id, request, given, tenant), request.steps, unit.moment)
      const jobs = new Map<string, Job>()
      const companions = new Set<string>()
      await takeWalk(context, unit, flow, flow.begin(), {
        requestOf: (step) => request.requests.get(step.number) ?? unread(step),
        enqueue: async (asked, more) => {
          const job = await enqueueAmong(context, unit, asked, more, companions)
          jobs.set(job.id, job)
          return job
        },
        refused: (step, error) => {
          throw new OjsError(error.code, error.message, {
            details: { ...error.details, x_workflow_path: step.path },
            ...(error.hint === undefined ? {} : { hint: error.hint }),
            cause: error,
          })
        },
      })
      const steps = flow.steps()
      unit.addDoc(WORKFLOW, id, flow.workflow)
      const warnings: string[] = []
      for (const step of steps) {
        const pause = unit.pace.step()
        if (pause !== undefined) await pause
        unit.addDoc(STEP, stepDocId(id, step.number), step)
        const asked = request.requests.get(step.number)
        if (asked === undefined || warnings.length >= MAX_STEP_WARNINGS) continue
        for (const warning of laterWarnings(context, unit, asked)) warnings.push(`Step ${step.path}: ${warning}`)
      }
      for (const event of flow.events) unit.emit(event)
      const tree: Tree = { workflow: flow.workflow, steps, jobs }
      return { tree, warnings: [...nearMissWarnings(request.nearMisses), ...given.warnings, ...warnings] }
    },
  }
}

/** Steps of one workflow are mostly alike: more warnings would only repeat these. */
const MAX_STEP_WARNINGS = 20

function unread({ path }: WorkflowStep): never {
  throw broken(`step ${path} starts without having been read`)
}

function begunAt(
  unit: Unit,
  id: string,
  request: WorkflowRequest,
  { ceiling }: Above,
  tenant: string | null,
): Workflow {
  return {
    id,
    name: request.name,
    state: 'running',
    branch: request.branch,
    steps: request.steps.length,
    jobs: request.jobs,
    jobsCompleted: 0,
    jobsFailed: 0,
    createdAt: unit.now,
    endedAt: null,
    ...workflowDeadline(unit.now, request.limitMs, ceiling?.at ?? null),
    limitMs: request.limitMs,
    parent: request.parent,
    tenant,
    failures: [],
    error: null,
    jobsCancelled: 0,
    more: request.more,
    purgeAt: null,
  }
}

/**
 * What waits is cancelled; what is active runs on, and its end leads to nothing (OJS workflows §11.3). Jobs are locked
 * before documents, so they are looked for first, and once more when no other server can add to them.
 */
export function cancelWorkflow(context: JobsContext, id: string): Command<Workflow> {
  return {
    name: 'workflow',
    run: async (unit) => {
      // Who reported before this is heard before this.
      await context.follow(unit)
      await unit.owned({ kind: 'workflow', id }, true)
      const workflow = await unit.loadedDoc(WORKFLOW, id)
      if (workflow === null) throw notFound('workflow', id)
      const open = await unit.owned({ kind: 'workflow', id }, true)
      const flow = new Flow(workflow, [], unit.moment)
      flow.expire()
      flow.cancel(open.filter(({ state }) => state === 'active').length)
      for (const job of open) {
        const pause = unit.pace.step()
        if (pause !== undefined) await pause
        if (job.state !== 'active') unit.apply(cancelJob(job, unit.moment, { reason: 'workflow_cancelled' }))
      }
      saveFlow(unit, flow, workflow)
      return flow.workflow
    },
  }
}
