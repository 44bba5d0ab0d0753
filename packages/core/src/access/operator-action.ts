/** Who changed what: one record for each change that an operator or administrator made, and the event that tells of it. */
import { docKind } from '../doc.ts'
import type { NewEvent } from '../events.ts'
import { days, type Instant } from '../time/clock.ts'
import { before } from '../time/sums.ts'

export interface OperatorAction {
  readonly at: Instant
  /** The name of the token; `--token` for that of the command line. */
  readonly token: string
  readonly via: 'bearer' | 'session'
  /** The operation, as the description names it. */
  readonly action: string
  readonly method: string
  /** As it was asked for, without its query. */
  readonly path: string
  /** What stands at the named places of the path. */
  readonly object: Readonly<Record<string, string>>
  readonly requestId: string
}

/** Ids grow with time. */
export const OPERATOR_ACTION = docKind<OperatorAction>('operator-action')

const KEPT_MS = days(90)

/** Actions before this instant need not be kept. */
export function actionsKeptSince(now: Instant): Instant {
  return before(now, KEPT_MS)
}

export function operatorEvent({ at, token, via, action, method, path, object, requestId }: OperatorAction): NewEvent {
  const queue = path.includes('/queues/') ? (object['name'] ?? null) : null
  return {
    type: 'operator.action',
    at,
    subject: token,
    queue,
    jobType: null,
    data: { token, via, action, method, path, object, request_id: requestId },
  }
}
