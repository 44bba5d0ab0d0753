import { describe, expect, test } from 'vitest'
import { after, FakeClock, millis } from '@curfew/core'
import { Attempt, type AttemptPorts } from './attempt.ts'
import { RequestError } from '../errors.ts'
import type { AttemptFacts } from './facts.ts'

const SOFT = { why: 'deadline', kind: 'execution', limitMs: 1_000, source: 'handler' } as const

interface Stage {
  readonly clock: FakeClock
  readonly attempt: Attempt
  readonly saved: unknown[]
  readonly heard: string[]
  readonly signal: AbortSignal
}

function stage(more: Partial<AttemptPorts> = {}): Stage {
  const clock = new FakeClock()
  const [saved, heard]: [unknown[], string[]] = [[], []]
  const facts: AttemptFacts = {
    jobId: 'a',
    type: 't',
    queue: 'q',
    attempt: 1,
    lease: 1,
    maxAttempts: 3,
    args: [],
    input: [],
    meta: {},
    lastCheckpoint: null,
    workflowId: null,
    parentResults: [],
    softAt: after(clock.now(), millis(1_000)),
    softStop: SOFT,
    hardAt: after(clock.now(), millis(1_500)),
  }
  const attempt = new Attempt({ jobId: 'a', attempt: 1, lease: 1 }, facts, {
    host: clock,
    saveCheckpoint: async (_hold, state) => void saved.push(state),
    saveProgress: async () => {},
    log: () => {},
    enqueue: async () => null,
    onSign: (isBare) => void heard.push(isBare ? 'sign for the next beat' : 'sign'),
    onLost: () => void heard.push('lost'),
    ...more,
  })
  return { clock, attempt, saved, heard, signal: attempt.context.signal }
}

async function flushed(attempt: Attempt, clock: FakeClock): Promise<void> {
  attempt.close()
  const flushing = attempt.flush()
  clock.advance(5_000)
  await flushing
}

describe('the handler side of an attempt', () => {
  test('its signal keeps the first reason to stop', () => {
    const { clock, attempt, signal } = stage()
    attempt.abort(SOFT, after(clock.now(), millis(500)), false)
    attempt.abort({ why: 'shutdown' }, after(clock.now(), millis(100)), false)
    expect(signal.reason).toMatchObject({ code: 'deadline' })
  })

  test('tells its handler how long the grace is, and what is left of it once it has begun', () => {
    const { clock, attempt } = stage()
    expect(attempt.context.graceRemaining()).toBe(500)
    clock.advance(1_200)
    attempt.abort(SOFT, after(clock.now(), millis(300)), false)
    expect(attempt.context.graceRemaining()).toBe(300)
    attempt.abort({ why: 'shutdown' }, after(clock.now(), millis(100)), false)
    expect(attempt.context.graceRemaining()).toBe(100)
    attempt.abort({ why: 'shutdown' }, after(clock.now(), millis(200)), false)
    expect(attempt.context.graceRemaining()).toBe(100)
  })

  test('that is lost or over has no grace', () => {
    const lost = stage()
    let atAbort: number | null = null
    lost.signal.addEventListener('abort', () => (atAbort = lost.attempt.context.graceRemaining()))
    lost.attempt.abort({ why: 'lost' }, after(lost.clock.now(), millis(200)), true)
    expect(atAbort).toBe(0)
    const over = stage()
    over.attempt.close()
    expect(over.attempt.context.graceRemaining()).toBe(0)
  })

  test('a heartbeat is carried by the next beat; progress and checkpoints are signs of their own', async () => {
    const { attempt, heard } = stage()
    await attempt.context.heartbeat()
    await attempt.context.progress(0.5)
    await attempt.context.checkpoint(1)
    expect(heard).toEqual(['sign for the next beat', 'sign', 'sign'])
  })

  test('a checkpoint that the server refuses means that the lease is lost', async () => {
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
    const { attempt, heard } = stage({ saveCheckpoint: () => Promise.reject(refusal) })
    await expect(attempt.context.checkpoint(1)).rejects.toBe(refusal)
    expect(heard).toContain('lost')
  })

  test.each(['checkpoint', 'progress'] as const)(
    'a handler that waits for the answer to its %s learns at once that its lease is lost',
    async (op) => {
      const never = (): Promise<void> => new Promise(() => {})
      const { attempt, clock } = stage({ saveCheckpoint: never, saveProgress: never })
      const save = (): Promise<void> =>
        op === 'progress' ? attempt.context.progress(0.5) : attempt.context.checkpoint(1)
      const waiting = save()
      attempt.abort({ why: 'lost' }, after(clock.now(), millis(200)), true)
      await expect(waiting).rejects.toMatchObject({ code: 'lost_lease' })
      await expect(save()).rejects.toMatchObject({ code: 'lost_lease' })
    },
  )

  test('once it is over it can save nothing any more', async () => {
    const { attempt, saved } = stage()
    await attempt.context.checkpoint(1)
    attempt.close()
    await expect(attempt.context.checkpoint(2)).rejects.toMatchObject({ code: 'lost_lease' })
    expect(saved).toEqual([1])
  })

  test('waits until what the handler saved has arrived, within a bound', async () => {
    const { attempt, clock } = stage({ saveCheckpoint: () => new Promise(() => {}) })
    void attempt.context.checkpoint(1)
    let isFlushed = false
    const flushing = attempt.flush().then(() => (isFlushed = true))
    clock.advance(4_999)
    await Promise.resolve()
    expect(isFlushed).toBe(false)
    clock.advance(1)
    await flushing
    expect(clock.nextTimerAt()).toBeNull()
  })

  test.each([
    ['it was waited for long enough', ({ attempt, clock }: Stage) => flushed(attempt, clock)],
    ['its handler was given up', ({ attempt }: Stage) => void attempt.giveUp()],
  ])('what did not arrive is not sent again once %s', async (_, end) => {
    let sending: AbortSignal | null = null as AbortSignal | null
    const on = stage({
      saveCheckpoint: (_hold, _state, signal) => {
        sending = signal
        return new Promise(() => {})
      },
    })
    void on.attempt.context.checkpoint(1)
    expect(sending?.aborted).toBe(false)
    await end(on)
    expect(sending?.aborted).toBe(true)
  })
})
