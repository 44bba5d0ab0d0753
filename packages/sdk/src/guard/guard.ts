/**
 * The guard of a worker: beats for it, watches the isolates its handlers run in, and ends everything when the server
 * has not been heard for so long that it may hand the jobs to another worker. A job whose own clock is shorter is ended in
 * its isolate when that clock has run without an answered beat that lists the job.
 *
 * It runs no code of the application's. In a thread of its own (`thread.ts`) it goes on when a handler blocks the
 * worker; where there is no network to block on, it runs in the worker's own thread.
 */
import { after, earliest, instant, isDue, millis, type Host, type Instant, type Millis, type Timer } from '@curfew/core'
import { RequestError } from '../errors.ts'
import type { StartIsolate } from '../isolate/isolate.ts'
import { Isolates, type IsolatesOptions } from '../isolate/isolates.ts'
import type { Stop } from '../attempt/facts.ts'
import { AttemptLog, MAX_CALL_CHARACTERS, type LogLines } from '../attempt/job-log.ts'
import type { Log } from '../log.ts'
import { beatenClockMs, fenceAt, lapseAt, monotonicNow, type Reservation } from '../attempt/terms.ts'
import { beatBody, type InBeat } from './beat.ts'
import type { ListReader } from './shared-list.ts'
import type { BeatAnswer, GuardNews, GuardOrder, LastCall, Watched, WorkerFacts, WorkerState } from './protocol.ts'

export interface GuardPorts {
  readonly host: Host
  readonly log: Log
  readonly facts: WorkerFacts
  /** The server understands leases and `x_beats`. */
  readonly fences: boolean
  /** Attempts that the worker announces in shared memory instead of by orders. */
  readonly shared?: ListReader
  readonly beat: (body: Record<string, unknown>, timeoutMs: number) => Promise<BeatAnswer>
  /** Makes one call, once. */
  readonly call: (call: LastCall) => Promise<void>
  readonly tell: (news: GuardNews) => void
  /** Tests hand in another. */
  readonly startIsolate?: StartIsolate
}

/** A beat that is not answered by the time of the next one is given up, but not sooner than this. */
const MIN_PATIENCE_MS = 250
/** Beats are sent at least this often within a clock that they renew. */
const BEATS_PER_CLOCK = 4
/** Beats that may be unanswered at a time: a slow one does not hold up the next. */
const MAX_UNANSWERED = 4
/** How long beats on their way are waited for when the worker falls silent. */
const SILENCE_MS = 1_000
const LOST: Stop = { why: 'lost', message: 'The server has not been heard for too long; the job may run elsewhere.' }

/** Beats at this interval renew its clocks often enough. */
export function isPacedBy(attempt: Reservation, intervalMs: number): boolean {
  return beatenClockMs(attempt) / BEATS_PER_CLOCK >= intervalMs
}

export class Guard {
  readonly #ports: GuardPorts
  readonly #isolates: Isolates
  readonly #watched = new Map<string, Watched>()
  /** Attempts whose handlers gave a sign since the last beat. */
  readonly #signs = new Set<string>()
  /** When an attempt's life was last vouched for. */
  readonly #vouchedAt = new Map<string, Instant>()
  /** When the latest beat was sent that listed this attempt and was answered. Only for what runs in isolates. */
  readonly #inIsolates = new Map<string, Instant>()
  /** How many attempts orders have announced so far. */
  #begun = 0
  /** Clocks of attempts that are too short for the usual interval, by attempt. */
  readonly #shortClocks = new Map<string, number>()
  /** Where handlers are stuck, for the next beat. Sent once: their attempts are over before another one. */
  readonly #stacks = new Map<string, readonly string[]>()
  /** What attempts have logged, until a beat or another call has carried it. */
  readonly #logs = new Map<string, AttemptLog>()
  #state: WorkerState = 'running'
  #epoch = 0
  #intervalMs: Millis | null = null
  #timeoutMs: Millis | null = null
  #contactAt: Instant
  #beatAt: Instant
  /** When a beat was asked for out of turn. */
  #askedBeatAt: Instant | null = null
  #unanswered = 0
  #isSilent = false
  #onQuiet: (() => void) | null = null
  #isFenced = false
  #beatTimer: Timer | null = null
  #fenceTimer: Timer | null = null
  #lapseTimer: Timer | null = null
  #closed = false

  constructor(ports: GuardPorts) {
    this.#ports = ports
    this.#contactAt = this.#beatAt = this.#now()
    const options: IsolatesOptions = {
      host: ports.host,
      log: ports.log,
      most: ports.facts.concurrency,
      onCall: (key, id, call) => {
        ports.tell({ op: 'call', key, id, call })
      },
      onStack: (key, stack) => {
        this.#handOnStack(key, stack)
      },
      onEnded: (key, ending) => {
        this.#inIsolates.delete(key)
        ports.tell({ op: 'ended', key, ending })
      },
    }
    this.#isolates = new Isolates(options, ports.startIsolate)
  }

  obey(order: GuardOrder): void {
    switch (order.op) {
      case 'registered':
        this.#intervalMs = millis(order.intervalMs)
        this.#timeoutMs = millis(order.timeoutMs)
        this.#beatAt = this.#now()
        this.#heard(instant(order.askedAt))
        this.#armBeat()
        return
      case 'state':
        this.#state = order.state
        this.#epoch = order.epoch
        this.#beatNow()
        return
      case 'begin':
        this.#watch(order.attempt)
        return
      case 'end':
        this.#watched.delete(order.key)
        this.#signs.delete(order.key)
        this.#stacks.delete(order.key)
        this.#logs.delete(order.key)
        this.#vouchedAt.delete(order.key)
        this.#shortClocks.delete(order.key)
        return
      case 'beat':
        this.#askedBeatAt = earliest(this.#askedBeatAt, after(this.#now(), millis(order.inMs)))
        this.#armBeat()
        return
      case 'silence':
        this.#fallSilent()
        return
      case 'leave':
        void this.#leave(order.calls, order.done)
        return
      case 'sign':
        this.#signs.add(order.key)
        this.#armBeat()
        return
      case 'log':
        this.#log(order.key, order.lines)
        return
      case 'log-stored':
        this.#logs.get(order.key)?.stored(order.before)
        return
      case 'contact':
        this.#heard(instant(order.askedAt))
        return
      case 'check':
        void this.#isolates.check(order.kind).then((error) => {
          this.#ports.tell({ op: 'checked', id: order.id, error })
        })
        return
      case 'run':
        this.#inIsolates.set(order.task.key, instant(this.#watched.get(order.task.key)?.listedAt ?? this.#now()))
        this.#isolates.run(order.task)
        this.#armLapse()
        return
      case 'reply':
        this.#isolates.reply(order.key, order.id, order.answer)
        return
      case 'stop':
        this.#isolates.stop(order.key, order.stop, order.killAt)
        return
      case 'close':
        void this.#close()
    }
  }

  #now(): Instant {
    return monotonicNow(this.#ports.host)
  }

  // ---- Beats ----

  #watch(attempt: Watched): void {
    const { key } = attempt
    this.#begun += 1
    this.#watched.set(key, attempt)
    this.#vouchedAt.set(key, this.#now())
    if (isPacedBy(attempt, this.#intervalMs ?? 0)) return
    this.#shortClocks.set(key, beatenClockMs(attempt))
    this.#armBeat()
  }

  /** The usual interval, or a quarter of the shortest clock that beats renew. */
  get #paceMs(): Millis {
    let paceMs: number = this.#intervalMs ?? 0
    for (const clockMs of this.#shortClocks.values()) paceMs = Math.min(paceMs, clockMs / BEATS_PER_CLOCK)
    return millis(paceMs)
  }

  #armBeat(): void {
    this.#beatTimer?.cancel()
    if (this.#closed || this.#isSilent || this.#intervalMs === null) return
    // A sign that no beat can carry now goes with the first beat after an answer.
    const signDueAt = this.#unanswered >= MAX_UNANSWERED ? null : this.#signDueAt()
    const dueAt = earliest(after(this.#beatAt, this.#paceMs), signDueAt, this.#askedBeatAt)
    this.#beatTimer = this.#ports.host.setTimer(Math.max(0, (dueAt ?? 0) - this.#now()), () => {
      this.#beatNow()
    })
  }

  /** A sign must be carried long before the silence before it counts as a stall. */
  #signDueAt(): Instant | null {
    let dueAt: Instant | null = null
    for (const key of this.#signs) {
      const { manual, stallMs } = this.#watched.get(key) ?? { manual: false, stallMs: null }
      if (!manual || stallMs === null) continue
      dueAt = earliest(dueAt, after(this.#vouchedAt.get(key) ?? this.#now(), millis(stallMs / 4)))
    }
    return dueAt
  }

  /** While the attempt is valid: the server keeps it, and stores it with the failure when it ends the attempt itself. */
  #handOnStack(key: string, stack: readonly string[]): void {
    if (!this.#ports.fences || !this.#watched.has(key)) return
    this.#stacks.set(key, stack)
    this.#beatNow()
  }

  #log(key: string, lines: LogLines): void {
    if (!this.#watched.has(key)) return
    const log = this.#logs.get(key) ?? new AttemptLog()
    this.#logs.set(key, log)
    log.add(lines)
  }

  /** As much as one beat may carry: it must not be refused for its logs. The rest goes with the next one. */
  #unsentLogs(): Map<string, LogLines> {
    const logs = new Map<string, LogLines>()
    let room = MAX_CALL_CHARACTERS
    for (const [key, log] of this.#logs) {
      const unsent = log.unsent()
      if (unsent === null || log.length > room) continue
      room -= log.length
      logs.set(key, unsent)
    }
    return logs
  }

  #storedLogs(logs: ReadonlyMap<string, LogLines>): void {
    for (const [key, { from, lines }] of logs) {
      const before = from + lines.length
      this.#logs.get(key)?.stored(before)
      this.#ports.tell({ op: 'log-stored', key, before })
    }
  }

  #beatNow(): void {
    if (this.#closed || this.#isSilent || this.#intervalMs === null) return
    void this.#beat()
  }

  async #beat(): Promise<void> {
    const askedAt = this.#now()
    const epoch = this.#epoch
    // Read before the list itself: what began meanwhile is not counted.
    const begun = this.#ports.shared?.begun(this.#begun) ?? this.#begun
    this.#beatAt = askedAt
    this.#askedBeatAt = null
    if (this.#unanswered >= MAX_UNANSWERED) {
      this.#armBeat()
      return
    }
    this.#unanswered += 1
    const signs = new Set(this.#signs)
    const stacks = new Map(this.#stacks)
    const watched = [...this.#watched.values()]
    const listed = [...watched, ...this.#fromList()]
    const logs = this.#unsentLogs()
    this.#stacks.clear()
    this.#signs.clear()
    for (const key of signs) this.#vouchedAt.set(key, askedAt)
    this.#armBeat()
    try {
      const answer = await this.#ports.beat(
        beatBody(this.#ports.facts, this.#state, listed, signs, askedAt, this.#ports.fences, stacks, logs),
        Math.max(MIN_PATIENCE_MS, this.#intervalMs ?? 0),
      )
      if (this.#closed) return
      this.#heard(askedAt)
      this.#listed(watched, askedAt)
      this.#stopIsolates(answer)
      this.#storedLogs(logs)
      this.#ports.tell({ op: 'beat', askedAt, epoch, begun, answer })
    } catch (error) {
      // Signs that did not arrive are given again.
      for (const key of signs) if (this.#watched.has(key)) this.#signs.add(key)
      // A server without heartbeats refuses them: that is an answer all the same.
      if (error instanceof RequestError && error.status < 500 && error.status !== 429) {
        this.#heard(askedAt)
        this.#listed(watched, askedAt)
        this.#ports.tell({ op: 'beat', askedAt, epoch, begun, answer: {} })
        return
      }
      this.#ports.tell({ op: 'beat-failed', message: error instanceof Error ? error.message : String(error) })
    } finally {
      this.#unanswered -= 1
      if (this.#signs.size > 0) this.#armBeat()
      if (this.#unanswered === 0) this.#onQuiet?.()
    }
  }

  #fromList(): InBeat[] {
    const listed = this.#ports.shared?.read() ?? []
    return listed.filter(({ key }) => !this.#watched.has(key)).map((each) => ({ ...each, manual: false }))
  }

  /** The worker deregisters next: a beat that arrived after that would bring it back. */
  #fallSilent(): void {
    this.#isSilent = true
    this.#beatTimer?.cancel()
    const say = (): void => {
      if (this.#onQuiet === null) return
      this.#onQuiet = null
      timer?.cancel()
      this.#ports.tell({ op: 'silenced' })
    }
    this.#onQuiet = say
    const timer = this.#unanswered === 0 ? null : this.#ports.host.setTimer(SILENCE_MS, say)
    if (this.#unanswered === 0) say()
  }

  /** Nothing waits for the answers: the process is about to end. */
  async #leave(calls: readonly LastCall[], done: Int32Array): Promise<void> {
    this.#isSilent = true
    this.#beatTimer?.cancel()
    for (const call of calls) await this.#ports.call(call).catch(() => {})
    Atomics.store(done, 0, 1)
    Atomics.notify(done, 0)
  }

  /** What runs in an isolate is stopped from here: the worker may be busy. */
  #stopIsolates({ x_cancel_jobs: orders = [] }: BeatAnswer): void {
    for (const { job_id: jobId, reason, x_lease: lease } of orders) {
      for (const watched of this.#watched.values()) {
        if (watched.jobId !== jobId || (lease !== undefined && watched.lease !== lease)) continue
        if (!this.#inIsolates.has(watched.key)) continue
        const now = this.#now()
        if (reason === 'timeout') this.#isolates.stop(watched.key, watched.softStop, watched.hardAt)
        else if (reason === 'lost') this.#isolates.stop(watched.key, { why: 'lost' }, now)
        else this.#isolates.stop(watched.key, { why: 'cancelled' }, Math.min(watched.hardAt, now + watched.graceMs))
      }
    }
  }

  // ---- The fence ----

  #heard(askedAt: Instant): void {
    if (askedAt > this.#contactAt) this.#contactAt = askedAt
    if (this.#timeoutMs === null) return
    this.#isFenced = false
    this.#isolates.renew(fenceAt(this.#contactAt, this.#timeoutMs).fenceAt)
    this.#armFence()
  }

  #armFence(): void {
    this.#fenceTimer?.cancel()
    if (this.#closed || this.#timeoutMs === null || this.#isFenced) return
    const { warnAt } = fenceAt(this.#contactAt, this.#timeoutMs)
    this.#fenceTimer = this.#ports.host.setTimer(Math.max(0, warnAt - this.#now()), () => {
      if (!isDue(warnAt, this.#now())) this.#armFence()
      else this.#fence()
    })
  }

  #fence(): void {
    if (this.#timeoutMs === null) return
    this.#isFenced = true
    const { fenceAt: killAt } = fenceAt(this.#contactAt, this.#timeoutMs)
    for (const key of this.#inIsolates.keys()) this.#isolates.stop(key, LOST, killAt)
    this.#ports.tell({ op: 'fence' })
  }

  /** A beat that listed these attempts and was sent then has been answered. */
  #listed(watched: readonly Watched[], askedAt: Instant): void {
    if (this.#inIsolates.size === 0) return
    for (const { key } of watched) {
      const before = this.#inIsolates.get(key)
      if (before !== undefined && before < askedAt) this.#inIsolates.set(key, askedAt)
    }
    this.#armLapse()
  }

  /** The session stops handlers whose clock runs out by itself; here it is done for isolates while the worker is busy. */
  #armLapse(): void {
    this.#lapseTimer?.cancel()
    this.#lapseTimer = null
    if (this.#closed) return
    let dueAt: Instant | null = null
    for (const [key, listedAt] of this.#inIsolates) {
      const attempt = this.#watched.get(key)
      if (attempt === undefined) continue
      const lapse = lapseAt(attempt, listedAt)
      if (lapse === null) continue
      if (isDue(lapse.warnAt, this.#now())) this.#isolates.stop(key, LOST, lapse.fenceAt)
      else dueAt = earliest(dueAt, lapse.warnAt)
    }
    if (dueAt === null) return
    this.#lapseTimer = this.#ports.host.setTimer(Math.max(0, dueAt - this.#now()), () => {
      this.#armLapse()
    })
  }

  async #close(): Promise<void> {
    if (this.#closed) return
    this.#closed = true
    this.#beatTimer?.cancel()
    this.#fenceTimer?.cancel()
    this.#lapseTimer?.cancel()
    await this.#isolates.close()
    this.#ports.tell({ op: 'closed' })
  }
}
