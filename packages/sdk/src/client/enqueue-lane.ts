/**
 * The lane on which jobs travel to the server. Calls made together travel together: one request costs about as much as
 * the jobs of a hundred.
 *
 *   a lone call       goes at once, by itself; nothing waits for company
 *   the same turn     what is added before the turn of the event loop ends goes as one request, where the server takes many
 *   requests enough   while as many as allowed are in flight, new calls gather until one returns
 *
 * Each caller has its own outcome: a refused job does not affect the others, and neither does a caller that gives up. A
 * request without an answer is repeated as it was. The ids make that safe: "exists already" about an id of our own means
 * that it was heard the first time.
 */
import { isDeepStrictEqual } from 'node:util'
import { MAX_IN_BULK } from '@curfew/core'
import type { Answer, Connection } from './connection.ts'
import type { WireJob } from '../job/enqueue-options.ts'
import { NetworkError, RequestError } from '../errors.ts'
import { entryRefusal, isFine, isPassing, isRecord, parsed } from './refusal.ts'
import { onAbort, reasonOf } from '../waiting.ts'
import type { JobView } from '../wire/jobs.ts'

/** A request is no larger than this: common proxies refuse bodies above 1 MiB. */
const MOST_BYTES = 1_000_000
/** Requests under way: where many jobs share one, and where each has its own. */
const MAX_SHARED = 2
const MAX_SINGLE = 32

interface Waiting {
  readonly job: WireJob
  readonly bytes: number
  /** Made by this client, so no other client can have used it. */
  readonly isOwnId: boolean
  readonly signal: AbortSignal | undefined
  /** The caller has its outcome, or is gone. */
  isOver: boolean
  /** It is on its way, or was. */
  isTaken: boolean
  readonly resolve: (job: JobView) => void
  readonly reject: (reason: Error) => void
}

export class EnqueueLane {
  readonly #connection: Connection
  /** From `#head` on, first come, first served; who has left is passed over. Long lines must not cost more per job. */
  #line: Waiting[] = []
  #head = 0
  /** Waiting, without the calls that were abandoned. */
  #waiting = 0
  #underWay = 0
  #flushes = false
  /** Whether the server takes many at once; null until first needed. */
  #shares: boolean | null = null
  #asking = false

  constructor(connection: Connection) {
    this.#connection = connection
  }

  add(job: WireJob, isOwnId: boolean, signal?: AbortSignal): Promise<JobView> {
    return new Promise((resolve, reject) => {
      if (signal?.aborted === true) {
        reject(reasonOf(signal))
        return
      }
      const end = (tell: () => void): void => {
        if (waiting.isOver) return
        waiting.isOver = true
        if (!waiting.isTaken) this.#waiting -= 1
        unhook()
        tell()
      }
      const waiting: Waiting = {
        job,
        bytes: Buffer.byteLength(job.json),
        isOwnId,
        signal,
        isOver: false,
        isTaken: false,
        resolve: (view) => {
          end(() => {
            resolve(view)
          })
        },
        reject: (reason) => {
          end(() => {
            reject(reason)
          })
        },
      }
      const unhook = onAbort([signal], () => {
        waiting.reject(reasonOf(signal))
      })
      this.#line.push(waiting)
      this.#waiting += 1
      this.#flushSoon()
    })
  }

  /** When everything that was promised in this turn has come true: not a moment later, not a call earlier. */
  #flushSoon(): void {
    if (this.#flushes) return
    this.#flushes = true
    process.nextTick(() => {
      this.#flushes = false
      this.#flush()
    })
  }

  #flush(): void {
    while (this.#waiting > 0) {
      if (this.#underWay >= (this.#shares === false ? MAX_SINGLE : MAX_SHARED)) return
      if (this.#waiting > 1 && this.#shares === null) {
        void this.#ask()
        return
      }
      const group = this.#take(this.#shares === true ? MAX_IN_BULK : 1)
      this.#underWay += 1
      void this.#send(group).finally(() => {
        this.#underWay -= 1
        this.#flush()
      })
    }
  }

  #take(most: number): Waiting[] {
    const taken: Waiting[] = []
    for (let bytes = 0; this.#head < this.#line.length && taken.length < most; this.#head += 1) {
      const next = this.#line[this.#head]
      if (next === undefined || next.isOver) continue
      bytes += next.bytes + 1
      if (taken.length > 0 && bytes > MOST_BYTES) break
      next.isTaken = true
      taken.push(next)
    }
    this.#waiting -= taken.length
    // What lies behind is let go in large pieces.
    if (this.#head > 1_000 || this.#head === this.#line.length) {
      this.#line = this.#line.slice(this.#head)
      this.#head = 0
    }
    return taken
  }

  async #ask(): Promise<void> {
    if (this.#asking) return
    this.#asking = true
    try {
      this.#shares = await this.#connection.supports('bulk-enqueue')
    } catch (error) {
      // A server that does not tell may still take jobs, one by one.
      if (!(error instanceof NetworkError)) this.#shares = false
      else while (this.#waiting > 0) for (const { reject } of this.#take(Infinity)) reject(error)
    } finally {
      this.#asking = false
    }
    this.#flush()
  }

  async #send(group: readonly Waiting[]): Promise<void> {
    const [first, second] = group
    if (first !== undefined && second === undefined) await this.#alone(first)
    else await this.#together(group)
  }

  async #alone(waiting: Waiting): Promise<void> {
    const { job, signal, resolve, reject } = waiting
    try {
      const answer = await this.#connection.send({
        method: 'POST',
        path: '/ojs/v1/jobs',
        json: job.json,
        idempotent: true,
        signal,
      })
      if (isFine(answer.status)) resolve(viewOf(this.#connection.read<Told>(answer)))
      else await this.#refused(waiting, this.#connection.refusal(answer), answer.tries)
    } catch (error) {
      reject(asError(error))
    }
  }

  async #together(group: readonly Waiting[]): Promise<void> {
    const nobodyLeft = new AbortController()
    const forget = whenAllLeave(group, nobodyLeft)
    try {
      const answer = await this.#connection.send({
        method: 'POST',
        path: '/ojs/v1/jobs/bulk',
        json: `{"jobs":[${group.map(({ job }) => job.json).join(',')}]}`,
        idempotent: true,
        signal: nobodyLeft.signal,
      })
      await this.#tell(group, answer)
    } catch (error) {
      for (const { reject } of group) reject(asError(error))
    } finally {
      forget()
    }
  }

  /** To each its own. */
  async #tell(group: readonly Waiting[], answer: Answer): Promise<void> {
    const read = typeof answer.body === 'string' ? parsed(answer.body) : undefined
    const items = isRecord(read) && Array.isArray(read['items']) ? (read['items'] as unknown[]) : null
    if (items !== null) {
      const requestId = answer.headers['x-request-id'] ?? null
      await Promise.all(group.map((waiting, index) => this.#tellOne(waiting, items[index], requestId, answer.tries)))
      return
    }
    // Another server answers than the one that announced it.
    if (answer.status === 404 || answer.status === 405) {
      this.#connection.forgetManifest()
      this.#shares = null
      await Promise.all(group.map((waiting) => this.#alone(waiting)))
      return
    }
    // Too much for something on the way.
    if (answer.status === 413) {
      const half = Math.ceil(group.length / 2)
      await this.#send(group.slice(0, half))
      await this.#send(group.slice(half))
      return
    }
    throw isFine(answer.status)
      ? new NetworkError('The answer does not list the jobs. Is this a Curfew server?')
      : this.#connection.refusal(answer)
  }

  async #tellOne(waiting: Waiting, item: unknown, requestId: string | null, tries: number): Promise<void> {
    if (!isRecord(item)) {
      waiting.reject(new NetworkError('The answer has no result for this job.'))
      return
    }
    if (item['error'] === undefined && isRecord(item['job'])) {
      waiting.resolve(viewOf(item as unknown as Told))
      return
    }
    const error = entryRefusal(item['error'], requestId)
    if (isPassing(error.status)) await this.#alone(waiting)
    else await this.#refused(waiting, error, tries)
  }

  /** Refused; unless it was heard the first time, and this is only the echo. */
  async #refused(waiting: Waiting, error: RequestError, tries: number): Promise<void> {
    const { job, isOwnId, signal } = waiting
    const isEcho = error.code === 'duplicate' && error.details['existing_job_id'] === job.id && (isOwnId || tries > 1)
    if (!isEcho) {
      waiting.reject(error)
      return
    }
    try {
      const path = `/ojs/v1/jobs/${job.id}`
      const { job: found } = await this.#connection.call<{ job: JobView }>({
        method: 'GET',
        path,
        idempotent: true,
        signal,
      })
      // An id the caller chose may belong to another job.
      if (isOwnId || isSame(job, found)) waiting.resolve(found)
      else waiting.reject(error)
    } catch (failure) {
      waiting.reject(asError(failure))
    }
  }
}

interface Told {
  readonly job: JobView
  readonly deduplicated?: boolean
}

/** A job that was there already says so itself. */
function viewOf({ job, deduplicated }: Told): JobView {
  return deduplicated === true ? { ...job, deduplicated } : job
}

function isSame(sent: WireJob, found: JobView): boolean {
  return found.type === sent.type && isDeepStrictEqual(found.args, parsed(JSON.stringify(sent.args)))
}

/** Aborts the controller when every caller has given up. Gives what to call when that no longer matters. */
function whenAllLeave(group: readonly Waiting[], controller: AbortController): () => void {
  const look = (): void => {
    if (group.every(({ isOver }) => isOver)) controller.abort(new Error('Every caller gave up.'))
  }
  return onAbort(
    group.map(({ signal }) => signal),
    look,
  )
}

function asError(thrown: unknown): Error {
  return thrown instanceof Error ? thrown : new Error(String(thrown))
}
