import { LIMITER, OjsError } from '@curfew/core'
import { changeOf } from '../kernel/changes.ts'
import type { Feature } from '../kernel/feature.ts'
import { noteFullQueue } from './capacity-waiters.ts'
import type { QueuesContext } from './context.ts'
import { forgetLimiter } from './limiters.ts'

/** Commands of requests that enqueue. A request that waits for capacity is counted when it gives up. */
const COUNTED: ReadonlySet<string> = new Set(['enqueue', 'workflow'])

/** Limiters are forgotten in time; requests that wait for capacity hear of every job that ends. */
export function queues(context: QueuesContext): Feature {
  const { capacityWaiters } = context
  return {
    wakes: { [LIMITER.kind]: { wake: forgetLimiter } },
    onCommit: ({ transitions }) => {
      if (capacityWaiters.size > 0) capacityWaiters.freed(transitions.map(changeOf))
    },
    onNews: (news) => {
      if (news === null) capacityWaiters.wakeAllQueues()
      else capacityWaiters.freed(news.changes)
    },
    onRefusal: (command, error) => {
      if (COUNTED.has(command) && error instanceof OjsError) noteFullQueue(context, error)
    },
  }
}
