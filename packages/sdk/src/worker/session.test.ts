import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { after, instant, millis, type Instant } from '@curfew/core'
import type { StopOrder, WorkerState } from '../guard/protocol.ts'
import type { HandedJob } from '../wire.ts'
import type { Call, CallAnswer, Effect, Input, Orders, ServerFeatures } from './inputs.ts'
import { Session } from './session.ts'

type Done<K extends Effect['do']> = Effect & { do: K }

/** A session whose inputs a test says one by one; what it wanted done is kept. */
class Drive {
  now: Instant = instant(1_000_000)
  readonly session: Session
  effects: Effect[] = []

  constructor(concurrency = 2, server: ServerFeatures = { orders: true, waits: true }) {
    const limits = {}
    const handlers = new Map([
      ['inline', { isolated: false, manual: false, limits }],
      ['isolated', { isolated: true, manual: false, limits }],
      ['manual', { isolated: false, manual: true, limits }],
    ])
    this.session = new Session({ concurrency, drainMs: millis(25_000), handlers, random: () => 0.5 }, this.now)
    this.say({ in: 'begin', server })
    this.say({ in: 'registered', askedAt: this.now, intervalMs: millis(5_000), timeoutMs: millis(30_000) })
  }

  /** Says it, and lets the turn of the event loop end. */
  say(input: Input): this {
    this.effects.push(...this.session.step(input, this.now))
    while (this.session.wantsTurn) this.effects.push(...this.session.step({ in: 'turn' }, this.now))
    return this
  }

  wait(ms: number): this {
    this.now = after(this.now, millis(ms))
    return this.say({ in: 'due' })
  }

  all<K extends Effect['do']>(what: K): Done<K>[] {
    return this.effects.filter((effect): effect is Done<K> => effect.do === what)
  }

  last<K extends Effect['do']>(what: K): Done<K> {
    const found = this.all(what).at(-1)
    if (found === undefined) throw new Error(`it did not ${what}`)
    return found
  }

  /** Calls that were sent and neither answered nor hung up by the test. */
  get open(): Call[] {
    return this.all('call')
      .map(({ call }) => call)
      .filter(({ id }) => !this.#over.has(id) && !this.all('hang-up').some(({ call }) => call === id))
  }

  readonly #over = new Set<number>()

  get listening(): Call {
    const call = this.open.findLast(({ listen }) => listen !== null)
    if (call === undefined) throw new Error('no call is open')
    return call
  }

  get reporting(): Call | undefined {
    return this.open.find(({ reports }) => reports.length > 0)
  }

  answer(call: Call, more: Partial<CallAnswer> = {}): this {
    this.#over.add(call.id)
    return this.say({
      in: 'answered',
      call: call.id,
      answer: {
        deliveries: call.reports.map(() => ({ kind: 'done' })),
        jobs: [],
        asked: { at: this.now, waitedMs: millis(0) },
        orders: null,
        failure: null,
        ...more,
      },
    })
  }

  fail(call: Call): this {
    this.#over.add(call.id)
    return this.say({ in: 'failed', call: call.id, reason: 'reset', tooLarge: null })
  }

  bring(...jobs: HandedJob[]): this {
    return this.answer(this.listening, { jobs })
  }

  order(...stops: StopOrder[]): this {
    return this.answer(this.listening, { orders: { stops, isForgotten: false } })
  }

  beat(orders: Partial<Orders> = {}, more: Partial<Input & { in: 'beat' }> = {}): this {
    return this.say({
      in: 'beat',
      sentAt: this.now,
      epoch: this.epoch,
      orders: { stops: [], isForgotten: false, ...orders },
      unlisted: [],
      ...more,
    })
  }

  get epoch(): number {
    return this.all('tell-guard').at(-1)?.epoch ?? 0
  }

  settle(key: string): this {
    return this.say({ in: 'settled', key, ending: { kind: 'returned', result: 1 } })
  }

  throws(key: string): this {
    return this.say({ in: 'settled', key, ending: { kind: 'threw', error: { name: 'Error', message: 'no' } } })
  }

  get started(): string[] {
    return this.all('start').map(({ key }) => key)
  }

  /** What was handed back so far. */
  get handedBack(): string[] {
    return this.all('call').flatMap(({ call }) =>
      call.reports.flatMap((report) =>
        report.kind === 'nack' && report.requeue ? [`${report.hold.jobId}#${String(report.hold.lease)}`] : [],
      ),
    )
  }
}

function job(id: string, lease = 1, more: Partial<HandedJob> = {}): HandedJob {
  return {
    id,
    type: 'inline',
    queue: 'default',
    args: [],
    state: 'active',
    attempt: 1,
    x_lease: lease,
    x_limits: {
      timeout_ms: 60_000,
      grace_ms: 10_000,
      soft_ms: 60_000,
      hard_ms: 70_000,
      visibility_ms: 100_000,
      on_timeout: 'retry',
      sources: { timeout: 'type' },
    },
    ...more,
  }
}

const cancelled = (jobId: string, lease: number): StopOrder => ({ job_id: jobId, reason: 'cancelled', x_lease: lease })

describe('the open call', () => {
  test('asks for as many jobs as slots are free', () => {
    expect(new Drive(3).listening).toMatchObject({ count: 3, listen: { state: 'running' } })
  })

  test('stays open and asks for none while no slot is free', () => {
    const drive = new Drive(1).bring(job('a'))
    expect(drive.listening.count).toBe(0)
  })

  test('is replaced when a slot is free again and reports brought no job', () => {
    const drive = new Drive(1).bring(job('a'))
    const before = drive.listening
    drive.settle('a#1')
    expect(drive.reporting).toMatchObject({ count: 1 })
    drive.answer(drive.reporting ?? before)
    expect(drive.listening.count).toBe(1)
    expect(drive.listening.listen?.seq).toBeGreaterThan(before.listen?.seq ?? Infinity)
  })

  test('tells the server which orders were received, once', () => {
    const drive = new Drive().bring(job('a')).order(cancelled('a', 1))
    expect(drive.listening.listen?.heard).toEqual([{ jobId: 'a', lease: 1 }])
    drive.fail(drive.listening).wait(200)
    expect(drive.listening.listen?.heard).toEqual([{ jobId: 'a', lease: 1 }])
    drive.answer(drive.listening, { asked: { at: drive.now, waitedMs: millis(0) } }).wait(2_000)
    expect(drive.listening.listen?.heard).toEqual([])
  })

  test('that is answered empty at once is not opened again without end', () => {
    const drive = new Drive()
    const count = drive.all('call').length
    drive.answer(drive.listening)
    expect(drive.all('call')).toHaveLength(count)
    drive.wait(1_500)
    expect(drive.all('call')).toHaveLength(count + 1)
  })
})

describe('attempts by lease', () => {
  test('a newer lease stops the older attempt of its job, and begins when that is over', () => {
    const drive = new Drive().bring(job('a', 1)).bring(job('a', 2))
    expect(drive.last('abort')).toMatchObject({ key: 'a#1', stop: { why: 'lost' } })
    expect(drive.started).toEqual(['a#1'])
    drive.throws('a#1')
    expect(drive.started).toEqual(['a#1', 'a#2'])
  })

  test('an isolate of the older attempt is killed half a second later', () => {
    const drive = new Drive().bring(job('a', 1, { type: 'isolated' })).bring(job('a', 2, { type: 'isolated' }))
    expect(drive.last('abort')).toMatchObject({ key: 'a#1', endsAt: after(drive.now, millis(500)) })
  })

  test('the older lease is in no beat any more', () => {
    const drive = new Drive().bring(job('a', 1)).bring(job('a', 2))
    expect(drive.all('unwatch').map(({ key }) => key)).toContain('a#1')
    expect(drive.all('watch').map(({ watched }) => watched.lease)).toEqual([1, 2])
  })

  test('the newer attempt is handed back if the older handler does not stop', () => {
    const drive = new Drive().bring(job('a', 1)).bring(job('a', 2)).wait(5_000)
    expect(drive.started).toEqual(['a#1'])
    expect(drive.handedBack).toContain('a#2')
  })

  test('an older lease that arrives after a newer one is not started', () => {
    const drive = new Drive().bring(job('a', 2)).bring(job('a', 1))
    expect(drive.started).toEqual(['a#2'])
  })

  test('an order stops only the lease it names', () => {
    const drive = new Drive().bring(job('a', 2)).order(cancelled('a', 1))
    expect(drive.all('abort')).toEqual([])
    drive.order(cancelled('a', 2))
    expect(drive.last('abort')).toMatchObject({ key: 'a#2', stop: { why: 'cancelled' } })
  })

  test('a cancelled attempt that waits for an older one never begins', () => {
    const drive = new Drive().bring(job('a', 1)).bring(job('a', 2)).order(cancelled('a', 2)).throws('a#1')
    expect(drive.started).toEqual(['a#1'])
  })
})

describe('deadlines', () => {
  test('the signal comes at the soft deadline, the end at the hard one, to the millisecond', () => {
    const drive = new Drive().bring(job('a'))
    for (let ms = 0; ms < 50_000; ms += 10_000) drive.wait(10_000).beat()
    drive.wait(9_999)
    expect(drive.all('abort')).toEqual([])
    drive.beat().wait(1)
    expect(drive.last('abort')).toMatchObject({ stop: { why: 'deadline', kind: 'execution' } })
    drive.beat().wait(9_999)
    expect(drive.all('abandon')).toEqual([])
    drive.wait(1)
    expect(drive.last('abandon')).toMatchObject({ key: 'a#1' })
  })

  test('an isolate that does not end is waited for a while longer, and then its slot is free', () => {
    const drive = new Drive(1).bring(job('a', 1, { type: 'isolated' })).beat()
    for (let ms = 0; ms < 74_000; ms += 1_000) drive.wait(1_000).beat()
    expect(drive.session.active).toBe(1)
    drive.wait(1_000)
    expect(drive.session.active).toBe(0)
  })

  test('that the lease is lost counts for more than the deadline before', () => {
    const drive = new Drive().bring(job('a')).beat()
    for (let ms = 0; ms < 60_000; ms += 10_000) drive.wait(10_000).beat()
    drive.order({ job_id: 'a', reason: 'lost', x_lease: 1 }).throws('a#1')
    expect(drive.handedBack).toEqual(['a#1'])
  })

  test('a handler that must give signs of life and does not is stopped as stalled', () => {
    const limits = { ...job('a').x_limits, heartbeat_timeout_ms: 400 } as NonNullable<HandedJob['x_limits']>
    const drive = new Drive().bring(job('a', 1, { type: 'manual', x_limits: limits })).wait(300)
    drive.say({ in: 'sign', key: 'a#1' }).wait(399)
    expect(drive.all('abort')).toEqual([])
    drive.wait(1)
    expect(drive.last('abort')).toMatchObject({ stop: { kind: 'stalled', limitMs: 400 } })
  })

  test('a job that arrives when its time is up is not started', () => {
    const drive = new Drive()
    const asked = { at: instant(drive.now - 60_000), waitedMs: millis(0) }
    drive.answer(drive.listening, { jobs: [job('a')], asked })
    expect(drive.started).toEqual([])
    expect(drive.reporting?.reports).toMatchObject([{ kind: 'nack', error: { type: 'timeout' } }])
  })

  test('every attempt is stopped when the server was not heard for nearly its worker timeout', () => {
    const drive = new Drive().bring(job('a')).wait(28_999)
    expect(drive.all('abort')).toEqual([])
    drive.wait(1)
    expect(drive.last('abort')).toMatchObject({ stop: { why: 'lost' } })
  })
})

describe('not running', () => {
  test.each(['quiet', 'terminate'] as const)('what arrives while the worker is %s is handed back', (state) => {
    const drive = new Drive()
    const asking = drive.listening
    drive.say(state === 'quiet' ? { in: 'quiet' } : { in: 'stop', drainMs: millis(25_000), exits: false })
    drive.answer(asking, { jobs: [job('a')] })
    expect(drive.started).toEqual([])
    expect(drive.handedBack).toEqual(['a#1'])
  })

  test('the open call is replaced at once by one that asks for nothing', () => {
    const drive = new Drive()
    drive.say({ in: 'quiet' })
    expect(drive.listening).toMatchObject({ count: 0, listen: { state: 'quiet' } })
  })

  test('a hand-back waits until no call that asks for jobs is open', () => {
    const drive = new Drive(3).bring(job('a', 1)).bring(job('a', 2))
    const asking = drive.listening
    expect(asking.count).toBeGreaterThan(0)
    drive.say({ in: 'quiet' })
    expect(drive.handedBack).toEqual([])
    drive.answer(asking)
    expect(drive.handedBack).toEqual(['a#2'])
  })

  test('a call that is not answered after it was replaced is hung up', () => {
    const drive = new Drive()
    const asking = drive.listening
    drive.say({ in: 'quiet' }).wait(2_000)
    expect(drive.last('hang-up')).toEqual({ do: 'hang-up', call: asking.id })
  })

  test('takes jobs again after resume, with its own word or the operator’s', () => {
    const drive = new Drive().say({ in: 'quiet' }).say({ in: 'resume' })
    expect(drive.listening).toMatchObject({ listen: { state: 'running' } })
    drive.beat({ state: 'quiet' })
    expect(drive.session.state).toBe('quiet')
    drive.beat({ state: 'running' })
    expect(drive.session.state).toBe('running')
  })

  test.each([
    ['quiet', 'running'],
    ['running', 'quiet'],
  ] as [WorkerState, WorkerState][])(
    'an answer to a beat from before the change to %s does not undo it',
    (now, was) => {
      const drive = new Drive()
      if (now === 'running') drive.say({ in: 'quiet' })
      const before = drive.epoch
      drive.say(now === 'quiet' ? { in: 'quiet' } : { in: 'resume' })
      drive.beat({ state: was }, { epoch: before })
      expect(drive.session.state).toBe(now)
    },
  )

  test('a server without orders cannot resume a worker by echoing a state', () => {
    const drive = new Drive(1, { orders: false, waits: true }).say({ in: 'quiet' }).beat({ state: 'running' })
    expect(drive.session.state).toBe('quiet')
  })
})

describe('leaving', () => {
  const stop: Input = { in: 'stop', drainMs: millis(25_000), exits: false }

  test('goes in order: terminate, the open call, hand-backs, handlers, silence, deregistration', () => {
    const drive = new Drive().bring(job('a'))
    const asking = drive.listening
    drive.say(stop)
    expect(drive.last('tell-guard').state).toBe('terminate')
    drive.answer(asking, { jobs: [job('b')] })
    expect(drive.reporting?.reports).toMatchObject([{ hold: { jobId: 'b' }, requeue: true }])
    drive.answer(drive.reporting ?? asking)
    expect(drive.all('silence')).toEqual([])
    drive.settle('a#1')
    expect(drive.all('silence')).toEqual([])
    drive.answer(drive.reporting ?? asking)
    expect(drive.all('silence')).toHaveLength(1)
    expect(drive.open).toEqual([])
    expect(drive.all('deregister')).toEqual([])
    drive.say({ in: 'silenced' })
    expect(drive.last('deregister').leases).toEqual([])
    drive.say({ in: 'deregistered' })
    expect(drive.all('ended')).toHaveLength(1)
  })

  test('an idle worker waits for the answer of its open call', () => {
    const drive = new Drive()
    const asking = drive.listening
    drive.say(stop)
    expect(drive.all('silence')).toEqual([])
    drive.answer(asking)
    expect(drive.all('silence')).toHaveLength(1)
  })

  test('nothing is sent after the worker fell silent', () => {
    const drive = new Drive()
    const asking = drive.listening
    drive.say(stop).answer(asking)
    const sent = drive.all('call').length
    drive.beat({ stops: [cancelled('a', 1)] }).wait(60_000)
    expect(drive.all('call')).toHaveLength(sent)
  })

  test('an inline handler that ignores the signal keeps its lease until it ends', () => {
    const drive = new Drive().bring(job('a')).say(stop).say({ in: 'hurry' })
    expect(drive.last('abort')).toMatchObject({ stop: { why: 'shutdown' } })
    drive.beat().wait(20_000).beat()
    expect(drive.handedBack).toEqual([])
    expect(drive.all('silence')).toEqual([])
    drive.throws('a#1')
    expect(drive.handedBack).toEqual(['a#1'])
  })

  test('a handler that outlasts the time to clean up is waited for without a timer that never rests', () => {
    const drive = new Drive().bring(job('a')).say({ in: 'stop', drainMs: millis(0), exits: false })
    drive.wait(2_000)
    const { now } = drive
    drive.effects = []
    drive.wait(0)
    expect(drive.all('wake').filter(({ at }) => at <= now)).toEqual([])
  })

  test('a hand-back that did not arrive is not named as begun by the deregistration', () => {
    const drive = new Drive().bring(job('a')).say({ in: 'quiet' })
    drive.answer(drive.open.find(({ count }) => count > 0) ?? drive.listening, { jobs: [job('b')] })
    drive.say({ in: 'stop', drainMs: millis(60_000), exits: false }).settle('a#1')
    expect(drive.handedBack).toEqual(['b#1'])
    drive.wait(5_000).say({ in: 'silenced' })
    expect(drive.last('deregister').leases).toEqual([{ jobId: 'a', lease: 1 }])
  })

  test('a worker that is stopped before it could register comes to rest', () => {
    const now = instant(1_000_000)
    const options = { concurrency: 1, drainMs: millis(0), handlers: new Map(), random: () => 0.5 }
    const session = new Session(options, now)
    session.step({ in: 'begin', server: { orders: true, waits: true } }, now)
    session.step({ in: 'stop', drainMs: millis(0), exits: false }, now)
    session.step({ in: 'silenced' }, now)
    expect(session.hasEnded).toBe(true)
    expect(session.wantsTurn).toBe(false)
  })

  test('an isolate is killed when the time to clean up is over', () => {
    const drive = new Drive()
      .bring(job('a', 1, { type: 'isolated' }))
      .say(stop)
      .say({ in: 'hurry' })
    expect(drive.last('abort').endsAt - drive.now).toBe(2_000)
  })

  test('a process that is a worker and nothing else ends, and hands back what only its end can stop', () => {
    const drive = new Drive()
      .bring(job('a'))
      .say({ ...stop, exits: true })
      .say({ in: 'hurry' })
      .wait(2_000)
    expect(drive.last('exit').reports).toMatchObject([{ hold: { jobId: 'a' }, requeue: true }])
  })

  test('a second stop with a shorter drain shortens the first', () => {
    const drive = new Drive()
      .bring(job('a'))
      .say(stop)
      .say({ ...stop, drainMs: millis(100) })
      .wait(100)
    expect(drive.last('abort')).toMatchObject({ stop: { why: 'shutdown' } })
  })
})

describe('outages', () => {
  test('one line when it begins, one when it ends, however long it lasts', () => {
    const drive = new Drive()
    for (let tries = 0; tries < 20; tries += 1) {
      for (const call of drive.open) drive.fail(call)
      drive.say({ in: 'beat-failed', reason: 'reset' }).wait(1_000)
    }
    drive.beat()
    expect(drive.all('log').filter(({ level }) => level === 'warn')).toHaveLength(2)
  })

  test('the first answer to anything ends the rest of everything', () => {
    const drive = new Drive().bring(job('a')).settle('a#1')
    for (let tries = 0; tries < 10; tries += 1) {
      for (const call of drive.open) drive.fail(call)
      drive.wait(1_000)
    }
    for (const call of drive.open) drive.fail(call)
    expect(drive.open).toEqual([])
    drive.beat()
    expect(drive.reporting?.reports).toHaveLength(1)
  })

  test('a report that did not arrive is sent again, in one piece with newer ones', () => {
    const drive = new Drive().bring(job('a'), job('b')).settle('a#1')
    drive
      .fail(drive.reporting ?? drive.listening)
      .settle('b#1')
      .wait(200)
    expect(drive.reporting?.reports.map(({ hold }) => hold.jobId)).toEqual(['a', 'b'])
  })
})

describe('lost answers', () => {
  test('a job that the server takes for held here and that never arrived is handed back', () => {
    const drive = new Drive()
    drive.fail(drive.listening).wait(200)
    expect(drive.last('beat')).toBeDefined()
    drive.wait(1_000).beat({}, { unlisted: [{ jobId: 'a', lease: 4, heldMs: 1_150 }] })
    expect(drive.handedBack).toEqual(['a#4'])
  })

  test('a job that may still be on its way is waited for, and looked for again', () => {
    const drive = new Drive().wait(5_000).beat({}, { unlisted: [{ jobId: 'a', lease: 4, heldMs: 10 }] })
    expect(drive.handedBack).toEqual([])
    expect(drive.last('beat').inMs).toBe(1_000)
    drive.bring(job('a', 4))
    expect(drive.started).toEqual(['a#4'])
  })

  test('a job whose answer comes after it was handed back is not started', () => {
    const drive = new Drive().wait(5_000)
    const slow = drive.listening
    drive.beat({}, { unlisted: [{ jobId: 'a', lease: 4, heldMs: 2_000 }] })
    expect(drive.handedBack).toEqual(['a#4'])
    drive.answer(slow, { jobs: [job('a', 4)] })
    expect(drive.started).toEqual([])
  })
})

/** Every order of what can happen to a worker and its server, as far as the session can tell. */
describe('in any order of inputs', () => {
  const word = fc.constantFrom(
    'deliver',
    'fail',
    'jobs',
    'again',
    'cancel',
    'lost',
    'settle',
    'throw',
    'quiet',
    'resume',
    'orders-quiet',
    'orders-running',
    'unlisted',
    'stop',
    'hurry',
    'tick',
    'second',
    'minute',
    'beat',
    'silenced',
    'deregistered',
    'fence',
  )

  test('no two attempts of a job at once, nothing starts while not running, nothing follows the end', () => {
    fc.assert(
      fc.property(fc.array(fc.tuple(word, fc.nat(7)), { maxLength: 60 }), (script) => {
        const drive = new Drive(2)
        const leases = new Map<string, number>()
        const running = new Map<string, string>()
        let seen = 0
        const check = (): void => {
          for (const effect of drive.effects.slice(seen)) {
            seen += 1
            if (effect.do !== 'start') continue
            const id = effect.key.split('#')[0] ?? ''
            expect(running.get(id), `two attempts of ${id}`).toBeUndefined()
            expect(drive.session.state, 'started while not running').toBe('running')
            running.set(id, effect.key)
          }
          if (drive.all('silence').length > 0) expect(drive.open).toEqual([])
          expect(drive.all('ended').length).toBeLessThanOrEqual(1)
        }
        const newLease = (id: string): number => {
          const lease = (leases.get(id) ?? 0) + 1
          leases.set(id, lease)
          return lease
        }
        for (const [what, pick] of script) {
          const id = 'abcd'[pick % 4] ?? 'a'
          const call = drive.open[pick % Math.max(1, drive.open.length)]
          switch (what) {
            case 'deliver':
              if (call !== undefined) drive.answer(call)
              break
            case 'fail':
              if (call !== undefined) drive.fail(call)
              break
            case 'jobs':
            case 'again':
              if (call !== undefined && call.count > 0) {
                const type = pick % 2 === 0 ? 'inline' : 'isolated'
                const lease = what === 'jobs' ? newLease(id) : (leases.get(id) ?? newLease(id))
                drive.answer(call, { jobs: [job(id, lease, { type })] })
              }
              break
            case 'cancel':
            case 'lost': {
              const reason = what === 'cancel' ? 'cancelled' : 'lost'
              drive.beat({ stops: [{ job_id: id, reason, x_lease: leases.get(id) ?? 1 }] })
              break
            }
            case 'settle':
            case 'throw': {
              const key = running.get(id)
              if (key === undefined) break
              running.delete(id)
              if (what === 'settle') drive.settle(key)
              else drive.throws(key)
              break
            }
            case 'quiet':
              drive.say({ in: 'quiet' })
              break
            case 'resume':
              drive.say({ in: 'resume' })
              break
            case 'orders-quiet':
              drive.beat({ state: 'quiet' })
              break
            case 'orders-running':
              drive.beat({ state: 'running' })
              break
            case 'unlisted':
              drive.beat({}, { unlisted: [{ jobId: id, lease: leases.get(id) ?? 1, heldMs: pick * 400 }] })
              break
            case 'stop':
              drive.say({ in: 'stop', drainMs: millis(pick * 1_000), exits: false })
              break
            case 'hurry':
              drive.say({ in: 'hurry' })
              break
            case 'tick':
              drive.wait(pick * 10)
              break
            case 'second':
              drive.wait(1_000)
              break
            case 'minute':
              drive.wait(60_000)
              break
            case 'beat':
              drive.beat()
              break
            case 'fence':
              drive.say({ in: 'fence' })
              break
            case 'silenced':
              if (drive.all('silence').length > 0) drive.say({ in: 'silenced' })
              break
            case 'deregistered':
              if (drive.all('deregister').length > 0) drive.say({ in: 'deregistered' })
          }
          check()
        }
      }),
      { numRuns: 2_000 },
    )
  })
})
