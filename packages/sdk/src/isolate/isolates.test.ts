import { FakeClock } from '@curfew/core'
import { describe, expect, test } from 'vitest'
import { silentLog } from '../log.ts'
import type { Gone, Isolate, IsolateKind, IsolateSetting } from './isolate.ts'
import { Isolates } from './isolates.ts'
import type { FromIsolate, ToIsolate } from './messages.ts'
import type { Ending, IsolateTask, Stop } from './protocol.ts'

const softStop: Stop = { why: 'deadline', kind: 'execution', limitMs: 1_000, source: 'handler' }

/** An isolate that does what the test says. */
class FakeIsolate implements Isolate {
  readonly heard: (ToIsolate['t'] | 'warn' | 'kill' | 'look')[] = []
  guarded: { hardAt: number; leaseAt: number } | null = null
  stackSeen: readonly string[] | null = ['at stuck (handler.js:1:1)']
  #key = ''

  constructor(
    readonly kind: IsolateKind,
    readonly setting: IsolateSetting,
  ) {}

  send(message: ToIsolate): void {
    this.heard.push(message.t)
    if (message.t === 'run') this.#key = message.key
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

  begin(): void {
    this.say({ t: 'began', key: this.#key })
  }

  done(at: number, clean = true): void {
    this.say({ t: 'done', key: this.#key, at, outcome: { ok: true, json: '"done"' }, clean })
  }

  go(gone: Gone = { how: 'exit', code: 1 }): void {
    this.setting.onGone(gone)
  }
}

function world(most = 2) {
  const clock = new FakeClock(0)
  const started: FakeIsolate[] = []
  const ended: Record<string, Ending> = {}
  const complaints: string[] = []
  const calls: string[] = []
  const isolates = new Isolates(
    {
      host: clock,
      most,
      log: { ...silentLog, error: (_fields, message) => void complaints.push(message) },
      onCall: (key, id) => void calls.push(`${key} ${String(id)}`),
      onEnded: (key, ending) => {
        expect(ended).not.toHaveProperty(key)
        ended[key] = ending
      },
    },
    (kind, setting) => {
      const isolate = new FakeIsolate(kind, setting)
      started.push(isolate)
      return isolate
    },
  )
  const run = (key: string, changes: Partial<IsolateTask> & { softMs?: number; graceMs?: number } = {}): void => {
    const { softMs = 1_000, graceMs = 400, ...task } = changes
    const softAt = clock.monotonicMs() + softMs
    isolates.run({
      key,
      isolation: 'process',
      module: 'file:///handler.js',
      exportName: 'default',
      memoryMb: null,
      facts: {
        jobId: key,
        type: 'test.job',
        queue: 'default',
        attempt: 1,
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
  return { clock, isolates, started, ended, complaints, calls, run, at }
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
    const { run, at, ended } = world()
    run('a')
    at(0).begin()
    at(0).done(5)
    run('b')
    at(0).go({ how: 'exit', code: 1 })
    expect(ended).not.toHaveProperty('b')
    at(1).begin()
    at(1).done(9)
    expect(ended['b']).toMatchObject({ kind: 'returned' })
  })

  test('a fresh isolate that dies before the handler began is a death', () => {
    const { run, at, ended } = world()
    run('a')
    at(0).go({ how: 'exit', code: 3 })
    expect(ended['a']).toMatchObject({ kind: 'died', error: { code: 'isolate_exited' } })
  })

  test('what cannot be started is a death, and the next task is tried', () => {
    const clock = new FakeClock(0)
    const ended: Ending[] = []
    const isolates = new Isolates(
      { host: clock, most: 1, log: silentLog, onCall: () => {}, onEnded: (_key, ending) => void ended.push(ending) },
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
    expect(ended['b']).toEqual({ kind: 'killed', stop: softStop, stack: null })
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
    expect(ended['b']).toEqual({ kind: 'killed', stop: { why: 'cancelled' }, stack: null })
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
    expect(ended).toMatchObject({ c: { kind: 'killed', stop: { why: 'shutdown' } }, d: { kind: 'killed' } })
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
