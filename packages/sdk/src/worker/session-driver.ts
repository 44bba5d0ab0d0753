/**
 * Steps the session: one input at a time, in the order in which they came, and carries out what it wants done. Also its
 * clock: the wake-up that the session asked for, and the end of each turn of the event loop in which it wants one.
 */
import type { Host, Instant, Timer } from '@curfew/core'
import { monotonicNow } from '../attempt/terms.ts'
import type { Effect, Input } from './inputs.ts'
import type { Session } from './session.ts'

/** The part of a session that a simulation may replace. */
export type SessionLike = Pick<Session, 'step' | 'state' | 'active' | 'running' | 'fenceAt' | 'wantsTurn' | 'isLeaving'>

/** How a session is made; a simulation makes one with a planted fault. */
export type MakeSession = (...args: ConstructorParameters<typeof Session>) => SessionLike

export interface DriverPorts {
  readonly host: Host
  /** Carries out an effect. It may give further inputs; they are heard after the effects of this one. */
  readonly carryOut: (effect: Exclude<Effect, { do: 'wake' }>) => void
  /** What the guard has heard from the server comes first: otherwise time would be judged by what was known before. */
  readonly catchUp: () => void
}

export class SessionDriver {
  readonly #session: SessionLike
  readonly #ports: DriverPorts
  readonly #inputs: Input[] = []
  #isStepping = false
  #hasTurn = false
  #wake: Timer | null = null

  constructor(session: SessionLike, ports: DriverPorts) {
    this.#session = session
    this.#ports = ports
  }

  now(): Instant {
    return monotonicNow(this.#ports.host)
  }

  hear(input: Input): void {
    this.#inputs.push(input)
    if (this.#isStepping) return
    this.#isStepping = true
    try {
      for (let next = this.#inputs.shift(); next !== undefined; next = this.#inputs.shift())
        for (const effect of this.#session.step(next, this.now())) {
          if (effect.do === 'wake') this.#wakeAt(effect.at)
          else this.#ports.carryOut(effect)
        }
    } finally {
      this.#isStepping = false
    }
    if (!this.#session.wantsTurn || this.#hasTurn) return
    this.#hasTurn = true
    this.#ports.host.defer(() => {
      this.#hasTurn = false
      this.judge('turn')
    })
  }

  /** Lets the session look at the clock. */
  judge(input: 'turn' | 'due'): void {
    this.#ports.catchUp()
    this.hear({ in: input })
  }

  close(): void {
    this.#wake?.cancel()
  }

  #wakeAt(at: Instant): void {
    this.#wake?.cancel()
    this.#wake = this.#ports.host.setTimer(Math.max(0, at - this.now()), () => {
      this.#wake = null
      this.judge('due')
    })
  }
}
