/** Journeys in stories: deployed and started over HTTP, and a service for them to call. */
import { CallFailed, type OutgoingAnswer, type OutgoingCall } from '../packages/server/src/engine/outgoing.ts'
import { idle, type Reply, type TestServer } from './harness.ts'

export const jsonata = (expr: string): object => ({ lang: 'jsonata', expr })

export const EXECUTION = { maxDurationSec: 30, onTimeout: { errorCode: 'TOO_SLOW', reason: 'it took too long' } }

export async function deploy(server: TestServer, spec: object, more: Record<string, unknown> = {}): Promise<void> {
  const { kind = 'Journey', name = 'story', version = '1.0.0', tags = [] } = more
  const metadata = { name, version, tags }
  const source = { apiVersion: 'v1', kind, metadata, spec: { execution: EXECUTION, ...spec } }
  const reply = await server.call('PUT', `/api/v1/definitions/${String(name)}`, source, PLAIN)
  if (reply.status !== 201 && reply.status !== 200) throw new Error(`not deployed: ${reply.text}`)
}

export const PLAIN = { 'content-type': 'application/json' }

/** Starts a run and does not wait for its answer. */
export function begin(server: TestServer, body?: unknown, query = '', name = 'story'): Promise<Reply> {
  return server.call('POST', `/api/v1/journeys/${name}/start${query}`, body, PLAIN)
}

export const runUrl = (id: string): string => `/api/v1/journeys/${id}`

export const succeed = { type: 'succeed' }

export const wait = (more: object = {}, next = 'done'): object => ({
  type: 'wait',
  wait: { channel: 'manual', input: { schema: { type: 'object', required: ['ok'] } }, ...more },
  next,
})

export const timer = (duration: string, next = 'done'): object => ({ type: 'timer', timer: { duration }, next })

export const call = (more: object = {}, next = 'done'): object => ({
  type: 'task',
  task: { kind: 'httpCall:v1', method: 'GET', url: 'https://elsewhere.example/x', resultVar: 'answer', ...more },
  next,
})

/** A service to call, which answers when the test says so. */
export class Upstream {
  readonly calls: OutgoingCall[] = []
  readonly #waiting: ((answer: OutgoingAnswer) => void)[] = []

  readonly send = (made: OutgoingCall): Promise<OutgoingAnswer> => {
    this.calls.push(made)
    return new Promise((resolve, reject) => {
      this.#waiting.push(resolve)
      const abort = (): void => {
        reject(new CallFailed('the time was up', null))
      }
      made.signal.addEventListener('abort', abort, { once: true })
      if (made.signal.aborted) abort()
    })
  }

  async answer(body: unknown, status = 200): Promise<void> {
    const headers = { 'content-type': 'application/json' }
    this.#waiting.shift()?.({ status, headers, body: JSON.stringify(body), truncated: false })
    await idle()
  }
}
