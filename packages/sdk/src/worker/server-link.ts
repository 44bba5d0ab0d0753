/** The calls a worker makes in its own name: register, exchange jobs and reports, deregister. Each ends as an input. */
import { millis, type Host, type Instant } from '@curfew/core'
import type { Connection } from '../client/connection.ts'
import { RequestError } from '../errors.ts'
import type { LastCall, WorkerFacts } from '../guard/protocol.ts'
import type { Registered } from './handlers.ts'
import type { Log } from '../log.ts'
import type { Report } from '../attempt/report.ts'
import { monotonicNow } from '../attempt/terms.ts'
import type { Call, Delivery, Input, LeaseName } from './inputs.ts'
import { isFinal, messageOf, type Reached } from './reach-server.ts'

/** What the server says of itself when a worker registers. Whole seconds, and exact where it says milliseconds. */
interface RegistrationAnswer {
  readonly heartbeat_interval?: number
  readonly heartbeat_timeout?: number
  readonly heartbeat_interval_ms?: number
  readonly heartbeat_timeout_ms?: number
  readonly x_warnings?: readonly string[]
}

const DEREGISTER_MS = 2_000
const DEFAULT_INTERVAL_S = 5
const DEFAULT_TIMEOUT_S = 30

export interface ServerLinkPorts {
  readonly connection: Connection
  readonly host: Host
  readonly log: Log
  readonly facts: WorkerFacts
  readonly handlers: ReadonlyMap<string, Registered>
  readonly hear: (input: Input) => void
  readonly onDelivered: (report: Report, delivery: Delivery) => void
  /** The server will not have this worker. */
  readonly onRefused: (error: unknown) => void
}

export class ServerLink {
  readonly #ports: ServerLinkPorts
  readonly #calls = new Map<number, AbortController>()
  #reached: Reached | null = null

  constructor(ports: ServerLinkPorts) {
    this.#ports = ports
  }

  /** The server understands leases and limits. */
  get fences(): boolean {
    return this.#reached?.fences === true
  }

  opened(reached: Reached): void {
    this.#reached = reached
  }

  async register(): Promise<void> {
    const { connection, host, log, facts, handlers, hear, onRefused } = this.#ports
    const askedAt = monotonicNow(host)
    const limits = [...handlers].map(([type, { wire }]) => [type, wire] as const)
    const told = Object.fromEntries(limits.filter(([, wire]) => Object.keys(wire).length > 0))
    try {
      const answer = await connection.call<RegistrationAnswer>({
        method: 'POST',
        path: '/ojs/v1/workers/register',
        idempotent: false,
        body: { ...facts, ...(this.fences ? { handlers: told } : {}) },
      })
      // Logged as information, not as warnings: the SDK sends its heartbeats often enough without help.
      for (const warning of answer.x_warnings ?? []) log.info({}, warning)
      this.#registered(answer, askedAt)
    } catch (error) {
      // Registration is not part of every server; beats introduce the worker there.
      if (error instanceof RequestError && [404, 405, 501].includes(error.status)) this.#registered({}, askedAt)
      else {
        if (isFinal(error)) onRefused(error)
        hear({ in: 'register-failed', reason: messageOf(error), isRefused: isFinal(error) })
      }
    }
  }

  #registered(answer: RegistrationAnswer, askedAt: Instant): void {
    const intervalMs = answer.heartbeat_interval_ms ?? (answer.heartbeat_interval ?? DEFAULT_INTERVAL_S) * 1000
    const timeoutMs = answer.heartbeat_timeout_ms ?? (answer.heartbeat_timeout ?? DEFAULT_TIMEOUT_S) * 1000
    this.#ports.hear({ in: 'registered', askedAt, intervalMs: millis(intervalMs), timeoutMs: millis(timeoutMs) })
  }

  async call(call: Call): Promise<void> {
    if (this.#reached === null) return
    const { hear, onDelivered } = this.#ports
    const controller = new AbortController()
    this.#calls.set(call.id, controller)
    try {
      const answer = await this.#reached.transport.carry(call, controller.signal)
      call.reports.forEach((report, index) => {
        const delivery = answer.deliveries[index]
        if (delivery !== undefined) onDelivered(report, delivery)
      })
      hear({ in: 'answered', call: call.id, answer })
    } catch (error) {
      const isRefused = error instanceof RequestError && [400, 413, 422].includes(error.status)
      hear({ in: 'failed', call: call.id, reason: messageOf(error), refusal: isRefused ? error.code : null })
    } finally {
      this.#calls.delete(call.id)
    }
  }

  hangUp(call: number): void {
    this.#calls.get(call)?.abort(new Error('The worker cancelled this call.'))
  }

  async deregister(leases: readonly LeaseName[], seq: number): Promise<void> {
    const { connection, host, log, hear } = this.#ports
    const { path, body } = this.#farewell(leases, seq)
    const controller = new AbortController()
    const timer = host.setTimer(2 * DEREGISTER_MS, () => {
      controller.abort(new Error('The server did not answer in time.'))
    })
    const call = { method: 'POST', path, body, idempotent: true, timeoutMs: DEREGISTER_MS } as const
    try {
      await connection.call({ ...call, signal: controller.signal })
    } catch (error) {
      log.debug({ reason: messageOf(error) }, 'the worker could not deregister')
    } finally {
      timer.cancel()
    }
    hear({ in: 'deregistered' })
  }

  /** What is still to be said when the process ends at once: the guard says it. */
  lastCalls(reports: readonly Report[], leases: readonly LeaseName[], seq: number): LastCall[] {
    return [...(this.#reached?.transport.lastCalls(reports) ?? []), this.#farewell(leases, seq)]
  }

  #farewell(leases: readonly LeaseName[], seq: number): LastCall {
    const begun = Object.fromEntries(leases.map(({ jobId, lease }) => [jobId, lease]))
    const knowsLeases = this.#reached?.transport.features.orders === true
    return {
      path: '/ojs/v1/workers/deregister',
      body: { worker_id: this.#ports.facts.worker_id, ...(knowsLeases ? { x_leases: begun, seq } : {}) },
    }
  }
}
