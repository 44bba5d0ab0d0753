import { LIMITER } from '@curfew/core'
import { changeOf } from '../kernel/changes.ts'
import type { Feature } from '../kernel/feature.ts'
import type { QueuesContext } from './context.ts'
import { forgetLimiter } from './limiters.ts'

/** Limiters are forgotten in time; requests that wait for capacity hear of every job that ends. */
export function queues({ capacityWaiters }: QueuesContext): Feature {
  return {
    wakes: { [LIMITER.kind]: { wake: forgetLimiter } },
    onCommit: ({ transitions }) => {
      if (capacityWaiters.size > 0) capacityWaiters.freed(transitions.map(changeOf))
    },
    onNews: (news) => {
      if (news === null) capacityWaiters.wakeAllQueues()
      else capacityWaiters.freed(news.changes)
    },
  }
}
