/**
 * A link between workers and a server, which can lose what passes over it: requests before they reach the server, answers
 * before they reach the worker. `cut` closes the connection, `swallow` leaves it open without a word.
 */
import { Agent, createServer, request, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo, Socket } from 'node:net'
import { afterAll } from 'vitest'
import { until } from '../server-process.ts'
import { now } from './crew.ts'

export type Fate = 'pass' | 'cut' | 'swallow'

// eslint-disable-next-line @typescript-eslint/no-explicit-any
type Body = any

export interface Passage {
  /** When the request was complete at the link, on the machine's monotonic clock. */
  readonly at: number
  readonly path: string
  readonly body: Body
  /** When its answer was passed on; null where it was not. */
  answeredAt: number | null
}

const links: Link[] = []
afterAll(() => Promise.all(links.splice(0).map((link) => link.refuse())))

export class Link {
  /** What becomes of a request. */
  onRequest: (passage: Passage) => Fate = () => 'pass'
  /** What becomes of its answer. */
  onAnswer: (passage: Passage, answer: Body) => Fate = () => 'pass'
  readonly passages: Passage[] = []
  readonly #agent = new Agent({ keepAlive: true })
  readonly #sockets = new Set<Socket>()
  #server: Server | null = null
  #port = 0
  #target: number

  private constructor(target: number) {
    this.#target = target
    links.push(this)
  }

  static async to(target: number): Promise<Link> {
    const link = new Link(target)
    await link.accept()
    return link
  }

  get url(): string {
    return `http://127.0.0.1:${String(this.#port)}`
  }

  /** Takes connections, always on the same port; perhaps to another server from now on. */
  async accept(target = this.#target): Promise<void> {
    this.#target = target
    const server = createServer({ keepAliveTimeout: 60_000 }, (incoming, response) => {
      this.#pass(incoming, response).catch(() => incoming.socket.destroy())
    })
    server.on('connection', (socket) => {
      this.#sockets.add(socket)
      socket.on('close', () => this.#sockets.delete(socket))
    })
    await new Promise<void>((resolve, reject) => {
      server.on('error', reject)
      server.listen(this.#port, '127.0.0.1', resolve)
    })
    this.#server = server
    this.#port = (server.address() as AddressInfo).port
  }

  /** Closes every connection, and refuses new ones. */
  async refuse(): Promise<void> {
    const server = this.#server
    this.#server = null
    if (server === null) return
    const closed = new Promise((resolve) => server.close(resolve))
    for (const socket of this.#sockets) socket.destroy()
    await closed
  }

  /** The first passage since then that is such a one. */
  passed(what: string, isIt: (passage: Passage) => boolean, since = 0, boundMs?: number): Promise<Passage> {
    return until(what, () => this.passages.find((passage) => passage.at >= since && isIt(passage)), boundMs)
  }

  async #pass(incoming: IncomingMessage, response: ServerResponse): Promise<void> {
    const text = await textOf(incoming)
    const passage: Passage = { at: now(), path: incoming.url ?? '', body: parsed(text), answeredAt: null }
    this.passages.push(passage)
    const fate = this.onRequest(passage)
    if (fate === 'cut') incoming.socket.destroy()
    if (fate !== 'pass') return
    const { status, headers, answer } = await this.#forward(incoming, text, response)
    const back = this.onAnswer(passage, parsed(answer))
    if (back === 'cut') incoming.socket.destroy()
    if (back !== 'pass') return
    passage.answeredAt = now()
    response.writeHead(status, { ...headers, 'content-length': Buffer.byteLength(answer) })
    response.end(answer)
  }

  /** A worker that hangs up is seen by the server, too. */
  #forward(
    incoming: IncomingMessage,
    text: string,
    response: ServerResponse,
  ): Promise<{ status: number; headers: Record<string, string>; answer: string }> {
    const { method = 'GET', url = '/', headers } = incoming
    return new Promise((resolve, reject) => {
      const options = { host: '127.0.0.1', port: this.#target, method, path: url, agent: this.#agent }
      const onward = request({ ...options, headers: { ...headers, 'content-length': Buffer.byteLength(text) } })
      onward.on('error', reject)
      onward.on('response', (answer) => {
        const kept = { 'content-type': answer.headers['content-type'] ?? 'application/json' }
        textOf(answer).then((body) => {
          resolve({ status: answer.statusCode ?? 502, headers: kept, answer: body })
        }, reject)
      })
      response.on('close', () => {
        if (!response.writableEnded) onward.destroy()
      })
      onward.end(text)
    })
  }
}

/** Whether a request brings the outcome of this job, or of any. */
export function isReport({ path, body }: Passage, jobId?: string): boolean {
  if (/\/(ack|nack|fail)$/.test(path)) return jobId === undefined || body?.job_id === jobId
  const reports = [...(body?.acks ?? []), ...(body?.nacks ?? [])] as { job_id: string }[]
  return reports.some(({ job_id: id }) => jobId === undefined || id === jobId)
}

/** Whether a request vouches for jobs. */
export function isBeat({ path, body }: Passage): boolean {
  return /\/workers\/(heartbeat|beat)$/.test(path) || body?.beat !== undefined
}

async function textOf(stream: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = []
  for await (const chunk of stream) chunks.push(chunk as Buffer)
  return Buffer.concat(chunks).toString('utf8')
}

function parsed(text: string): Body {
  try {
    return text === '' ? null : JSON.parse(text)
  } catch {
    return null
  }
}
