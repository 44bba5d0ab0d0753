/** The guard's own thread: a connection of its own, and a port to the worker. Nothing imports this but a thread. */
import { parentPort, workerData } from 'node:worker_threads'
import { Connection } from '../client/connection.ts'
import { nodeHost } from '../host.ts'
import { stderrLog } from '../log.ts'
import { Guard } from './guard.ts'
import { sendBeat, sendLast } from './beat.ts'
import { ListReader } from './shared-list.ts'
import { unpack, type PackedOrder } from './pack.ts'
import type { GuardNews, ThreadData } from './protocol.ts'

function live(data: ThreadData): void {
  const port = parentPort
  if (port === null) throw new Error('The guard runs in a thread.')
  const connection = new Connection({ url: data.url, ...(data.token === null ? {} : { token: data.token }) })
  let waiting: GuardNews[] = []
  const flush = (): void => {
    const news = waiting
    waiting = []
    data.news.postMessage(news)
  }
  const guard = new Guard({
    host: nodeHost,
    log: stderrLog,
    facts: data.facts,
    fences: data.fences,
    shared: new ListReader(data.listed),
    beat: (body, timeoutMs) => sendBeat(connection, body, timeoutMs),
    call: (call) => sendLast(connection, call),
    tell: (news) => {
      if (news.op === 'closed') {
        flush()
        port.close()
        return
      }
      if (waiting.push(news) === 1) queueMicrotask(flush)
    },
  })
  port.on('message', (orders: PackedOrder[]) => {
    unpack(orders, (order) => {
      guard.obey(order)
    })
  })
}

live(workerData as ThreadData)
