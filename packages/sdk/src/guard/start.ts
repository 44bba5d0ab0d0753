/** A guard in a thread of its own, or in this one; the worker sees no difference. */
import { MessageChannel, receiveMessageOnPort, Worker as Thread } from 'node:worker_threads'
import type { Host } from '@curfew/core'
import type { Log } from '../log.ts'
import { Guard, type GuardPorts } from './guard.ts'
import { OrderLine } from './order-line.ts'
import { pack } from './pack.ts'
import type { GuardNews, GuardOrder, ThreadData } from './protocol.ts'

export interface GuardHandle {
  order(order: GuardOrder): void
  /** What was ordered so far is on its way, even if this turn never ends. */
  flush(): void
  /**
   * Tells at once what the guard has said so far. Timers fire before messages are read: a worker that was busy, or had no
   * processor for a while, would judge by what it knew before.
   */
  catchUp(): void
  /** Ends beats and isolates; nothing of the guard is left. */
  close(): Promise<void>
}

export function guardHere(ports: Omit<GuardPorts, 'tell'>, tell: (news: GuardNews) => void): GuardHandle {
  let closed: () => void = () => {}
  const done = new Promise<void>((resolve) => (closed = resolve))
  const guard = new Guard({
    ...ports,
    tell: (news) => {
      if (news.op === 'closed') closed()
      else tell(news)
    },
  })
  return {
    order: (order) => {
      guard.obey(order)
    },
    flush: () => {},
    catchUp: () => {},
    close: () => {
      guard.obey({ op: 'close' })
      return done
    },
  }
}

/** Orders of one turn travel together; what only the next beat needs does not travel (`order-line.ts`). */
export function guardInThread(
  entry: URL,
  data: Omit<ThreadData, 'news' | 'listed'>,
  { host, log }: { host: Host; log: Log },
  tell: (news: GuardNews) => void,
): GuardHandle {
  const { port1: port, port2: news } = new MessageChannel()
  const line = new OrderLine()
  const workerData: ThreadData = { ...data, news, listed: line.listed }
  const thread = new Thread(entry, { workerData, transferList: [news], name: 'curfew-guard' })
  let isClosing = false
  const flush = (): void => {
    const orders = line.take()
    if (orders.length > 0) thread.postMessage(pack(orders))
  }
  const hear = (news: readonly GuardNews[]): void => {
    for (const each of news) tell(each)
  }
  const catchUp = (): void => {
    for (let next = receiveMessageOnPort(port); next !== undefined; next = receiveMessageOnPort(port))
      hear(next.message as GuardNews[])
  }
  const exited = new Promise<void>((resolve) => {
    thread.on('exit', () => {
      catchUp()
      port.close()
      if (!isClosing) tell({ op: 'gone' })
      resolve()
    })
  })
  thread.on('error', (error: Error) => {
    log.error({ err: error.message, stack: error.stack }, 'the thread that beats for this worker broke')
  })
  port.on('message', hear)
  return {
    order: (order) => {
      if (line.add(order)) host.defer(flush)
    },
    flush,
    catchUp,
    close: () => {
      isClosing = true
      line.add({ op: 'close' })
      flush()
      return exited
    },
  }
}
