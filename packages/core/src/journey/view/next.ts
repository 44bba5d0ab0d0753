/** What happens to a run next if no signal arrives: read from the clocks that also wake its document. */
import { iso } from '../../time/clock.ts'
import { dueAt, leaves, pathOf, type Frame, type LimitedBy, type Run } from '../run/run.ts'

export interface RunNext {
  readonly kind: 'deadline' | 'timer' | 'wait'
  readonly at: string
  readonly limit: 'maxDurationSec' | 'timer' | 'timeoutSec'
  readonly limitMs?: number
  readonly source: LimitedBy
  /** The state that waits; absent for the run as a whole. */
  readonly state?: string
  /** `fail`, or the state that follows. */
  readonly then: string
}

/** Null when the run has ended. On a tie the deadline comes first, as it does when it is due. */
export function nextForRun(run: Run): RunNext | null {
  if (run.phase !== 'RUNNING') return null
  const { deadlineAt, limitMs, limitedBy } = run
  let first: Frame | null = null
  let firstAt = deadlineAt
  for (const frame of leaves(run.root)) {
    const at = dueAt(frame)
    if (at === null || at >= firstAt) continue
    firstAt = at
    first = frame
  }
  const at = iso(firstAt)
  if (first?.rest.kind === 'sleeping')
    return { kind: 'timer', at, limit: 'timer', source: 'spec', state: pathOf(first), then: first.rest.next }
  if (first?.rest.kind === 'waiting') {
    const then = first.rest.onTimeout ?? 'fail'
    return { kind: 'wait', at, limit: 'timeoutSec', source: 'spec', state: pathOf(first), then }
  }
  return { kind: 'deadline', at, limit: 'maxDurationSec', limitMs, source: limitedBy, then: 'fail' }
}

export function runNextInWords({ kind, at, state = '', then }: RunNext): string {
  const what = {
    deadline: 'the run fails by its deadline',
    timer: `the timer ${state} ends, and the run goes on to ${then}`,
    wait: `the wait ${state} times out, and the run goes on to ${then}`,
  }[kind]
  return `next automatic transition at ${at}: ${what}`
}
