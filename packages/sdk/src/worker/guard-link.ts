/**
 * A worker's guard: started, heard, and replaced when its thread ends by itself. The guard sends heartbeats and watches over
 * isolates (`guard/guard.ts`); what it says becomes inputs of the session, or news for the handlers in isolates.
 */
import { instant, type Host } from '@curfew/core'
import { checkHandlers } from './check-handlers.ts'
import type { Connection } from '../client/connection.ts'
import { sendBeat, sendLast } from '../guard/beat.ts'
import type { BeatAnswer, GuardNews, GuardOrder, LastCall, WorkerFacts } from '../guard/protocol.ts'
import { guardHere, guardInThread, type GuardHandle } from '../guard/start.ts'
import type { Registered } from './handlers.ts'
import { entryUrl } from '../isolate/entry.ts'
import type { IsolateKind } from '../isolate/isolate.ts'
import type { ErrorData } from '../attempt/facts.ts'
import type { JobLogs } from '../attempt/job-log.ts'
import type { Log } from '../log.ts'
import { sleep } from '../waiting.ts'
import type { Input } from './inputs.ts'
import { messageOf } from './reach-server.ts'
import type { Runner } from './runner.ts'
import { ordersOf } from './transport.ts'
import type { WorkerOptions } from './worker-settings.ts'

/** Rest before a new guard takes over. */
const REST_MS = 1_000
const GUARD_GONE: ErrorData = {
  name: 'IsolateError',
  code: 'guard_gone',
  message: 'The thread that watches over isolates ended by itself. Start the worker again.',
}

export interface GuardLinkPorts {
  readonly options: WorkerOptions
  readonly connection: Connection
  readonly host: Host
  readonly log: Log
  readonly logs: Pick<JobLogs, 'beaten'>
  readonly facts: WorkerFacts
  readonly handlers: ReadonlyMap<string, Registered>
  readonly runner: Pick<Runner, 'hear' | 'loseIsolates'>
  readonly hear: (input: Input) => void
  /** The server understands leases and limits. */
  readonly fences: () => boolean
  /** The worker was stopped. */
  readonly leaving: AbortSignal
}

export class GuardLink {
  readonly #ports: GuardLinkPorts
  /** Null before the start, and while a new one is awaited. */
  #guard: GuardHandle | null = null
  readonly #checking = new Map<number, (error: ErrorData | null) => void>()
  #checks = 0
  /** The guard has a thread of its own, unless time or the network are handed in: those do not cross. */
  readonly isThreaded: boolean

  constructor(ports: GuardLinkPorts) {
    this.#ports = ports
    const { options } = ports
    this.isThreaded = 'url' in options && options.fetch === undefined && options.host === undefined
  }

  get isThere(): boolean {
    return this.#guard !== null
  }

  order(order: GuardOrder): void {
    this.#guard?.order(order)
  }

  flush(): void {
    this.#guard?.flush()
  }

  catchUp(): void {
    this.#guard?.catchUp()
  }

  async close(): Promise<void> {
    await this.#guard?.close()
  }

  /** False: the worker was stopped meanwhile. Rejects when a handler cannot be loaded: nothing is registered then. */
  async open(): Promise<boolean> {
    this.#start()
    try {
      await this.#checkHandlers()
      return true
    } catch (error) {
      if (this.#ports.leaving.aborted) return false // a stop ends the checks, too
      const guard = this.#guard
      this.#guard = null
      await guard?.close()
      throw error
    }
  }

  #start(): void {
    const { options, connection, host, log, facts, fences } = this.#ports
    const tell = (news: GuardNews): void => {
      this.#hear(news)
    }
    if ('url' in options && this.isThreaded) {
      const data = { url: options.url, token: options.token ?? null, fences: fences(), facts }
      this.#guard = guardInThread(entryUrl('guard/thread'), data, { host, log }, tell)
      return
    }
    const ports = {
      host,
      log,
      facts,
      fences: fences(),
      beat: (body: Record<string, unknown>, timeoutMs: number): Promise<BeatAnswer> =>
        sendBeat(connection, body, timeoutMs),
      call: (call: LastCall): Promise<void> => sendLast(connection, call),
    }
    this.#guard = guardHere(ports, tell)
  }

  /** Loads every handler where it will run. Isolates stay warm: the first job of a kind should not pay for its start. */
  #checkHandlers(): Promise<void> {
    return checkHandlers(this.#ports.handlers.values(), (kind) => this.#checkIsolate(kind))
  }

  #checkIsolate(kind: IsolateKind): Promise<ErrorData | null> {
    const id = (this.#checks += 1)
    return new Promise((resolve) => {
      this.#checking.set(id, resolve)
      this.order({ op: 'check', id, kind })
    })
  }

  #checked(id: number, error: ErrorData | null): void {
    this.#checking.get(id)?.(error)
    this.#checking.delete(id)
  }

  #hear(news: GuardNews): void {
    const { hear, runner, logs } = this.#ports
    switch (news.op) {
      case 'beat': {
        const { askedAt, epoch, begun, answer } = news
        const unlisted = (answer.x_unlisted ?? []).map(({ job_id: jobId, x_lease: lease, held_ms: heldMs }) => ({
          jobId,
          lease,
          heldMs,
        }))
        hear({ in: 'beat', sentAt: instant(askedAt), epoch, begun, orders: ordersOf(answer), unlisted })
        return
      }
      case 'beat-failed':
        hear({ in: 'beat-failed', reason: news.message })
        return
      case 'silenced':
        hear({ in: 'silenced' })
        return
      case 'fence':
        hear({ in: 'fence' })
        return
      case 'checked':
        this.#checked(news.id, news.error)
        return
      case 'log-stored':
        logs.beaten(news.key, news.before)
        return
      case 'call':
      case 'ended':
        runner.hear(news)
        return
      case 'gone':
        for (const id of [...this.#checking.keys()]) this.#checked(id, GUARD_GONE)
        void this.#replace()
        return
      case 'closed':
    }
  }

  /** Without a guard there are no beats: its jobs are given up, and a new one takes over. */
  async #replace(): Promise<void> {
    const { hear, runner, host, log, leaving } = this.#ports
    this.#guard = null
    hear({ in: 'guard-gone' })
    runner.loseIsolates()
    await sleep(host, REST_MS, leaving).catch(() => {})
    if (leaving.aborted) return
    this.#start()
    this.#checkHandlers().catch((error: unknown) => {
      log.warn({ reason: messageOf(error) }, 'isolates could not be started in advance')
    })
    hear({ in: 'guard-back' })
  }
}
