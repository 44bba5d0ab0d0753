import { CRON } from '@curfew/core'
import type { JobsContext } from '../jobs/context.ts'
import type { Feature } from '../kernel/feature.ts'
import { followCron, wakeCron } from './cron.ts'

/** Cron entries fire in time, and hear of the ends of their jobs. */
export function cron(context: JobsContext): Feature {
  return {
    follows: { cron: (unit, ended) => followCron(context, unit, ended) },
    wakes: { [CRON.kind]: { wake: (unit, name) => wakeCron(context, unit, name) } },
  }
}
