import { FakeClock } from '@curfew/core'
import { describe, expect, test, vi } from 'vitest'
import { createContext, type Context } from './context.ts'
import { LazyAbort } from './lazy-abort.ts'
import { defineJob } from '../job/define-job.ts'
import { CancelledError, DeadlineError, InputError, LostLeaseError, RequestError } from '../errors.ts'
import type { AttemptFacts, Call } from './facts.ts'

const SOFT_MS = 10_000
const GRACE_MS = 1_000

function attempt(answer: (call: Call) => unknown = () => null) {
  const clock = new FakeClock(1_000_000)
  const aborter = new LazyAbort()
  const calls: Call[] = []
  const facts: AttemptFacts = {
    jobId: 'job-1',
    type: 'video.transcode',
    queue: 'default',
    attempt: 1,
    lease: 1,
    maxAttempts: 3,
    args: ['v1'],
    input: null,
    meta: {},
    lastCheckpoint: null,
    workflowId: null,
    parentResults: [],
    softAt: clock.monotonicMs() + SOFT_MS,
    softStop: { why: 'deadline', kind: 'execution', limitMs: SOFT_MS, source: 'handler' },
    hardAt: clock.monotonicMs() + SOFT_MS + GRACE_MS,
  }
  const end = { at: facts.hardAt }
  const ctx: Context = createContext(facts, aborter, {
    host: clock,
    endsAt: () => end.at,
    async call(call) {
      calls.push(call)
      return answer(call)
    },
  })
  /** As a cancel, a shutdown or the soft deadline does it. */
  const stop = (reason: Error, endsInMs = Infinity): void => {
    end.at = Math.min(end.at, clock.monotonicMs() + endsInMs)
    aborter.abort(reason)
  }
  return { clock, aborter, ctx, calls, stop }
}

/** Settles only by its signal. */
const forever = (signal: AbortSignal): Promise<never> =>
  new Promise((_, reject) => {
    signal.addEventListener('abort', () => {
      reject(signal.reason as Error)
    })
  })

test('what a handler takes out of its context works by itself', async () => {
  const { ctx, calls } = attempt()
  // eslint-disable-next-line @typescript-eslint/unbound-method -- that they need no `this` is what is tested
  const { jobId, signal, remaining, heartbeat } = ctx
  expect([jobId, signal.aborted, remaining()]).toEqual(['job-1', false, SOFT_MS])
  await heartbeat()
  expect(calls).toEqual([{ op: 'heartbeat' }])
  // eslint-disable-next-line @typescript-eslint/unbound-method -- as above
  expect(ctx.heartbeat).toBe(heartbeat)
})

describe('remaining', () => {
  test('is what is left in whole milliseconds, rounded down, and never negative', () => {
    const { clock, ctx } = attempt()
    clock.advance(0.4)
    expect(ctx.remaining()).toBe(9_999)
    clock.advance(SOFT_MS * 2)
    expect(ctx.remaining()).toBe(0)
  })
})

describe('graceRemaining', () => {
  test('is the length of the grace until the attempt is stopped', () => {
    const { clock, ctx } = attempt()
    expect(ctx.graceRemaining()).toBe(GRACE_MS)
    clock.advance(SOFT_MS)
    expect(ctx.graceRemaining()).toBe(GRACE_MS)
  })

  test('is what is left after the soft deadline, in whole milliseconds, whether or not the signal was heard', () => {
    const { clock, ctx, stop } = attempt()
    clock.advance(SOFT_MS + 400.4)
    expect(ctx.graceRemaining()).toBe(599)
    stop(new DeadlineError('execution', SOFT_MS, 'handler'))
    expect(ctx.graceRemaining()).toBe(599)
    clock.advance(GRACE_MS)
    expect(ctx.graceRemaining()).toBe(0)
  })

  test('is what is left after a stop that came before the deadline, and shrinks when the end moves nearer', () => {
    const { clock, ctx, stop } = attempt()
    stop(new CancelledError(), 800)
    expect(ctx.graceRemaining()).toBe(800)
    clock.advance(100)
    stop(new CancelledError(), 200)
    expect(ctx.graceRemaining()).toBe(200)
  })

  test('is nothing when the attempt is lost', () => {
    const { ctx, stop } = attempt()
    stop(new LostLeaseError(), -Infinity)
    expect(ctx.graceRemaining()).toBe(0)
  })
})

test('withBudget runs in the last part of a millisecond: the limit of the attempt has not passed yet', async () => {
  const { clock, ctx } = attempt()
  clock.advance(SOFT_MS - 0.4)
  expect(await ctx.withBudget('5s', () => 'run')).toBe('run')
  clock.advance(0.4)
  await expect(ctx.withBudget('5s', () => 'run')).rejects.toMatchObject({ kind: 'execution' })
})

describe('withBudget in the grace', () => {
  const reason = new DeadlineError('execution', SOFT_MS, 'handler')

  test('runs with a signal of its own, which is aborted when the budget is over', async () => {
    const { clock, ctx, stop } = attempt()
    clock.advance(SOFT_MS)
    stop(reason)
    expect(await ctx.withBudget('500ms', (signal) => signal.aborted)).toBe(false)
    const done = ctx.withBudget('500ms', forever)
    clock.advance(499)
    expect(ctx.graceRemaining()).toBe(501)
    clock.advance(1)
    await expect(done).rejects.toMatchObject({ name: 'DeadlineError', kind: 'budget', limitMs: 500 })
  })

  test('ends with the grace when that is shorter, and says so', async () => {
    const { clock, ctx, stop } = attempt()
    clock.advance(SOFT_MS + 400)
    stop(reason)
    const done = ctx.withBudget('5s', forever)
    clock.advance(600)
    await expect(done).rejects.toMatchObject({ name: 'DeadlineError', kind: 'grace', limitMs: 600 })
    expect(clock.nextTimerAt()).toBeNull()
  })

  test('ends sooner when the end of the attempt moves nearer', async () => {
    const { clock, ctx, stop } = attempt()
    clock.advance(SOFT_MS)
    stop(reason)
    const done = ctx.withBudget('5s', forever)
    let isOver = false
    done.catch(() => (isOver = true))
    clock.advance(100)
    stop(reason, 300)
    clock.advance(299)
    await Promise.resolve()
    expect(isOver).toBe(false)
    clock.advance(1)
    await expect(done).rejects.toMatchObject({ kind: 'grace' })
  })

  test('starts nothing when no grace is left, and rejects with the reason of the stop', async () => {
    const { clock, ctx, stop } = attempt()
    clock.advance(SOFT_MS + GRACE_MS)
    stop(reason)
    let ran = 0
    await expect(ctx.withBudget('5s', () => (ran += 1))).rejects.toBe(reason)
    expect(ran).toBe(0)
  })

  test('refuses a late result of work that let no timer fire', async () => {
    const { clock, ctx, stop } = attempt()
    clock.advance(SOFT_MS)
    stop(reason)
    const busy = ctx.withBudget('5s', () => {
      Object.assign(clock, { monotonicMs: () => 1_000_000 + SOFT_MS + GRACE_MS })
      return 'late'
    })
    await expect(busy).rejects.toMatchObject({ kind: 'grace' })
  })
})

describe('withBudget', () => {
  test('aborts with a budget error when its own time is the shorter one', async () => {
    const { clock, ctx } = attempt()
    const done = ctx.withBudget('5s', forever)
    clock.advance(5_000)
    await expect(done).rejects.toMatchObject({ name: 'DeadlineError', kind: 'budget', limitMs: 5_000 })
  })

  test("aborts with the attempt's own reason when the attempt ends first", async () => {
    const { aborter, ctx } = attempt()
    const done = ctx.withBudget('5s', forever)
    const reason = new CancelledError()
    aborter.abort(reason)
    await expect(done).rejects.toBe(reason)
  })

  test('does not wait for what ignores its signal', async () => {
    const { clock, ctx } = attempt()
    const done = ctx.withBudget('5s', () => new Promise(() => {}))
    clock.advance(5_000)
    await expect(done).rejects.toBeInstanceOf(DeadlineError)
  })

  test('refuses a late result of work that let no timer fire', async () => {
    const { clock, ctx } = attempt()
    // Turns the clock inside, as a busy loop would: the timer is due but has not been heard.
    const busy = ctx.withBudget('5s', () => {
      Object.assign(clock, { monotonicMs: () => 1_000_000 + 6_000 })
      return 'late'
    })
    await expect(busy).rejects.toMatchObject({ kind: 'budget' })
  })

  test('starts nothing when nothing is left', async () => {
    const { clock, ctx } = attempt()
    let ran = 0
    clock.advance(SOFT_MS)
    await expect(ctx.withBudget('5s', () => (ran += 1))).rejects.toMatchObject({ kind: 'execution' })
    expect(ran).toBe(0)
  })

  test('leaves no timer and no listener behind, however it ends', async () => {
    const { clock, aborter, ctx } = attempt()
    const added = vi.spyOn(aborter.signal, 'addEventListener')
    const removed = vi.spyOn(aborter.signal, 'removeEventListener')
    expect(await ctx.withBudget('5s', () => 7)).toBe(7)
    await expect(
      ctx.withBudget('5s', () => {
        throw new Error('no')
      }),
    ).rejects.toThrow('no')
    expect(clock.nextTimerAt()).toBeNull()
    expect(added).toHaveBeenCalledTimes(2)
    expect(removed).toHaveBeenCalledTimes(2)
  })
})

describe('calls', () => {
  test('a checkpoint is what it was when it was handed over', async () => {
    const { ctx, calls } = attempt()
    const state = { frame: 1, at: new Date(0) }
    const saved = ctx.checkpoint(state)
    state.frame = 2
    await saved
    expect(calls).toEqual([{ op: 'checkpoint', state: { frame: 1, at: '1970-01-01T00:00:00.000Z' } }])
  })

  test('what JSON would lose in silence is refused', async () => {
    const { ctx, calls } = attempt()
    await expect(ctx.checkpoint({ seen: new Set([1]) })).rejects.toThrow(
      'A checkpoint cannot be written as JSON: its field "seen" is a Set.',
    )
    await expect(ctx.progress(0.5, 'half', { later: () => {} })).rejects.toBeInstanceOf(TypeError)
    expect(calls).toEqual([])
  })

  test('progress goes from 0 to 1', async () => {
    const { ctx, calls } = attempt()
    await ctx.progress(0.4, 'frame 400')
    await expect(ctx.progress(40)).rejects.toBeInstanceOf(InputError)
    await expect(ctx.progress(NaN)).rejects.toBeInstanceOf(InputError)
    expect(calls).toEqual([{ op: 'progress', value: 0.4, message: 'frame 400' }])
  })

  test('an enqueue sends the arguments and the defaults of the job, without its schemas', async () => {
    const { ctx, calls } = attempt(() => ({ id: 'job-2' }))
    const schema = {
      '~standard': { version: 1 as const, vendor: 'test', validate: (value: unknown) => ({ value }) },
    }
    const thumbnail = defineJob('image.thumbnail', { input: schema, queue: 'images', limits: { timeout: '5s' } })
    await ctx.enqueue(thumbnail, { id: 'v1' }, { inheritDeadline: true })
    expect(calls).toEqual([
      {
        op: 'enqueue',
        type: 'image.thumbnail',
        input: [{ id: 'v1' }],
        options: { inheritDeadline: true },
        defaults: { queue: 'images', limits: { timeout: '5s' } },
      },
    ])
  })

  test('a failed call that is not awaited does not become an unhandled rejection', async () => {
    const { ctx } = attempt(() => {
      throw new RequestError({
        code: 'conflict',
        message: 'over',
        retryable: false,
        details: {},
        hint: null,
        requestId: null,
        status: 409,
        retryAfterMs: null,
      })
    })
    const unhandled: unknown[] = []
    const listen = (reason: unknown): void => void unhandled.push(reason)
    process.on('unhandledRejection', listen)
    try {
      void ctx.heartbeat()
      void ctx.progress(0.5)
      await new Promise((resolve) => setImmediate(resolve))
      expect(unhandled).toEqual([])
      await expect(ctx.heartbeat()).rejects.toMatchObject({ status: 409 })
    } finally {
      process.off('unhandledRejection', listen)
    }
  })
})
