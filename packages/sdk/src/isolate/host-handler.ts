/**
 * The isolate's side: runs one handler at a time and speaks for it. The same in a thread and in a process; only the way
 * messages travel differs.
 *
 * The signal is aborted here, by a timer of our own, at the soft deadline: nothing has to arrive for it. What happens at
 * the hard deadline is not up to this side.
 */
import type { Host, Timer } from '@curfew/core'
import { createContext } from '../attempt/context.ts'
import { runHandler } from '../attempt/define-handler.ts'
import { errorData, errorFromData } from '../attempt/error-data.ts'
import { CurfewError } from '../errors.ts'
import { systemRandom } from '../host.ts'
import { jsonText } from '../attempt/json-data.ts'
import { LazyAbort } from '../attempt/lazy-abort.ts'
import { stopError } from '../attempt/stop-error.ts'
import { timerAt } from '../attempt/timer-at.ts'
import { IsolateLog } from './isolate-log.ts'
import type { Loaded } from './load-handler.ts'
import type { Answer, FromIsolate, Outcome, ToIsolate } from './messages.ts'
import type { AttemptFacts, Call, Stop } from '../attempt/facts.ts'

export interface HandlerHost {
  readonly host: Host
  readonly send: (message: FromIsolate) => void
  readonly loaded: Promise<Loaded>
  /** Whether nothing of the handler is left that another one should not meet. */
  readonly isClean: () => boolean
  readonly end: () => void
}

/** Gives the function that takes what the worker says. */
export function hostHandler(home: HandlerHost): (message: ToIsolate) => void {
  let current: HostedAttempt | null = null
  void home.loaded.then((loaded) => {
    home.send(loaded.ok ? { t: 'ready' } : { t: 'unfit', error: loaded.error })
  })
  return (message) => {
    switch (message.t) {
      case 'run':
        current = new HostedAttempt(home, message.key, message.facts)
        void current.run()
        return
      case 'abort':
        if (current?.key === message.key) current.stopAt(message.stop, message.killAt)
        return
      case 'reply':
        if (current?.key === message.key) current.settle(message.id, message.answer)
        return
      case 'end':
        home.end()
    }
  }
}

interface Waiting {
  readonly resolve: (value: unknown) => void
  readonly reject: (error: Error) => void
}

class HostedAttempt {
  readonly key: string
  readonly #home: HandlerHost
  readonly #facts: AttemptFacts
  readonly #aborter = new LazyAbort()
  readonly #softly: Timer
  readonly #waiting = new Map<number, Waiting>()
  readonly #log = new IsolateLog((lines, dropped) => this.#ask({ op: 'log', lines, dropped }))
  #calls = 0
  #endsAt: number
  #isOver = false

  constructor(home: HandlerHost, key: string, facts: AttemptFacts) {
    this.key = key
    this.#home = home
    this.#facts = facts
    this.#endsAt = facts.hardAt
    this.#softly = timerAt(home.host, facts.softAt, () => {
      this.abort(facts.softStop)
    })
  }

  async run(): Promise<void> {
    const loaded = await this.#home.loaded
    if (!loaded.ok) return
    const ctx = createContext(this.#facts, this.#aborter, {
      host: this.#home.host,
      random: systemRandom,
      call: (call) => this.#call(call),
      endsAt: () => (this.#isOver ? -Infinity : this.#endsAt),
    })
    let outcome: Outcome
    try {
      // Loading or waiting may have taken all the time there was: nothing starts with an empty budget.
      if (this.#home.host.monotonicMs() >= this.#facts.softAt) this.abort(this.#facts.softStop)
      if (this.#aborter.aborted) throw this.#aborter.signal.reason
      this.#home.send({ t: 'began', key: this.key, at: this.#home.host.monotonicMs() })
      outcome = {
        ok: true,
        json: jsonText(await runHandler(loaded.handler, ctx, this.#facts.input), 'The result of the handler'),
      }
    } catch (error) {
      outcome = { ok: false, error: errorData(error) }
    }
    this.#log.flush()
    this.#finish()
    const { host, isClean, send } = this.#home
    send({ t: 'done', key: this.key, at: host.monotonicMs(), outcome, clean: isClean() })
  }

  /** It is asked to stop now, and killed at that instant. */
  stopAt(stop: Stop, killAt: number): void {
    this.#endsAt = isLost(stop) ? -Infinity : Math.min(this.#endsAt, killAt)
    this.abort(stop)
  }

  abort(stop: Stop): void {
    this.#aborter.abort(stopError(stop))
  }

  settle(id: number, answer: Answer): void {
    const waiting = this.#waiting.get(id)
    this.#waiting.delete(id)
    if (answer.ok) waiting?.resolve(answer.value)
    else waiting?.reject(errorFromData(answer.error))
  }

  #call(call: Call): Promise<unknown> {
    if (call.op !== 'log') return this.#ask(call)
    this.#log.add(call.lines)
    return TAKEN
  }

  #ask(call: Call): Promise<unknown> {
    if (this.#isOver) return Promise.reject(tooLate(this.#facts))
    const id = ++this.#calls
    return new Promise((resolve, reject) => {
      this.#waiting.set(id, { resolve, reject })
      this.#home.send({ t: 'call', key: this.key, id, call })
    })
  }

  #finish(): void {
    this.#isOver = true
    this.#softly.cancel()
    for (const { reject } of this.#waiting.values()) reject(tooLate(this.#facts))
    this.#waiting.clear()
  }
}

const TAKEN = Promise.resolve(null)

/** The server no longer counts on the attempt: the job may be running elsewhere. */
function isLost(stop: Stop): boolean {
  return stop.why === 'lost' || (stop.why === 'deadline' && stop.kind === 'stalled')
}

function tooLate({ type, jobId, attempt }: AttemptFacts): CurfewError {
  return new CurfewError(
    'attempt_over',
    `Attempt ${String(attempt)} of ${type} is over: what its handler left running can report nothing any more. Await ` +
      `every call before the handler returns.`,
    { details: { job_id: jobId, attempt } },
  )
}
