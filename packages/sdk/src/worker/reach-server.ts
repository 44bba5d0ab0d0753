/** Finds the server when a worker starts: waits until it answers, and decides by what it can do how calls travel. */
import type { Host } from '@curfew/core'
import type { Connection } from '../client/connection.ts'
import { RequestError } from '../errors.ts'
import type { JobLogs } from '../attempt/job-log.ts'
import type { Log } from '../log.ts'
import { backoffMs, sleep, unlessAborted } from '../waiting.ts'
import { exchangeTransport, singleTransport, type WorkerTransport } from './transport.ts'

const FIRST_REST_MS = 250
const MAX_REST_MS = 2_000

export interface ReachPorts {
  readonly connection: Connection
  readonly host: Host
  readonly log: Log
  readonly logs: JobLogs
  readonly workerId: string
  readonly queues: readonly string[]
  /** False: one call for each report. */
  readonly exchange: boolean
  /** The worker was stopped. */
  readonly leaving: AbortSignal
}

export interface Reached {
  readonly transport: WorkerTransport
  /** The server understands leases and limits. */
  readonly fences: boolean
}

/** A refusal is an answer, and is thrown. Null: the worker was stopped meanwhile. */
export async function reachServer(ports: ReachPorts): Promise<Reached | null> {
  const { connection, host, log, leaving } = ports
  for (let failures = 0; !leaving.aborted;) {
    try {
      const reached = await unlessAborted(findTransport(ports), leaving)
      if (failures > 0) log.warn({}, 'the server answers; the worker starts')
      return reached
    } catch (error) {
      if (leaving.aborted) return null
      if (isFinal(error)) throw error
      failures += 1
      if (failures === 1) log.warn({ reason: messageOf(error) }, 'the server does not answer; the worker keeps trying')
      await sleep(host, backoffMs(failures, connection.random, FIRST_REST_MS, MAX_REST_MS), leaving).catch(() => {})
    }
  }
  return null
}

async function findTransport(ports: ReachPorts): Promise<Reached> {
  const { connection, host, logs, workerId, queues, exchange } = ports
  const canExchange = await connection.supports('exchange')
  const longPoll = await connection.supports('long-poll')
  const fences = await connection.supports('limits')
  const orders = await connection.supports('orders')
  logs.isKept = await connection.supports('job-logs')
  const route = { connection, host, workerId, queues, logs }
  const transport =
    canExchange && exchange ? exchangeTransport(route, orders) : singleTransport(route, longPoll, fences)
  return { transport, fences }
}

/** The server answered, and will not change its mind. */
export function isFinal(error: unknown): boolean {
  return error instanceof RequestError && error.status < 500 && error.status !== 429
}

export function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error)
}
