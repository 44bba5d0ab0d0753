/** Runs for tests: valid values, of which a test shows only what matters. */
import { NOON } from '../../builders.suite.ts'
import { millis, seconds, type Instant, type Millis } from '../../time/clock.ts'
import { after } from '../../time/sums.ts'
import type { Definition } from '../definition.ts'
import type { End, Frame, Rest, Run, Visit } from './run.ts'

export const RUN_ID = '0190b2c4-0000-7000-8000-00000000aaaa'

/** So long after the run started. */
export const later = (ms: number): Instant => after(NOON, millis(ms))

export const aFrame = (state: string, type: string | null, rest: Rest, path = ''): Frame => ({
  path,
  state,
  type,
  visit: 1,
  context: {},
  rest,
})

export const ready: Rest = { kind: 'ready', by: null }

/** At a wait or webhook without a limit of its own. */
export const openStep: Rest = { kind: 'waiting', timeoutAt: null, onTimeout: null, next: 'after' }

export const aVisit = (
  path: string,
  type: string,
  from: number,
  to: number | null,
  more: Partial<Visit> = {},
): Visit => ({
  path,
  type,
  visit: 1,
  from: later(from),
  to: to === null ? null : later(to),
  limitMs: null,
  note: null,
  ...more,
})

/** A run of 30 s that has just been started. */
export function aRun(more: Partial<Run> = {}): Run {
  const limitMs: Millis = more.limitMs ?? seconds(30)
  return {
    id: RUN_ID,
    name: 'order-screening',
    version: '1.0.0',
    kind: 'Journey',
    phase: 'RUNNING',
    revision: 1,
    startedAt: NOON,
    updatedAt: NOON,
    endedAt: null,
    deadlineAt: after(NOON, limitMs),
    limitMs,
    limitedBy: 'spec',
    onTimeout: { errorCode: 'ORDER_TIMEOUT', reason: 'screening took longer than 30 s' },
    cancellable: true,
    parent: null,
    tags: [],
    attributes: {},
    compensation: null,
    compensatedBy: null,
    compensates: null,
    visits: 1,
    root: aFrame('load', 'task', ready),
    end: null,
    trail: [],
    omitted: 0,
    overshootMs: null,
    purgeAt: null,
    ...more,
  }
}

const ENDS: Readonly<Record<End['terminationKind'], Partial<End>>> = {
  Success: { phase: 'SUCCEEDED', output: { score: 7 } },
  Fail: { error: { code: 'ORDER_NOT_FOUND', reason: 'no order 42' } },
  Timeout: { error: { code: 'ORDER_TIMEOUT', reason: 'screening took longer than 30 s' } },
  Cancel: { error: { code: 'JOURNEY_CANCELLED', reason: 'cancelled' } },
  RuntimeError: { error: { code: 'JN_TYPE_MISMATCH', reason: 'not a number' } },
}

export function anEnd(terminationKind: End['terminationKind'], more: Partial<End> = {}): End {
  return {
    phase: 'FAILED',
    terminationKind,
    output: null,
    error: null,
    terminatedAtState: 'finish',
    ...ENDS[terminationKind],
    ...more,
  }
}

/** A run that ended so long after its start. */
export function anEndedRun(terminationKind: End['terminationKind'], ms: number, more: Partial<Run> = {}): Run {
  const end = more.end ?? anEnd(terminationKind)
  return aRun({ phase: end.phase, endedAt: later(ms), updatedAt: later(ms), ...more, end })
}

/** A definition that succeeds at once. */
export function aDefinition(more: Partial<Definition> = {}): Definition {
  const nothing = { fromPayload: {}, fromHeaders: {}, fromBaggage: {} }
  return {
    kind: 'Journey',
    name: 'order-screening',
    version: '1.0.0',
    description: null,
    tags: [],
    execution: null,
    startMode: 'sync',
    cancellable: true,
    links: true,
    http: { timeoutMs: null, headers: {} },
    input: null,
    output: { schema: null, response: null },
    envelope: { format: 'problemDetails' },
    outcomes: [],
    subjourneys: {},
    compensation: null,
    metadata: { tags: { fromPayload: [], fromHeaders: [], fromBaggage: [] }, attributes: nothing },
    starting: { headersToContext: {}, queryToContext: {}, headersPassthrough: [] },
    submitting: {},
    route: null,
    apiResponses: null,
    config: {},
    apiKeys: [],
    start: 'finish',
    states: { finish: { type: 'succeed', outputVar: null } },
    ...more,
  }
}
