/** The fit test of a retry, and what always holds of deadlines. */
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import {
  aBeat,
  aJob,
  aWorker,
  activeJob,
  at,
  claimed,
  JOB_ID,
  later,
  livenessOf,
  moment,
  ms,
  NOON,
  published,
  settingsWith,
  type ClaimTraits,
  type JobTraits,
} from '../builders.suite.ts'
import { instant, millis, seconds, type Instant } from '../time/clock.ts'
import { executionAt, expiryAt, fitsTotal, hardDeadlineAt, softDeadlineAt, totalAt, ttlAt } from './deadlines.ts'
import { nextDue, wakeAtOf } from './due.ts'
import { creditFor, deathAt, stallAt, visibilityAt, type Outage } from './liveness.ts'
import type { Ceiling, Job } from './job.ts'
import { expire } from './lifecycle/expire.ts'
import { signOfLife } from './lifecycle/report.ts'

describe('whether another attempt fits into the total', () => {
  const job = activeJob({ totalMs: 100_000, timeoutMs: 30_000 })

  test('an attempt that would end exactly with the total fits; a millisecond more does not', () => {
    expect(fitsTotal(job, at('12:01'), ms(10_000))).toBe(true)
    expect(fitsTotal(job, at('12:01'), ms(10_001))).toBe(false)
    expect(fitsTotal(job, later(at('12:01'), 1), ms(10_000))).toBe(false)
  })

  test('a default timeout counts as nothing, but the attempt must begin before the total ends', () => {
    const short = activeJob({ totalMs: 60_000 })
    expect(fitsTotal(short, at('12:00:50'), ms(9_999))).toBe(true)
    expect(fitsTotal(short, at('12:00:50'), ms(10_000))).toBe(false)
  })

  test('a default timeout that a cap held down is still a default', () => {
    const limits = published({ total: seconds(60) }, settingsWith({ timeout: seconds(20) }))
    expect(fitsTotal(activeJob({ limits }), at('12:00:50'), ms(9_999))).toBe(true)
  })

  test("a handler's timeout counts, and is that of the attempt that failed", () => {
    const handled = activeJob({ totalMs: 60_000, handler: { timeout: seconds(20) } })
    expect(fitsTotal(handled, at('12:00:40'), ms(0))).toBe(true)
    expect(fitsTotal(handled, at('12:00:40'), ms(1))).toBe(false)
  })

  test('a job without a total always fits', () => {
    expect(fitsTotal(activeJob({ timeoutMs: 30_000 }), at('23:00'), ms(1e9))).toBe(true)
  })

  test("a parent's total counts, a workflow's clamp does not", () => {
    const under = (source: Ceiling['source']): Job =>
      activeJob({ timeoutMs: 30_000, ceiling: { at: at('12:01'), source } })
    expect(fitsTotal(under('parent'), at('12:00:30'), ms(0))).toBe(true)
    expect(fitsTotal(under('parent'), at('12:00:30'), ms(1))).toBe(false)
    expect(fitsTotal(under('workflow'), at('12:00:59'), ms(0))).toBe(true)
  })

  test('grace is not asked for', () => {
    const graced = activeJob({ totalMs: 60_000, timeoutMs: 30_000, graceMs: 25_000 })
    expect(fitsTotal(graced, at('12:00:30'), ms(0))).toBe(true)
  })
})

const length = fc.integer({ min: 1, max: 100_000 })
const some = <T>(value: fc.Arbitrary<T>): fc.Arbitrary<T | undefined> => fc.option(value, { nil: undefined, freq: 2 })
const instantOf = (max: number): fc.Arbitrary<Instant> =>
  fc.integer({ min: 0, max }).map((offset) => later(NOON, offset))
const ceiling = fc.record({
  at: instantOf(200_000).map((when) => instant(when + 1)),
  source: fc.constantFrom('parent', 'workflow'),
})
const traits = fc
  .record({
    timeoutMs: some(length),
    graceMs: some(fc.integer({ min: 0, max: 50_000 })),
    heartbeatMs: some(length),
    visibilityMs: some(length),
    totalMs: some(length),
    ttlMs: some(length),
    ceiling: some(ceiling),
    expiresAt: some(instantOf(100_000)),
    scheduledAt: some(instantOf(100_000)),
    pending: fc.boolean(),
    known: fc.boolean(),
    fetchVisibilityMs: some(length),
  })
  .map(
    (record) =>
      Object.fromEntries(Object.entries(record).filter(([, value]) => value !== undefined)) as JobTraits & ClaimTraits,
  )
const outages = fc.uniqueArray(fc.integer({ min: 0, max: 300_000 }), { maxLength: 6 }).map((edges): Outage[] => {
  const sorted = [...edges].sort((a, b) => a - b).map((offset) => later(NOON, offset))
  return sorted.flatMap((from, index) => {
    const to = sorted[index + 1]
    return index % 2 === 0 && to !== undefined ? [{ from, to }] : []
  })
})

/** The same job waiting, or claimed a moment after its creation where a claim is possible. */
const someJob = fc.tuple(traits, fc.boolean(), fc.nat(5_000)).map(([given, start, wait]): Job => {
  const job = aJob(given)
  const claimedAt = later(NOON, wait)
  const possible = job.state === 'available' && (job.wakeAt === null || job.wakeAt > claimedAt)
  return start && possible ? claimed(job, { ...given, claimedAt }) : job
})

describe('always', () => {
  test('a row never wakes later than any limit that is in force', () => {
    fc.assert(
      fc.property(someJob, (job) => {
        const limits = [
          totalAt(job),
          ttlAt(job),
          expiryAt(job),
          executionAt(job),
          visibilityAt(job, livenessOf(null)),
          stallAt(job, livenessOf(null)),
        ]
        for (const limit of limits) if (limit !== null) expect(job.wakeAt ?? Infinity).toBeLessThanOrEqual(limit)
      }),
    )
  })

  test('a row never wakes later than what beats, progress and outages make of its limits', () => {
    fc.assert(
      fc.property(someJob, outages, length, length, (job, gaps, beatAfter, signAfter) => {
        const beatAt = later(NOON, beatAfter)
        const worker = aWorker({ lastSeenAt: beatAt, beat: aBeat(beatAt) })
        const life = livenessOf(worker, gaps)
        const spoken = job.startedAt === null ? job : signOfLife(job, later(job.startedAt, signAfter))
        for (const [now, row] of [
          [spoken, spoken.wakeAt],
          [spoken, wakeAtOf(spoken, life)],
        ] as const) {
          const due = nextDue(now, life)
          if (due !== null && due.kind !== 'worker_death') expect(row ?? Infinity).toBeLessThanOrEqual(due.at)
        }
      }),
    )
  })

  test('waking a row always changes something', () => {
    fc.assert(
      fc.property(someJob, outages, length, (job, gaps, beatAfter) => {
        if (job.wakeAt === null) return
        const beatAt = later(NOON, beatAfter)
        for (const life of [livenessOf(null), livenessOf(aWorker({ lastSeenAt: beatAt, beat: aBeat(beatAt) }), gaps)]) {
          const step = expire(job, life, moment(job.wakeAt))
          expect(step).not.toBeNull()
          expect(step?.job).not.toEqual(job)
          // Woken again and again, it comes to something in the end: a renewed clock is always armed for later.
          if (step?.job?.state === job.state) expect(step.job.wakeAt).toBeGreaterThan(job.wakeAt)
        }
      }),
    )
  })

  test('the handler is asked to stop no later than it is stopped, and nothing outlives the total', () => {
    fc.assert(
      fc.property(someJob, (job) => {
        const [soft, hard] = [softDeadlineAt(job), hardDeadlineAt(job)]
        if (soft === null || hard === null) return
        expect(soft).toBeLessThanOrEqual(hard)
        expect(hard).toBeLessThanOrEqual(totalAt(job) ?? Infinity)
      }),
    )
  })

  test('the handler is asked in time to stop, never as it starts, and on a whole millisecond', () => {
    fc.assert(
      fc.property(someJob, (job) => {
        const [soft, total] = [softDeadlineAt(job), totalAt(job)]
        if (soft === null || job.startedAt === null || job.hold === null) return
        expect(soft).toBeGreaterThanOrEqual(job.startedAt)
        expect(Number.isSafeInteger(soft)).toBe(true)
        if (total === null) return
        const leftMs = total - job.startedAt
        const { ms: graceMs, source } = job.hold.grace
        const isKept = source !== 'default' && graceMs < leftMs
        const leastMs = isKept ? graceMs : Math.min(graceMs, 30_000, Math.floor(leftMs / 10))
        expect(total - soft).toBeGreaterThanOrEqual(leastMs)
        if (leftMs > 0 && job.hold.timeout.ms > 0) expect(soft).toBeGreaterThan(job.startedAt)
      }),
      { numRuns: 1_000 },
    )
  })

  test('no deadline of a child lies beyond the ceiling handed down to it', () => {
    fc.assert(
      fc.property(someJob, (job) => {
        if (job.ceiling === null) return
        for (const deadline of [
          totalAt(job),
          job.startedAt === null ? null : softDeadlineAt(job),
          hardDeadlineAt(job),
        ]) {
          if (deadline !== null) expect(deadline).toBeLessThanOrEqual(job.ceiling.at)
        }
        expect(nextDue(job)?.at).toBeLessThanOrEqual(job.ceiling.at)
      }),
    )
  })

  test('a budget never grows: no sign of life moves execution, soft deadline or total', () => {
    fc.assert(
      fc.property(someJob, length, (job, wait) => {
        const spoken = signOfLife(job, later(job.startedAt ?? NOON, wait))
        for (const deadline of [executionAt, softDeadlineAt, hardDeadlineAt, totalAt])
          expect(deadline(spoken)).toBe(deadline(job))
      }),
    )
  })

  test('no outage is credited with more than the time since the clock was last reset', () => {
    fc.assert(
      fc.property(outages, instantOf(300_000), (gaps, since) => {
        const upAt = instant(Math.max(...gaps.map(({ to }) => to), since))
        const credit = creditFor(since, gaps)
        expect(credit).toBeGreaterThanOrEqual(0)
        expect(credit).toBeLessThanOrEqual(upAt - since)
      }),
    )
  })

  test('an outage delays liveness by no more than itself, and nothing else at all', () => {
    fc.assert(
      fc.property(someJob, outages, (job, gaps) => {
        const worker = aWorker({ lastSeenAt: NOON })
        const [calm, shaken] = [livenessOf(worker), livenessOf(worker, gaps)]
        const lost = millis(gaps.reduce((sum, { from, to }) => sum + (to - from), 0))
        for (const clock of [stallAt, visibilityAt]) {
          const [before, after] = [clock(job, calm), clock(job, shaken)]
          if (before === null || after === null) continue
          expect(after).toBeGreaterThanOrEqual(before)
          expect(after - before).toBeLessThanOrEqual(lost)
        }
        expect((deathAt(worker, shaken) ?? 0) - (deathAt(worker, calm) ?? 0)).toBeLessThanOrEqual(lost)
        const kinds = ['total', 'execution', 'enqueue_ttl', 'expires_at']
        const due = nextDue(job, calm)
        if (due !== null && kinds.includes(due.kind)) expect(nextDue(job, shaken)).toEqual(due)
      }),
    )
  })

  test('a job that a beat covers is given exactly what the beat says', () => {
    fc.assert(
      fc.property(someJob, length, some(length), (job, wait, own) => {
        if (job.hold === null || job.startedAt === null) return
        const beatAt = later(job.startedAt, wait)
        const worker = aWorker({
          beat: aBeat(beatAt, { visibilityMs: own === undefined ? null : ms(own), leases: { [JOB_ID]: job.lease } }),
        })
        expect(visibilityAt(job, livenessOf(worker))).toBe(later(beatAt, own ?? job.hold.visibility.ms))
      }),
    )
  })
})

test('what two outages share is credited once', () => {
  const [since, from, middle, to] = [0, 1_000, 3_000, 5_000].map((ms) => instant(ms))
  if (since === undefined || from === undefined || middle === undefined || to === undefined)
    throw new Error('four instants')
  expect(
    creditFor(since, [
      { from, to: middle },
      { from, to },
    ]),
  ).toBe(4_000)
})
