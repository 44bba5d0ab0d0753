/** What commands on jobs and workers use besides the context of all commands. */
import type { RecentSigns } from '../metrics/recent-signs.ts'
import type { QueuesContext } from '../queues/context.ts'
import type { SchemasContext } from '../schemas/schemas.ts'
import type { Polls } from './polls.ts'

export interface JobsContext extends QueuesContext, SchemasContext {
  readonly polls: Polls
  readonly recentSigns: RecentSigns
}
