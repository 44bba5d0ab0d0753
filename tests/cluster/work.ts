/**
 * Load with a memory: producers that remember what was acknowledged, and workers that keep to their deadlines as a
 * worker should (counted from the moment the fetch was sent) and notice when somebody else is given what they still run.
 */
import { randomUUID } from 'node:crypto'
import { pause } from '../process/server-process.ts'
import type { Fleet } from './fleet.ts'

export const TIMEOUT_MS = 1_500
export const GRACE_MS = 500
export const TOTAL_MS = 25_000
const BEAT_EVERY_MS = 1_000
/** A worker that waits long for a server that does not answer is silent meanwhile. */
const BEAT_PATIENCE_MS = 800

interface Running {
  readonly workerId: string
  readonly lease: number
  /** When a worker that keeps to its deadline has surely stopped. */
  readonly stopsAt: number
}

export class Work {
  readonly #fleet: Fleet
  readonly #random: () => number
  readonly enqueued = new Set<string>()
  readonly completed = new Map<string, number>()
  readonly violations: string[] = []
  readonly #running = new Map<string, Running>()
  #producing = true
  #working = true
  claims = 0

  constructor(fleet: Fleet, random: () => number) {
    this.#fleet = fleet
    this.#random = random
  }

  stopProducing(): void {
    this.#producing = false
  }

  stopWorking(): void {
    this.#working = false
  }

  async produce(): Promise<void> {
    while (this.#producing) {
      const id = uuidV7()
      const reply = await this.#fleet.call('POST', '/ojs/v1/jobs', {
        id,
        type: 'chaos.job',
        queue: this.#random() < 0.5 ? 'red' : 'blue',
        args: [id],
        timeout_ms: TIMEOUT_MS,
        grace_period_ms: GRACE_MS,
        total_timeout_ms: TOTAL_MS,
        retry: { max_attempts: 4, initial_interval_ms: 200, max_interval_ms: 500 },
      })
      // A duplicate is our own: the first try was stored, and its answer lost.
      if (reply !== null && (reply.status === 201 || reply.status === 409)) this.enqueued.add(id)
      else if (reply !== null) this.violations.push(`enqueue answered ${String(reply.status)}: ${reply.text}`)
      await pause(20 + 60 * this.#random())
    }
  }

  /** One worker process: it beats, fetches and runs up to four jobs at once. */
  async work(workerId: string): Promise<void> {
    const mine = new Map<string, number>()
    const register = () =>
      this.#fleet.call('POST', '/ojs/v1/workers/register', {
        worker_id: workerId,
        hostname: 'test',
        pid: 1,
        queues: ['red', 'blue'],
        concurrency: 4,
      })
    await register()
    const beating = this.#beat(workerId, mine)
    const under: Promise<void>[] = []
    while (this.#working) {
      if (mine.size >= 4) {
        await pause(20)
        continue
      }
      const sentAt = performance.now()
      const reply = await this.#fleet.callOnce(
        'POST',
        '/ojs/v1/workers/fetch',
        { queues: ['red', 'blue'], count: 4 - mine.size, worker_id: workerId, wait_ms: 500 },
        4_000,
      )
      if (reply?.status !== 200) {
        await pause(50)
        continue
      }
      for (const job of reply.body.jobs as { id: string; x_lease: number }[]) {
        under.push(this.#run(workerId, mine, job.id, job.x_lease, sentAt))
      }
    }
    await Promise.all(under)
    await beating
  }

  async #beat(workerId: string, mine: ReadonlyMap<string, number>): Promise<void> {
    for (let turn = 0; this.#working || mine.size > 0; turn += 1) {
      const reply = await this.#fleet.callOnce(
        'POST',
        '/ojs/v1/workers/heartbeat',
        {
          worker_id: workerId,
          state: 'running',
          active_jobs: [...mine.keys()],
          x_leases: Object.fromEntries(mine),
        },
        BEAT_PATIENCE_MS,
        turn,
      )
      if (reply !== null && reply.status !== 200 && reply.status !== 503)
        this.violations.push(`a beat of ${workerId} answered ${String(reply.status)}: ${reply.text}`)
      if (reply?.status === 200) await pause(BEAT_EVERY_MS)
      else await pause(100)
    }
  }

  async #run(workerId: string, mine: Map<string, number>, jobId: string, lease: number, sentAt: number): Promise<void> {
    this.claims += 1
    const other = this.#running.get(jobId)
    if (other !== undefined && performance.now() < other.stopsAt) {
      this.violations.push(
        `${jobId} was given to ${workerId} (lease ${String(lease)}) while ${other.workerId} runs it (lease ${String(other.lease)}) for another ${String(other.stopsAt - performance.now())} ms`,
      )
    }
    if (this.completed.has(jobId)) this.violations.push(`${jobId} was given out again after it was completed`)
    const stopsAt = sentAt + TIMEOUT_MS + GRACE_MS
    const running: Running = { workerId, lease, stopsAt }
    this.#running.set(jobId, running)
    mine.set(jobId, lease)
    const end = (): void => {
      if (this.#running.get(jobId) === running) this.#running.delete(jobId)
      if (mine.get(jobId) === lease) mine.delete(jobId)
    }
    const luck = this.#random()
    // One in ten hangs until its time is up, one in twenty fails; the rest take a moment.
    if (luck < 0.1) {
      await pause(Math.max(0, stopsAt - performance.now()))
      return end()
    }
    await pause(20 + 250 * this.#random())
    const isFailing = luck < 0.15
    // It is no longer running once its end is on the way.
    if (this.#running.get(jobId) === running) this.#running.delete(jobId)
    for (let tries = 0; performance.now() < stopsAt + 3_000; tries += 1) {
      const reply = isFailing
        ? await this.#fleet.callOnce('POST', '/ojs/v1/workers/nack', {
            job_id: jobId,
            worker_id: workerId,
            x_lease: lease,
            error: { type: 'Chaos', message: 'it failed' },
          })
        : await this.#fleet.callOnce('POST', '/ojs/v1/workers/ack', {
            job_id: jobId,
            worker_id: workerId,
            x_lease: lease,
            result: { lease },
          })
      if (reply?.status === 200 && !isFailing) this.completed.set(jobId, lease)
      if (reply !== null && reply.status !== 503) {
        if (reply.status !== 200 && reply.status !== 409)
          this.violations.push(`the end of ${jobId} answered ${String(reply.status)}: ${reply.text}`)
        break
      }
      await pause(50)
    }
    end()
  }
}

function uuidV7(): string {
  const time = Date.now().toString(16).padStart(12, '0')
  return `${time.slice(0, 8)}-${time.slice(8)}-7${randomUUID().slice(15)}`
}
