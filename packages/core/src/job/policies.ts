/** Type policies: the limits an operator sets for every job of a type, and the caps no publisher may exceed. */
import type { AskedLimits, Caps } from './limits.ts'
import type { Instant } from '../time/clock.ts'

export type ValidationMode = 'strict' | 'warn' | 'off'

export interface TypePolicy {
  readonly type: string
  readonly asked: AskedLimits
  readonly caps: Caps
  /** As it was sent. */
  readonly sent: Readonly<Record<string, unknown>>
  readonly updatedAt: Instant
}

/** Which of several jobs of one priority is handed out first: the one that came first, or whose deadline is nearest. */
export const ORDERS = ['fifo', 'edf'] as const
export type Order = (typeof ORDERS)[number]
