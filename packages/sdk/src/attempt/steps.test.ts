import { FakeClock, instant, MAX_DURABLE_STEPS, type StoredStep } from '@curfew/core'
import { describe, expect, test } from 'vitest'
import { createContext, type Context } from './context.ts'
import {
  DeadlineError,
  NonRetryableError,
  ShutdownError,
  SleepingError,
  StepDeadlineError,
  StepError,
} from '../errors.ts'
import type { AttemptFacts, Call, StepFacts } from './facts.ts'
import { LazyAbort } from './lazy-abort.ts'

const SOFT_MS = 10_000
/** The server's clock is ahead of the worker's. */
const AHEAD_MS = 5_000_000

interface Stage {
  readonly clock: FakeClock
  readonly ctx: Context
  readonly calls: Call[]
  readonly stop: (reason: Error) => void
  readonly stored: () => StoredStep[]
}

function stage(known: Partial<StepFacts> = {}, answer: (call: Call) => unknown = () => null): Stage {
  const clock = new FakeClock(1_000_000)
  const aborter = new LazyAbort()
  const calls: Call[] = []
  const facts: AttemptFacts = {
    jobId: 'job-1',
    type: 'order.pay',
    queue: 'default',
    attempt: 2,
    lease: 2,
    maxAttempts: 3,
    args: [],
    input: null,
    meta: {},
    lastCheckpoint: null,
    steps: { stored: [], serverOffsetMs: AHEAD_MS, totalAt: null, totalMs: null, totalSource: 'publish', ...known },
    workflowId: null,
    parentResults: [],
    softAt: clock.monotonicMs() + SOFT_MS,
    softStop: { why: 'deadline', kind: 'execution', limitMs: SOFT_MS, source: 'handler' },
    hardAt: clock.monotonicMs() + SOFT_MS + 1_000,
  }
  const ctx = createContext(facts, aborter, {
    host: clock,
    random: () => 0.5,
    endsAt: () => facts.hardAt,
    call: async (call) => {
      calls.push(call)
      return answer(call)
    },
  })
  const stored = (): StoredStep[] => calls.flatMap((call) => (call.op === 'step' ? [call.step] : []))
  const stop = (reason: Error): void => {
    aborter.abort(reason)
  }
  return { clock, ctx, calls, stop, stored }
}

function storedStep(name: string, position: number, more: Partial<StoredStep> = {}): StoredStep {
  const [from, to] = [instant(1_000), instant(2_000)]
  return { name, position, isOrdered: true, attempt: 1, from, to, isSleep: false, ...more }
}

const forever = (): Promise<never> => new Promise(() => {})
const turn = (): Promise<void> => new Promise((resolve) => void setImmediate(resolve))

/** Turns the clock so long as the promise is open. */
async function played<T>(clock: FakeClock, promise: Promise<T>, byMs = 100): Promise<T> {
  let isOpen = true
  const watched = promise.finally(() => (isOpen = false))
  watched.catch(() => {})
  for (let rounds = 0; rounds < 1_000; rounds += 1) {
    await turn()
    if (!isOpen) break
    clock.advance(byMs)
  }
  return watched
}

describe('a step', () => {
  test('gives its result only when the result is stored', async () => {
    let release = (): void => {}
    const { ctx, stored } = stage({}, () => new Promise<null>((resolve) => (release = () => void resolve(null))))
    let given: unknown = 'nothing yet'
    const charged = ctx.step('charge', () => ({ id: 7 })).then((result) => (given = result))
    await turn()
    expect([given, stored().length]).toEqual(['nothing yet', 1])
    release()
    await charged
    expect(given).toEqual({ id: 7 })
  })

  test('gives what an earlier attempt stored, and does not run', async () => {
    const { ctx, calls } = stage({ stored: [storedStep('charge', 0, { result: { id: 7 } }), storedStep('mail', 1)] })
    expect(await ctx.step('charge', () => expect.fail('it ran again'))).toEqual({ id: 7 })
    expect(await ctx.step('mail', () => expect.fail('it ran again'))).toBeUndefined()
    expect(calls).toEqual([])
  })

  test('stores when it began and ended on the clock of the server, and which attempt ran it', async () => {
    const { clock, ctx, stored } = stage()
    const from = clock.monotonicMs() + AHEAD_MS
    await ctx.step('charge', () => {
      clock.advance(250)
    })
    const isStored = { name: 'charge', position: 0, isOrdered: true, attempt: 2, isSleep: false }
    expect(stored()).toEqual([{ ...isStored, from, to: from + 250 }])
  })

  test('gives the first time what it will give later: plain JSON', async () => {
    const { ctx } = stage()
    expect(await ctx.step('when', () => ({ at: new Date(0), gone: undefined }))).toEqual({
      at: '1970-01-01T00:00:00.000Z',
    })
  })

  test('is stopped by its own timeout, and the error names step, limit and milliseconds', async () => {
    const { clock, ctx, calls } = stage()
    let signal: AbortSignal | undefined
    const paying = ctx.step('charge', { timeout: '5s' }, (own) => {
      signal = own
      return forever()
    })
    const error = await played(clock, paying).catch((thrown: unknown) => thrown)
    expect(error).toBeInstanceOf(StepDeadlineError)
    expect(error).toMatchObject({ step: 'charge', kind: 'step', limitMs: 5_000, code: 'deadline' })
    expect((error as Error).message).toBe(
      'Step "charge" was stopped: the step limit of 5000 ms (set by the step) has passed.',
    )
    expect([signal?.aborted, ctx.signal.aborted, calls]).toEqual([true, false, []])
  })

  test('is stopped with its attempt where that comes first', async () => {
    const { clock, ctx } = stage()
    const error = await played(clock, ctx.step('charge', { timeout: '1m' }, forever)).catch((thrown: unknown) => thrown)
    expect(error).toMatchObject({ step: 'charge', kind: 'execution', limitMs: SOFT_MS, source: 'handler' })
  })

  test('whose result comes after its time is not stored, even if no timer could fire', async () => {
    const { clock, ctx, calls } = stage()
    const busy = ctx.step('busy', { timeout: '1s' }, () => {
      clock.advance(1_000)
      return 'late'
    })
    await expect(busy).rejects.toMatchObject({ step: 'busy', kind: 'step' })
    expect(calls).toEqual([])
  })

  test('does not start when nothing is left', async () => {
    const { clock, ctx } = stage()
    clock.advance(SOFT_MS)
    const error = await ctx.step('charge', () => expect.fail('it ran')).catch((thrown: unknown) => thrown)
    expect((error as Error).message).toBe(
      'Step "charge" was not started: the execution limit of 10000 ms (set by handler) has passed.',
    )
  })

  test('does not start after its handler was asked to stop, and says why', async () => {
    const { ctx, stop } = stage()
    stop(new ShutdownError())
    await expect(ctx.step('charge', () => expect.fail('it ran'))).rejects.toBeInstanceOf(ShutdownError)
  })
})

describe('a retry within the attempt', () => {
  const twice = { maxAttempts: 2, initialInterval: '1s', jitter: false } as const

  test('runs a failed step again after its backoff', async () => {
    const { clock, ctx } = stage()
    const at: number[] = []
    const paying = ctx.step('charge', { retry: twice }, () => {
      at.push(clock.monotonicMs())
      if (at.length === 1) throw new Error('busy line')
      return 'paid'
    })
    expect(await played(clock, paying)).toBe('paid')
    expect((at[1] ?? 0) - (at[0] ?? 0)).toBe(1_000)
  })

  test('gives up with the last error when the next run could not begin in time', async () => {
    const { clock, ctx } = stage()
    let runs = 0
    const retry = { maxAttempts: 9, initialInterval: '4s', jitter: false, backoffStrategy: 'none' } as const
    const paying = ctx.step('charge', { retry }, () => {
      runs += 1
      throw new Error(`failure ${String(runs)}`)
    })
    await expect(played(clock, paying)).rejects.toThrow('failure 3')
    expect(clock.monotonicMs()).toBeLessThan(1_000_000 + SOFT_MS)
  })

  test('does not run again what retrying would not mend', async () => {
    const { clock, ctx } = stage()
    let runs = 0
    const failing = (error: Error) => () => {
      runs += 1
      throw error
    }
    const listed = Object.assign(new Error('no card'), { code: 'card.unknown' })
    await played(clock, ctx.step('a', { retry: twice }, failing(new NonRetryableError('no')))).catch(() => {})
    const retry = { ...twice, nonRetryableErrors: ['card.*'] }
    await played(clock, ctx.step('b', { retry }, failing(listed))).catch(() => {})
    expect(runs).toBe(2)
  })

  test('begins a run only when the one before it has ended', async () => {
    const { clock, ctx } = stage()
    let open = 0
    let most = 0
    let runs = 0
    const deaf = async (): Promise<string> => {
      runs += 1
      open += 1
      most = Math.max(most, open)
      await new Promise<void>((resolve) => void clock.setTimer(runs === 1 ? 4_000 : 0, resolve))
      open -= 1
      return 'paid'
    }
    const paying = ctx.step('charge', { timeout: '2s', retry: { ...twice, initialInterval: '100ms' } }, deaf)
    expect([await played(clock, paying), runs, most]).toEqual(['paid', 2, 1])
  })
})

describe('misuse', () => {
  const refused = (code: string, step: string) => ({ name: 'StepError', code, step })

  test('two steps of one name', async () => {
    const { ctx } = stage()
    await ctx.step('charge', () => 1)
    await expect(ctx.step('charge', () => 2)).rejects.toMatchObject({
      ...refused('step_repeated', 'charge'),
      retryable: false,
    })
  })

  test('a result that is not JSON fails once and for all: the step has run', async () => {
    const { ctx, calls } = stage()
    const error = await ctx.step('list', () => new Map()).catch((thrown: unknown) => thrown)
    expect(error).toMatchObject({ ...refused('step_result', 'list'), retryable: false })
    expect((error as Error).message).toContain('Return plain JSON')
    expect(calls).toEqual([])
  })

  test.each(['', 'x'.repeat(201), 7])('a name that is none: %j', async (name) => {
    await expect(stage().ctx.step(name as string, () => 1)).rejects.toMatchObject({ code: 'step_name' })
  })

  test('more steps than a job may store', async () => {
    const stored = Array.from({ length: MAX_DURABLE_STEPS }, (_, index) => storedStep(`s${String(index)}`, index))
    const { ctx } = stage({ stored })
    for (const { name } of stored) await ctx.step(name, () => expect.fail('it ran again'))
    await expect(ctx.step('one more', () => 1)).rejects.toMatchObject(refused('too_many_steps', 'one more'))
  })
})

describe('code that changed while the job was open', () => {
  const before = [storedStep('charge', 0), storedStep('mail', 1)]

  test('a renamed step does not run: the stored one is not reached', async () => {
    const { ctx } = stage({ stored: before })
    await ctx.step('charge', () => 1)
    const error = await ctx.step('send-mail', () => expect.fail('it ran')).catch((thrown: unknown) => thrown)
    expect(error).toMatchObject({ code: 'step_order_changed', step: 'send-mail', retryable: true })
    expect((error as Error).message).toContain('Step "mail" was stored by attempt 1')
  })

  test('stored steps may be reached in another order, and new ones may follow', async () => {
    const { ctx } = stage({ stored: before })
    await ctx.step('mail', () => expect.fail('it ran again'))
    await ctx.step('charge', () => expect.fail('it ran again'))
    expect(await ctx.step('report', () => 'new')).toBe('new')
  })

  test('steps that run side by side may end in any order', async () => {
    const first = stage()
    await Promise.all([first.ctx.step('slow', forever).catch(() => {}), first.ctx.step('quick', () => 1)].slice(1))
    await turn()
    expect(first.stored()).toMatchObject([{ name: 'quick', position: 1, isOrdered: false }])
    const next = stage({ stored: first.stored() })
    expect(await Promise.all([next.ctx.step('slow', () => 's'), next.ctx.step('quick', () => 'again')])).toEqual([
      's',
      1,
    ])
  })

  test('a step that stood in for one that failed is not asked for again', async () => {
    const first = stage()
    await first.ctx.step('by-card', () => Promise.reject(new Error('declined'))).catch(() => {})
    await first.ctx.step('by-bank', () => 1)
    const next = stage({ stored: first.stored() })
    await next.ctx.step('by-card', () => 1)
    expect(await next.ctx.step('mail', () => 'sent')).toBe('sent')
  })

  test('a step that has become a sleep is refused', async () => {
    await expect(stage({ stored: before }).ctx.sleep('charge', '1s')).rejects.toMatchObject({
      code: 'step_order_changed',
    })
  })
})

describe('a sleep', () => {
  test('is stored with its end, and then ends the attempt', async () => {
    const { clock, ctx, calls } = stage()
    const until = clock.monotonicMs() + AHEAD_MS + 7_200_000
    const error = await ctx.sleep('cool-down', '2h').catch((thrown: unknown) => thrown)
    expect(error).toBeInstanceOf(SleepingError)
    expect(error).toMatchObject({ step: 'cool-down', until: new Date(until), code: 'sleeping' })
    expect(calls).toMatchObject([
      { op: 'step', step: { name: 'cool-down', isSleep: true, to: until } },
      { op: 'sleep', name: 'cool-down', until },
    ])
  })

  test('that is over is passed', async () => {
    const { clock, ctx, calls } = stage({
      stored: [storedStep('cool-down', 0, { isSleep: true, to: instant(1_000_000 + AHEAD_MS) })],
    })
    expect(clock.monotonicMs() + AHEAD_MS).toBeGreaterThanOrEqual(1_000_000 + AHEAD_MS)
    await ctx.sleep('cool-down', '2h')
    expect(calls).toEqual([])
  })

  test('does not count as over while the clock of the server may not have reached its end', async () => {
    const to = instant(1_000_000 + AHEAD_MS)
    // The question for the job was on its way for up to a second: the worker's idea of the server's clock is ahead.
    const { clock, ctx, calls } = stage({
      stored: [storedStep('cool-down', 0, { isSleep: true, to })],
      leastOffsetMs: AHEAD_MS - 1_000,
    })
    expect(clock.monotonicMs()).toBe(1_000_000)
    await expect(ctx.sleep('cool-down', '2h')).rejects.toBeInstanceOf(SleepingError)
    expect(calls).toEqual([{ op: 'sleep', name: 'cool-down', until: to }])
  })

  test('that an attempt comes back to too early goes on to the stored end, and is not stored again', async () => {
    const first = stage()
    await first.ctx.sleep('cool-down', '2h').catch(() => {})
    const { ctx, calls } = stage({ stored: first.stored() })
    await expect(ctx.sleep('cool-down', '2h')).rejects.toBeInstanceOf(SleepingError)
    expect(calls).toEqual([{ op: 'sleep', name: 'cool-down', until: first.stored()[0]?.to }])
  })

  test('that would end after the total deadline fails at once, and says so', async () => {
    const { clock, ctx, calls } = stage({ totalAt: 1_000_000 + AHEAD_MS + 3_600_000, totalMs: 3_600_000 })
    clock.advance(0)
    const error = await ctx.sleep('cool-down', '2h').catch((thrown: unknown) => thrown)
    expect(error).toBeInstanceOf(StepError)
    expect(error).toMatchObject({ code: 'sleep_beyond_total', retryable: false })
    expect((error as Error).message).toContain('total_timeout 3600000 ms, set by publish')
    expect(calls).toEqual([])
  })

  test('waits for the steps beside it: their results are stored before the attempt ends', async () => {
    const { ctx, calls } = stage()
    let finish = (): void => {}
    const step = ctx.step('slow', () => new Promise<void>((resolve) => (finish = resolve)))
    const sleeping = ctx.sleep('cool-down', '2h')
    await turn()
    expect(calls.map(({ op }) => op)).toEqual(['step'])
    finish()
    await expect(sleeping).rejects.toBeInstanceOf(SleepingError)
    await step
    expect(calls.map(({ op }) => op)).toEqual(['step', 'step', 'sleep'])
  })

  test('lets no other step begin afterwards, if its error is swallowed', async () => {
    const { ctx } = stage()
    await ctx.sleep('cool-down', '2h').catch(() => {})
    await expect(ctx.step('charge', () => expect.fail('it ran'))).rejects.toBeInstanceOf(SleepingError)
  })

  test('needs a server that can hold a job back', async () => {
    await expect(stage({ serverOffsetMs: null }).ctx.sleep('a', '1s')).rejects.toMatchObject({ code: 'unsupported' })
  })
})

test('a deadline error of a step is a deadline error', () => {
  expect(new StepDeadlineError('a', 'step', 5, 'the step')).toBeInstanceOf(DeadlineError)
})
