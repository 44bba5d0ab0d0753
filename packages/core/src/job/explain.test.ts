import { describe, expect, test } from 'vitest'
import {
  aJob,
  activeJob,
  at,
  boom,
  claimed,
  completedJob,
  errorOf,
  JOB_ID,
  left,
  moment,
  NOON,
  retryableJob,
} from '../builders.suite.ts'
import { seconds, type Instant } from '../time/clock.ts'
import { ROW_ALONE } from './liveness.ts'
import { explain, type Explanation } from './explain.ts'
import type { Job } from './job.ts'
import { release } from './lifecycle/admit.ts'
import { cancel, retryByHand } from './lifecycle/change.ts'
import { expire } from './lifecycle/expire.ts'
import { complete, fail, interrupt } from './lifecycle/report.ts'

const told = (job: Job, now: Instant = NOON): Explanation => explain(job, ROW_ALONE, now)
const clock = (time: string): string => `2026-01-01T${time}.000Z`

/** Timed out once in its grace, then done. */
function twoAttempts(): Job {
  const first = activeJob({
    timeoutMs: 30_000,
    graceMs: 5_000,
    ttlMs: 60_000,
    claimedAt: at('12:00:10'),
    retry: { jitter: false, initialMs: seconds(5) },
  })
  const waiting = left(expire(first, ROW_ALONE, moment(at('12:00:45'))))
  const second = claimed(release(waiting, moment(at('12:00:50'))).job, { claimedAt: at('12:00:55'), workerId: 'w2' })
  return complete(second, '1', moment(at('12:01'))).job
}

describe('the spans of a life', () => {
  test('tell waiting, attempts, grace and backoff against their limits', () => {
    expect(told(twoAttempts()).spans).toEqual([
      {
        kind: 'waiting',
        from: clock('12:00:00'),
        to: clock('12:00:10'),
        limit: 'enqueue_ttl 60 s',
        limit_ms: 60_000,
        effective_ms: 60_000,
        source: 'publish',
      },
      {
        kind: 'attempt',
        from: clock('12:00:10'),
        to: clock('12:00:40'),
        attempt: 1,
        limit: 'timeout 30 s',
        limit_ms: 30_000,
        effective_ms: 30_000,
        source: 'publish',
        worker_id: 'w1',
      },
      {
        kind: 'grace',
        from: clock('12:00:40'),
        to: clock('12:00:45'),
        attempt: 1,
        limit: 'grace_period 5 s',
        limit_ms: 5_000,
        effective_ms: 5_000,
        source: 'publish',
      },
      {
        kind: 'backoff',
        from: clock('12:00:45'),
        to: clock('12:00:50'),
        limit: 'backoff 5 s',
        limit_ms: 5_000,
        effective_ms: 5_000,
        source: 'retry',
      },
      { kind: 'waiting', from: clock('12:00:50'), to: clock('12:00:55') },
      {
        kind: 'attempt',
        from: clock('12:00:55'),
        to: clock('12:01:00'),
        attempt: 2,
        limit: 'timeout 30 s',
        limit_ms: 30_000,
        effective_ms: 30_000,
        source: 'publish',
        worker_id: 'w2',
      },
    ])
  })

  test('the last span of a job that is not over is open', () => {
    expect(told(activeJob()).spans.at(-1)).not.toHaveProperty('to')
    expect(told(retryableJob()).spans.at(-1)).toMatchObject({ kind: 'backoff' })
    expect(told(retryableJob()).spans.at(-1)).not.toHaveProperty('to')
  })

  test('an attempt that is in its grace ended where it was asked to stop, and the grace is open', () => {
    const job = activeJob({ timeoutMs: 10_000, graceMs: 10_000 })
    const tenSeconds = { limit_ms: 10_000, effective_ms: 10_000, source: 'publish' }
    const attempt = { kind: 'attempt', from: clock('12:00:00'), attempt: 1, worker_id: 'w1', ...tenSeconds }
    const grace = { kind: 'grace', from: clock('12:00:10'), attempt: 1, limit: 'grace_period 10 s', ...tenSeconds }
    const inGrace = [{ ...attempt, limit: 'timeout 10 s', to: clock('12:00:10') }, grace]
    expect(told(job, at('12:00:09.999')).spans.slice(1)).toEqual([{ ...attempt, limit: 'timeout 10 s' }])
    expect(told(job, at('12:00:10')).spans.slice(1)).toEqual(inGrace)
    expect(told(job, at('12:00:12')).spans.slice(1)).toEqual(inGrace)
    const ended = fail(job, boom, moment(at('12:00:12'))).job
    expect(told(ended, at('12:00:13')).spans.slice(1, 3)).toEqual([inGrace[0], { ...grace, to: clock('12:00:12') }])
  })

  test('a grace that is kept free before the total is open too; where there is no grace there is no span', () => {
    const spans = (graceMs: number, now: Instant): unknown =>
      told(activeJob({ timeoutMs: 10_000, graceMs, totalMs: 15_000 }), now).spans.map(({ kind, from }) => [kind, from])
    const begun = ['waiting', 'attempt'].map((kind) => [kind, clock('12:00:00')])
    expect(spans(10_000, at('12:00:04.999'))).toEqual(begun)
    expect(spans(10_000, at('12:00:05'))).toEqual([...begun, ['grace', clock('12:00:05')]])
    expect(spans(0, at('12:00:09.999'))).toEqual(begun)
  })

  test('after the first start the TTL is not a limit any more; the total is, also one handed down', () => {
    const back = (traits: Parameters<typeof retryableJob>[0]): unknown =>
      told(release(retryableJob({ ttlMs: 60_000, ...traits }), moment(at('12:00:02'))).job).spans.at(-1)
    expect(back({})).toEqual({ kind: 'waiting', from: clock('12:00:02') })
    expect(back({ totalMs: 120_000 })).toMatchObject({ limit: 'total_timeout 120 s', source: 'publish' })
    expect(back({ ceiling: { at: at('12:05'), source: 'parent' } })).toMatchObject({
      limit: 'total_timeout 300 s',
      source: 'parent',
    })
  })

  test('a retry by hand begins a new wait, under its TTL again', () => {
    const ended = fail(activeJob({ ttlMs: 60_000, retry: { maxAttempts: 1 } }), boom, moment(at('12:00:05'))).job
    const again = retryByHand(ended, ended, moment(at('12:10'))).job
    expect(told(again).spans.at(-1)).toEqual({
      kind: 'waiting',
      from: clock('12:10:00'),
      limit: 'enqueue_ttl 60 s',
      limit_ms: 60_000,
      effective_ms: 60_000,
      source: 'publish',
    })
  })
})

describe('the endings', () => {
  test('name what ended each attempt, with limit, lateness and cause, and the last one', () => {
    const { endings } = told(twoAttempts())
    expect(endings).toEqual([
      {
        attempt: 1,
        type: 'timeout',
        timeout_kind: 'execution',
        limit_seconds: 30,
        limit_ms: 30_000,
        elapsed_seconds: 35,
        elapsed_ms: 35_000,
        deadline: clock('12:00:45'),
        overshoot_ms: 0,
        late_ms: 0,
        downtime_ms: 0,
        source: 'publish',
        cause: { type: 'timeout', message: 'Job execution exceeded timeout of 30 seconds' },
      },
      { attempt: 2, type: 'completed' },
    ])
  })

  test('a total that was foreseen shows the failure behind it as its cause', () => {
    const job = fail(activeJob({ timeoutMs: 30_000, totalMs: 40_000 }), boom, moment(at('12:00:20'))).job
    expect(told(job).endings.map(({ type }) => type)).toEqual(['boom', 'total_timeout'])
    expect(told(job).endings.at(-1)).toMatchObject({ predicted: true, cause: { type: 'boom', message: 'It broke.' } })
    expect(told(job).endings.at(-1)).not.toHaveProperty('deadline')
    expect(told(job).endings[0]).not.toHaveProperty('predicted')
  })

  test('only the server predicts: neither a total that came nor what a worker says about itself is marked', () => {
    const struck = left(expire(aJob({ totalMs: 60_000 }), ROW_ALONE, moment(at('12:01'))))
    const claims = fail(activeJob(), { ...boom, details: { predicted: true } }, moment(NOON)).job
    for (const job of [struck, claims]) expect(told(job).endings.at(-1)).not.toHaveProperty('predicted')
  })

  test('the stack of a handler that had to be killed is shown, or else its backtrace', () => {
    const failed = (error: object): unknown =>
      told(fail(activeJob(), { ...boom, ...error }, moment(NOON)).job).endings.at(-1)
    expect(failed({ details: { stack: 'at loop' } })).toMatchObject({ stack: 'at loop' })
    expect(failed({ backtrace: ['at a', 'at b'] })).toMatchObject({ stack: ['at a', 'at b'] })
    expect(failed({})).not.toHaveProperty('stack')
  })

  test('a cancelled job says why', () => {
    const job = cancel(aJob(), moment(at('12:00:01')), { reason: 'workflow_timeout' }).job
    expect(told(job).endings).toEqual([{ attempt: 0, type: 'cancelled', cause: 'workflow_timeout' }])
  })
})

describe('in words', () => {
  test('a life is shown line by line, ending with how it ended', () => {
    expect(told(twoAttempts()).text.split('\n')).toEqual([
      `${clock('12:00:00')}  enqueued`,
      `${clock('12:00:10')}  attempt 1 started by "w1", may run 30 s (job)`,
      `${clock('12:00:45')}  failed (timeout), next attempt in 5 s`,
      `${clock('12:00:50')}  available`,
      `${clock('12:00:55')}  attempt 2 started by "w2", may run 30 s (job)`,
      `${clock('12:01:00')}  completed`,
      'Ended completed, in attempt 2.',
    ])
  })

  test('an ending by a limit says which, how long it was, and how late it was decided', () => {
    const job = left(expire(aJob({ totalMs: 60_000 }), ROW_ALONE, moment(at('12:01:00.004'))))
    expect(told(job).text).toContain(
      'Ended discarded: total_timeout (total_timeout 60 s (job), 60.004 s passed, decided 4 ms after the deadline).',
    )
  })

  test('what an earlier version recorded is shown as far as it goes', () => {
    const job = left(expire(aJob({ totalMs: 60_000 }), ROW_ALONE, moment(at('12:01:00.004'))))
    const { limit_ms: _limit, elapsed_ms: _elapsed, late_ms: _late, downtime_ms: _downtime, ...old } = errorOf(job)
    const text = JSON.stringify(old)
    expect(told({ ...job, error: text, errors: text }).text).toContain(
      'Ended discarded: total_timeout (total_timeout 60 s (job), 60 s passed, decided 4 ms after the deadline).',
    )
    const cancelled = cancel(aJob(), moment(at('12:00:01')), { reason: 'request' }).job
    expect(told({ ...cancelled, cancelReason: null }).text).toContain('Ended cancelled: the reason was not recorded.')
  })

  test('a total that was foreseen is shown as that, with what came before it', () => {
    const limits = { timeoutMs: 10_000, totalMs: 15_000 }
    const last = (job: Job): unknown => told(job).text.split('\n').at(-1)
    const foreseen =
      'Ended discarded: total_timeout, predicted: another attempt could not have ended within the total (total_timeout 15 s (job), 6 s passed).'
    expect(last(fail(activeJob(limits), boom, moment(at('12:00:06'))).job)).toBe(
      `${foreseen} Before that: boom ("It broke.").`,
    )
    expect(last(interrupt(activeJob(limits), null, moment(at('12:00:06'))).job)).toBe(foreseen)
    const wordy = { type: 'boom', message: `two\nlines ${'…'.repeat(500)}` }
    const text = told(fail(activeJob(limits), wordy, moment(at('12:00:06'))).job).text
    expect(text.split('\n')).toHaveLength(4)
    expect(text.length).toBeLessThan(600)
  })

  test('an attempt in its grace is shown as that, with the end of the grace', () => {
    const now = (traits: Parameters<typeof activeJob>[0]): unknown =>
      told(activeJob({ timeoutMs: 10_000, graceMs: 10_000, ...traits }), at('12:00:12'))
        .text.split('\n')
        .at(-1)
    const inGrace = 'Now active: attempt 1 is in its grace, since'
    const since = `${inGrace} ${clock('12:00:10')}`
    const next = (time: string): string => `; next automatic transition at ${clock(time)}:`
    const ended = `${next('12:00:20')} the attempt is ended (grace_period 10 s, job), then it is retried after a backoff.`
    const outOfTime = (total: string): string =>
      `the job is out of time (total_timeout ${total}, job), then it is discarded.`
    expect(now({})).toBe(`${since}, until ${clock('12:00:20')}${ended}`)
    const reserved = `${inGrace} ${clock('12:00:05')}`
    expect(now({ totalMs: 15_000 })).toBe(
      `${reserved}, until ${clock('12:00:15')}, where total_timeout cuts it off${next('12:00:15')} ${outOfTime('15 s')}`,
    )
    expect(now({ totalMs: 20_000 })).toBe(
      `${since}, until ${clock('12:00:20')}${next('12:00:20')} ${outOfTime('20 s')}`,
    )
    expect(now({ heartbeatMs: 14_000 })).toBe(
      `${since}, until ${clock('12:00:20')}${next('12:00:14')} the attempt is stalled unless a sign of life comes (heartbeat_timeout 14 s, job), then it is retried after a backoff.`,
    )
    expect(now({ timeoutMs: 13_000 })).toBe(
      `Now active${next('12:00:13')} the handler is asked to stop (timeout 13 s, job), then its grace begins.`,
    )
  })

  test('a job that still waits says what happens to it without a signal', () => {
    expect(told(aJob({ ttlMs: 60_000 })).text).toContain(
      'Now available; next automatic transition at 2026-01-01T12:01:00.000Z: it is too old to start (enqueue_ttl 60 s, job), then it is discarded.',
    )
    expect(told(aJob()).text).toContain('Now available; waits for a worker to fetch it, with no limit.')
    expect(told(aJob({ pending: true })).text).toContain('pending, waits to be activated')
  })

  test('the explanation carries the job, its state and its limits', () => {
    expect(told(completedJob({ timeoutMs: 5_000 }))).toMatchObject({
      job_id: JOB_ID,
      state: 'completed',
      limits: { timeout_ms: 5_000 },
    })
  })
})
