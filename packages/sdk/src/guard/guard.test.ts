import { describe, expect, test } from 'vitest'
import { FakeClock, instant } from '@curfew/core'
import type { Isolate, IsolateKind, IsolateSetting } from '../isolate/isolate.ts'
import { Guard } from './guard.ts'
import type { BeatAnswer, GuardNews, Watched } from './protocol.ts'

const FACTS = {
  worker_id: 'me',
  hostname: 'h',
  pid: 1,
  queues: ['q'],
  concurrency: 2,
  labels: [],
  started_at: 'then',
}

/** A process that is stuck as soon as its handler has begun. */
class StuckIsolate implements Isolate {
  constructor(readonly setting: IsolateSetting) {}

  send(message: Parameters<Isolate['send']>[0]): void {
    if (message.t === 'run')
      this.setting.onMessage({ t: 'began', key: message.key, at: this.setting.host.monotonicMs() })
  }

  guard(): void {}

  async stack(): Promise<readonly string[]> {
    return ['at spin (handler.js:4:3)']
  }

  warn(): void {}

  end(): void {
    this.setting.onGone({ how: 'exit', code: 0 })
  }

  kill(): void {
    this.setting.onGone({ how: 'signal', signal: 'SIGKILL' })
  }
}

const KIND: IsolateKind = { isolation: 'process', module: 'file:///h.js', exportName: 'default', memoryMb: null }

class Stage {
  readonly clock = new FakeClock()
  readonly beats: Record<string, unknown>[] = []
  readonly news: GuardNews[] = []
  readonly isolates: StuckIsolate[] = []
  isAway = false
  /** Beats are answered when it opens. */
  gate: Promise<void> = Promise.resolve()
  answer: BeatAnswer = { state: 'running' }
  readonly guard: Guard

  constructor(fences = true) {
    const quiet = (): void => {}
    this.guard = new Guard({
      host: this.clock,
      log: { debug: quiet, info: quiet, warn: quiet, error: quiet },
      facts: FACTS,
      fences,
      beat: async (body) => {
        this.beats.push(body)
        if (this.isAway) throw new Error('away')
        await this.gate
        return this.answer
      },
      call: async () => {},
      tell: (news) => void this.news.push(news),
      startIsolate: (_kind, setting) => {
        const isolate = new StuckIsolate(setting)
        this.isolates.push(isolate)
        return isolate
      },
    })
    this.guard.obey({ op: 'registered', intervalMs: 5_000, timeoutMs: 30_000, askedAt: this.clock.now() })
  }

  async advance(ms: number): Promise<void> {
    for (let left = ms; left > 0; left -= 100) {
      this.clock.advance(Math.min(100, left))
      await new Promise((resolve) => void setImmediate(resolve))
    }
  }

  begin(key: string, more: Partial<Watched> = {}): void {
    const softStop = { why: 'deadline', kind: 'execution', limitMs: 1, source: 'type' } as const
    const hardAt = this.clock.now() + 1e9
    const attempt = {
      key,
      jobId: key,
      lease: 3,
      manual: false,
      stallMs: null,
      visibilityMs: null,
      listedAt: this.clock.now(),
      graceMs: 1_000,
      hardAt,
      softStop,
      ...more,
    }
    this.guard.obey({ op: 'begin', attempt })
  }

  /** Runs the attempt in an isolate; the server ends it `leadMs` after the kill. */
  run(
    key: string,
    {
      softMs,
      graceMs = 0,
      leadMs = 0,
      ...more
    }: { softMs: number; graceMs?: number; leadMs?: number } & Partial<Watched>,
  ): void {
    const softStop = { why: 'deadline', kind: 'execution', limitMs: softMs, source: 'type' } as const
    const softAt = this.clock.now() + softMs
    const hardAt = softAt + graceMs
    this.begin(key, { hardAt, graceMs, softStop, ...more })
    const facts = {
      jobId: key,
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
      softAt,
      softStop,
      hardAt,
    }
    this.guard.obey({ op: 'run', task: { key, ...KIND, serverEndsAt: hardAt + leadMs, facts } })
  }

  get ended(): string[] {
    return this.news.flatMap((news) => (news.op === 'ended' ? [news.key] : []))
  }

  get fences(): number {
    return this.news.filter(({ op }) => op === 'fence').length
  }
}

describe.each([{ visibilityMs: 1_000 }, { stallMs: 1_000 }])(
  'a reservation of a second in an isolate (%o)',
  (clock) => {
    test('lasts while beats that list it are answered', async () => {
      const stage = new Stage()
      stage.run('a', { softMs: 60_000, ...clock })
      await stage.advance(5_000)
      expect(stage.ended).toEqual([])
    })

    test('ends its handler before the server may hand the job out again, whatever the worker is doing', async () => {
      const stage = new Stage()
      stage.run('a', { softMs: 60_000, ...clock })
      await stage.advance(2_000)
      const [lastAnswered = 0] = stage.news.flatMap((news) => (news.op === 'beat' ? [news.askedAt] : [])).slice(-1)
      stage.isAway = true
      while (stage.ended.length === 0 && stage.clock.now() < lastAnswered + 2_000) await stage.advance(100)
      expect(stage.ended).toEqual(['a'])
      expect(stage.clock.now() - lastAnswered).toBeLessThanOrEqual(1_000)
      expect(stage.fences).toBe(0)
    })
  },
)

test('the answer to a beat says how many attempts the guard knew when it sent it', async () => {
  const stage = new Stage()
  let open = (): void => {}
  stage.gate = new Promise((resolve) => (open = resolve))
  stage.begin('a')
  await stage.advance(5_000)
  stage.begin('b')
  open()
  await stage.advance(5_000)
  expect(stage.news.filter(({ op }) => op === 'beat')).toMatchObject([{ begun: 1 }, { begun: 2 }])
})

describe('the guard of a worker', () => {
  test('beats every interval, with the jobs and their leases', async () => {
    const stage = new Stage()
    stage.begin('a')
    await stage.advance(20_000)
    expect(stage.beats).toHaveLength(4)
    expect(stage.beats[0]).toMatchObject({
      worker_id: 'me',
      state: 'running',
      active_jobs: 1,
      active_job_ids: ['a'],
      x_leases: { a: 3 },
    })
    expect(stage.beats[0]).not.toHaveProperty('x_beats')
    const seqs = stage.beats.map(({ seq }) => Number(seq))
    expect(seqs).toEqual([...seqs].sort((a, b) => a - b))
  })

  test('tells a new state at once', async () => {
    const stage = new Stage()
    stage.guard.obey({ op: 'state', state: 'terminate', epoch: 1 })
    await stage.advance(100)
    expect(stage.beats).toMatchObject([{ state: 'terminate' }])
  })

  test('a manual handler is vouched for by its own signs only, and in time', async () => {
    const stage = new Stage()
    stage.begin('auto')
    stage.begin('manual', { manual: true, stallMs: 2_000 })
    await stage.advance(5_000)
    expect(stage.beats[0]).toMatchObject({ active_job_ids: ['auto', 'manual'], x_beats: ['auto'] })
    stage.guard.obey({ op: 'sign', key: 'manual' })
    await stage.advance(100)
    expect(stage.beats[1]).toMatchObject({ x_beats: ['auto', 'manual'] })
    stage.guard.obey({ op: 'sign', key: 'manual' })
    await stage.advance(300)
    expect(stage.beats).toHaveLength(2)
    await stage.advance(200)
    expect(stage.beats).toHaveLength(3)
    expect(stage.beats[2]).toMatchObject({ x_beats: ['auto', 'manual'] })
  })

  test('a sign that did not arrive is given again', async () => {
    const stage = new Stage()
    stage.begin('manual', { manual: true, stallMs: 60_000 })
    stage.guard.obey({ op: 'sign', key: 'manual' })
    stage.isAway = true
    await stage.advance(5_000)
    stage.isAway = false
    await stage.advance(5_000)
    expect(stage.beats.map((beat) => beat['x_beats'])).toEqual([['manual'], ['manual']])
  })

  test.each([
    ['stall', { stallMs: 1_000 }],
    ['visibility', { visibilityMs: 1_000 }],
  ])('beats four times within a short %s clock, and at the usual interval once it is gone', async (_clock, terms) => {
    const stage = new Stage()
    stage.begin('short', terms)
    await stage.advance(1_000)
    expect(stage.beats.length).toBeGreaterThanOrEqual(3)
    stage.guard.obey({ op: 'end', key: 'short' })
    await stage.advance(5_000)
    const usual = stage.beats.length
    await stage.advance(20_000)
    expect(stage.beats.length - usual).toBe(4)
  })

  test('a beat that is not answered does not hold up the next one of a short clock', async () => {
    const stage = new Stage()
    stage.gate = new Promise(() => {})
    stage.begin('short', { stallMs: 2_000 })
    await stage.advance(1_500)
    expect(stage.beats.length).toBeGreaterThanOrEqual(2)
  })

  test('a sign waits for an answer while too many beats are unanswered, and sets no timer that never rests', async () => {
    const stage = new Stage()
    let answer: () => void = () => {}
    stage.gate = new Promise((resolve) => (answer = resolve))
    const setTimer = stage.clock.setTimer.bind(stage.clock)
    let timers = 0
    stage.clock.setTimer = (...args) => {
      if ((timers += 1) > 500) throw new Error('the guard sets timers without end')
      return setTimer(...args)
    }
    stage.begin('a', { manual: true, stallMs: 1_000 })
    for (let signs = 0; signs < 8; signs += 1) {
      stage.guard.obey({ op: 'sign', key: 'a' })
      await stage.advance(300)
    }
    expect(stage.beats).toHaveLength(4)
    answer()
    await stage.advance(200)
    expect(stage.beats).toHaveLength(5)
    expect(stage.beats[4]).toMatchObject({ x_beats: ['a'] })
  })

  test('a beat out of turn comes when it was asked for', async () => {
    const stage = new Stage()
    stage.guard.obey({ op: 'beat', inMs: 300 })
    await stage.advance(200)
    expect(stage.beats).toHaveLength(0)
    await stage.advance(100)
    expect(stage.beats).toHaveLength(1)
  })

  test('falls silent only when no beat is on its way, and beats no more', async () => {
    const stage = new Stage()
    let open: () => void = () => {}
    stage.gate = new Promise((resolve) => (open = resolve))
    await stage.advance(5_000)
    stage.guard.obey({ op: 'silence' })
    expect(stage.news.some(({ op }) => op === 'silenced')).toBe(false)
    open()
    await stage.advance(100)
    expect(stage.news.at(-1)).toEqual({ op: 'silenced' })
    await stage.advance(20_000)
    expect(stage.beats).toHaveLength(1)
  })

  test('falls silent after a second even if the last beat is never answered', async () => {
    const stage = new Stage()
    stage.gate = new Promise(() => {})
    await stage.advance(5_000)
    stage.guard.obey({ op: 'silence' })
    await stage.advance(1_000)
    expect(stage.news.filter(({ op }) => op === 'silenced')).toHaveLength(1)
  })

  test('where the server knows no signs, an unproven handler is left out', async () => {
    const stage = new Stage(false)
    stage.begin('auto')
    stage.begin('manual', { manual: true })
    await stage.advance(5_000)
    expect(stage.beats[0]).toMatchObject({ active_job_ids: ['auto'] })
    expect(stage.beats[0]).not.toHaveProperty('x_leases')
  })

  test('gives everything up shortly before the server could take the worker for dead, and once', async () => {
    const stage = new Stage()
    stage.begin('a')
    await stage.advance(10_000)
    stage.isAway = true
    await stage.advance(28_900)
    expect(stage.fences).toBe(0)
    await stage.advance(200)
    expect(stage.fences).toBe(1)
    await stage.advance(60_000)
    expect(stage.fences).toBe(1)
    stage.isAway = false
    await stage.advance(10_000)
    stage.isAway = true
    await stage.advance(40_000)
    expect(stage.fences).toBe(2)
  })

  test('counts from when the last good call was sent, not from its answer', async () => {
    const stage = new Stage()
    stage.isAway = true
    const sentAt = stage.clock.now()
    await stage.advance(4_000)
    stage.guard.obey({ op: 'contact', askedAt: sentAt })
    await stage.advance(25_000)
    expect(stage.fences).toBe(1)
  })

  test('goes on beating whatever comes, and says when no beat is answered', async () => {
    const stage = new Stage()
    stage.isAway = true
    await stage.advance(20_000)
    expect(stage.beats).toHaveLength(4)
    expect(stage.news.filter(({ op }) => op === 'beat-failed')).toHaveLength(4)
  })

  test('sends the stack of a stuck handler at once when the server would decide before its report', async () => {
    const stage = new Stage()
    stage.run('a', { softMs: 1_000 })
    await stage.advance(900)
    expect(stage.beats).toMatchObject([{ active_job_ids: ['a'], x_stacks: { a: ['at spin (handler.js:4:3)'] } }])
    stage.begin('b')
    await stage.advance(6_000)
    expect(stage.beats).toHaveLength(2)
    expect(stage.beats[1]).not.toHaveProperty('x_stacks')
  })

  test('sends a stack once: the attempt is over before another beat, and a server that refuses it must hear the next', async () => {
    const stage = new Stage()
    stage.isAway = true
    stage.run('a', { softMs: 4_900 })
    await stage.advance(15_000)
    expect(stage.beats.filter((beat) => 'x_stacks' in beat)).toHaveLength(1)
    expect(stage.beats.length).toBeGreaterThan(2)
  })

  test('keeps a stack to itself when the kill leads, or when the server knows no such field', async () => {
    const leading = new Stage()
    leading.run('a', { softMs: 1_000, graceMs: 2_000, leadMs: 100 })
    const plain = new Stage(false)
    plain.run('a', { softMs: 1_000 })
    for (const stage of [leading, plain]) {
      await stage.advance(5_000)
      expect(stage.beats).toHaveLength(1)
      expect(stage.beats[0]).not.toHaveProperty('x_stacks')
    }
  })

  test('answers whether the module of a handler can be loaded', async () => {
    const stage = new Stage()
    stage.guard.obey({ op: 'check', id: 1, kind: KIND })
    stage.guard.obey({ op: 'check', id: 2, kind: { ...KIND, exportName: 'other' } })
    const error = { name: 'IsolateError', code: 'export_not_found', message: 'no export' }
    stage.isolates[0]?.setting.onMessage({ t: 'ready' })
    stage.isolates[1]?.setting.onMessage({ t: 'unfit', error })
    await stage.advance(100)
    expect(stage.news).toEqual([
      { op: 'checked', id: 1, error: null },
      { op: 'checked', id: 2, error },
    ])
  })

  test('is silent when it is closed, and leaves no timer', async () => {
    const stage = new Stage()
    stage.guard.obey({ op: 'close' })
    await stage.advance(10_000)
    expect(stage.beats).toEqual([])
    expect(stage.clock.nextTimerAt()).toBeNull()
    expect(stage.news).toEqual([{ op: 'closed' }])
  })
})

describe('what attempts log', () => {
  const line = (message: string) => ({ at: instant(0), message })
  const logsOf = (stage: Stage): unknown[] => stage.beats.map(({ x_logs: logs }) => logs)

  test('goes with the beats until one of them is answered, and the worker hears that it is stored', async () => {
    const stage = new Stage()
    stage.begin('a')
    stage.guard.obey({ op: 'log', key: 'a', lines: { from: 0, lines: [line('one')] } })
    stage.isAway = true
    await stage.advance(5_000)
    stage.isAway = false
    stage.guard.obey({ op: 'log', key: 'a', lines: { from: 1, lines: [line('two')] } })
    await stage.advance(10_000)
    const at = '1970-01-01T00:00:00.000Z'
    expect(logsOf(stage)).toEqual([
      { a: { from: 0, lines: [{ at, message: 'one' }] } },
      {
        a: {
          from: 0,
          lines: [
            { at, message: 'one' },
            { at, message: 'two' },
          ],
        },
      },
      undefined,
    ])
    expect(stage.news.filter(({ op }) => op === 'log-stored')).toEqual([{ op: 'log-stored', key: 'a', before: 2 }])
  })

  test('is left out when another call has carried it, and when the attempt is over', async () => {
    const stage = new Stage()
    for (const key of ['a', 'b']) {
      stage.begin(key)
      stage.guard.obey({ op: 'log', key, lines: { from: 0, lines: [line(key)] } })
    }
    stage.guard.obey({ op: 'log-stored', key: 'a', before: 1 })
    stage.guard.obey({ op: 'end', key: 'b' })
    stage.guard.obey({ op: 'log', key: 'b', lines: { from: 1, lines: [line('late')] } })
    await stage.advance(5_000)
    expect(logsOf(stage)).toEqual([undefined])
  })

  test('never makes a beat too large: the rest goes with the next one', async () => {
    const stage = new Stage()
    const lines = Array.from({ length: 15 }, () => line('x'.repeat(1_000)))
    for (let n = 0; n < 30; n += 1) {
      stage.begin(String(n))
      stage.guard.obey({ op: 'log', key: String(n), lines: { from: 0, lines } })
    }
    await stage.advance(10_000)
    const [first, second] = logsOf(stage).map((logs) => Object.keys(logs as object))
    expect(JSON.stringify(stage.beats[0]?.['x_logs']).length).toBeLessThan(300_000)
    expect([first?.length, (first?.length ?? 0) + (second?.length ?? 0)]).toEqual([expect.any(Number), 30])
    expect(second?.length).toBeGreaterThan(0)
  })
})
