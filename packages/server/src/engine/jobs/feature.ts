import type { StateChange } from '../../store/store.ts'
import { changeOf } from '../kernel/changes.ts'
import type { Feature } from '../kernel/feature.ts'
import { Ready } from '../kernel/ready.ts'
import type { JobsContext } from './context.ts'
import { PollServing } from './serving.ts'

/** Long polls: they are served inside transactions, woken by commits, and count as signs of life of their workers. */
export function jobs({ polls, store, limitedQueues }: JobsContext): Feature {
  const wake = (changes: readonly StateChange[], ready: Ready, orders: readonly string[]): void => {
    let ended = 0
    for (const { from, to } of changes) if (from === 'active' && to !== 'active') ended += 1
    polls.wake(ready)
    if (ended > 0) polls.ended(ended)
    for (const workerId of orders) polls.tellOrders(workerId)
  }
  return {
    openCalls: polls,
    // Where several servers lock, the name of the limiters has to be locked before any row.
    serving: () =>
      new PollServing(polls, (poll) => !store.shared || !poll.queues.some((queue) => limitedQueues.has(queue))),
    onCommit: ({ transitions, ready, orders }) => {
      if (polls.size > 0) wake(transitions.map(changeOf), ready, orders)
    },
    onNews: (news) => {
      if (news === null) {
        polls.wakeAll()
        return
      }
      const ready = new Ready()
      for (const change of news.changes) ready.note(change)
      wake(news.changes, ready, news.orders)
    },
    // Windows of limiters may have opened; with a manual clock no timer tells of it.
    onAdvance: () => {
      polls.wakeAll()
    },
    stop: () => {
      polls.dismissAll()
    },
  }
}
