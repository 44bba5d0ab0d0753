/** A worker session whose inputs a test says one by one. */
import { after, instant, millis, type Instant } from '@curfew/core'
import type { StopOrder } from '../guard/protocol.ts'
import type { HandedJob } from '../wire/jobs.ts'
import type { Call, CallAnswer, Effect, Input, Orders, ServerFeatures } from './inputs.ts'
import { Session } from './session.ts'

interface Setting {
  readonly prefetch?: number | null
  readonly isRegistered?: boolean
  readonly server?: ServerFeatures
}

type Done<K extends Effect['do']> = Effect & { do: K }

/** A session whose inputs a test says one by one; what it wanted done is kept. */
export class Drive {
  now: Instant = instant(1_000_000)
  readonly session: Session
  effects: Effect[] = []

  constructor(concurrency = 2, setting: Setting = {}) {
    const { isRegistered = true, server = { orders: true, waits: true }, prefetch = null } = setting
    const limits = {}
    const handlers = new Map([
      ['inline', { isolated: false, manual: false, limits }],
      ['isolated', { isolated: true, manual: false, limits }],
      ['manual', { isolated: false, manual: true, limits }],
    ])
    this.session = new Session(
      { concurrency, prefetch, drainMs: millis(25_000), handlers, random: () => 0.5 },
      this.now,
    )
    this.say({ in: 'begin', server })
    if (isRegistered)
      this.say({ in: 'registered', askedAt: this.now, intervalMs: millis(5_000), timeoutMs: millis(30_000) })
  }

  /** Says it, and lets the turn of the event loop end. */
  say(input: Input): this {
    this.effects.push(...this.session.step(input, this.now))
    while (this.session.wantsTurn) this.effects.push(...this.session.step({ in: 'turn' }, this.now))
    return this
  }

  wait(ms: number): this {
    this.now = after(this.now, millis(ms))
    return this.say({ in: 'due' })
  }

  all<K extends Effect['do']>(what: K): Done<K>[] {
    return this.effects.filter((effect): effect is Done<K> => effect.do === what)
  }

  last<K extends Effect['do']>(what: K): Done<K> {
    const found = this.all(what).at(-1)
    if (found === undefined) throw new Error(`it did not ${what}`)
    return found
  }

  /** Calls that were sent and neither answered nor hung up by the test. */
  get open(): Call[] {
    return this.all('call')
      .map(({ call }) => call)
      .filter(({ id }) => !this.#over.has(id) && !this.all('hang-up').some(({ call }) => call === id))
  }

  readonly #over = new Set<number>()

  get listening(): Call {
    const call = this.open.findLast(({ listen }) => listen !== null)
    if (call === undefined) throw new Error('no call is open')
    return call
  }

  get reporting(): Call | undefined {
    return this.open.find(({ reports }) => reports.length > 0)
  }

  answer(call: Call, more: Partial<CallAnswer> = {}): this {
    this.#over.add(call.id)
    return this.say({
      in: 'answered',
      call: call.id,
      answer: {
        deliveries: call.reports.map(() => ({ kind: 'done' })),
        jobs: [],
        asked: { at: this.now, waitedMs: millis(0) },
        orders: null,
        failure: null,
        ...more,
      },
    })
  }

  fail(call: Call, refusal: string | null = null): this {
    this.#over.add(call.id)
    return this.say({ in: 'failed', call: call.id, reason: 'reset', refusal })
  }

  bring(...jobs: HandedJob[]): this {
    return this.answer(this.listening, { jobs })
  }

  order(...stops: StopOrder[]): this {
    return this.answer(this.listening, { orders: { stops, isForgotten: false } })
  }

  beat(orders: Partial<Orders> = {}, more: Partial<Input & { in: 'beat' }> = {}): this {
    return this.say({
      in: 'beat',
      sentAt: this.now,
      epoch: this.epoch,
      begun: this.all('watch').length,
      orders: { stops: [], isForgotten: false, ...orders },
      unlisted: [],
      ...more,
    })
  }

  get epoch(): number {
    return this.all('tell-guard').at(-1)?.epoch ?? 0
  }

  settle(key: string): this {
    return this.say({ in: 'settled', key, ending: { kind: 'returned', result: 1 } })
  }

  throws(key: string, name = 'Error'): this {
    return this.say({ in: 'settled', key, ending: { kind: 'threw', error: { name, message: 'no' } } })
  }

  get started(): string[] {
    return this.all('start').map(({ key }) => key)
  }

  /** What was reported so far. */
  get reported(): string[] {
    return this.all('call').flatMap(({ call }) => call.reports.map(({ kind, hold }) => `${kind} ${hold.jobId}`))
  }

  /** What was handed back so far. */
  get handedBack(): string[] {
    return this.all('call').flatMap(({ call }) =>
      call.reports.flatMap((report) =>
        report.kind === 'nack' && report.requeue ? [`${report.hold.jobId}#${String(report.hold.lease)}`] : [],
      ),
    )
  }
}

export function job(id: string, lease = 1, more: Partial<HandedJob> = {}): HandedJob {
  return {
    id,
    type: 'inline',
    queue: 'default',
    args: [],
    state: 'active',
    attempt: 1,
    x_lease: lease,
    x_limits: {
      timeout_ms: 60_000,
      grace_ms: 10_000,
      soft_ms: 60_000,
      hard_ms: 70_000,
      visibility_ms: 100_000,
      on_timeout: 'retry',
      sources: { timeout: 'type' },
    },
    ...more,
  }
}
