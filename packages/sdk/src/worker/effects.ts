/** What a session wants done, gathered while it hears one input; and the one wake-up it has asked for. */
import type { Instant } from '@curfew/core'
import type { Effect } from './inputs.ts'

export class Effects {
  #list: Effect[] = []
  #wakeAt: Instant | null = null
  /** Calls are decided on once per turn of the event loop: what arrives together travels together. */
  wantsTurn = false

  do(effect: Effect): void {
    this.#list.push(effect)
  }

  log(level: 'info' | 'warn' | 'error', fields: object, message: string): void {
    this.do({ do: 'log', level, fields, message })
  }

  /** Asks to be woken by then. An earlier wake-up stays; when it comes, all that is next is looked for again. */
  wakeBy(at: Instant | null): void {
    if (at === null || (this.#wakeAt !== null && this.#wakeAt <= at)) return
    this.#wakeAt = at
    this.do({ do: 'wake', at })
  }

  /** The wake-up that was set has come. */
  awake(): void {
    this.#wakeAt = null
  }

  /** How much was gathered so far. */
  get size(): number {
    return this.#list.length
  }

  /** What was gathered since the last time. */
  take(): readonly Effect[] {
    const list = this.#list
    this.#list = []
    return list
  }
}
