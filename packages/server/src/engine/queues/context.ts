/** What commands on queues use besides the context of all commands. */
import type { Context } from '../kernel/context.ts'
import type { CapacityWaiters } from './capacity-waiters.ts'

export interface QueuesContext extends Context {
  /** Queues that were seen with limiters. */
  readonly limitedQueues: Set<string>
  readonly capacityWaiters: CapacityWaiters
  readonly polls: { wakeQueue(queue: string): void }
  readonly meters: { refusedForRoom(queue: string): void }
}
