/**
 * All isolates of one worker: threads and processes in which handlers run, one at a time each, and can really be stopped.
 *
 * - A task whose isolate is kept warm (same isolation, module, export and memory) runs there; else a new one is started.
 *   There are never more than `most`; when all are there, an idle one of another kind makes room, or the task waits.
 * - At the hard deadline the isolate is killed, whatever it does. A handler never runs where another one was killed.
 * - Every task has exactly one ending, told when its isolate can no longer run a line of the handler.
 *
 * All deadlines are kept by timers of the thread this lives in: keep user code out of it. An isolate ends by itself when
 * that thread cannot end it: a thread with its process, a process by its watcher.
 */
import type { Host } from '@curfew/core'
import { errorData } from '../attempt/error-data.ts'
import type { Log } from '../log.ts'
import { Check } from './check.ts'
import { deathOf } from './deaths.ts'
import { sameKind, type Gone, type Isolate, type IsolateKind, type StartIsolate } from './isolate.ts'
import type { Answer, FromIsolate, Outcome } from './messages.ts'
import type { Call, Ending, ErrorData, Stop } from '../attempt/facts.ts'
import type { IsolateTask } from './protocol.ts'
import { Run, type RunActions } from './run.ts'
import { startIsolate } from './start-isolate.ts'

export interface IsolatesOptions {
  readonly host: Host
  /** How many isolates there may be at once. */
  readonly most: number
  readonly log: Log
  /** A handler asks for something; answer with `reply`. */
  onCall(key: string, id: number, call: Call): void
  /** Where a task is stuck that will be killed so late that a report after the kill would be refused. */
  onStack(key: string, stack: readonly string[]): void
  onEnded(key: string, ending: Ending): void
}

/** Isolates that are started for a check at the same time: more of them would only slow each other down. */
const MAX_CHECKS_AT_ONCE = 4

/**
 * An isolate with what is known of it. `checking`: its module is being loaded, for a check. `idle`: may take a task.
 * `leaving`: it was told to go, or killed. `isWarm`: a handler has run there before.
 */
interface Held {
  readonly kind: IsolateKind
  readonly isolate: Isolate
  state: 'checking' | 'busy' | 'idle' | 'leaving'
  run: Run | null
  check: Check | null
  crash: ErrorData | null
  isWarm: boolean
}

export class Isolates {
  readonly #options: IsolatesOptions
  readonly #start: StartIsolate
  readonly #held = new Set<Held>()
  readonly #waiting = new Set<Run>()
  readonly #checks = new Set<Check>()
  readonly #runs = new Map<string, Held | null>()
  readonly #actions: RunActions
  #leaseAt = Infinity
  #onEmpty: () => void = () => {}
  #closed: Promise<void> | null = null

  constructor(options: IsolatesOptions, start: StartIsolate = startIsolate) {
    this.#options = options
    this.#start = start
    this.#actions = {
      onSpent: (run) => {
        this.#dropWaiting(run)
      },
      onLook: (run) => {
        const held = this.#runs.get(run.key)
        if (held?.state !== 'busy') return
        void held.isolate.stack().then((stack) => {
          run.stack = stack
          const isRunning = held.run === run && held.state === 'busy'
          if (stack !== null && isRunning && run.isReportTooLate) this.#options.onStack(run.key, stack)
        })
      },
      onWarn: (run) => {
        this.#runs.get(run.key)?.isolate.warn()
      },
      onKill: (run) => {
        const held = this.#runs.get(run.key)
        if (held) this.#kill(held)
      },
    }
  }

  run(task: IsolateTask): void {
    if (this.#closed !== null) throw new Error('These isolates are closed.')
    if (this.#runs.has(task.key)) throw new Error(`The task ${task.key} is there already.`)
    this.#wait(new Run(task, this.#options.host, this.#actions))
    this.#place()
  }

  /**
   * Whether handlers of this kind can run: starts an isolate and waits until its module is loaded. Gives the error, or
   * null. The isolate stays warm for the first task while there is room.
   */
  check(kind: IsolateKind): Promise<ErrorData | null> {
    if (this.#closed !== null) return Promise.resolve(CLOSED)
    // It could not be idle if its module had not been loaded.
    if (this.#idle((other) => sameKind(other, kind)) !== null) return Promise.resolve(null)
    return new Promise((resolve) => {
      this.#checks.add(new Check(kind, this.#options.host, resolve))
      this.#place()
    })
  }

  /** An answer that arrives too late is dropped. */
  reply(key: string, id: number, answer: Answer): void {
    this.#runs.get(key)?.isolate.send({ t: 'reply', key, id, answer })
  }

  /** Aborts its signal now, and kills it at that instant unless it has ended; never later than it would be anyway. */
  stop(key: string, stop: Stop, killAt: number): void {
    const held = this.#runs.get(key)
    if (held === undefined) return
    if (held?.run) {
      held.run.stopAt(stop, killAt)
      held.isolate.send({ t: 'abort', key, stop, killAt: held.run.killAt })
      this.#guard(held)
      return
    }
    for (const run of this.#waiting) {
      if (run.key !== key) continue
      run.stopAt(stop, killAt)
      this.#dropWaiting(run)
    }
  }

  /** The worker's lease lasts until then: processes end by themselves when it ends without a renewal. */
  renew(until: number): void {
    this.#leaseAt = until
    for (const held of this.#held) if (held.state === 'busy') this.#guard(held)
  }

  /** Kills what still runs, ends what is idle, and resolves when all are gone. */
  close(): Promise<void> {
    this.#closed ??= new Promise((resolve) => {
      this.#onEmpty = resolve
      this.#shutDown()
      if (this.#held.size === 0) resolve()
    })
    return this.#closed
  }

  #shutDown(): void {
    const stop: Stop = { why: 'shutdown' }
    for (const run of this.#waiting) {
      run.stopAt(stop, -Infinity)
      this.#dropWaiting(run)
    }
    for (const check of this.#checks) check.settle(CLOSED)
    this.#checks.clear()
    for (const held of this.#held) {
      held.check?.settle(CLOSED)
      if (held.state === 'idle') this.#letGo(held)
      else if (held.state === 'checking') this.#kill(held)
      else if (held.state === 'busy') {
        held.run?.stopAt(stop, -Infinity)
        this.#kill(held)
      }
    }
  }

  // ---- Finding an isolate ----

  #wait(run: Run): void {
    this.#runs.set(run.key, null)
    this.#waiting.add(run)
    run.wait()
  }

  #place(): void {
    for (const run of this.#waiting) {
      const warm = this.#idle((kind) => sameKind(kind, run.task))
      if (warm !== null) this.#begin(warm, run)
    }
    for (const run of this.#waiting) {
      if (this.#held.size >= this.#options.most) break
      const held = this.#open(run)
      if (held !== null) this.#begin(held, run)
    }
    for (const check of this.#checks) {
      if (this.#held.size >= this.#options.most || this.#count('checking') >= MAX_CHECKS_AT_ONCE) break
      this.#beginCheck(check)
    }
    // What still waits gets the room of an idle one, as soon as that is gone.
    const checks = Math.min(this.#checks.size, MAX_CHECKS_AT_ONCE - this.#count('checking'))
    for (let lacking = this.#waiting.size + checks - this.#count('leaving'); lacking > 0; lacking -= 1) {
      const other = this.#idle(() => true)
      if (other === null) break
      this.#letGo(other)
    }
  }

  #count(state: Held['state']): number {
    let count = 0
    for (const held of this.#held) if (held.state === state) count += 1
    return count
  }

  #idle(fits: (kind: IsolateKind) => boolean): Held | null {
    for (const held of this.#held) if (held.state === 'idle' && fits(held.kind)) return held
    return null
  }

  /** Null when not even that was possible: then the run has ended. */
  #open(run: Run): Held | null {
    const { isolation, module, exportName, memoryMb } = run.task
    const kind: IsolateKind = { isolation, module, exportName, memoryMb }
    try {
      return this.#openAny(kind)
    } catch (error) {
      this.#waiting.delete(run)
      this.#end(run, { kind: 'died', error: unstarted(kind, error) })
      return null
    }
  }

  #beginCheck(check: Check): void {
    this.#checks.delete(check)
    let held: Held
    try {
      held = this.#openAny(check.kind)
    } catch (error) {
      check.settle(unstarted(check.kind, error))
      return
    }
    held.state = 'checking'
    held.check = check
    check.begin(held.isolate, () => {
      this.#kill(held)
    })
  }

  #openAny(kind: IsolateKind): Held {
    const isolate = this.#start(kind, {
      host: this.#options.host,
      onMessage: (message) => {
        this.#hear(held, message)
      },
      onGone: (gone) => {
        this.#bury(held, gone)
      },
    })
    const held: Held = { kind, isolate, state: 'idle', run: null, check: null, crash: null, isWarm: false }
    this.#held.add(held)
    return held
  }

  #begin(held: Held, run: Run): void {
    this.#waiting.delete(run)
    this.#runs.set(run.key, held)
    held.state = 'busy'
    held.run = run
    held.crash = null
    run.begin()
    this.#guard(held)
    held.isolate.send({ t: 'run', key: run.key, facts: run.task.facts })
  }

  #guard({ isolate, run }: Held): void {
    isolate.guard(run === null ? null : { hardAt: run.killAt, leaseAt: this.#leaseAt })
  }

  // ---- What an isolate says ----

  #hear(held: Held, message: FromIsolate): void {
    const { run } = held
    switch (message.t) {
      case 'ready':
        held.check?.settle(null)
        held.check = null
        if (held.state !== 'checking') return
        held.state = 'idle'
        this.#place()
        return
      case 'began':
        if (run?.key === message.key) run.beganAt = message.at
        return
      case 'crash':
        held.crash = message.error
        return
      case 'unfit':
        held.check?.settle(message.error)
        if (run !== null) run.ending = { kind: 'died', error: message.error }
        this.#kill(held)
        return
      case 'call':
        if (run?.key === message.key) this.#options.onCall(message.key, message.id, message.call)
        return
      case 'done':
        // Settled after its deadline: too late, and the kill is on its way.
        if (run?.key !== message.key || message.at > run.killAt) return
        if (held.state === 'leaving') run.ending = endingOf(run, message.outcome)
        else this.#release(held, run, endingOf(run, message.outcome), message.clean)
    }
  }

  #release(held: Held, run: Run, ending: Ending, isClean: boolean): void {
    held.run = null
    held.isWarm = true
    this.#guard(held)
    if (isClean && this.#closed === null) held.state = 'idle'
    // It has left processes behind, which would outlive their deadline.
    else this.#kill(held)
    this.#end(run, ending)
    this.#place()
  }

  // ---- Ends ----

  #kill(held: Held): void {
    held.state = 'leaving'
    held.isolate.kill()
  }

  #letGo(held: Held): void {
    held.state = 'leaving'
    held.isolate.end()
  }

  #bury(held: Held, gone: Gone): void {
    this.#held.delete(held)
    const { run, state, isWarm } = held
    if (gone.how === 'stuck') this.#complain(held.kind)
    held.check?.settle(deathOf(held.kind, gone, held.crash))
    if (run !== null) {
      // Gone over what the handler before has left: this one has not run a line, and may try another.
      if (state === 'busy' && isWarm && run.beganAt === null && gone.how !== 'switch') this.#wait(run)
      else this.#end(run, run.ending ?? this.#endOf(held, run, gone))
    }
    this.#place()
    if (this.#held.size === 0) this.#onEmpty()
  }

  #endOf({ state, kind, crash }: Held, run: Run, gone: Gone): Ending {
    if (gone.how === 'switch' && gone.why === 'lease') run.lose(this.#leaseAt)
    if (state === 'leaving' || gone.how === 'switch') return killed(run)
    return { kind: 'died', error: deathOf(kind, gone, crash), ...startOf(run) }
  }

  #complain({ isolation, module }: IsolateKind): void {
    const why =
      isolation === 'thread' ? 'It is blocked in native code: run such handlers in a process.' : 'The system holds it.'
    this.#options.log.error({ isolation, module }, `A killed isolate is still there. ${why}`)
  }

  #dropWaiting(run: Run): void {
    this.#waiting.delete(run)
    this.#end(run, killed(run))
  }

  #end(run: Run, ending: Ending): void {
    run.settle()
    this.#runs.delete(run.key)
    this.#options.onEnded(run.key, ending)
  }
}

/** A check of isolates that are closed has no answer. */
const CLOSED: ErrorData = {
  name: 'IsolateError',
  code: 'isolates_closed',
  message: 'The worker was stopped before the module was loaded.',
}

function unstarted(kind: IsolateKind, error: unknown): ErrorData {
  return deathOf(kind, { how: 'unstarted', error: errorData(error) }, null)
}

function endingOf(run: Run, outcome: Outcome): Ending {
  if (!outcome.ok) {
    // All that it can have thrown before it began is the reason to stop.
    if (run.beganAt === null) return killed(run)
    return { kind: 'threw', error: outcome.error, ...startOf(run) }
  }
  const { json } = outcome
  return { kind: 'returned', result: json === undefined ? undefined : (JSON.parse(json) as unknown) }
}

function killed(run: Run): Ending {
  const { reason: stop, stack, startMs } = run
  if (run.beganAt === null) return { kind: 'not_begun', stop, stack, startMs }
  return { kind: 'killed', stop, stack, ...startOf(run) }
}

function startOf({ beganAt, startMs }: Run): { startMs?: number } {
  return beganAt === null || startMs === 0 ? {} : { startMs }
}
