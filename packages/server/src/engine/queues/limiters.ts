/**
 * Limiters at work. Enqueues give them their terms; a claim asks them which jobs may start now, and counts those starts
 * in its own transaction. So they are exact: not only here, but with several servers on one database.
 *
 * There claims under a limiter take turns. The first thing they lock is one name that all limiters share; then no other server
 * else can be counting the same starts, skip a job that is merely being looked at, or wait for limiters in another order.
 * A queue says in its configuration whether it has a limiter, or ever had jobs with limiters of their own. Others pay
 * nothing: no name is locked, and no document looked for.
 */
import {
  allowance,
  drop,
  earliest,
  givenRateLimit,
  hasKeyedLimits,
  isDue,
  forgetAt,
  LIMITER,
  limiterOfKey,
  limiterOfQueue,
  newLimiter,
  NO_TERMS,
  putOff,
  queueTerms,
  sameTerms,
  startsWithin,
  withKeyedLimits,
  withQueueRate,
  withSchedule,
  withStarts,
  withTerms,
  type Allowance,
  type DocName,
  type EnqueueRequest,
  type Instant,
  type Job,
  type Limiter,
  type LimiterTerms,
  type NewEvent,
} from '@curfew/core'
import type { Queue } from '../../store/store.ts'
import type { QueuesContext } from './context.ts'
import type { Unit } from '../kernel/unit.ts'

/** Held by every transaction that lets jobs start under a limiter. */
export const LIMITERS = 'limiters'

export const isLimited = ({ config }: Queue): boolean => config['rate_limit'] !== undefined || hasKeyedLimits(config)

// ---- Terms ----

/** The limiters whose terms these requests set. */
export function limitersOf(requests: readonly EnqueueRequest[]): DocName[] {
  const names: DocName[] = []
  for (const { rateLimit } of requests) {
    if (rateLimit?.key != null && rateLimit.terms !== null)
      names.push({ kind: LIMITER.kind, id: limiterOfKey(rateLimit.key) })
  }
  return names
}

/** A queue as it is once this job is in it. The limiter of the job's key gets the terms the job brings: the last word counts. */
export function limitedBy(unit: Unit, queue: Queue, { rateLimit }: EnqueueRequest): Queue {
  if (rateLimit === null) return queue
  const { key, terms } = rateLimit
  if (key === null) return terms === null ? queue : reconfigured(queue, withQueueRate(queue.config, terms))
  if (terms !== null) {
    const id = limiterOfKey(key)
    const limiter = unit.doc(LIMITER, id)
    if (limiter === null) unit.putDoc(LIMITER, id, newLimiter(terms, unit.now))
    else if (!sameTerms(limiter.terms, terms)) unit.putDoc(LIMITER, id, withTerms(limiter, terms, unit.now))
  }
  return reconfigured(queue, withKeyedLimits(queue.config))
}

const reconfigured = (queue: Queue, config: Queue['config']): Queue =>
  config === queue.config ? queue : { ...queue, config }

/** Nothing started under it for long. Jobs that still wait for it bring its terms back when their turn comes. */
export async function forgetLimiter(unit: Unit, id: string): Promise<void> {
  const limiter = await unit.loadedDoc(LIMITER, id)
  if (limiter === null) return
  const key = id.startsWith(limiterOfKey('')) ? id.slice(limiterOfKey('').length) : null
  const isHeld = key !== null && (await unit.limited([key])).has(key)
  if (isHeld || !isDue(forgetAt(limiter), unit.now)) unit.putDoc(LIMITER, id, { ...limiter, usedAt: unit.now })
  else unit.putDoc(LIMITER, id, null)
}

// ---- Starts ----

/** Why a claim left jobs behind that a limiter held back, and what to wait for. */
export interface TurnedAway {
  /** When the first of the windows opens. */
  readonly opensAt: Instant | null
  /** Some could start as soon as another job ends. */
  readonly awaitsEnd: boolean
}

interface Asked {
  readonly id: string
  /** What events and answers call it. */
  readonly about: { readonly key: string } | { readonly queue: string }
  readonly stored: Limiter | null
  limiter: Limiter
  active: number
}

/** What the limiters say within one claim. */
export class Gate {
  readonly #context: QueuesContext
  readonly #unit: Unit
  readonly #asked = new Map<string, Asked>()
  readonly #spent = new Set<string>()
  #opensAt: Instant | null = null
  #awaitsEnd = false
  #isAway = false
  /** Jobs it turned away have left the line. */
  hasMoved = false

  constructor(context: QueuesContext, unit: Unit) {
    this.#context = context
    this.#unit = unit
  }

  /** Limiters that have been found spent, and whose jobs wait. */
  get spent(): readonly string[] {
    return [...this.#spent]
  }

  get turnedAway(): TurnedAway | null {
    return this.#isAway ? { opensAt: this.#opensAt, awaitsEnd: this.#awaitsEnd } : null
  }

  /** Before the jobs of a limited queue are looked at. How many of them its own limiter lets start. */
  async enter(queue: Queue): Promise<number> {
    this.#context.limitedQueues.add(queue.name)
    await this.#unit.lockNames([LIMITERS])
    const terms = queueTerms(queue.config)
    if (terms === null) return Infinity
    const asked = await this.#askQueue(queue.name, terms)
    const { starts } = this.#allowanceOf(asked)
    if (starts > 0) return starts
    if ((await this.#unit.counts(queue.name)).available > 0) this.#turnAway(asked)
    return 0
  }

  /** Before these jobs are let in: their limiters, all at once. */
  async load(queue: Queue, jobs: readonly Job[]): Promise<void> {
    const fresh = new Map<string, Job>()
    for (const job of jobs)
      if (job.limitKey !== null && !this.#asked.has(limiterOfKey(job.limitKey))) fresh.set(job.limitKey, job)
    if (fresh.size === 0) return
    await this.#unit.lockNames([LIMITERS])
    this.#note(queue)
    const keys = [...fresh.keys()].sort()
    await this.#unit.loadDocs(LIMITER, keys.map(limiterOfKey))
    const active = await this.#unit.limited(keys)
    for (const [key, job] of fresh) {
      const id = limiterOfKey(key)
      const stored = this.#unit.doc(LIMITER, id)
      const limiter = stored ?? newLimiter(givenRateLimit(job.given)?.terms ?? NO_TERMS, this.#unit.now)
      this.#asked.set(id, { id, about: { key }, stored, limiter, active: active.get(key) ?? 0 })
    }
  }

  /** Whether this job may start now. If so, it counts. If not, what becomes of it is decided, unless it waits. */
  lets(job: Job): boolean {
    if (job.limitKey === null) return true
    const asked = this.#asked.get(limiterOfKey(job.limitKey))
    if (asked === undefined) return true
    const allowed = this.#allowanceOf(asked)
    if (allowed.starts > 0) {
      this.#count(asked, job)
      return true
    }
    this.#refuse(asked, job, job.limitKey, allowed)
    return false
  }

  /** A job of this queue has started: that counts for the queue's own limiter. */
  started(queue: Queue, job: Job): void {
    const asked = this.#asked.get(limiterOfQueue(queue.name))
    if (asked !== undefined) this.#count(asked, job)
  }

  /** The claim is over for this queue, and wanted more than its limiter lets start. */
  async left(queue: Queue): Promise<void> {
    const asked = this.#asked.get(limiterOfQueue(queue.name))
    if (asked === undefined || this.#allowanceOf(asked).starts > 0) return
    if ((await this.#unit.counts(queue.name)).available > 0) this.#turnAway(asked)
  }

  #allowanceOf({ limiter, active }: Asked): Allowance {
    return allowance(limiter, active, this.#unit.now)
  }

  /** The terms are the queue's; what is remembered of its starts is in a document. */
  async #askQueue(name: string, terms: LimiterTerms): Promise<Asked> {
    const id = limiterOfQueue(name)
    const known = this.#asked.get(id)
    if (known !== undefined) return known
    const stored = await this.#unit.loadedDoc(LIMITER, id)
    const limiter = stored === null ? newLimiter(terms, this.#unit.now) : { ...stored, terms }
    const active = terms.concurrency === null ? 0 : (await this.#unit.counts(name)).active
    const asked: Asked = { id, about: { queue: name }, stored, limiter, active }
    this.#asked.set(id, asked)
    return asked
  }

  #count(asked: Asked, job: Job): void {
    const unit = this.#unit
    if (asked.limiter.spentAt !== null)
      unit.emit(limitEvent('rate_limit.released', asked, unit.now, { job_id: job.id }))
    const counted = withStarts(asked.limiter, 1, unit.now)
    if (counted !== asked.limiter || asked.stored === null) unit.putDoc(LIMITER, asked.id, counted)
    asked.limiter = counted
    asked.active += 1
  }

  #refuse(asked: Asked, job: Job, key: string, { opensAt }: Allowance): void {
    const unit = this.#unit
    const onLimit = givenRateLimit(job.given)?.onLimit ?? 'wait'
    if (onLimit === 'drop') {
      this.hasMoved = true
      unit.apply(drop(job, key, unit.moment))
      unit.emit(limitEvent('rate_limit.dropped', asked, unit.now, { job_id: job.id, job_type: job.type }))
    } else if (onLimit === 'reschedule' && opensAt !== null) {
      this.hasMoved = true
      unit.apply(putOff(job, opensAt, withSchedule(job.given, opensAt), unit.moment))
    } else {
      this.#spent.add(key)
      this.#turnAway(asked)
    }
  }

  #turnAway(asked: Asked): void {
    const unit = this.#unit
    const { opensAt, isFull } = this.#allowanceOf(asked)
    this.#isAway = true
    this.#opensAt = earliest(this.#opensAt, opensAt)
    this.#awaitsEnd ||= isFull
    if (asked.limiter.spentAt !== null) return
    // Told once, until something starts under it again.
    asked.limiter = { ...asked.limiter, spentAt: unit.now }
    unit.putDoc(LIMITER, asked.id, asked.limiter)
    unit.emit(limitEvent('rate_limit.exceeded', asked, unit.now, standing(asked, isFull, unit.now)))
  }

  /** Two servers may have made this queue at once, one of them without a word of limiters. */
  #note(queue: Queue): void {
    this.#context.limitedQueues.add(queue.name)
    if (!isLimited(queue)) this.#unit.putQueue({ ...queue, config: withKeyedLimits(queue.config) })
  }
}

/** Which of its limits turned the job away (OJS rate limiting §11.1). */
function standing({ limiter, active }: Asked, isFull: boolean, now: Instant): Record<string, unknown> {
  const { concurrency, rate, throttle } = limiter.terms
  if (isFull) return { strategy: 'concurrency', limit: concurrency, current: active }
  const started = rate === null ? 0 : startsWithin(limiter, rate.periodMs, now)
  return rate !== null && started >= rate.limit
    ? { strategy: 'rate', limit: rate.limit, current: started }
    : { strategy: 'throttle', limit: throttle?.limit, current: 1 }
}

function limitEvent(
  type: NewEvent['type'],
  { about }: Asked,
  at: Instant,
  data: Readonly<Record<string, unknown>>,
): NewEvent {
  const queue = 'queue' in about ? about.queue : null
  const subject = 'queue' in about ? about.queue : about.key
  return { type, at, subject, queue, jobType: null, data: { ...about, ...data } }
}
