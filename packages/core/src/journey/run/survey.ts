/**
 * What is asked about a run again and again (when it is due, which servers have something to do for it, how wide it is),
 * answered by one look at its frames. A frame never changes, so the answer is kept as long as the frame is.
 */
import type { Instant } from '../../time/clock.ts'
import type { Frame } from './run.ts'

export interface Survey {
  /** Frames that are not made of others: its branches, those that are over included. */
  readonly width: number
  /** When time takes one of them on. */
  readonly dueAt: Instant | null
  /** The servers that have a state to enter, and those that have a state to enter or a call to make. */
  readonly ready: ReadonlySet<string>
  readonly owners: ReadonlySet<string>
  /** A state is to be entered, or a call is being made. */
  readonly isMoving: boolean
  /** A state is to be entered, and no server is named that does. */
  readonly isUnclaimed: boolean
}

interface Sum {
  width: number
  dueAt: Instant | null
  readonly ready: Set<string>
  readonly owners: Set<string>
  isMoving: boolean
  isUnclaimed: boolean
}

const known = new WeakMap<Frame, Survey>()

export function surveyOf(frame: Frame): Survey {
  const before = known.get(frame)
  if (before !== undefined) return before
  const sum: Sum = {
    width: 0,
    dueAt: null,
    ready: new Set(),
    owners: new Set(),
    isMoving: false,
    isUnclaimed: false,
  }
  add(sum, frame)
  // Of a frame without others there is nothing to be spared.
  if (frame.rest.kind === 'forked' || frame.rest.kind === 'inside') known.set(frame, sum)
  return sum
}

function add(sum: Sum, { rest }: Frame): void {
  switch (rest.kind) {
    case 'forked':
      for (const branch of Object.values(rest.frames)) add(sum, branch)
      return
    case 'inside':
      add(sum, rest.frame)
      return
    case 'ready':
    case 'calling':
      sum.isMoving = true
      if (rest.by === null) sum.isUnclaimed = true
      else {
        sum.owners.add(rest.by)
        if (rest.kind === 'ready') sum.ready.add(rest.by)
      }
      break
    case 'waiting':
      due(sum, rest.timeoutAt)
      break
    case 'sleeping':
      due(sum, rest.until)
      break
    case 'job':
    case 'over':
      break
  }
  sum.width += 1
}

function due(sum: Sum, at: Instant | null): void {
  if (at !== null && (sum.dueAt === null || at < sum.dueAt)) sum.dueAt = at
}
