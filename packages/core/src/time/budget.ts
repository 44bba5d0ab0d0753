/** Budgets of runs and of their calls: a child never outlives its parent. */
import { instant, type Instant, type Millis } from './clock.ts'
import { after, elapsed, isDue } from './sums.ts'

/** What is left until a deadline; 0 when it has come. */
export function budgetLeft(deadlineAt: Instant, now: Instant): Millis {
  return elapsed(now, deadlineAt)
}

/** When a call that begins now must be over: its own timeout, within the run that makes it. */
export function callEndsAt(begunAt: Instant, timeoutMs: Millis, deadlineAt: Instant): Instant {
  return instant(Math.min(after(begunAt, timeoutMs), deadlineAt))
}

/** Whether a rest of this length ends while there is still something left to use. */
export function restFits(deadlineAt: Instant, now: Instant, restMs: Millis): boolean {
  return !isDue(deadlineAt, after(now, restMs))
}

/** How long runs may take, whatever their definitions say. */
export interface RunLimits {
  readonly defaultMs: Millis
  readonly capMs: Millis
}

export interface RunBudget {
  readonly deadlineAt: Instant
  readonly limitMs: Millis
  readonly limitedBy: 'spec' | 'platform-default' | 'platform-cap' | 'parent'
}

/** Every run has a deadline: what its author allows, or the default, within the cap and what is left of its parent. */
export function runBudget(
  startedAt: Instant,
  askedMs: Millis | null,
  { defaultMs, capMs }: RunLimits,
  inheritedAt: Instant | null,
): RunBudget {
  const wantedMs = askedMs ?? defaultMs
  const isCapped = capMs < wantedMs
  const limitMs = isCapped ? capMs : wantedMs
  const ownAt = after(startedAt, limitMs)
  if (inheritedAt !== null && inheritedAt < ownAt)
    return { deadlineAt: inheritedAt, limitMs: elapsed(startedAt, inheritedAt), limitedBy: 'parent' }
  const limitedBy = isCapped ? 'platform-cap' : askedMs === null ? 'platform-default' : 'spec'
  return { deadlineAt: ownAt, limitMs, limitedBy }
}
