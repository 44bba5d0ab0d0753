/** What webhooks use besides what commands on jobs use. */
import type { JobsContext } from '../jobs/context.ts'
import type { Meters } from '../metrics/meters.ts'
import type { Send } from '../outgoing.ts'
import type { Webhooks } from './webhooks.ts'

export interface WebhooksContext extends JobsContext {
  readonly webhooks: Webhooks
  readonly meters: Meters
  readonly send: Send
}
