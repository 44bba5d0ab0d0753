/**
 * The pulse: once a second, what a person who watches must know first. It is computed once for all readers, and not at
 * all while there are none. Each reader holds the newest frame only, so a slow one misses frames and costs nothing.
 * A second in which no frame could be made brings a heartbeat instead: silence always means that the stream is broken.
 *
 * Counts and workers are read each second. What will be late, and what ran out of time lately, cost more to find out: they
 * are looked for every few seconds, and never for more than a tenth of the time.
 */
import {
  ALWAYS_IDLE,
  before,
  elapsed,
  instant,
  iso,
  millis,
  RESOLUTIONS,
  riskView,
  SketchSum,
  slotAt,
  type Instant,
  type Json,
  type Resolution,
  type Timer,
} from '@curfew/core'
import type { StateChange } from '../../store/store.ts'
import { atRisk } from '../jobs/at-risk.ts'
import { changeOf } from '../kernel/changes.ts'
import type { Committed } from '../kernel/feature.ts'
import { isAnyAborted, onAbort } from '../kernel/until.ts'
import { collectSlots } from './collect.ts'
import type { SeriesContext } from './context.ts'

export const PULSE_EVERY_MS = 1_000
/** Rates are of the last so many whole seconds. */
const RATE_SECONDS = 10
/** How often what costs more is looked for, and what share of the time that may take. */
const LOOK_EVERY_MS = 5_000
const REST_AFTER_LOOK = 9
const RISKS_SHOWN = 5
const RISKS_LOOKED_FOR = 200
const QUEUES_SHOWN = 20
/** Timeouts and overshoot are of the last so many minutes. */
const RECENT_MS = 10 * 60_000

export interface PulseFrame {
  readonly event: 'pulse' | 'heartbeat'
  readonly id: number
  readonly data: Json
}

interface Second {
  readonly second: number
  created: number
  started: number
  completed: number
  retried: number
  cancelled: number
  discarded: number
}
type Rate = Exclude<keyof Second, 'second'>
const RATES: readonly Rate[] = ['created', 'started', 'completed', 'retried', 'cancelled', 'discarded']

class Reader {
  #frame: PulseFrame | null = null
  #wake: (() => void) | null = null
  #isEnded = false

  give(frame: PulseFrame): void {
    this.#frame = frame
    this.#wake?.()
  }

  end(): void {
    this.#isEnded = true
    this.#wake?.()
  }

  async take(): Promise<PulseFrame | null> {
    while (this.#frame === null && !this.#isEnded) {
      await new Promise<void>((resolve) => {
        this.#wake = resolve
      })
      this.#wake = null
    }
    const frame = this.#frame
    this.#frame = null
    return this.#isEnded ? null : frame
  }
}

export class Pulse {
  readonly #context: SeriesContext
  readonly #readers = new Set<Reader>()
  #seconds: Second[] = []
  #since: Instant = instant(0)
  #timer: Timer | null = null
  #isComputing = false
  #lastId = 0
  #newest: PulseFrame | null = null
  #newestMs = -Infinity
  #late: object | null = null
  #recent: object | null = null
  #isLooking = false
  #nextLookMs = -Infinity

  constructor(context: SeriesContext) {
    this.#context = context
  }

  get readers(): number {
    return this.#readers.size
  }

  committed({ transitions, now }: Pick<Committed, 'transitions' | 'now'>): void {
    if (this.#readers.size > 0) for (const transition of transitions) this.#count(changeOf(transition), now)
  }

  /** Another server committed these. */
  heard(changes: readonly StateChange[]): void {
    if (this.#readers.size > 0) for (const change of changes) this.#count(change, this.#context.now())
  }

  async *frames(gone: AbortSignal): AsyncGenerator<PulseFrame> {
    const reader = new Reader()
    const signals = [gone, this.#context.closing]
    if (isAnyAborted(signals)) return
    const unhook = onAbort(signals, () => {
      reader.end()
    })
    this.#enter(reader)
    try {
      for (let frame = await reader.take(); frame !== null; frame = await reader.take()) yield frame
    } finally {
      unhook()
      this.#leave(reader)
    }
  }

  #enter(reader: Reader): void {
    this.#readers.add(reader)
    const isFirst = this.#readers.size === 1
    if (isFirst) {
      this.#since = this.#context.now()
      this.#seconds = []
    }
    const isNew = this.#context.host.monotonicMs() - this.#newestMs < PULSE_EVERY_MS
    if (this.#newest !== null && isNew) reader.give(this.#newest)
    if (isFirst) void this.#tick()
  }

  #leave(reader: Reader): void {
    this.#readers.delete(reader)
    if (this.#readers.size > 0) return
    this.#timer?.cancel()
    this.#timer = null
  }

  async #tick(): Promise<void> {
    this.#timer?.cancel()
    this.#timer = null
    if (this.#readers.size === 0) return
    this.#timer = this.#context.host.setTimer(PULSE_EVERY_MS, () => void this.#tick(), ALWAYS_IDLE)
    if (this.#isComputing) {
      this.#send('heartbeat', { server_time: iso(this.#context.now()), trouble: this.#context.trouble })
      return
    }
    this.#isComputing = true
    try {
      this.#look()
      this.#send('pulse', await this.#frame())
    } catch (error) {
      const trouble = this.#context.trouble ?? (error instanceof Error ? error.name : 'error')
      this.#send('heartbeat', { server_time: iso(this.#context.now()), trouble })
    } finally {
      this.#isComputing = false
    }
  }

  #send(event: PulseFrame['event'], fields: object): void {
    this.#lastId += 1
    const frame = { event, id: this.#lastId, data: JSON.stringify(fields) }
    this.#newest = frame
    this.#newestMs = this.#context.host.monotonicMs()
    for (const reader of this.#readers) reader.give(frame)
  }

  async #frame(): Promise<object> {
    const { settings, trouble } = this.#context
    const silentSince = before(this.#context.now(), millis(settings.heartbeatIntervalMs * 3))
    const { counts, workers } = await this.#context.look(async (reads) => ({
      counts: await reads.totals(),
      workers: await reads.workerTotals(silentSince),
    }))
    const now = this.#context.now()
    return {
      server_time: iso(now),
      trouble,
      counts,
      rates: this.#rates(now),
      workers: {
        total: workers.reduce((sum, { count }) => sum + count, 0),
        silent: workers.reduce((sum, { silent }) => sum + silent, 0),
        by_state: Object.fromEntries(workers.map(({ state, count }) => [state, count])),
      },
      late: this.#late,
      recent: this.#recent,
      readers: this.#readers.size,
    }
  }

  // ---- Rates ----

  #count({ from, to }: Pick<StateChange, 'from' | 'to'>, now: Instant): void {
    if (from === to || to === null) return
    const second = this.#second(now)
    if (from === null) second.created += 1
    if (to === 'active') second.started += 1
    else if (to === 'completed') second.completed += 1
    else if (to === 'retryable') second.retried += 1
    else if (to === 'cancelled') second.cancelled += 1
    else if (to === 'discarded') second.discarded += 1
  }

  #second(now: Instant): Second {
    const second = Math.floor(now / 1000)
    const last = this.#seconds.at(-1)
    if (last?.second === second) return last
    const fresh = { second, created: 0, started: 0, completed: 0, retried: 0, cancelled: 0, discarded: 0 }
    this.#seconds.push(fresh)
    if (this.#seconds.length > RATE_SECONDS + 1) this.#seconds.shift()
    return fresh
  }

  /** Per second, over the whole seconds behind us; of a stream that has just begun, over the time since then. */
  #rates(now: Instant): object {
    const end = Math.floor(now / 1000)
    const windowMs = Math.max(1, Math.min(RATE_SECONDS * 1000, elapsed(this.#since, now)))
    const isYoung = windowMs < RATE_SECONDS * 1000
    const rates: Record<string, number> = { window_ms: windowMs }
    for (const name of RATES) {
      let sum = 0
      for (const each of this.#seconds)
        if (each.second >= end - RATE_SECONDS && (isYoung || each.second < end)) sum += each[name]
      rates[name] = Math.round((sum / windowMs) * 10_000) / 10
    }
    return rates
  }

  // ---- What costs more ----

  #look(): void {
    const { host } = this.#context
    const startedMs = host.monotonicMs()
    if (this.#isLooking || startedMs < this.#nextLookMs) return
    this.#isLooking = true
    const look = async (): Promise<void> => {
      this.#recent = await this.#recently()
      this.#late = await this.#lateSoon()
    }
    void look()
      .catch(() => {})
      .finally(() => {
        const tookMs = host.monotonicMs() - startedMs
        this.#nextLookMs = startedMs + Math.max(LOOK_EVERY_MS, tookMs * (1 + REST_AFTER_LOOK))
        this.#isLooking = false
      })
  }

  async #recently(): Promise<object> {
    const now = this.#context.now()
    const from = slotAt(before(now, millis(RECENT_MS)), FINEST)
    const byKind: Record<string, number> = {}
    const late = new SketchSum()
    let refused = 0
    await collectSlots(this.#context, FINEST, from, now, (_from, tally) => {
      for (const { counts, timeouts } of tally) {
        refused += counts.late ?? 0
        for (const { kind, n, overshoot } of timeouts) {
          byKind[kind] = (byKind[kind] ?? 0) + n
          late.add(overshoot)
        }
      }
    })
    return {
      since: iso(from),
      timeouts: byKind,
      overshoot_p99_ms: late.quantilesMs([0.99])[0] ?? null,
      late_results_refused: refused,
    }
  }

  async #lateSoon(): Promise<object> {
    const { host } = this.#context
    const now = this.#context.now()
    const { risks, queues } = await this.#context.look((reads) =>
      atRisk(host, reads, { queue: null, limit: RISKS_LOOKED_FOR }, now),
    )
    const byQueue = new Map<string, number>()
    for (const { job } of risks) byQueue.set(job.queue, (byQueue.get(job.queue) ?? 0) + 1)
    const rows = queues.map(({ queue, isPaused, waiting, starts, windowMs }) => ({
      queue,
      paused: isPaused,
      waiting,
      starts_per_second: Math.round((starts / windowMs) * 1_000_000) / 1000,
      at_risk: byQueue.get(queue) ?? 0,
    }))
    return {
      computed_at: iso(now),
      total: risks.length,
      is_lower_bound: risks.length === RISKS_LOOKED_FOR,
      first_at: risks[0] === undefined ? null : iso(risks[0].latest.at),
      jobs: risks.slice(0, RISKS_SHOWN).map(riskView),
      queues: rows.sort((a, b) => b.at_risk - a.at_risk || b.waiting - a.waiting).slice(0, QUEUES_SHOWN),
      waiting_queues: queues.length,
    }
  }
}

const FINEST = RESOLUTIONS[0] as Resolution
