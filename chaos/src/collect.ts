/** Asks the servers, once the faults are over, for all they know. */
import { call, type Reply } from './http.ts'
import type { Explained, JobRecord, RunRecord, StoredEvent } from './evidence.ts'
import { pause } from './child.ts'

const PATIENCE_MS = 30_000
const AT_ONCE = 8

export class Archive {
  readonly #urls: readonly string[]
  #turn = 0

  constructor(urls: readonly string[]) {
    this.#urls = urls
  }

  async get(path: string): Promise<Reply> {
    const giveUpAt = performance.now() + PATIENCE_MS
    for (;;) {
      const url = this.#urls[this.#turn++ % this.#urls.length] ?? ''
      const reply = await call(url, 'GET', path, undefined, 10_000)
      if (reply !== null && reply.status !== 503) return reply
      if (performance.now() > giveUpAt) throw new Error(`no server answers ${path}`)
      await pause(100)
    }
  }

  async put(path: string, body: unknown): Promise<Reply | null> {
    return call(this.#urls[0] ?? '', 'PUT', path, body, 10_000)
  }

  async job(id: string): Promise<JobRecord | null> {
    const { status, body } = await this.get(`/ojs/v1/jobs/${id}`)
    return status === 200 ? (body['job'] as JobRecord) : null
  }

  async explained(id: string): Promise<Explained | null> {
    const { status, body } = await this.get(`/ojs/v1/jobs/${id}/explain`)
    return status === 200 ? (body as unknown as Explained) : null
  }

  async run(id: string): Promise<RunRecord | null> {
    const { status, body } = await this.get(`/api/v1/journeys/${id}`)
    if (status !== 200) return null
    const outcome = await this.get(`/api/v1/journeys/${id}/result`)
    return (outcome.status === 200 ? outcome.body : body) as unknown as RunRecord
  }

  async events(): Promise<StoredEvent[]> {
    const events: StoredEvent[] = []
    for (let after = ''; ;) {
      const { body } = await this.get(`/ojs/v1/events?limit=1000${after === '' ? '' : `&after=${after}`}`)
      events.push(...((body['events'] ?? []) as StoredEvent[]))
      if (body['has_more'] !== true) return events
      after = String(body['cursor'])
    }
  }

  /** Whether every job is over. */
  async isQuiet(): Promise<boolean> {
    for (const state of ['scheduled', 'available', 'active', 'retryable', 'pending']) {
      const { status, body } = await this.get(`/ojs/v1/jobs?state=${state}&limit=1`)
      if (status !== 200 || (body['pagination'] as { total: number }).total > 0) return false
    }
    return true
  }
}

/** Some at a time, so that a busy server is not drowned. */
export async function mapAll<Key, Value>(
  keys: Iterable<Key>,
  look: (key: Key) => Promise<Value>,
): Promise<Map<Key, Value>> {
  const found = new Map<Key, Value>()
  const waiting = [...keys]
  const one = async (): Promise<void> => {
    for (let key = waiting.pop(); key !== undefined; key = waiting.pop()) found.set(key, await look(key))
  }
  await Promise.all(Array.from({ length: AT_ONCE }, one))
  return found
}
