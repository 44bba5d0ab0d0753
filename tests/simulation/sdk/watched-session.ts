/** A session whose inputs and effects are seen: promises about a single worker are checked here, step by step. */
import type { Instant } from '@curfew/core'
import type { Call, Effect, Input, Orders } from '../../../packages/sdk/src/worker/inputs.ts'
import type { HandedJob } from '../../../packages/sdk/src/wire/jobs.ts'
import type { SessionLike } from '../../../packages/sdk/src/worker/worker.ts'
import type { Scene } from './scene.ts'
import { short } from './ledger.ts'

/** What the session's worker wants to know of it. */
export interface Watcher {
  readonly id: string
  readonly isMuted: boolean
  onArrived(job: HandedJob): void
  onStart(jobId: string, lease: number, state: string): void
  onState(state: string): void
  onEnded(): void
}

interface SentCall {
  readonly call: Call
  readonly at: number
}

const MAX_STEPS = 2_000
const NO_ORDERS: Orders = { stops: [], isForgotten: false }

export class WatchedSession implements SessionLike {
  readonly #inner: SessionLike
  readonly #scene: Scene
  readonly #watcher: Watcher
  readonly #calls = new Map<number, SentCall>()
  /** Leases that an order has named as cancelled or lost. */
  readonly #stopped = new Set<string>()
  #isAskedToLeave = false
  #stepsAt = 0
  #steps = 0
  #isRestless = false

  constructor(inner: SessionLike, scene: Scene, watcher: Watcher) {
    this.#inner = inner
    this.#scene = scene
    this.#watcher = watcher
  }

  get state(): SessionLike['state'] {
    return this.#inner.state
  }

  get active(): number {
    return this.#inner.active
  }

  get running(): readonly string[] {
    return this.#inner.running
  }

  get fenceAt(): Instant | null {
    return this.#inner.fenceAt
  }

  get wantsTurn(): boolean {
    return this.#inner.wantsTurn && !this.#isRestless
  }

  get isLeaving(): boolean {
    return this.#inner.isLeaving
  }

  step(input: Input, now: Instant): readonly Effect[] {
    if (this.#watcher.isMuted || this.#isStandingStill(now)) return []
    const { tally } = this.#scene
    tally.add(`input: ${input.in}`)
    this.#tellInput(input)
    if (input.in === 'stop') this.#isAskedToLeave = true
    if (input.in === 'answered') for (const job of input.answer.jobs) this.#watcher.onArrived(job)
    this.#noteStops(input)
    const sentAt = this.#sentAt(input)
    if (input.in === 'answered' || input.in === 'failed') this.#calls.delete(input.call)
    const before = this.#inner.state
    const effects = this.#inner.step(input, now)
    this.#checkState(before, input, sentAt)
    for (const effect of effects) this.#see(effect, input)
    return effects
  }

  #noteStops(input: Input): void {
    const orders = input.in === 'beat' ? input.orders : input.in === 'answered' ? input.answer.orders : null
    for (const { job_id: jobId, reason, x_lease: lease } of orders?.stops ?? [])
      if (reason !== 'timeout') this.#stopped.add(`${jobId}#${String(lease)}`)
  }

  /** Turns without end would stop the world: no time would pass. */
  #isStandingStill(now: Instant): boolean {
    this.#steps = this.#stepsAt === now ? this.#steps + 1 : 0
    this.#stepsAt = now
    if (this.#steps < MAX_STEPS) return false
    this.#isRestless = true
    this.#scene.blame('restful', `${this.#watcher.id} takes ${String(MAX_STEPS)} steps in one instant`)
    return true
  }

  /** When the call was sent that this answers. */
  #sentAt(input: Input): number {
    if (input.in === 'beat') return input.sentAt
    return input.in === 'answered' ? (this.#calls.get(input.call)?.at ?? 0) : 0
  }

  #checkState(before: string, input: Input, sentAt: number): void {
    const { state } = this.#inner
    if (state === before) return
    const { ledger, blame } = this.#scene
    const { id } = this.#watcher
    this.#watcher.onState(state)
    const isAsked =
      input.in === 'quiet' ||
      input.in === 'resume' ||
      (state === 'terminate' && this.#isAskedToLeave) ||
      ledger.hasStood(id, state === 'running' ? 'resume' : state, sentAt)
    if (!isAsked) blame('unaskedState', `${id} went from ${before} to ${state} by ${input.in}`)
  }

  #see(effect: Effect, input: Input): void {
    this.#tellEffect(effect)
    switch (effect.do) {
      case 'call':
        this.#checkHandBack(effect.call)
        this.#calls.set(effect.call.id, { call: effect.call, at: this.#scene.world.now })
        return
      case 'hang-up':
        this.#calls.delete(effect.call)
        return
      case 'start':
        if (this.#stopped.has(effect.key))
          this.#scene.blame('notAfterCancel', `${this.#watcher.id} starts ${effect.key}, which an order has ended`)
        this.#watcher.onStart(effect.job.id, effect.job.x_lease ?? 0, this.#inner.state)
        return
      case 'abort':
        this.#checkAbort(effect, input)
        return
      case 'ended':
        this.#watcher.onEnded()
        return
      default:
    }
  }

  #checkHandBack({ reports }: Call): void {
    if (this.#inner.state === 'running') return
    const back = reports.find((report) => report.kind === 'nack' && report.requeue)
    const asking = [...this.#calls.values()].find(({ call: { count } }) => count > 0)
    if (back !== undefined && asking !== undefined)
      this.#scene.blame(
        'notBesideAsking',
        `${this.#watcher.id} is ${this.#inner.state}, hands back ${back.hold.jobId}, and call ${String(asking.call.id)} asks`,
      )
  }

  #checkAbort({ key, stop }: Effect & { do: 'abort' }, input: Input): void {
    if ((stop.why !== 'cancelled' && stop.why !== 'lost') || (input.in !== 'beat' && input.in !== 'answered')) return
    const orders = (input.in === 'beat' ? input.orders : input.answer.orders) ?? NO_ORDERS
    const jobs = input.in === 'beat' ? [] : input.answer.jobs
    const isNamed = orders.stops.some(({ job_id: jobId, x_lease: lease }) => key === `${jobId}#${String(lease)}`)
    const isReplaced = jobs.some(({ id }) => key.startsWith(`${id}#`))
    if (!isNamed && !isReplaced)
      this.#scene.blame(
        'ordersByLease',
        `${this.#watcher.id} stops ${key} as ${stop.why} by ${JSON.stringify(orders.stops)}`,
      )
  }

  // ---- The story ----

  #tellInput(input: Input): void {
    if (input.in === 'turn' || input.in === 'due' || input.in === 'sign') return
    this.#scene.tell(() => `${this.#watcher.id} hears ${inWords(input)}`)
  }

  #tellEffect(effect: Effect): void {
    if (['wake', 'contact', 'flush-guard', 'log', 'tell-guard', 'watch', 'unwatch'].includes(effect.do)) return
    this.#scene.tell(() => `${this.#watcher.id} wants ${inWords(effect)}`)
  }
}

function inWords(thing: Input | Effect): string {
  return JSON.stringify(thing, (name, value: unknown) => {
    if (name === 'terms' || name === 'args' || name === 'x_limits' || name === 'limits') return undefined
    if (name === 'jobs' && Array.isArray(value))
      return (value as { id: string; x_lease: number }[]).map(({ id, x_lease }) => `${short(id)}#${String(x_lease)}`)
    if (name === 'job' && typeof value === 'object') return undefined
    return value
  })
}
