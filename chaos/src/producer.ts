/** Enqueues jobs, cancels some of them, and starts runs of a journey; what was acknowledged is in its journal. */
import type { Random } from '@curfew/core'
import { pause } from './child.ts'
import { call } from './http.ts'
import type { Journal } from './journal.ts'
import { drawJob } from './load.ts'

const PATIENCE_MS = 4_000
const GIVE_UP_MS = 25_000
export const JOURNEY = 'chaos-run'

export const DEFINITION = {
  apiVersion: 'v1',
  kind: 'Journey',
  metadata: { name: JOURNEY, version: '1.0.0' },
  spec: {
    execution: { maxDurationSec: 6, onTimeout: { errorCode: 'TOO_LATE', reason: 'the time of the run is up' } },
    lifecycle: { startMode: 'async' },
    start: 'nap',
    states: {
      nap: { type: 'timer', timer: { duration: 'PT0.4S' }, next: 'work' },
      work: {
        type: 'task',
        task: {
          kind: 'job:v1',
          type: 'chaos.job',
          queue: 'plain',
          args: [{ does: 'finish', forMs: 20 }],
          resultVar: 'job',
        },
        next: 'done',
      },
      done: { type: 'succeed', outputVar: 'job' },
    },
  },
} as const

export class Producer {
  readonly #urls: readonly string[]
  readonly #journal: Journal
  readonly #random: Random
  readonly #everyMs: number
  #isStopped = false
  #turn = 0

  constructor(urls: readonly string[], journal: Journal, random: Random, everyMs: number) {
    this.#urls = urls
    this.#journal = journal
    this.#random = random
    this.#everyMs = everyMs
  }

  stop(): void {
    this.#isStopped = true
  }

  async run(): Promise<void> {
    const under = new Set<Promise<void>>()
    while (!this.#isStopped) {
      const one = this.#one().finally(() => under.delete(one))
      under.add(one)
      if (under.size > 200) await Promise.race(under)
      await pause(2 * this.#everyMs * this.#random())
    }
    await Promise.all(under)
  }

  async #one(): Promise<void> {
    const [luck, cancels, afterMs] = [this.#random(), this.#random() < 0.06, 1_500 * this.#random()]
    if (luck < 0.04) {
      const key = `run-${String(Math.floor(this.#random() * 1e15))}`
      await this.#insist(
        'start-run',
        'POST',
        `/api/v1/journeys/${JOURNEY}/start`,
        {},
        { key },
        { 'Idempotency-Key': key },
      )
      return
    }
    const job = drawJob(this.#random)
    const isThere = await this.#insist('enqueue', 'POST', '/ojs/v1/jobs', job, job)
    if (!isThere || !cancels) return
    await pause(afterMs)
    await this.#insist('cancel', 'DELETE', `/ojs/v1/jobs/${job.id}`, undefined, { id: job.id })
  }

  /** The same call again until a server answers; each try is a call of its own in the journal. */
  async #insist(
    op: 'enqueue' | 'cancel' | 'start-run',
    method: string,
    path: string,
    body: unknown,
    noted: Readonly<Record<string, unknown>>,
    headers: Readonly<Record<string, string>> = {},
  ): Promise<boolean> {
    const giveUpAt = performance.now() + GIVE_UP_MS
    while (performance.now() < giveUpAt) {
      const url = this.#urls[this.#turn++ % this.#urls.length] ?? ''
      const n = this.#journal.sent(op, noted)
      const reply = await call(url, method, path, body, PATIENCE_MS, headers)
      if (reply === null) this.#journal.broken(n, op, 'no answer')
      else this.#journal.answered(n, op, { status: reply.status, ...brief(reply.body) })
      if (reply !== null && reply.status !== 503 && reply.status < 500)
        return reply.status < 300 || reply.status === 409
      await pause(60)
    }
    return false
  }
}

/** What the checker needs of an answer. */
function brief(body: Readonly<Record<string, unknown>>): Record<string, unknown> {
  const job = body['job'] as { id?: unknown; state?: unknown } | undefined
  return {
    ...(job === undefined ? {} : { id: job.id, state: job.state }),
    ...(body['journeyId'] === undefined ? {} : { runId: body['journeyId'] }),
    ...(body['error'] === undefined ? {} : { error: body['error'] }),
  }
}
