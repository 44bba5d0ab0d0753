/**
 * Accounts of time, for work that others ask for and everybody waits for. Each account may spend so much at once, and gets
 * a share of one processor back as time goes by. One that is overdrawn is granted no more than honest work needs, and one
 * that is overdrawn too far is granted nothing.
 */
import type { Host } from '@curfew/core'

/** What an account holds at most. */
const MAX_MS = 100
/** How far it may be overdrawn. */
const MAX_OWED_MS = 100
/** The share of passing time that is paid back. */
const SHARE = 0.1

export interface TimeAccount {
  /** How long work may take that is begun now, if honest work takes `fairMs`. 0: it is not to be begun. */
  grantMs(mostMs: number, fairMs: number): number
  book(ms: number): void
}

/** Of work that delays no other caller. */
export const UNBOUNDED: TimeAccount = { grantMs: (mostMs) => mostMs, book: () => {} }

interface Spent {
  readonly ms: number
  readonly atMs: number
}

export class TimeAccounts {
  readonly #host: Pick<Host, 'monotonicMs'>
  /** Whose account is full is not in it: there are as many as have spent something in the last seconds. */
  readonly #spent = new Map<string, Spent>()

  constructor(host: Pick<Host, 'monotonicMs'>) {
    this.#host = host
  }

  get size(): number {
    return this.#spent.size
  }

  of(name: string): TimeAccount {
    return {
      grantMs: (mostMs, fairMs) => {
        const leftMs = MAX_MS - this.#spentMs(name)
        return leftMs < -MAX_OWED_MS ? 0 : Math.min(mostMs, Math.max(leftMs, fairMs))
      },
      book: (ms) => {
        if (ms > 0) this.#book(name, ms)
      },
    }
  }

  #spentMs(name: string): number {
    const spent = this.#spent.get(name)
    return spent === undefined ? 0 : stillSpent(spent, this.#host.monotonicMs())
  }

  #book(name: string, ms: number): void {
    const atMs = this.#host.monotonicMs()
    for (const [other, spent] of this.#spent) if (stillSpent(spent, atMs) === 0) this.#spent.delete(other)
    this.#spent.set(name, { ms: this.#spentMs(name) + ms, atMs })
  }
}

const stillSpent = ({ ms, atMs }: Spent, nowMs: number): number => Math.max(0, ms - (nowMs - atMs) * SHARE)
