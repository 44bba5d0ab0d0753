import { FakeClock } from '@curfew/core'
import { describe, expect, test } from 'vitest'
import { silentLog } from '../log.ts'
import type { Gone, Isolate, IsolateKind, IsolateSetting } from './isolate.ts'
import { Isolates } from './isolates.ts'
import type { FromIsolate, ToIsolate } from './messages.ts'
import type { Ending, Stop } from '../attempt/facts.ts'
import type { IsolateTask } from './protocol.ts'

const softStop: Stop = { why: 'deadline', kind: 'execution', limitMs: 1_000, source: 'handler' }

/** An isolate that does what the test says. */
class FakeIsolate implements Isolate {
  readonly heard: (ToIsolate['t'] | 'warn' | 'kill' | 'look')[] = []
  readonly sent: ToIsolate[] = []
  guarded: { hardAt: number; leaseAt: number } | null = null
  stackSeen: readonly string[] | null = ['at stuck (handler.js:1:1)']
  #key = ''

  constructor(
    readonly kind: IsolateKind,
    readonly setting: IsolateSetting,
    /** Whether its handlers begin at once. */
    readonly begins: boolean,
  ) {}

  send(message: ToIsolate): void {
    this.heard.push(message.t)
    this.sent.push(message)
    if (message.t !== 'run') return
    this.#key = message.key
    if (this.begins) this.begin(this.setting.host.monotonicMs())
  }

  guard(until: { hardAt: number; leaseAt: number } | null): void {
    this.guarded = until
  }

  async stack(): Promise<readonly string[] | null> {
    this.heard.push('look')
    return this.stackSeen
  }

  warn(): void {
    this.heard.push('warn')
  }

  end(): void {
    this.heard.push('end')
  }

  kill(): void {
    this.heard.push('kill')
  }

  say(message: FromIsolate): void {
    this.setting.onMessage(message)
  }

  begin(at: number): void {
    this.say({ t: 'began', key: this.#key, at })
  }

  done(at: number, clean = true): void {
    this.say({ t: 'done', key: this.#key, at, outcome: { ok: true, json: '"done"' }, clean })
  }

  go(gone: Gone = { how: 'exit', code: 1 }): void {
    this.setting.onGone(gone)
  }
}

function world(most = 2, { begins = true } = {}) {
  const clock = new FakeClock(0)
  const started: FakeIsolate[] = []
  const ended: Record<string, Ending> = {}
  const complaints: string[] = []
  const calls: string[] = []
  const stacks: Record<string, readonly string[]> = {}
  const isolates = new Isolates(
    {
      host: clock,
      most,
      log: { ...silentLog, error: (_fields, message) => void complaints.push(message) },
      onCall: (key, id) => void calls.push(`${key} ${String(id)}`),
      onStack: (key, stack) => {
        stacks[key] = stack
      },
      onEnded: (key, ending) => {
        expect(ended).not.toHaveProperty(key)
        ended[key] = ending
      },
    },
    (kind, setting) => {
      const isolate = new FakeIsolate(kind, setting, begins)
      started.push(isolate)
      return isolate
    },
  )
  const run = (
    key: string,
    changes: Partial<IsolateTask> & { softMs?: number; graceMs?: number; leadMs?: number } = {},
  ): void => {
    const { softMs = 1_000, graceMs = 400, leadMs = 250, ...task } = changes
    const softAt = clock.monotonicMs() + softMs
    isolates.run({
      key,
      isolation: 'process',
      module: 'file:///handler.js',
      exportName: 'default',
      memoryMb: null,
      serverEndsAt: softAt + graceMs + leadMs,
      facts: {
        jobId: key,
        type: 'test.job',
        queue: 'default',
        attempt: 1,
        lease: 1,
        maxAttempts: null,
        args: [],
        input: [],
        meta: {},
        lastCheckpoint: null,
        workflowId: null,
        parentResults: [],
        softAt,
        softStop,
        hardAt: softAt + graceMs,
      },
      ...task,
    })
  }
  const at = (index: number): FakeIsolate => {
    const isolate = started[index]
    if (isolate === undefined) throw new Error(`only ${String(started.length)} isolates were started`)
    return isolate
  }
  return { clock, isolates, started, ended, complaints, calls, stacks, run, at }
}

/** Lets promises that are settled be heard. */
const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve))

describe('finding an isolate', () => {
  test('a warm isolate is used again for tasks of the same kind', () => {
    const { run, at, started, ended } = world()
    run('a')
    at(0).done(5)
    run('b')
    expect(started).toHaveLength(1)
    expect(at(0).heard).toEqual(['run', 'run'])
    expect(ended['a']).toEqual({ kind: 'returned', result: 'done' })
  })

  test.each<[string, Partial<IsolateTask>]>([
    ['export', { exportName: 'other' }],
    ['module', { module: 'file:///other.js' }],
    ['isolation', { isolation: 'thread' }],
    ['memory limit', { memoryMb: 64 }],
  ])('a task of another %s gets an isolate of its own', (_what, change) => {
    const { run, at, started } = world()
    run('a')
    at(0).done(5)
    run('b', change)
    expect(started).toHaveLength(2)
    expect(at(1).kind).toMatchObject(change)
  })

  test('there are never more than the most: the next task waits for the first end', () => {
    const { run, at, started } = world(2)
    run('a')
    run('b')
    run('c')
    expect(started).toHaveLength(2)
    at(1).done(5)
    expect(started).toHaveLength(2)
    expect(at(1).heard).toEqual(['run', 'run'])
  })

  test('an idle isolate of another kind makes room, and is gone before the new one starts', () => {
    const { run, at, started } = world(1)
    run('a')
    at(0).done(5)
    run('b', { exportName: 'other' })
    expect(at(0).heard).toEqual(['run', 'end'])
    expect(started).toHaveLength(1)
    at(0).go({ how: 'exit', code: 0 })
    expect(started).toHaveLength(2)
    expect(at(1).heard).toEqual(['run'])
  })

  test('only as many idle ones are sent away as are needed', () => {
    const { run, at, started } = world(3)
    for (const key of ['a', 'b', 'c']) run(key)
    for (const isolate of started) isolate.done(5)
    run('d', { exportName: 'other' }) // one has to go for it
    run('e') // one is warm for it
    expect(started.filter(({ heard }) => heard.includes('end'))).toHaveLength(1)
    expect(at(1).heard).toEqual(['run', 'run'])
  })

  test('an isolate with processes left behind is not used again', () => {
    const { run, at, started, ended } = world()
    run('a')
    at(0).done(5, false)
    expect(ended['a']).toMatchObject({ kind: 'returned' })
    expect(at(0).heard).toEqual(['run', 'kill'])
    run('b')
    expect(started).toHaveLength(2)
  })

  test('a task whose warm isolate is gone before its handler began gets another', () => {
    const { run, at, ended } = world(2, { begins: false })
    run('a')
    at(0).begin(1)
    at(0).done(5)
    run('b')
    at(0).go({ how: 'exit', code: 1 })
    expect(ended).not.toHaveProperty('b')
    at(1).begin(6)
    at(1).done(9)
    expect(ended['b']).toMatchObject({ kind: 'returned' })
  })

  test('a fresh isolate that dies before the handler began is a death', () => {
    const { run, at, ended } = world(2, { begins: false })
    run('a')
    at(0).go({ how: 'exit', code: 3 })
    expect(ended['a']).toMatchObject({ kind: 'died', error: { code: 'isolate_exited' } })
  })

  test('what cannot be started is a death, and the next task is tried', () => {
    const clock = new FakeClock(0)
    const ended: Ending[] = []
    const isolates = new Isolates(
      {
        host: clock,
        most: 1,
        log: silentLog,
        onCall: () => {},
        onStack: () => {},
        onEnded: (_key, ending) => void ended.push(ending),
      },
      () => {
        throw new Error('no threads left')
      },
    )
    const facts = { softAt: 10, hardAt: 20, softStop } as IsolateTask['facts']
    const task: IsolateTask = {
      key: 'a',
      isolation: 'thread',
      module: 'file:///h.js',
      exportName: 'default',
      memoryMb: null,
      serverEndsAt: 20,
      facts,
    }
    isolates.run(task)
    isolates.run({ ...task, key: 'b' })
    expect(ended).toHaveLength(2)
    expect(ended[0]).toMatchObject({ kind: 'died', error: { code: 'isolate_not_started' } })
    expect(clock.nextTimerAt()).toBeNull()
  })
})

describe('deadlines', () => {
  test('a task still waiting at its soft deadline has no time left, and never starts', () => {
    const { clock, run, at, ended } = world(1)
    run('a', { softMs: 5_000 })
    run('b')
    clock.advance(1_000)
    expect(ended['b']).toEqual({ kind: 'not_begun', stop: softStop, stack: null, startMs: 1_000 })
    at(0).done(1_000)
    expect(at(0).heard).toEqual(['run'])
  })

  test('at the hard deadline it is killed, after a look at its stack and a word to its children', async () => {
    const { clock, run, at, ended } = world()
    run('a')
    clock.advance(1_199)
    expect(at(0).heard).toEqual(['run'])
    clock.advance(1) // half of the grace
    expect(at(0).heard).toEqual(['run', 'warn'])
    clock.advance(50)
    expect(at(0).heard).toEqual(['run', 'warn', 'look'])
    await turn()
    clock.advance(149)
    expect(at(0).heard).not.toContain('kill')
    clock.advance(1)
    expect(at(0).heard).toEqual(['run', 'warn', 'look', 'kill'])
    expect(ended).toEqual({})
    at(0).go({ how: 'signal', signal: 'SIGKILL' })
    expect(ended['a']).toEqual({ kind: 'killed', stop: softStop, stack: ['at stuck (handler.js:1:1)'] })
  })

  test('the kill does not wait for a stack', () => {
    const { clock, run, at, ended } = world()
    run('a')
    clock.advance(1_400)
    expect(at(0).heard).toContain('kill')
    at(0).go()
    expect(ended['a']).toMatchObject({ kind: 'killed', stack: null })
  })

  test('a killed isolate runs no other handler, not even before it is gone', () => {
    const { clock, run, at, started } = world()
    run('a')
    clock.advance(1_400)
    run('b')
    expect(started).toHaveLength(2)
    expect(at(0).heard.filter((word) => word === 'run')).toHaveLength(1)
  })

  test('what was settled in time counts, though it is heard while the isolate is being killed', () => {
    const { clock, run, at, ended } = world()
    run('a')
    clock.advance(1_400)
    at(0).done(1_399.9)
    at(0).go()
    expect(ended['a']).toEqual({ kind: 'returned', result: 'done' })
  })

  test('what was settled after the deadline does not count, though the timer is late', () => {
    const { clock, run, at, ended } = world()
    run('a')
    clock.advance(1_399)
    at(0).done(1_400.1)
    expect(ended).toEqual({})
    clock.advance(1)
    at(0).go()
    expect(ended['a']).toMatchObject({ kind: 'killed' })
  })

  test('stop aborts at once, kills at its instant, and is the reason', () => {
    const { clock, isolates, run, at, ended } = world()
    run('a')
    clock.advance(100)
    isolates.stop('a', { why: 'cancelled' }, 300)
    expect(at(0).heard).toEqual(['run', 'abort'])
    expect(at(0).sent.at(-1)).toEqual({ t: 'abort', key: 'a', stop: { why: 'cancelled' }, killAt: 300 })
    expect(at(0).guarded).toMatchObject({ hardAt: 300 })
    clock.advance(200)
    expect(at(0).heard.at(-1)).toBe('kill')
    at(0).go()
    expect(ended['a']).toMatchObject({ kind: 'killed', stop: { why: 'cancelled' } })
  })

  test('stop never gives more time than there was', () => {
    const { clock, isolates, run, at } = world()
    run('a')
    isolates.stop('a', { why: 'shutdown' }, 60_000)
    expect(at(0).sent.at(-1)).toMatchObject({ t: 'abort', killAt: 1_400 })
    clock.advance(1_400)
    expect(at(0).heard.at(-1)).toBe('kill')
  })

  test('the first reason stays the reason, whatever hurries it along', () => {
    const { clock, isolates, run, at, ended } = world()
    run('a')
    clock.advance(1_001)
    isolates.stop('a', { why: 'shutdown' }, 1_050)
    clock.advance(49)
    at(0).go()
    expect(ended['a']).toMatchObject({ kind: 'killed', stop: softStop })
  })

  test('stop of a task that waits ends it before it starts', () => {
    const { isolates, run, started, ended } = world(1)
    run('a')
    run('b')
    isolates.stop('b', { why: 'cancelled' }, 5_000)
    expect(ended['b']).toEqual({ kind: 'not_begun', stop: { why: 'cancelled' }, stack: null, startMs: 0 })
    expect(started).toHaveLength(1)
  })

  test('a killed isolate that does not go is given up, and its room too', () => {
    const { clock, run, at, started, ended, complaints } = world(1)
    run('a', { isolation: 'thread' })
    clock.advance(1_400)
    run('b', { isolation: 'thread' })
    at(0).go({ how: 'stuck' })
    expect(ended['a']).toMatchObject({ kind: 'killed' })
    expect(started).toHaveLength(2)
    expect(complaints[0]).toContain('blocked in native code')
  })
})

describe('an isolate that takes its time to start', () => {
  test('is said to have been starting when it is killed before its handler began', async () => {
    const { clock, run, at, ended } = world(1, { begins: false })
    run('a')
    clock.advance(1_250)
    await turn()
    clock.advance(150)
    at(0).go({ how: 'signal', signal: 'SIGKILL' })
    expect(ended['a']).toEqual({
      kind: 'not_begun',
      stop: softStop,
      stack: ['at stuck (handler.js:1:1)'],
      startMs: 1_400,
    })
  })

  test('is said to have been starting when it was ready only after the soft deadline', () => {
    const { clock, run, at, ended } = world(1, { begins: false })
    run('a')
    clock.advance(1_100)
    const error = { name: 'DeadlineError', message: 'Time is up' }
    at(0).say({ t: 'done', key: 'a', at: 1_100, outcome: { ok: false, error }, clean: true })
    expect(ended['a']).toEqual({ kind: 'not_begun', stop: softStop, stack: null, startMs: 1_100 })
  })

  test('tells in every ending but a result how long that was', async () => {
    const { clock, run, at, ended } = world(3, { begins: false })
    for (const key of ['killed', 'threw', 'died']) run(key)
    for (const index of [0, 1, 2]) at(index).begin(240.9)
    clock.advance(1_000)
    const error = { name: 'Error', message: 'no' }
    at(1).say({ t: 'done', key: 'threw', at: 1_000, outcome: { ok: false, error }, clean: true })
    at(2).go({ how: 'exit', code: 1 })
    clock.advance(400)
    at(0).go()
    expect(ended).toMatchObject({
      killed: { kind: 'killed', startMs: 240 },
      threw: { kind: 'threw', error, startMs: 240 },
      died: { kind: 'died', startMs: 240 },
    })
  })

  test('is not spoken of when the handler began at once', () => {
    const { clock, run, at, ended } = world()
    run('a')
    clock.advance(1_400)
    at(0).go()
    expect(ended['a']).toEqual({ kind: 'killed', stop: softStop, stack: null })
  })
})

describe('a stack for the server', () => {
  test.each([0, 49])('is handed on before the kill when the lead of the kill is %i ms', async (leadMs) => {
    const { clock, run, stacks } = world()
    run('a', { graceMs: 0, leadMs })
    clock.advance(849)
    await turn()
    expect(stacks).toEqual({})
    clock.advance(1)
    await turn()
    expect(stacks).toEqual({ a: ['at stuck (handler.js:1:1)'] })
  })

  test('is looked for at half of the time when less is left than the look is early', async () => {
    const { clock, run, stacks } = world()
    run('a', { softMs: 80, graceMs: 0, leadMs: 0 })
    clock.advance(39)
    await turn()
    expect(stacks).toEqual({})
    clock.advance(1)
    await turn()
    expect(stacks).toHaveProperty('a')
  })

  test('stays here when the kill is early enough for the report to arrive', async () => {
    const { clock, run, at, stacks, ended } = world()
    run('a', { leadMs: 50 })
    clock.advance(1_399)
    await turn()
    clock.advance(1)
    at(0).go()
    expect(stacks).toEqual({})
    expect(ended['a']).toMatchObject({ stack: ['at stuck (handler.js:1:1)'] })
  })

  test('is not handed on when there was none, or when the task ended meanwhile', async () => {
    const { clock, run, at, stacks } = world()
    run('a', { graceMs: 0, leadMs: 0 })
    run('b', { graceMs: 0, leadMs: 0 })
    at(0).stackSeen = null
    clock.advance(850)
    at(1).done(850)
    await turn()
    expect(stacks).toEqual({})
  })
})

describe('a check', () => {
  const kind: IsolateKind = { isolation: 'process', module: 'file:///h.js', exportName: 'default', memoryMb: null }
  const kindOf = (exportName: string): IsolateKind => ({ ...kind, exportName })

  test('succeeds when the module is loaded, and its isolate stays warm for the first task', async () => {
    const { isolates, run, at, started } = world()
    const checked = isolates.check(kind)
    at(0).say({ t: 'ready' })
    expect(await checked).toBeNull()
    run('a', { module: kind.module })
    expect(started).toHaveLength(1)
    expect(at(0).heard).toEqual(['run'])
  })

  test('fails with the error of a module that is not fit, and its isolate goes', async () => {
    const { isolates, at } = world()
    const checked = isolates.check(kind)
    const error = { name: 'IsolateError', code: 'export_not_found', message: 'no such export' }
    at(0).say({ t: 'unfit', error })
    expect(await checked).toEqual(error)
    expect(at(0).heard).toEqual(['kill'])
    at(0).go()
  })

  test('fails when its isolate dies, or cannot be started', async () => {
    const { isolates, at } = world()
    const checked = isolates.check(kind)
    at(0).go({ how: 'exit', code: 3 })
    expect(await checked).toMatchObject({ code: 'isolate_exited' })
  })

  test('fails after ten seconds, with the place where the module is stuck, and leaves no timer', async () => {
    const { clock, isolates, at } = world()
    const checked = isolates.check(kind)
    clock.advance(9_999)
    await turn()
    expect(at(0).heard).toEqual(['look'])
    clock.advance(1)
    expect(at(0).heard).toEqual(['look', 'kill'])
    expect(await checked).toMatchObject({
      code: 'isolate_start_timeout',
      message: expect.stringContaining('file:///h.js'),
      stack: expect.stringContaining('at stuck (handler.js:1:1)'),
    })
    at(0).go()
    expect(clock.nextTimerAt()).toBeNull()
  })

  test('waits for room, and an isolate that is loaded makes room for the next check', async () => {
    const { isolates, at, started } = world(1)
    const checked = ['a', 'b'].map((name) => isolates.check(kindOf(name)))
    expect(started).toHaveLength(1)
    at(0).say({ t: 'ready' })
    expect(await checked[0]).toBeNull()
    expect(at(0).heard).toEqual(['end'])
    at(0).go({ how: 'exit', code: 0 })
    at(1).say({ t: 'ready' })
    expect(await checked[1]).toBeNull()
    expect(at(1).heard).toEqual([])
  })

  test('starts only a few isolates at the same time: each would slow the others down', async () => {
    const { isolates, at, started } = world(10)
    const checked = Array.from({ length: 6 }, (_, index) => isolates.check(kindOf(String(index))))
    expect(started).toHaveLength(4)
    for (let index = 0; index < 6; index += 1) at(index).say({ t: 'ready' })
    expect(await Promise.all(checked)).toEqual([null, null, null, null, null, null])
    expect(started.every(({ heard }) => heard.length === 0)).toBe(true)
  })

  test('is answered at once when an isolate of its kind is idle', async () => {
    const { isolates, run, at, started } = world()
    run('a')
    at(0).done(5)
    expect(await isolates.check({ ...kind, module: 'file:///handler.js' })).toBeNull()
    expect(started).toHaveLength(1)
  })

  test('comes after tasks', () => {
    const { isolates, run, at } = world(1)
    run('a')
    void isolates.check(kindOf('other'))
    run('b')
    at(0).done(5)
    expect(at(0).heard).toEqual(['run', 'run'])
  })

  test('ends with close, under way or not', async () => {
    const { clock, isolates, at, started } = world(1)
    const checked = ['a', 'b'].map((name) => isolates.check(kindOf(name)))
    const closed = isolates.close()
    expect(await Promise.all(checked)).toMatchObject([{ code: 'isolates_closed' }, { code: 'isolates_closed' }])
    expect(at(0).heard).toEqual(['kill'])
    at(0).go()
    await closed
    expect(started).toHaveLength(1)
    expect(await isolates.check(kind)).toMatchObject({ code: 'isolates_closed' })
    expect(clock.nextTimerAt()).toBeNull()
  })
})

describe('the lease', () => {
  test('every running isolate is guarded by the hard deadline and the lease, and none that is idle', () => {
    const { isolates, run, at } = world()
    run('a')
    expect(at(0).guarded).toEqual({ hardAt: 1_400, leaseAt: Infinity })
    isolates.renew(700)
    expect(at(0).guarded).toEqual({ hardAt: 1_400, leaseAt: 700 })
    at(0).done(5)
    expect(at(0).guarded).toBeNull()
    isolates.renew(900)
    expect(at(0).guarded).toBeNull()
    run('b')
    expect(at(0).guarded).toMatchObject({ leaseAt: 900 })
  })

  test('an isolate that ended itself with the lease has lost it, unless it was to stop before', () => {
    const { clock, isolates, run, at, ended } = world()
    run('a')
    isolates.renew(700)
    at(0).go({ how: 'switch', why: 'lease' })
    expect(ended['a']).toMatchObject({ kind: 'killed', stop: { why: 'lost' } })
    run('b')
    isolates.renew(1_200)
    clock.advance(1_250)
    at(1).go({ how: 'switch', why: 'lease' })
    expect(ended['b']).toMatchObject({ kind: 'killed', stop: softStop })
  })

  test('an isolate that ended itself at its hard deadline was killed, not dead', () => {
    const { run, at, ended } = world()
    run('a')
    at(0).go({ how: 'switch', why: 'hard' })
    expect(ended['a']).toMatchObject({ kind: 'killed', stop: softStop })
  })
})

describe('calls', () => {
  test('a call reaches the worker while its task runs, and no more after', () => {
    const { run, at, calls } = world()
    run('a')
    const call: FromIsolate = { t: 'call', key: 'a', id: 1, call: { op: 'heartbeat' } }
    at(0).say(call)
    at(0).done(5)
    at(0).say({ ...call, id: 2 })
    expect(calls).toEqual(['a 1'])
  })

  test('a reply to a task that has ended goes nowhere', () => {
    const { isolates, run, at } = world()
    run('a')
    isolates.reply('a', 1, { ok: true, value: null })
    at(0).done(5)
    isolates.reply('a', 2, { ok: true, value: null })
    expect(at(0).heard).toEqual(['run', 'reply'])
  })
})

describe('close', () => {
  test('kills what runs, ends what is idle, drops what waits, and resolves when all are gone', async () => {
    const { clock, isolates, run, at, ended } = world(2)
    run('a')
    run('b')
    at(1).done(5)
    run('c', { exportName: 'other' }) // waits for the second one to go
    run('d', { exportName: 'other' })
    let isClosed = false
    void isolates.close().then(() => (isClosed = true))
    expect(at(0).heard.at(-1)).toBe('kill')
    expect(at(1).heard.at(-1)).toBe('end')
    expect(ended).toMatchObject({ c: { kind: 'not_begun', stop: { why: 'shutdown' } }, d: { kind: 'not_begun' } })
    at(0).go()
    await turn()
    expect(isClosed).toBe(false)
    at(1).go()
    await isolates.close()
    await turn()
    expect(isClosed).toBe(true)
    expect(ended['a']).toMatchObject({ kind: 'killed', stop: { why: 'shutdown' } })
    expect(clock.nextTimerAt()).toBeNull()
    expect(() => {
      run('e')
    }).toThrow('closed')
  })

  test('lets an idle isolate go in its own way', async () => {
    const { isolates, run, at } = world()
    run('a')
    at(0).done(5)
    const closed = isolates.close()
    expect(at(0).heard).toEqual(['run', 'end'])
    at(0).go({ how: 'exit', code: 0 })
    await closed
  })

  test('with nothing there it resolves at once', async () => {
    await world().isolates.close()
  })
})
