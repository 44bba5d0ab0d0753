import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { after, instant, millis } from '@curfew/core'
import type { StopOrder, WorkerState } from '../guard/protocol.ts'
import type { HandedJob } from '../wire/jobs.ts'
import type { Input } from './inputs.ts'
import { Session } from './session.ts'
import { Drive, job } from './session.suite.ts'

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
    expect(drive.listening.seq).toBeGreaterThan(before.seq)
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

  test('the newer attempt takes no slot while it waits for the older one', () => {
    const drive = new Drive(1).bring(job('a', 1)).bring(job('a', 2))
    expect(drive.session.active).toBe(1)
    drive.throws('a#1')
    expect(drive.started).toEqual(['a#1', 'a#2'])
    expect(drive.session.active).toBe(1)
  })

  test('the newer attempt waits for a slot when another job took the one that the older attempt was given up for', () => {
    const drive = new Drive(1, { prefetch: 4 })
    const short = { ...job('a', 1).x_limits, grace_ms: 0, hard_ms: 60_000 } as NonNullable<HandedJob['x_limits']>
    drive
      .bring(job('a', 1, { x_limits: short }))
      .order(cancelled('a', 1))
      .wait(0)
    drive.bring(job('b', 1)).bring(job('a', 2)).throws('a#1')
    expect(drive.started).toEqual(['a#1', 'b#1'])
    drive.settle('b#1')
    expect(drive.started).toEqual(['a#1', 'b#1', 'a#2'])
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

  test('what a handler throws at its soft deadline is a timeout, even before the session has looked at the time', () => {
    const drive = new Drive().bring(job('a'))
    for (let ms = 0; ms < 50_000; ms += 10_000) drive.wait(10_000).beat()
    drive.now = after(drive.now, millis(10_000))
    drive.throws('a#1', 'StepDeadlineError')
    expect(drive.reporting?.reports).toMatchObject([
      { kind: 'nack', error: { type: 'timeout', code: 'timeout', timeout_kind: 'execution', limit_seconds: 60 } },
    ])
  })

  test('what a handler throws 1 ms before its soft deadline is an error of its own', () => {
    const drive = new Drive().bring(job('a'))
    for (let ms = 0; ms < 50_000; ms += 10_000) drive.wait(10_000).beat()
    drive.now = after(drive.now, millis(9_999))
    drive.throws('a#1', 'TypeError')
    expect(drive.reporting?.reports).toMatchObject([{ kind: 'nack', error: { type: 'TypeError' } }])
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

  describe.each([{ visibility_ms: 1_000 }, { heartbeat_timeout_ms: 1_000 }])(
    'a reservation of a second (%o)',
    (clock) => {
      const limits = { ...job('a').x_limits, ...clock } as NonNullable<HandedJob['x_limits']>
      const begin = (type = 'inline') => new Drive().bring(job('a', 1, { type, x_limits: limits }))

      test('lapses when no heartbeat was answered: the handler is asked to stop before it, and not later', () => {
        const drive = begin().wait(899)
        expect(drive.all('abort')).toEqual([])
        drive.wait(1)
        const endsAt = after(drive.now, millis(100))
        expect(drive.last('abort')).toMatchObject({ key: 'a#1', stop: { why: 'lost' }, endsAt })
      })

      test('lasts from the sending of the last heartbeat that was answered', () => {
        const drive = begin().wait(500)
        const sentAt = drive.now
        drive.wait(300).beat({}, { sentAt }).wait(599)
        expect(drive.all('abort')).toEqual([])
        drive.wait(1)
        expect(drive.last('abort')).toMatchObject({ key: 'a#1', stop: { why: 'lost' } })
      })

      test('is not renewed by a heartbeat that was sent before the job arrived', () => {
        const drive = new Drive()
        const sentAt = drive.now
        drive
          .wait(10)
          .bring(job('a', 1, { x_limits: limits }))
          .beat({}, { sentAt, begun: 0 })
          .wait(900)
        expect(drive.all('abort')).toHaveLength(1)
      })

      test('is not renewed by a heartbeat that did not list it, although it was sent afterwards', () => {
        const drive = begin().wait(500).beat({}, { begun: 0 }).wait(400)
        expect(drive.all('abort')).toHaveLength(1)
      })

      test('is over when the answer that brings it comes too late: the job is handed back, and never starts', () => {
        const drive = new Drive()
        const asked = { at: instant(drive.now - 950), waitedMs: millis(0) }
        drive.answer(drive.listening, { jobs: [job('a', 1, { x_limits: limits })], asked })
        expect(drive.started).toEqual([])
        expect(drive.handedBack).toEqual(['a#1'])
      })

      test('lapses in the grace too: a handler that was asked to stop at its deadline learns that its lease is lost', () => {
        const short = { ...limits, soft_ms: 500, hard_ms: 10_500 }
        const drive = new Drive().bring(job('a', 1, { x_limits: short })).wait(500)
        expect(drive.all('abort')).toMatchObject([{ stop: { why: 'deadline' }, isLost: false }])
        drive.wait(399)
        expect(drive.all('abort')).toHaveLength(1)
        drive.wait(1)
        const endsAt = after(drive.now, millis(100))
        expect(drive.all('abort')[1]).toMatchObject({ key: 'a#1', endsAt, isLost: true })
      })

      test('is not renewed by calls that list no jobs', () => {
        const drive = begin()
        drive.wait(300).answer(drive.listening).wait(600)
        expect(drive.all('abort')).toHaveLength(1)
      })
    },
  )

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
    drive.say(state === 'quiet' ? { in: 'quiet' } : { in: 'stop', drainMs: millis(25_000) })
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
    const drive = new Drive(1, { server: { orders: false, waits: true } })
      .say({ in: 'quiet' })
      .beat({ state: 'running' })
    expect(drive.session.state).toBe('quiet')
  })
})

describe('leaving', () => {
  const stop: Input = { in: 'stop', drainMs: millis(25_000) }

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
    const drive = new Drive().bring(job('a')).say({ in: 'stop', drainMs: millis(0) })
    drive.wait(2_000)
    const { now } = drive
    drive.effects = []
    drive.wait(0)
    expect(drive.all('wake').filter(({ at }) => at <= now)).toEqual([])
  })

  test('a hand-back that did not arrive is not named as begun by the deregistration', () => {
    const drive = new Drive().bring(job('a')).say({ in: 'quiet' })
    drive.answer(drive.open.find(({ count }) => count > 0) ?? drive.listening, { jobs: [job('b')] })
    drive.say({ in: 'stop', drainMs: millis(60_000) }).settle('a#1')
    expect(drive.handedBack).toEqual(['b#1'])
    drive.wait(5_000).say({ in: 'silenced' })
    expect(drive.last('deregister').leases).toEqual([{ jobId: 'a', lease: 1 }])
  })

  test('a worker that is stopped before it could register comes to rest', () => {
    const now = instant(1_000_000)
    const options = { concurrency: 1, prefetch: null, drainMs: millis(0), handlers: new Map(), random: () => 0.5 }
    const session = new Session(options, now)
    session.step({ in: 'begin', server: { orders: true, waits: true } }, now)
    session.step({ in: 'stop', drainMs: millis(0) }, now)
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
    const drive = new Drive().bring(job('a')).say({ in: 'owns-process' }).say(stop).say({ in: 'hurry' }).wait(2_000)
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
  const named = { unlisted: [{ jobId: 'a', lease: 4, heldMs: 2_000 }] }

  test('a job that the server takes for held here and that never arrived is handed back when a later beat names it again', () => {
    const drive = new Drive()
    drive.fail(drive.listening).wait(200)
    expect(drive.last('beat')).toBeDefined()
    drive.wait(1_000).beat({}, named)
    expect(drive.handedBack).toEqual([])
    expect(drive.last('beat').inMs).toBe(1_000)
    drive.wait(1_000).beat({}, named)
    expect(drive.handedBack).toEqual(['a#4'])
  })

  test('a job that arrives after a beat has named it is started', () => {
    const drive = new Drive().wait(5_000).beat({}, named).bring(job('a', 4))
    expect(drive.started).toEqual(['a#4'])
    drive.wait(1_000).beat({}, named)
    expect(drive.handedBack).toEqual([])
  })

  test('a job that ended while a beat was answered is not taken for lost', () => {
    const drive = new Drive(1).wait(100)
    drive.bring(job('a', 4)).settle('a#4')
    drive.answer(drive.reporting ?? drive.listening)
    drive.beat({}, named).wait(1_000).beat()
    expect(drive.handedBack).toEqual([])
  })

  test('a beat that was sent before the first one was read does not count as a second look', () => {
    const drive = new Drive().wait(5_000)
    const sentAt = drive.now
    drive.now = after(drive.now, millis(3_000))
    drive.beat({}, { ...named, sentAt }).beat({}, { ...named, sentAt: after(sentAt, millis(2_000)) })
    expect(drive.handedBack).toEqual([])
  })

  test('a job whose answer comes after it was handed back is not started', () => {
    const drive = new Drive().wait(5_000)
    const slow = drive.listening
    drive.beat({}, named).wait(1_000).beat({}, named)
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
    'many',
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
      fc.property(fc.nat(20), fc.array(fc.tuple(word, fc.nat(7)), { maxLength: 60 }), (prefetch, script) => {
        const drive = new Drive(2, { prefetch })
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
          expect(drive.session.active, 'more handlers than slots').toBeLessThanOrEqual(2)
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
            case 'many':
              if (call !== undefined) {
                const more = [...'abcdefghijklmnopqrstuv'].slice(0, call.count)
                drive.answer(call, { jobs: more.map((each) => job(each, newLease(each))) })
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
              const [named, key] = running.has(id) ? [id, running.get(id)] : ([...running][pick] ?? [])
              if (named === undefined || key === undefined) break
              running.delete(named)
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
              drive.say({ in: 'stop', drainMs: millis(pick * 1_000) })
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
