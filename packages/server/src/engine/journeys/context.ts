/** What runs of journeys use besides what commands on jobs and definitions use. */
import type { ApiKeys } from '../api-keys.ts'
import type { DefinitionsContext } from '../definitions/context.ts'
import type { JobsContext } from '../jobs/context.ts'
import type { Send } from '../outgoing.ts'
import type { Secrets } from './call-auth.ts'
import type { Journeys } from './journeys.ts'
import type { Trace } from './report.ts'

export interface JourneysContext extends JobsContext, DefinitionsContext {
  readonly journeys: Journeys
  readonly send: Send
  readonly secrets: Secrets
  readonly apiKeys: ApiKeys
  readonly trace: Trace
}
