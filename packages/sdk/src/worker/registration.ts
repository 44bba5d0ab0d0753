/** Whether the server knows this worker: registered at the start, and again when the server has forgotten it. */
import { after, isDue, millis, type Instant, type Millis } from '@curfew/core'
import type { Contact } from './contact.ts'
import type { Effects } from './effects.ts'
import type { Input } from './inputs.ts'

const DEFAULT_INTERVAL_MS = millis(5_000)
/** Rest after the server refused to register the worker again. */
const REST_MS = millis(5_000)

export class Registration {
  readonly #effects: Effects
  readonly #contact: Contact
  #state: 'none' | 'asking' | 'done' = 'none'
  #isStarted = false
  #wasAsked = false
  #wasDone = false
  #asksAgainAt: Instant | null = null
  #isRefusalLogged = false
  #intervalMs: Millis = DEFAULT_INTERVAL_MS

  constructor(effects: Effects, contact: Contact) {
    this.#effects = effects
    this.#contact = contact
  }

  get isMissing(): boolean {
    return this.#state === 'none'
  }

  get isAsking(): boolean {
    return this.#state === 'asking'
  }

  get isDone(): boolean {
    return this.#state === 'done'
  }

  /** A registration was sent: the server may know this worker. */
  get wasAsked(): boolean {
    return this.#wasAsked
  }

  /** The server has known this worker: reports may be sent. */
  get wasDone(): boolean {
    return this.#wasDone
  }

  /** When the worker may register again; null: at any time. */
  get asksAgainAt(): Instant | null {
    return this.#asksAgainAt
  }

  askIfMissing(now: Instant): void {
    if (this.#state !== 'none') return
    if (this.#asksAgainAt !== null && !isDue(this.#asksAgainAt, now)) return
    this.#state = 'asking'
    this.#wasAsked = true
    this.#asksAgainAt = null
    this.#effects.do({ do: 'register' })
  }

  done({ askedAt, intervalMs, timeoutMs }: Input & { in: 'registered' }, now: Instant): void {
    this.#state = 'done'
    this.#wasDone = true
    this.#isRefusalLogged = false
    this.#intervalMs = intervalMs
    this.#contact.timeoutMs = timeoutMs
    this.#effects.do({ do: 'registered', intervalMs, timeoutMs, askedAt })
    this.#contact.heard(askedAt, now)
    this.#started(null)
    this.#effects.wantsTurn = true
  }

  /** False: the server refuses the worker from the start, which cannot begin. */
  failed({ reason, isRefused }: Input & { in: 'register-failed' }, now: Instant): boolean {
    this.#state = 'none'
    if (isRefused && !this.#isStarted) {
      this.#started(reason)
      return false
    }
    if (!isRefused) {
      this.#contact.rest(reason, now)
      return true
    }
    if (!this.#isRefusalLogged)
      this.#effects.log('error', { reason }, 'the server refuses to register this worker again; it takes no more jobs')
    this.#isRefusalLogged = true
    this.#asksAgainAt = after(now, REST_MS)
    this.#effects.wakeBy(this.#asksAgainAt)
    return true
  }

  /** The server does not know the worker any more. */
  forgotten(): void {
    if (this.#state !== 'done') return
    this.#effects.log('warn', {}, 'the server does not know this worker any more; registering again')
    this.#state = 'none'
    this.#effects.wantsTurn = true
  }

  /** A new guard knows nothing yet. */
  introduceToGuard(): void {
    const { timeoutMs, at: askedAt } = this.#contact
    this.#effects.do({ do: 'registered', intervalMs: this.#intervalMs, timeoutMs, askedAt })
  }

  #started(refusal: string | null): void {
    if (this.#isStarted) return
    this.#isStarted = true
    this.#effects.do({ do: 'started', refusal })
  }
}
