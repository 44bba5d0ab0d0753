import { describe, expect, test } from 'vitest'
import { after, FakeClock, instant, millis } from '@curfew/core'
import { Attempt, type AttemptPorts } from './attempt.ts'
import { RequestError } from './errors.ts'
import type { Stop } from './isolate/protocol.ts'
import type { AnyEnding } from './report.ts'
import type { Terms } from './terms.ts'

const SOFT = { why: 'deadline', kind: 'execution', limitMs: 1_000, source: 'handler' } as const

function stage(more: Partial<AttemptPorts> = {}, isManual = false): Stage {
  const clock = new FakeClock()
  const now = clock.now()
  const logged: string[] = []
  const saved: unknown[] = []
  const terms: Terms = {
    startedAt: now,
    softAt: after(now, millis(1_000)),
    softStop: SOFT,
    hardAt: after(now, millis(1_500)),
    killAt: after(now, millis(1_500)),
    graceMs: millis(500),
    stallMs: millis(400),
  }
  const facts = {
    jobId: 'a',
    type: 't',
    queue: 'q',
    attempt: 1,
    maxAttempts: 3,
    args: [],
    input: [],
    meta: {},
    lastCheckpoint: null,
    workflowId: null,
    parentResults: [],
    softAt: terms.softAt,
    softStop: SOFT,
    hardAt: terms.hardAt,
  }
  const say = (_fields: object, message: string): void => void logged.push(message)
  const attempt = new Attempt({ jobId: 'a', attempt: 1, lease: 1 }, terms, facts, isManual, {
    host: clock,
    log: { debug: say, info: say, warn: say, error: say },
    saveCheckpoint: async (_hold, state) => void saved.push(state),
    saveProgress: async () => {},
    enqueue: async () => null,
    sign: () => {},
    stopIsolate: null,
    ...more,
  })
  let settle: (ending: AnyEnding) => void = () => {}
  const ending = attempt.live(() => new Promise((resolve) => (settle = resolve)))
  return { clock, attempt, logged, saved, ending, settle: (how) => settle(how), signal: attempt.context.signal }
}

interface Stage {
  readonly clock: FakeClock
  readonly attempt: Attempt
  readonly logged: string[]
  readonly saved: unknown[]
  readonly ending: Promise<AnyEnding>
  readonly settle: (ending: AnyEnding) => void
  readonly signal: AbortSignal
}

const later = (clock: FakeClock, ms: number): ReturnType<typeof instant> => after(clock.now(), millis(ms))

describe('one attempt', () => {
  test('is told to stop at its soft deadline and given up at its hard one, to the millisecond', async () => {
    const { clock, signal, ending } = stage()
    clock.advance(999)
    expect(signal.aborted).toBe(false)
    clock.advance(1)
    expect(signal.reason).toMatchObject({ code: 'deadline', kind: 'execution' })
    let isOver = false
    void ending.then(() => (isOver = true))
    clock.advance(499)
    await Promise.resolve()
    expect(isOver).toBe(false)
    clock.advance(1)
    expect(await ending).toEqual({ kind: 'abandoned' })
  })

  test('keeps the first reason to stop', () => {
    const { clock, attempt, signal } = stage()
    clock.advance(1_000)
    attempt.stop({ why: 'shutdown' }, later(clock, 100))
    expect(attempt.stopped).toEqual(SOFT)
    expect(signal.reason).toMatchObject({ code: 'deadline' })
  })

  test('that is lost is lost, even if its time was up before', () => {
    const { clock, attempt } = stage()
    clock.advance(1_000)
    attempt.stop({ why: 'lost' }, later(clock, 100))
    expect(attempt.stopped).toEqual({ why: 'lost' })
  })

  test('is given up at the earlier of what it was given and its hard deadline', async () => {
    const early = stage()
    early.attempt.stop({ why: 'cancelled' }, later(early.clock, 100))
    early.clock.advance(100)
    expect(await early.ending).toEqual({ kind: 'abandoned' })
    const late = stage()
    late.attempt.stop({ why: 'cancelled' }, later(late.clock, 60_000))
    late.clock.advance(1_500)
    expect(await late.ending).toEqual({ kind: 'abandoned' })
  })

  test('tells its handler how long the grace is, and what is left of it once it has begun', () => {
    const { clock, attempt } = stage()
    expect(attempt.context.graceRemaining()).toBe(500)
    clock.advance(1_200)
    expect(attempt.context.graceRemaining()).toBe(300)
    attempt.stop({ why: 'shutdown' }, later(clock, 100))
    expect(attempt.context.graceRemaining()).toBe(100)
    attempt.stop({ why: 'shutdown' }, later(clock, 200))
    expect(attempt.context.graceRemaining()).toBe(100)
  })

  test('that is cancelled early, lost, stalled or over has the grace it really has', async () => {
    const cancelled = stage()
    cancelled.attempt.stop({ why: 'cancelled' }, later(cancelled.clock, 200))
    expect(cancelled.attempt.context.graceRemaining()).toBe(200)
    cancelled.attempt.stop({ why: 'lost' }, later(cancelled.clock, 200))
    expect(cancelled.attempt.context.graceRemaining()).toBe(0)

    const stalled = stage({}, true)
    let atAbort: number | null = null
    stalled.signal.addEventListener('abort', () => (atAbort = stalled.attempt.context.graceRemaining()))
    stalled.clock.advance(400)
    expect(atAbort).toBe(0)

    const over = stage()
    over.settle({ kind: 'returned', result: 1 })
    await over.ending
    expect(over.attempt.context.graceRemaining()).toBe(0)
  })

  test('in an isolate is stopped there, and its end is waited for', async () => {
    const orders: [Stop, number][] = []
    const { clock, ending, settle } = stage({ stopIsolate: (stop, killAt) => void orders.push([stop, killAt]) })
    const hardAt = later(clock, 1_500)
    clock.advance(1_600)
    expect(orders).toEqual([[SOFT, hardAt]])
    settle({ kind: 'killed', stop: SOFT, stack: null })
    expect(await ending).toMatchObject({ kind: 'killed' })
  })

  test('in an isolate that does not report its end frees its slot all the same', async () => {
    const { clock, ending } = stage({ stopIsolate: () => {} })
    clock.advance(1_500 + 5_000)
    expect(await ending).toEqual({ kind: 'abandoned' })
  })

  test('tells of a handler that ends when nobody waits for it any more', async () => {
    const { clock, ending, settle, logged } = stage()
    clock.advance(1_500)
    await ending
    settle({ kind: 'returned', result: 1 })
    await new Promise((resolve) => setImmediate(resolve))
    expect(logged.join()).toContain('nobody waited for')
  })

  test('leaves no timer behind', async () => {
    const { clock, ending, settle } = stage()
    settle({ kind: 'returned', result: 1 })
    await ending
    expect(clock.nextTimerAt()).toBeNull()
  })

  test('that must prove its life and does not, is stopped as stalled', () => {
    const { clock, attempt, signal } = stage({}, true)
    clock.advance(300)
    void attempt.context.heartbeat()
    clock.advance(399)
    expect(signal.aborted).toBe(false)
    clock.advance(1)
    expect(signal.reason).toMatchObject({ kind: 'stalled', limitMs: 400 })
    expect(attempt.stopped).toEqual({ why: 'lost' })
  })

  test('whose checkpoint the server refuses is lost', async () => {
    const refusal = new RequestError({
      code: 'conflict',
      message: 'over',
      retryable: false,
      details: {},
      hint: null,
      requestId: null,
      status: 409,
      retryAfterMs: null,
    })
    const { attempt, signal } = stage({ saveCheckpoint: () => Promise.reject(refusal) })
    await expect(attempt.context.checkpoint(1)).rejects.toBe(refusal)
    expect(signal.reason).toMatchObject({ code: 'lost_lease' })
  })

  test('that is over can save nothing any more', async () => {
    const { attempt, ending, settle, saved } = stage()
    await attempt.context.checkpoint(1)
    settle({ kind: 'returned', result: 1 })
    await ending
    await expect(attempt.context.checkpoint(2)).rejects.toMatchObject({ code: 'lost_lease' })
    expect(saved).toEqual([1])
  })
})
