/**
 * What the outside knows: what was asked, what was answered, and what follows from both by the rules. The model gets
 * every call that reached a server and every outage; it says what must have come of it. It reads nothing from the
 * product but what only the product can know: the ids it made up, and how long a jittered backoff turned out.
 *
 * Beats wind up the clocks of the jobs they cover at once; the product derives that later from the worker's row.
 */
import type { EngineSettings } from '../../../packages/server/src/engine/kernel/context.ts'
import type { Call, Fields } from '../calls.ts'
import type { Answer } from '../server.ts'
import type { Invariant } from '../violation.ts'
import { beat } from './beating.ts'
import { enqueue } from './enqueueing.ts'
import { fetched } from './fetching.ts'
import { askedIn, contradicts, readPolicy, resolveAtEnqueue, type JobLimits, type TypePolicy } from './limits.ts'
import { deregister, direct, patch, register, retryByHand } from './operating.ts'
import { isOver, nextDue, runsOutAt, wind, type Due, type ModelJob, type ModelWorker, type Silence } from './records.ts'
import { hear, report, sign } from './reporting.ts'
import { cancel, release, settle, type Moment } from './rules.ts'
import { Sight } from './sight.ts'

/** What the answer must be. */
export interface Expected {
  readonly status: number
  readonly reason?: string
  /** Jobs the answer shows, as they must be shown. */
  readonly shows?: readonly ModelJob[]
}

export const OK: Expected = { status: 200 }
export const NOT_FOUND: Expected = { status: 404 }
export const CONFLICT: Expected = { status: 409 }
export const INVALID: Expected = { status: 422 }

/** What a worker must be told of an attempt that was taken from it. */
export interface Notice {
  readonly jobId: string
  readonly lease: number
  readonly reason: 'timeout' | 'cancelled' | 'lost'
  readonly at: number
}

/** So long a dead worker is remembered, with what it is to be told. */
const REMEMBERED_FOR_MS = 3_600_000

export interface Queue {
  paused: boolean
  config: Fields
}

/** One turn of the world, as far as a server is concerned: one instant of its clock, and what was committed in it. */
export interface Turn {
  readonly now: number
  readonly sight: Sight
  /** The disk refused to serve lately, so decisions may come late. */
  readonly tardy: boolean
  /** Workers with a long poll open in this turn. */
  readonly polling: ReadonlySet<string>
  readonly silences: readonly Silence[]
}

export class Model {
  readonly jobs = new Map<string, ModelJob>()
  readonly workers = new Map<string, ModelWorker>()
  /** Workers that were declared dead, and when. */
  readonly #dead = new Map<string, number>()
  /** Workers that deregistered and did not come back, and when. */
  readonly left = new Map<string, number>()
  readonly queues = new Map<string, Queue>()
  readonly types = new Map<string, TypePolicy>()
  readonly notices = new Map<string, Notice[]>()
  /** Which promise each job of this turn is judged by. */
  readonly rules = new Map<string, Invariant>()
  readonly settings: EngineSettings
  turn: Turn = { now: 0, sight: new Sight([]), tardy: false, polling: new Set(), silences: [] }
  #upAt = 0
  /** The wall clock was set back over a restart: instants no longer tell who came first. */
  clockWentBack = false

  constructor(settings: EngineSettings) {
    this.settings = settings
  }

  get now(): number {
    return this.turn.now
  }

  begin(turn: Turn): void {
    if (turn.now < this.now) this.clockWentBack = true
    this.turn = turn
    this.rules.clear()
  }

  // ---- Time ----

  /** A server came up. */
  boot(): void {
    this.#upAt = this.now
  }

  /** Time goes first: whatever is due is decided before any call is. */
  settle(): void {
    for (const worker of [...this.workers.values()].sort((a, b) => this.#diesAt(a) - this.#diesAt(b))) {
      // An open poll is a sign of life for as long as it is open; when that was last written down is the server's affair.
      const seen = this.turn.sight.lastSeen(worker.id) === this.now || this.#isDead(worker)
      if (seen && this.turn.polling.has(worker.id)) wind(worker.alive, this.now)
      if (!this.#isDead(worker)) continue
      for (const job of this.heldBy(worker.id)) this.settleJob(job)
      this.workers.delete(worker.id)
      this.#dead.set(worker.id, this.now)
    }
    for (const job of this.jobs.values()) this.settleJob(job)
  }

  settleJob(job: ModelJob): void {
    if (settle(job, () => this.dueOf(job), this.moment())) return
    this.jobs.delete(job.id)
    this.rules.set(job.id, 'oneEnding')
  }

  /** The nearest thing that is due to any job. */
  nextDue(): (Due & { readonly job: ModelJob }) | null {
    let first: (Due & { readonly job: ModelJob }) | null = null
    for (const job of this.jobs.values()) {
      const due = this.dueOf(job)
      if (due !== null && (first === null || due.at < first.at)) first = { ...due, job }
    }
    return first
  }

  dueOf(job: ModelJob): Due | null {
    return nextDue(job, this.#deathOfHolder(job), this.turn.silences)
  }

  #deathOfHolder({ hold }: ModelJob): number | null {
    const worker = hold === null || hold.workerId === null ? undefined : this.workers.get(hold.workerId)
    return worker === undefined || !worker.known || this.turn.polling.has(worker.id) ? null : this.#diesAt(worker)
  }

  #diesAt({ alive }: ModelWorker): number {
    return runsOutAt(alive, this.turn.silences)
  }

  #isDead(worker: ModelWorker): boolean {
    return worker.known && this.#diesAt(worker) <= this.now
  }

  moment(): Moment {
    return {
      now: this.now,
      upAt: this.#upAt,
      tardy: this.turn.tardy,
      settings: this.settings,
      saved: (id) => this.turn.sight.saved(id),
      applied: (job, rule) => void this.rules.set(job.id, rule),
      told: ({ id, lease, hold }, reason) => {
        if (hold === null || hold.workerId === null || !this.#isRemembered(hold.workerId)) return
        const notices = this.notices.get(hold.workerId) ?? []
        this.notices.set(hold.workerId, [...notices, { jobId: id, lease, reason, at: this.now }])
      },
    }
  }

  // ---- Calls ----

  /** What must come of a call that was carried out; `answer` is null when the server died before it could answer. */
  apply(call: Call, answer: Answer | null): Expected {
    switch (call.verb) {
      case 'enqueue':
        return enqueue(this, [call.body])
      case 'batch':
        return enqueue(this, call.jobs)
      case 'register':
        return register(this, call.body)
      case 'deregister':
        return deregister(this, call.workerId, answer)
      case 'beat':
        return beat(this, call.body, answer)
      case 'fetch':
        return fetched(this, call.body, answer)
      case 'ack':
      case 'nack':
        hear(this, call.body.worker_id)
        return this.onJob(call.body.job_id, (job) => report(this, job, call))
      case 'progress':
      case 'checkpoint':
        hear(this, call.body.worker_id)
        return this.onJob(call.jobId, (job) => sign(this, job, call))
      case 'cancel':
        return this.onJob(call.jobId, (job) => {
          if (isOver(job)) return CONFLICT
          cancel(job, this.moment())
          return { ...OK, shows: [job] }
        })
      case 'activate':
        return this.onJob(call.jobId, (job) => {
          if (job.state !== 'pending') return CONFLICT
          release(job, this.now)
          this.rules.set(job.id, 'cause')
          return { ...OK, shows: [job] }
        })
      case 'patch':
        return this.onJob(call.jobId, (job) => patch(this, job, call.body))
      case 'retry':
        return this.onJob(call.jobId, (job) => retryByHand(this, job, call.fromDeadLetters))
      case 'pause':
      case 'resume':
        this.queue(call.queue).paused = call.verb === 'pause'
        return OK
      case 'configure':
        return this.#configure(this.queue(call.queue), call.body)
      case 'direct':
        return direct(this, call.workerId, call.word)
      case 'policy':
        if (call.body === null) return this.types.delete(call.type) ? OK : NOT_FOUND
        if (contradicts(askedIn(call.body))) return INVALID
        this.types.set(call.type, readPolicy(call.body))
        return OK
      case 'look':
        return this.onJob(call.jobId, (job) => ({ ...OK, shows: [job] }))
      case 'list':
        return { ...OK, shows: [...this.jobs.values()].filter(({ queue }) => queue === call.queue) }
      case 'queues':
        return OK
    }
  }

  onJob(id: string, act: (job: ModelJob) => Expected): Expected {
    const job = this.jobs.get(id)
    return job === undefined ? NOT_FOUND : act(job)
  }

  queue(name: string): Queue {
    const queue = this.queues.get(name) ?? { paused: false, config: {} }
    this.queues.set(name, queue)
    return queue
  }

  #configure(queue: Queue, sent: Fields): Expected {
    const merged = Object.entries({ ...queue.config, ...sent }).filter(([, value]) => value !== null)
    const config = Object.fromEntries(merged)
    if (contradicts(askedIn(config, 'default_'))) return INVALID
    queue.config = config
    return OK
  }

  /** What the job's limits come to with the policies of today. */
  limitsToday({ asked, type, queue }: Pick<ModelJob, 'asked' | 'type' | 'queue'>): JobLimits {
    const config = askedIn(this.queues.get(queue)?.config ?? {}, 'default_')
    return resolveAtEnqueue(asked, this.types.get(type) ?? null, config, this.settings.limits)
  }

  // ---- Workers ----

  /** One that is unseen, or was declared dead, begins as a stranger. */
  living(id: string): ModelWorker {
    return this.workers.get(id) ?? this.anew(id)
  }

  /** Its record, as if it had never been seen; what it is to be told stays. */
  anew(id: string): ModelWorker {
    if (!this.#isRemembered(id)) this.notices.delete(id)
    this.#dead.delete(id)
    this.left.delete(id)
    const worker: ModelWorker = {
      id,
      known: false,
      state: 'running',
      directive: 'continue',
      alive: { since: this.now, ms: this.settings.workerTimeoutMs },
      beatSeq: null,
      handlers: {},
    }
    this.workers.set(id, worker)
    return worker
  }

  heldBy(workerId: string): ModelJob[] {
    return [...this.jobs.values()].filter(({ hold }) => hold?.workerId === workerId)
  }

  /** It lives, or may still be told what it lost. */
  #isRemembered(workerId: string): boolean {
    return this.workers.has(workerId) || this.now - (this.#dead.get(workerId) ?? -Infinity) < REMEMBERED_FOR_MS
  }

  forget(workerId: string): void {
    this.workers.delete(workerId)
    this.#dead.delete(workerId)
    this.notices.delete(workerId)
  }
}
