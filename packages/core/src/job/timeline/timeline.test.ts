import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import {
  aJob,
  activeJob,
  at,
  aWorker,
  beating,
  boom,
  claimed,
  completedJob,
  later,
  left,
  livenessOf,
  moment,
  NOON,
  retryableJob,
} from '../../builders.suite.ts'
import { seconds, type Instant } from '../../time/clock.ts'
import { nextDue, wakeAtOf } from '../due.ts'
import { isTerminal, type Job } from '../job.ts'
import { ROW_ALONE, type Liveness } from '../liveness.ts'
import { cancel, changeLimits, retryByHand } from '../lifecycle/change.ts'
import { expire } from '../lifecycle/expire.ts'
import { complete, fail } from '../lifecycle/report.ts'
import { deed, traits, World } from '../lifecycle/world.suite.ts'
import { clocksOf, clockView, DUE_KINDS } from './clocks.ts'
import { axisOf } from './folds.ts'
import { foresee, MAX_FORESEEN_STEPS } from './foresee.ts'
import { timeline } from './timeline.ts'
import type { Lane, Timeline, TimelineInput } from './timeline-model.ts'

interface Lived {
  readonly job: Job
  readonly life: Liveness
  readonly now: Instant
}

/** A job after some of everything that can happen to one; null where it was removed. */
const lived: fc.Arbitrary<Lived | null> = fc
  .tuple(traits, fc.array(deed, { maxLength: 20, size: 'max' }))
  .map(([given, deeds]) => {
    const world = new World(given)
    for (const one of deeds) world.run(one)
    world.settle()
    return world.job === null ? null : { job: world.job, life: world.life, now: world.now }
  })

const always = (holds: (lived: Lived) => void): void =>
  fc.assert(
    fc.property(lived, (one) => {
      if (one !== null) holds(one)
    }),
    { numRuns: 100 },
  )

/** Cheaper than `expect`, and asked ten thousand times. */
function must(promise: string, isKept: boolean, ...seen: unknown[]): void {
  if (!isKept) throw new Error(`${promise}: ${JSON.stringify(seen)}`)
}

const inputOf = (job: Job, life: Liveness = ROW_ALONE, more: Partial<TimelineInput> = {}): TimelineInput => ({
  job,
  life,
  signs: null,
  checkpointAt: null,
  queue: null,
  isHeld: false,
  ...more,
})
const drawn = (job: Job, now: Instant, more: Partial<TimelineInput> = {}): Timeline =>
  timeline(inputOf(job, ROW_ALONE, more), now)
const laneOf = ({ lanes }: Timeline, name: string): Lane | undefined => lanes.find((lane) => lane.name === name)
const spansIn = (lane: Lane | undefined): [string, number, number, boolean][] =>
  (lane?.spans ?? []).map(({ kind, from, to, isFuture }) => [kind, from - NOON, to - NOON, isFuture])
const marksIn = (lane: Lane | undefined): [string, number][] =>
  (lane?.marks ?? []).map(({ kind, at: when }) => [kind, when - NOON])

describe('clocks', () => {
  test('the first clock that ends, soft deadlines aside, is what the server decides next', () => {
    always(({ job, life, now }) => {
      const due = nextDue(job, life)
      const first = clocksOf(job, life, now).find(({ kind }) => kind !== 'soft_deadline')
      const isSame = first !== undefined && DUE_KINDS[first.kind] === due?.kind && first.until === due?.at
      must('both name one clock', isTerminal(job.state) || due === null ? first === undefined : isSame, first, due)
    })
  })

  test('each clock says since when, until when and who set it', () => {
    const job = activeJob({ timeoutMs: 3_000, graceMs: 1_000, totalMs: 12_000, heartbeatMs: 5_000 })
    expect(clocksOf(job, ROW_ALONE, NOON).map(clockView)).toMatchObject([
      { kind: 'soft_deadline', limit: 'timeout', limit_ms: 3_000, source: 'publish', renewable: false },
      { kind: 'hard_deadline', limit: 'grace_period', limit_ms: 1_000, since: '2026-01-01T12:00:03.000Z' },
      { kind: 'heartbeat', limit: 'heartbeat_timeout', until: '2026-01-01T12:00:05.000Z', renewable: true },
      { kind: 'total', limit: 'total_timeout', source: 'publish' },
      { kind: 'visibility', source: 'default', cut_by: 'total_timeout' },
    ])
  })

  test('time in which no server was listening is credited to clocks that signs of life renew, and to no other', () => {
    const life = { ...livenessOf(aWorker()), outages: [{ from: at('12:00:01'), to: at('12:00:03') }] }
    const clocks = clocksOf(activeJob({ totalMs: 600_000 }), life, at('12:00:04'))
    for (const { kind, creditedMs, renewable } of clocks)
      expect([kind, creditedMs]).toEqual([kind, renewable ? 2_000 : 0])
    expect(clocks.some(({ renewable }) => renewable)).toBe(true)
  })

  test('a clock that a total comes before names it', () => {
    const [total, ttl] = clocksOf(aJob({ ttlMs: 60_000, totalMs: 60_000 }), ROW_ALONE, NOON)
    expect([total?.kind, total?.cutBy]).toEqual(['total', null])
    expect([ttl?.kind, ttl?.cutBy]).toEqual(['ttl', 'total_timeout'])
  })
})

describe('foresight', () => {
  test('the first decision that is announced is the one that is taken when the row wakes', () => {
    always(({ job, life, now }) => {
      const decision = foresee(job, life, now).steps.find(({ kind }) => kind !== 'soft_deadline')
      const due = isTerminal(job.state) ? null : nextDue(job, life)
      must('it is announced for the instant of the decision', decision?.at === due?.at, decision, due)
      if (decision === undefined || due === null) return
      const states = [0, 0.5, 0.999].map(
        (chance) => expire(job, life, moment(due.at, { random: () => chance }))?.job?.state ?? 'removed',
      )
      const told = decision.then === 'retry_or_discard' ? ['retryable', 'discarded'] : [decision.to]
      must(
        'it is the decision that is taken',
        states.every((state) => told.includes(state)),
        decision,
        states,
      )
    })
  })

  test('without a worker the first decision comes when the row itself says so', () => {
    always(({ job, now }) => {
      if (isTerminal(job.state)) return
      const decision = foresee(job, ROW_ALONE, now).steps.find(({ kind }) => kind !== 'soft_deadline')
      must('the row wakes for it', (decision?.at ?? null) === wakeAtOf(job), decision, job.wakeAt)
    })
  })

  test('steps follow one another in time, at most five of them, and none comes after the end', () => {
    for (const assume of ['silence', 'living'] as const)
      always(({ job, life, now }) => {
        const { steps, ends } = foresee(job, life, now, { assume })
        must('there are at most five', steps.length <= MAX_FORESEEN_STEPS, steps)
        for (const [index, step] of steps.entries()) {
          const before = steps[index - 1]
          must('each comes after the one before', step.at >= (before?.at ?? now) && step.latestAt >= step.at, steps)
          must('none follows the end', before === undefined || !isTerminal(before.to), steps)
        }
        const isOver = isTerminal(steps.at(-1)?.to ?? job.state)
        must('the list says why it ends', ends === 'over' ? isOver : ends !== 'waiting' || !isOver, ends, steps)
      })
  })

  test('a job without attempts left is not announced as available, though its total was moved later', () => {
    // Its worker stopped for the total, so it waits for that; then the total is moved.
    const stopped = fail(
      activeJob({ timeoutMs: 10_000, graceMs: 2_000, totalMs: 10_000, retry: { maxAttempts: 1 } }),
      { type: 'timeout', message: 'x' },
      moment(at('12:00:09')),
    ).job
    expect(stopped.state).toBe('retryable')
    const { scheduledAt, expiresAt, priority, given, limits } = stopped
    const total = { ms: seconds(60), source: 'publish' as const }
    const moved = changeLimits(
      stopped,
      { scheduledAt, expiresAt, priority, given, limits: { ...limits, total } },
      moment(at('12:00:09.500')),
    ).job
    const { steps, ends } = foresee(moved, ROW_ALONE, at('12:00:09.500'))
    expect(steps.map(({ kind, then }) => [kind, then])).toEqual([['retry', 'discard']])
    expect(ends).toBe('over')
    expect(foresee(moved, ROW_ALONE, at('12:00:09.500'), { assume: 'living' }).steps).toEqual(steps)
  })

  test('with living workers it goes on to the next attempt, as far as one fits; a held job does not start', () => {
    const job = activeJob({ timeoutMs: 3_000, graceMs: 1_000, totalMs: 12_000, retry: { jitter: false } })
    const kinds = (more: object): string[] =>
      foresee(job, ROW_ALONE, NOON, { assume: 'living', most: 20, ...more }).steps.map(({ kind }) => kind)
    expect(kinds({})).toEqual([
      ...['soft_deadline', 'hard_deadline', 'retry', 'start'],
      ...['soft_deadline', 'hard_deadline'],
    ])
    expect(kinds({ isHeld: true })).toEqual(['soft_deadline', 'hard_deadline', 'retry', 'total'])
    expect(foresee(aJob({ pending: true }), ROW_ALONE, NOON, { assume: 'living' })).toEqual({
      steps: [],
      ends: 'waiting',
    })
  })

  test('what chance decides has two ends in time, and the list stops where it decides more', () => {
    const jittery = foresee(activeJob({ timeoutMs: 10_000, graceMs: 0, retry: { jitter: true } }), ROW_ALONE, NOON)
    const [, retry] = jittery.steps
    expect([retry?.at, retry?.latestAt]).toEqual([later(NOON, 10_500), later(NOON, 11_500)])
    expect(retry).not.toHaveProperty('limitMs')
    const tight = activeJob({ timeoutMs: 10_000, graceMs: 0, totalMs: 21_000, retry: { jitter: true } })
    expect(foresee(tight, ROW_ALONE, NOON)).toMatchObject({ steps: [{ then: 'retry_or_discard' }], ends: 'jitter' })
  })

  test('the attempt after has the limits of the handler that is known', () => {
    const worker = { ...aWorker(), handlers: { [aJob().type]: { timeout: seconds(2) } } }
    const [, soft] = foresee(aJob(), livenessOf(worker), NOON, { assume: 'living' }).steps
    expect(soft).toMatchObject({ kind: 'soft_deadline', limitMs: 2_000, source: 'handler' })
  })
})

describe('the timeline', () => {
  test('lanes lie on the axis, spans follow one another without overlap, and marks lie inside their lane', () => {
    always(({ job, life, now }) => {
      for (const look of [now, later(now, 700), later(now, 90_000)]) {
        const { lanes, from, to, folds } = timeline(inputOf(job, life), look)
        must('the whole life comes first', lanes[0]?.kind === 'life', lanes)
        for (const lane of lanes) {
          must('a lane lies on the axis', lane.from >= from && lane.to <= to, lane, from, to)
          let reached = lane.from
          for (const span of lane.spans) {
            must('spans follow one another', span.from >= reached && span.to >= span.from, lane)
            must('what is to come comes after now', !span.isFuture || span.from >= look, lane, look)
            reached = span.to
          }
          const marks = lane.marks.map(({ at: when }) => when)
          must(
            'marks come in their order',
            marks.every((when, index) => when >= (marks[index - 1] ?? lane.from)),
            lane,
          )
          must('nothing lies behind the lane', reached <= lane.to && (marks.at(-1) ?? lane.to) <= lane.to, lane)
          must(
            'edges lie beyond the axis',
            lane.edges.every((edge) => edge.at > to),
            lane,
          )
        }
        for (const fold of folds)
          must('folds lie on the axis', fold.from >= from && fold.to <= to && fold.to > fold.from)
      }
    })
  })

  test('attempts come in their order and do not overlap, and no more than five of the past are shown', () => {
    always(({ job, life, now }) => {
      const { lanes, hiddenAttempts } = timeline(inputOf(job, life), now)
      const attempts = lanes.filter(({ kind }) => kind === 'attempt')
      const ends = attempts.map(({ spans }) => [spans[0]?.from ?? NOON, spans.at(-1)?.to ?? NOON] as const)
      must(
        'they do not overlap',
        ends.every(([from], index) => from >= (ends[index - 1]?.[1] ?? NOON)),
        ends,
      )
      const past = attempts.filter(({ isForeseen }) => !isForeseen)
      must('five at most', past.length === Math.min(5, job.lease) && hiddenAttempts === job.lease - past.length, past)
    })
  })

  test('places on the axis grow with time, also over folds, and lead back to their instants', () => {
    always(({ job, life, now }) => {
      const { from, to, folds } = timeline(inputOf(job, life), now)
      const axis = axisOf({ from, to, folds }, 100, 5)
      must('it goes from one end to the other', axis.x(from) === 0 && Math.round(axis.x(to)) === 100, from, to)
      let reached = 0
      for (let share = 0; share <= 1; share += 0.1) {
        const when = later(from, Math.floor((to - from) * share))
        const x = axis.x(when)
        must('later is further', x >= reached, when, x)
        must('a place leads back', Math.abs(axis.at(x) - when) <= 1, when, axis.at(x))
        reached = x
      }
    })
  })

  test('an attempt that runs: past, what is left until it is asked to stop, and its grace', () => {
    const job = activeJob({ timeoutMs: 3_000, graceMs: 1_000, totalMs: 12_000, retry: { jitter: false } })
    const seen = drawn(job, later(NOON, 2_000))
    expect(spansIn(laneOf(seen, 'try 1'))).toEqual([
      ['attempt', 0, 2_000, false],
      ['attempt', 2_000, 3_000, true],
      ['grace', 3_000, 4_000, true],
    ])
    expect(marksIn(laneOf(seen, 'try 1'))).toEqual([
      ['started', 0],
      ['soft_deadline', 3_000],
      ['hard_deadline', 4_000],
    ])
    expect(laneOf(seen, 'try 2')).toMatchObject({ isForeseen: true })
    expect(spansIn(laneOf(seen, 'life')).map(([kind, , , isFuture]) => [kind, isFuture])).toEqual([
      ['waiting', false],
      ...[['attempt', false] as const, ['attempt', true] as const, ['grace', true] as const],
      ...[['backoff', true] as const, ['attempt', true] as const, ['grace', true] as const],
    ])
    expect(marksIn(laneOf(seen, 'life')).at(-1)).toEqual(['total', 12_000])
    expect(seen.sentence).toBe(
      'Next: asked to stop in 1 s, attempt ends in 2 s, retry 1 s later. Total deadline in 10 s.',
    )
    expect(seen.headline).toBe('active, attempt 1 of 3, worker w1')
  })

  test('what was decided late shows how late, between the deadline and the decision', () => {
    const job = left(expire(activeJob({ timeoutMs: 3_000, graceMs: 1_000 }), ROW_ALONE, moment(later(NOON, 4_250))))
    const lane = laneOf(drawn(job, later(NOON, 4_300)), 'try 1')
    expect(spansIn(lane)).toEqual([
      ['attempt', 0, 3_000, false],
      ['grace', 3_000, 4_000, false],
      ['overshoot', 4_000, 4_250, false],
    ])
    expect(lane?.spans.at(-1)).toMatchObject({ overshootMs: 250 })
    expect(marksIn(lane).map(([kind]) => kind)).toEqual(['started', 'asked_to_stop', 'hard_deadline', 'ended'])
  })

  test('a workflow deadline that was decided late shows its overshoot too', () => {
    const member = activeJob({ ceiling: { at: at('12:00:10'), source: 'workflow' } })
    const job = left(expire(member, ROW_ALONE, moment(at('12:00:10.040'))))
    expect(laneOf(drawn(job, at('12:01')), 'life')?.spans.at(-1)).toMatchObject({ kind: 'overshoot', overshootMs: 40 })
  })

  test('a job that is over ends its axis, however long ago that was', () => {
    const job = complete(activeJob(), '1', moment(later(NOON, 5_000))).job
    const seen = drawn(job, at('23:00'))
    expect([seen.from, seen.to]).toEqual([NOON, later(NOON, 5_000)])
    expect(marksIn(laneOf(seen, 'life')).at(-1)).toEqual(['ended', 5_000])
    expect(seen.sentence).toBe('Ended completed.')
    expect(drawn(completedJob(), at('23:00')).clocks).toEqual([])
  })

  test('a clock that the total cuts off does not stretch the axis beyond the total', () => {
    const job = activeJob({ timeoutMs: 3_000, graceMs: 0, totalMs: 12_000, heartbeatMs: 40_000 })
    const seen = drawn(job, later(NOON, 1_000))
    expect(seen.to).toBe(later(NOON, 12_000))
    expect(laneOf(seen, 'signs')?.edges).toMatchObject([{ kind: 'heartbeat', cutBy: 'total_timeout' }])
  })

  test('a limit far beyond everything else is a flag at the edge and does not stretch the axis', () => {
    const job = activeJob({ timeoutMs: 3_000, graceMs: 0, totalMs: 3_600_000, retry: { maxAttempts: 1 } })
    const seen = drawn(job, later(NOON, 1_000))
    expect(seen.to).toBe(later(NOON, 3_000))
    expect(laneOf(seen, 'life')?.edges).toMatchObject([{ kind: 'total', at: later(NOON, 3_600_000) }])
    // Of a job that only waits it is the nearest clock, and shown.
    expect(drawn(aJob({ totalMs: 3_600_000 }), NOON).to).toBe(later(NOON, 3_600_000))
  })

  test('a long empty wait is folded, and never all there is', () => {
    const job = claimed(aJob({ timeoutMs: 3_000, graceMs: 0 }), { claimedAt: at('12:10') })
    const { folds } = drawn(job, at('12:10:01'))
    expect(folds).toEqual([{ from: NOON, to: at('12:10') }])
    expect(drawn(aJob(), at('12:10')).folds).toEqual([])
  })

  test('signs of life are marks, and a fuse runs from the last one to the stall', () => {
    const job = activeJob({ heartbeatMs: 5_000 })
    const worker = beating(at('12:00:02'))
    const beats = [at('12:00:01'), at('12:00:02')]
    const seen = timeline(
      inputOf(job, livenessOf(worker), { signs: { since: NOON, beats, late: [] }, checkpointAt: at('12:00:01.500') }),
      at('12:00:03'),
    )
    const lane = laneOf(seen, 'signs')
    expect(marksIn(lane)).toEqual([
      ['beat', 1_000],
      ['checkpoint', 1_500],
      ['beat', 2_000],
      ['heartbeat', 7_000],
    ])
    expect(spansIn(lane)).toEqual([
      ['fuse', 2_000, 3_000, false],
      ['fuse', 3_000, 7_000, true],
    ])
  })

  test('the reservation has a lane only while it is what ends next', () => {
    const lapsing = drawn(activeJob({ graceMs: 3_600_000, visibilityMs: 20_000 }), later(NOON, 1_000))
    expect(laneOf(lapsing, 'reserved')?.marks).toMatchObject([{ kind: 'visibility' }])
    expect(laneOf(drawn(activeJob({ timeoutMs: 3_000, graceMs: 0 }), NOON), 'reserved')).toBeUndefined()
  })

  test('a result that came too late is marked after the end of its attempt', () => {
    const job = fail(activeJob(), boom, moment(later(NOON, 1_000))).job
    const late = [{ at: later(NOON, 1_400), verb: 'ack', workerId: 'w1' }]
    const lane = laneOf(drawn(job, later(NOON, 1_500), { signs: { since: NOON, beats: [], late } }), 'try 1')
    expect(lane?.marks.at(-1)).toMatchObject({ kind: 'late_result', text: 'ack by w1 refused' })
  })

  test('a second life has lanes of its own, though its attempts count anew', () => {
    const ended = fail(activeJob({ retry: { maxAttempts: 1 } }), boom, moment(NOON)).job
    const again = claimed(retryByHand(ended, ended, moment(NOON)).job, { claimedAt: NOON })
    const over = cancel(again, moment(NOON), { reason: 'request' }).job
    expect(drawn(over, NOON).lanes.map(({ name, marks }) => [name, marks.at(-1)?.text])).toEqual([
      ['life', 'cancelled (request)'],
      ['try 1', 'discarded (boom)'],
      ['try 1', 'cancelled (request)'],
    ])
  })

  test('outages and a pause of the queue are bands over all lanes', () => {
    const life = { ...livenessOf(null), outages: [{ from: at('12:00:01'), to: at('12:00:02') }] }
    const queue = { name: 'q', pausedAt: at('12:00:03'), drainingAt: null }
    expect(timeline(inputOf(aJob(), life, { queue, isHeld: true }), at('12:00:05')).bands).toEqual([
      { kind: 'away', from: at('12:00:01'), to: at('12:00:02') },
      { kind: 'paused', from: at('12:00:03'), to: at('12:00:05') },
    ])
  })

  test('what waits says for what', () => {
    expect(drawn(aJob(), NOON).sentence).toBe('Waits for a worker, with no limit.')
    expect(drawn(aJob({ pending: true }), NOON).sentence).toBe('Waits to be activated, with no limit.')
    expect(drawn(retryableJob(), NOON).sentence).toMatch(/^Next: retry in .*, then waits for a worker\.$/)
    expect(drawn(aJob({ ttlMs: 90_000 }), NOON).sentence).toBe('Next: too old to start in 90 s: discarded.')
  })
})
