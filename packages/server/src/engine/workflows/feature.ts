import { WORKFLOW } from '@curfew/core'
import type { JobsContext } from '../jobs/context.ts'
import type { Feature } from '../kernel/feature.ts'
import { followWorkflows, wakeWorkflow } from './members.ts'

/** Workflows go on when a member ends, and end at their deadline. */
export function workflows(context: JobsContext): Feature {
  return {
    follows: { workflow: (unit, ended) => followWorkflows(context, unit, ended) },
    wakes: { [WORKFLOW.kind]: { wake: wakeWorkflow } },
  }
}
