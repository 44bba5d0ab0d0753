/** Journeys on a real server: definitions in one line, runs, and how they ended. */
import { expect } from 'vitest'
import { plusLag } from '../../machine-lag.ts'
import { ServerProcess, until, type Reply, type StartOptions } from '../server-process.ts'

export const CODE = 'TOO_LATE'

/** States as they are written in a definition. */
// eslint-disable-next-line @typescript-eslint/no-explicit-any
export type States = Record<string, any>

export interface Sketch {
  readonly states: States
  /** The first of them, if it is left out. */
  readonly start?: string
  readonly seconds?: number
  readonly mode?: 'sync' | 'async'
  readonly kind?: 'Journey' | 'Api'
  /** Other members of the spec. */
  readonly more?: object
}

export interface Outcome {
  readonly journeyId: string
  readonly phase: string
  readonly status: string
  // eslint-disable-next-line @typescript-eslint/no-explicit-any
  readonly output: any
  readonly error: { readonly code: string; readonly reason: string } | null
  readonly terminationKind: string
  readonly terminatedAtState: string
  readonly startedAt: string
  readonly endedAt: string
  readonly deadlineAt: string
  readonly limitedBy: string
}

export function serve(options: StartOptions = {}): Promise<ServerProcess> {
  return ServerProcess.start({ ...options, flags: ['--allow-private-network', ...(options.flags ?? [])] })
}

export async function deploy(server: ServerProcess, name: string, sketch: Sketch): Promise<void> {
  const { states, seconds = 1, mode = 'async', kind = 'Journey', more = {} } = sketch
  const reply = await server.call('PUT', `/api/v1/definitions/${name}`, {
    apiVersion: 'v1',
    kind,
    metadata: { name, version: '1.0.0' },
    spec: {
      execution: { maxDurationSec: seconds, onTimeout: { errorCode: CODE, reason: 'the time was up' } },
      ...(kind === 'Api' ? {} : { lifecycle: { startMode: mode, cancellable: true } }),
      start: sketch.start ?? Object.keys(states)[0],
      states,
      ...more,
    },
  })
  expect(reply.status, reply.text).toBe(201)
}

export async function start(server: ServerProcess, name: string, context: object = {}, query = ''): Promise<string> {
  const reply = await server.post(`/api/v1/journeys/${name}/start${query}`, context)
  expect(reply.status, reply.text).toBe(202)
  return reply.body.journeyId as string
}

// eslint-disable-next-line @typescript-eslint/no-explicit-any
export async function statusOf(server: ServerProcess, id: string): Promise<any> {
  const reply = await server.get(`/api/v1/journeys/${id}`)
  expect(reply.status, reply.text).toBe(200)
  return reply.body
}

export const resultOf = (server: ServerProcess, id: string): Promise<Reply> =>
  server.get(`/api/v1/journeys/${id}/result`)

/** How it ended, waited for. */
export async function ended(server: ServerProcess, id: string, boundMs?: number): Promise<Outcome> {
  const reply = await until(`run ${id} ends`, async () => whenOver(await resultOf(server, id)), boundMs)
  expect(reply.status, reply.text).toBe(200)
  return reply.body as Outcome
}

const whenOver = (reply: Reply): Reply | null => (reply.status === 409 ? null : reply)

/** The run ended by its deadline, and not before; at most so much later, beside what the machine took. */
export function expectTimeout(outcome: Outcome, withinMs: number): void {
  expect(outcome).toMatchObject({
    phase: 'FAILED',
    terminationKind: 'Timeout',
    error: { code: CODE, reason: 'the time was up' },
  })
  const lateMs = Date.parse(outcome.endedAt) - Date.parse(outcome.deadlineAt)
  expect(lateMs).toBeGreaterThanOrEqual(0)
  expect(lateMs).toBeLessThanOrEqual(plusLag(withinMs))
}

// ---- States ----

export const call = (url: string, next: string, task: object = {}): object => ({
  type: 'task',
  task: { kind: 'httpCall:v1', method: 'GET', url, resultVar: 'answer', timeoutMs: 60_000, ...task },
  next,
})

export const succeed = (outputVar?: string): object => ({
  type: 'succeed',
  ...(outputVar === undefined ? {} : { outputVar }),
})

export const jsonata = (expr: string): object => ({ lang: 'jsonata', expr })

export const anyInput = { schema: { type: 'object' } }

export const wait = (next: string, more: object = {}): object => ({
  type: 'wait',
  wait: { channel: 'manual', input: anyInput, ...more },
  next,
})
