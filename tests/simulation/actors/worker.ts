/**
 * A worker process, good or bad. It registers or does not, beats or does not, finishes early, late or never; it is
 * killed and comes back, is frozen and reports stale results when it thaws, repeats itself, and leaves with jobs in
 * hand. What it says of its attempts is sometimes complete, sometimes thin, and sometimes wrong.
 */
import type { BeatBody, Call, ErrorFields, FenceFields, Fields } from '../calls.ts'
import type { Chance } from '../chance.ts'
import type { Answer } from '../server.ts'
import { Actor, type Stage } from '../stage.ts'
import { limitsFor } from './producer.ts'

export interface Manners {
  readonly registers: boolean
  readonly beats: boolean
  readonly beatEveryMs: number
  readonly fetchEveryMs: number
  readonly concurrency: number
  readonly countsBeats: boolean
  readonly namesLeases: boolean
  readonly provesLife: boolean
  readonly isAnonymous: boolean
  readonly polls: boolean
  readonly visibilityMs: number | null
  readonly fence: 'full' | 'worker' | 'none'
}

export function mannersFor(chance: Chance, beatEveryMs: number, isQuiet: boolean): Manners {
  return {
    registers: chance.happens(0.6),
    beats: chance.happens(isQuiet ? 0.2 : 0.75),
    beatEveryMs,
    fetchEveryMs: isQuiet ? chance.length(4_000, 20_000) : chance.length(1_000, 8_000),
    concurrency: chance.between(1, 5),
    countsBeats: chance.happens(0.5),
    namesLeases: chance.happens(0.6),
    provesLife: chance.happens(0.3),
    isAnonymous: chance.happens(0.08),
    polls: chance.happens(0.25),
    visibilityMs: chance.happens(0.3) ? chance.length(1_000, 20_000) : null,
    fence: chance.weighted([
      [7, 'full'],
      [2, 'worker'],
      [2, 'none'],
    ]),
  }
}

interface Held {
  readonly id: string
  readonly lease: number
  readonly attempt: number
  /** Still making progress: vouched for in beats. */
  lively: boolean
}

interface JobView {
  readonly id: string
  readonly attempt: number
  readonly x_lease: number
  readonly x_limits: { readonly soft_ms: number; readonly hard_ms: number }
}

export class Worker extends Actor {
  readonly #manners: Manners
  readonly #held = new Map<string, Held>()
  #id: string
  #life = 0
  #lives = 0
  #frozenUntil = 0
  #silentUntil = 0
  #seq = 0
  #told: BeatBody['state'] = 'running'
  #asking = 0

  constructor(name: string, stage: Stage, chance: Chance, manners: Manners) {
    super(name, stage, chance)
    this.#manners = manners
    this.#id = name
    this.#live()
  }

  // ---- Coming and going ----

  #live(): void {
    this.#lives += 1
    if (this.#lives > 1 && this.chance.happens(0.4)) this.#id = `${this.name}.${String(this.#lives)}`
    if (!this.stage.workerIds.includes(this.#id)) this.stage.workerIds.push(this.#id)
    this.#told = 'running'
    this.#asking = 0
    this.#seq = 0
    if (this.#manners.registers) this.#register()
    if (this.#manners.beats) this.#soon(this.chance.between(0, this.#manners.beatEveryMs), () => this.#beat())
    this.#soon(this.chance.between(0, this.#manners.fetchEveryMs), () => this.#fetch())
  }

  /** kill -9: everything it was about to do is gone; it is started again. */
  crash(backAfterMs: number): void {
    this.#life += 1
    this.#held.clear()
    this.stage.tell(`${this.name}: killed`)
    this.later(backAfterMs, () => {
      this.#live()
    })
  }

  /** SIGSTOP: it goes on later as if nothing had happened. */
  freeze(forMs: number): void {
    this.stage.tell(`${this.name}: frozen for ${String(forMs)} ms`)
    this.#frozenUntil = Math.max(this.#frozenUntil, this.stage.world.now + forMs)
  }

  /** It lives and works, and does not beat. */
  silence(forMs: number): void {
    this.#silentUntil = this.stage.world.now + forMs
  }

  leave(backAfterMs: number): void {
    this.send({ verb: 'deregister', workerId: this.#id })
    if (this.chance.happens(0.7)) this.crash(backAfterMs)
  }

  register(): void {
    this.#register()
  }

  /** For ever. */
  end(): void {
    this.#life += 1
    this.#held.clear()
  }

  /** Happens in this life, and not while it is frozen. */
  #soon(ms: number, act: () => void): void {
    const life = this.#life
    this.later(ms, () => {
      this.#unlessFrozen(life, act)
    })
  }

  #unlessFrozen(life: number, act: () => void): void {
    if (life !== this.#life) return
    const frozenMs = this.#frozenUntil - this.stage.world.now
    if (frozenMs <= 0) return act()
    this.later(frozenMs + this.chance.between(0, 30), () => {
      this.#unlessFrozen(life, act)
    })
  }

  #ask(call: Call, heard: (answer: Answer | null) => void = () => {}, travelMs?: number): void {
    const life = this.#life
    this.send(
      call,
      (answer) => {
        this.#unlessFrozen(life, () => {
          heard(answer)
        })
      },
      travelMs === undefined ? {} : { travelMs },
    )
  }

  #register(): void {
    const handlers: Record<string, Fields> = {}
    for (const type of this.stage.types) {
      if (!this.chance.happens(0.3)) continue
      const {
        total_timeout: _a,
        total_timeout_ms: _b,
        enqueue_ttl: _c,
        enqueue_ttl_ms: _d,
        visibility_timeout: _e,
        visibility_timeout_ms: _f,
        ...brought
      } = limitsFor(this.chance)
      handlers[type] = brought
    }
    const { concurrency } = this.#manners
    const body = { worker_id: this.#id, hostname: 'host', pid: 1, queues: this.stage.queues, concurrency }
    this.#ask({ verb: 'register', body: Object.keys(handlers).length === 0 ? body : { ...body, handlers } })
  }

  // ---- Fetching ----

  #fetch(): void {
    const { fetchEveryMs, concurrency, polls, isAnonymous, visibilityMs } = this.#manners
    const free = concurrency - this.#held.size
    const again = (ms: number): void => {
      this.#soon(ms, () => this.#fetch())
    }
    if (free <= 0 || this.#told !== 'running' || this.#asking > 0) return again(fetchEveryMs)
    const from = this.chance.between(0, this.stage.queues.length - 1)
    const queues = [...this.stage.queues.slice(from), ...this.stage.queues.slice(0, from)]
    const waitMs = polls && this.chance.happens(0.6) ? this.chance.length(500, 8_000) : 0
    this.#asking += 1
    this.#ask(
      {
        verb: 'fetch',
        body: {
          queues,
          count: this.chance.between(1, free),
          ...(isAnonymous ? {} : { worker_id: this.#id }),
          ...(visibilityMs === null || this.chance.happens(0.5) ? {} : { visibility_timeout_ms: visibilityMs }),
          ...(waitMs === 0 ? {} : { wait_ms: waitMs }),
        },
      },
      (answer) => {
        this.#asking = 0
        for (const job of (answer?.body.jobs ?? []) as JobView[]) this.#begin(job)
        again(this.chance.length(0, fetchEveryMs))
      },
    )
  }

  // ---- Working ----

  #begin(job: JobView): void {
    const { chance } = this
    const held: Held = { id: job.id, lease: job.x_lease, attempt: job.attempt, lively: true }
    if (!this.stage.knownJobs.includes(job.id)) this.stage.knownJobs.push(job.id)
    this.#held.set(job.id, held)
    const { soft_ms: softMs, hard_ms: hardMs } = job.x_limits
    const signs = chance.happens(0.35) ? chance.between(1, 3) : 0
    const end = chance.weighted<'early' | 'grace' | 'edge' | 'late' | 'never'>([
      [60, 'early'],
      [8, 'grace'],
      [14, 'edge'],
      [8, 'late'],
      [10, 'never'],
    ])
    if (end === 'never') {
      held.lively = chance.happens(0.4)
      return
    }
    const longest = Math.min(softMs, 10_000)
    const workMs =
      end === 'early'
        ? chance.between(0, longest)
        : end === 'grace'
          ? chance.between(Math.min(softMs, hardMs), Math.min(hardMs, softMs + 8_000))
          : end === 'late'
            ? Math.min(hardMs, 20_000) + chance.between(0, 5_000)
            : 0
    for (let index = 0; index < signs; index += 1) {
      this.#soon(chance.between(0, Math.max(workMs, 1_000)), () => this.#sign(held))
    }
    if (end === 'edge') this.#finishAtEdge(held, hardMs)
    else this.#soon(workMs, () => this.#finish(held))
  }

  /** The report reaches the server in the very millisecond of the hard deadline, one before, or one after. */
  #finishAtEdge(held: Held, hardMs: number): void {
    if (hardMs > 60_000) return this.#soon(5_000, () => this.#finish(held))
    // The answer we count from was under way for an unknown time, so all guesses are tried.
    const guessMs = this.chance.between(0, 20)
    this.#soon(Math.max(0, hardMs - 40), () => this.#finish(held, Math.max(0, 40 - guessMs)))
  }

  #finish(held: Held, travelMs?: number, triesLeft = 2): void {
    const { chance } = this
    const fence = this.#fenceFor(held)
    const job_id = held.id
    const call: Call = chance.happens(0.55)
      ? { verb: 'ack', body: { job_id, ...fence, result: { by: this.name, lease: held.lease } } }
      : { verb: 'nack', body: { job_id, ...fence, ...this.#failure() } }
    this.#report(held, call, triesLeft, travelMs)
  }

  #report(held: Held, call: Call, triesLeft: number, travelMs?: number): void {
    if (this.chance.happens(0.8)) this.#letGo(held)
    this.#ask(
      call,
      (answer) => {
        this.#letGo(held)
        if ((answer === null || answer.status === 503) && triesLeft > 0) {
          this.#soon(this.chance.between(0, 1_000), () => {
            this.#report(held, call, triesLeft - 1)
          })
        } else if (this.chance.happens(0.08)) this.#ask(call)
      },
      travelMs,
    )
  }

  /** Another attempt of the same job may be in hand by now. */
  #letGo(held: Held): void {
    if (this.#held.get(held.id) === held) this.#held.delete(held.id)
  }

  #failure(): { error?: ErrorFields; requeue?: boolean } {
    const plain: ErrorFields = { type: this.chance.pick(['App.Broken', 'App.Slow', 'Net.Lost']), message: 'it failed' }
    return this.chance.weighted<{ error?: ErrorFields; requeue?: boolean }>([
      [10, { error: plain }],
      [2, { error: { ...plain, retryable: false } }],
      [4, { requeue: true }],
      [2, { error: { type: 'shutdown', message: 'stopping' }, requeue: true }],
      [2, { error: { type: 'shutdown', message: 'stopping' } }],
      [3, { error: { type: 'timeout', message: 'too slow' } }],
      [1, { error: { ...plain, code: 'DISCARD' } }],
      [1, { error: { ...plain, code: 'DEAD_LETTER' } }],
    ])
  }

  #sign(held: Held): void {
    const fence = this.#fenceFor(held)
    const jobId = held.id
    if (this.chance.happens(0.5)) {
      this.#ask({ verb: 'progress', jobId, body: { ...fence, progress: this.chance.between(0, 10) / 10 } })
    } else {
      this.#ask({
        verb: 'checkpoint',
        jobId,
        body: { ...fence, state: { lease: held.lease, n: this.chance.between(0, 999) } },
      })
    }
  }

  #fenceFor({ lease, attempt }: Held): FenceFields {
    const { fence, isAnonymous } = this.#manners
    const owner = isAnonymous ? {} : { worker_id: this.#id }
    if (this.chance.happens(0.05)) {
      return this.chance.pick<FenceFields>([
        { ...owner, attempt, x_lease: lease + this.chance.pick([-1, 1]) },
        { ...owner, attempt: attempt + 1 },
        { worker_id: 'another-worker', attempt, x_lease: lease },
        { x_lease: Math.max(0, lease - 1) },
      ])
    }
    return fence === 'full' ? { ...owner, attempt, x_lease: lease } : fence === 'worker' ? owner : {}
  }

  // ---- Beating ----

  #beat(): void {
    const { beatEveryMs, countsBeats, namesLeases, provesLife } = this.#manners
    this.#soon(beatEveryMs, () => this.#beat())
    if (this.#silentUntil > this.stage.world.now) return
    const listed = [...this.#held.values()].filter(() => !this.chance.happens(0.05))
    const body: BeatBody = {
      worker_id: this.#id,
      state: this.#told,
      active_job_ids: listed.map(({ id }) => id),
      ...(namesLeases ? { x_leases: Object.fromEntries(listed.map(({ id, lease }) => [id, lease])) } : {}),
      ...(provesLife ? { x_beats: listed.filter(({ lively }) => lively).map(({ id }) => id) } : {}),
      ...(countsBeats ? { seq: ++this.#seq } : {}),
      ...(this.chance.happens(0.05) ? { visibility_timeout_ms: this.chance.length(500, 20_000) } : {}),
    }
    this.#ask({ verb: 'beat', body }, (answer) => {
      if (answer?.status === 200) this.#obey(answer)
    })
  }

  #obey({ body }: Answer): void {
    this.#told = body.state as BeatBody['state']
    for (const { job_id, x_lease } of body.x_cancel_jobs as { job_id: string; x_lease?: number }[]) {
      const held = this.#held.get(job_id)
      if (held === undefined || (x_lease !== undefined && x_lease !== held.lease)) continue
      if (this.chance.happens(0.8)) this.#held.delete(job_id)
    }
    if (body.x_reregister === true && this.#manners.registers && this.chance.happens(0.7)) this.#register()
  }
}
