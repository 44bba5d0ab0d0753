/**
 * What members lead to, and what time does to a workflow. What follows is saved in the transaction of its cause, so a crash
 * can neither lose it nor do it twice.
 */
import {
  after,
  endingOf,
  Flow,
  isDue,
  isWorkflowOver,
  millis,
  STEP,
  stepDocId,
  WORKFLOW,
  type DocName,
  type Job,
  type Workflow,
} from '@curfew/core'
import type { JobsContext } from '../jobs/context.ts'
import type { Unit } from '../kernel/unit.ts'
import { lineageOf, saveFlow, takeWalk } from './walk.ts'

/** Members ended: each workflow goes on once for all of its own. */
export async function followWorkflows(context: JobsContext, unit: Unit, ended: readonly Job[]): Promise<void> {
  const members = new Map<string, Job[]>()
  const docs = new Map<string, DocName>()
  for (const job of ended) {
    const id = job.owner?.id ?? ''
    const others = members.get(id)
    if (others === undefined) members.set(id, [job])
    else others.push(job)
    docs.set(id, { kind: WORKFLOW.kind, id })
    for (const number of lineageOf(job.owner?.step ?? null)) {
      const step = stepDocId(id, number)
      docs.set(step, { kind: STEP.kind, id: step })
    }
  }
  await unit.load({ docs: [...docs.values()] })
  for (const [id, jobs] of members) await goOn(context, unit, id, jobs)
}

async function goOn(context: JobsContext, unit: Unit, id: string, jobs: readonly Job[]): Promise<void> {
  const workflow = unit.doc(WORKFLOW, id)
  // Its documents may be gone before the last job that ran on.
  if (workflow === null) return
  const numbers = new Set(jobs.flatMap(({ owner }) => lineageOf(owner?.step ?? null)))
  const known = [...numbers].map((number) => unit.doc(STEP, stepDocId(id, number))).filter((step) => step !== null)
  const flow = new Flow(workflow, known, unit.moment)
  // Members end by the deadline before the workflow itself is woken: it must not take that for an end of their own.
  flow.expire()
  for (const job of jobs) {
    const number = lineageOf(job.owner?.step ?? null).at(-1)
    if (number !== undefined && flow.has(number)) await takeWalk(context, unit, flow, flow.ended(number, endingOf(job)))
  }
  saveFlow(unit, flow, workflow)
}

/** So many steps are removed at a time. */
const REMOVED_AT_ONCE = 1_000

/** Its time is up, or it has been kept long enough. */
export async function wakeWorkflow(unit: Unit, id: string): Promise<void> {
  const workflow = unit.doc(WORKFLOW, id)
  if (workflow === null) return
  if (!isWorkflowOver(workflow)) {
    const flow = new Flow(workflow, [], unit.moment)
    flow.expire()
    saveFlow(unit, flow, workflow)
    return
  }
  if (!isDue(workflow.purgeAt, unit.now)) return
  const left = Math.max(0, workflow.steps - REMOVED_AT_ONCE)
  const ids = Array.from({ length: workflow.steps - left }, (_step, index) => stepDocId(id, left + index + 1))
  await unit.loadDocs(STEP, ids)
  for (const step of ids) if (unit.doc(STEP, step) !== null) unit.putDoc(STEP, step, null)
  const rest: Workflow | null = left === 0 ? null : { ...workflow, steps: left, purgeAt: after(unit.now, millis(1)) }
  unit.putDoc(WORKFLOW, id, rest)
}
