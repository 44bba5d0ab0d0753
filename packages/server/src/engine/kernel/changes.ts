/** A transition, as those hear of it who are told of changes of state. */
import type { Transition } from '@curfew/core'
import type { StateChange } from '../../store/store.ts'

export function changeOf({ before, job }: Transition): StateChange {
  const row = job ?? before
  return {
    id: row?.id ?? '',
    queue: row?.queue ?? '',
    type: row?.type ?? '',
    from: before?.state ?? null,
    to: job?.state ?? null,
    tenant: row?.tenant ?? null,
  }
}
