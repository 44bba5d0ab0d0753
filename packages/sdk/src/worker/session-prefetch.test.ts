import { describe, expect, test } from 'vitest'
import { after, millis } from '@curfew/core'
import type { HandedJob } from '../wire/jobs.ts'
import { Drive, job } from './session.suite.ts'

const names = (from: number, count: number): string[] =>
  Array.from({ length: count }, (_, index) => `j${String(from + index)}`)
const jobs = (from: number, count: number): HandedJob[] => names(from, count).map((id) => job(id))

const ORDERS = { orders: true, waits: true }

/** Two slots, handlers of a millisecond, and a backlog: the next call asks for ten. */
function busy(prefetch: number | null = 8, server = ORDERS): Drive {
  const drive = new Drive(2, { prefetch, server })
  for (const call of drive.open) drive.answer(call, { jobs: [job('a'), job('b')] })
  drive.now = after(drive.now, millis(1))
  drive.session.step({ in: 'settled', key: 'a#1', ending: { kind: 'returned', result: 1 } }, drive.now)
  return drive.settle('b#1')
}

/** `j0` and `j1` run, `j2` to `j9` are buffered. */
function full(): Drive {
  const drive = busy()
  return drive.answer(drive.reporting ?? drive.listening, { jobs: jobs(0, 10) })
}

const BUFFERED = names(2, 8).map((id) => `${id}#1`)
const started = (drive: Drive): string[] => drive.started.filter((key) => key.startsWith('j'))

describe('a worker asks for more jobs than it has slots', () => {
  test('once handlers were short and an answer brought all it was asked for', () => {
    expect(new Drive(2, { prefetch: 8 }).listening.count).toBe(2)
    expect(busy().reporting?.count).toBe(10)
  })

  test('not while its handlers take long', () => {
    const drive = new Drive(2, { prefetch: 8 }).bring(job('a'), job('b')).wait(100).settle('a#1').settle('b#1')
    expect(Math.max(...drive.open.map(({ count }) => count))).toBeLessThanOrEqual(2)
  })

  test.each([
    ['with prefetch 0', busy(0)],
    ['by default when a handler runs in an isolate', busy(null)],
    ['of a server that takes nothing back without using a try', busy(8, { orders: false, waits: true })],
  ])('never %s', (_, drive) => {
    expect(Math.max(...drive.all('call').map(({ call }) => call.count))).toBeLessThanOrEqual(2)
  })

  test('when its buffer is half empty, not with each slot that becomes free', () => {
    const drive = full()
    drive.settle('j0#1').answer(drive.reporting ?? drive.listening)
    for (const id of ['j1', 'j2', 'j3']) {
      expect(drive.open.map(({ count }) => count)).toEqual([0])
      drive.settle(`${id}#1`).answer(drive.reporting ?? drive.listening)
    }
    expect(drive.open.map(({ count }) => count)).toEqual([0])
    drive.settle('j4#1')
    expect(drive.reporting).toMatchObject({ count: 5 })
  })

  test('with a second call of reports beside the first, when its buffer is half empty, and leaves the open call alone', () => {
    const drive = full().settle('j0#1')
    const [first, listening] = [drive.reporting ?? drive.listening, drive.listening]
    for (const id of names(1, 3)) drive.settle(`${id}#1`)
    expect(drive.open).toEqual([listening, first])
    drive.settle('j4#1')
    const [, , second] = drive.open
    expect(drive.open).toEqual([listening, first, second])
    expect(second?.reports.map(({ hold }) => hold.jobId)).toEqual(names(1, 4))
    expect(second?.count).toBe(5)
  })

  test('with two calls of reports at once, never with three', () => {
    const drive = full().settle('j0#1')
    for (const id of names(1, 9)) drive.settle(`${id}#1`)
    expect(drive.open).toHaveLength(3)
    const [listening, first, second] = drive.open
    if (second === undefined) throw new Error('two calls should be under way')
    drive.answer(second, { jobs: jobs(10, 5) })
    const [, , third] = drive.open
    expect(drive.open).toEqual([listening, first, third])
    expect(third?.reports.map(({ hold }) => hold.jobId)).toEqual(names(5, 5))
    expect(third?.count).toBe(5)
  })

  test('without a buffer by the reports that follow those on their way', () => {
    const drive = new Drive(2, { prefetch: 0 }).bring(job('a'), job('b')).settle('a#1').settle('b#1')
    expect(drive.open.filter(({ reports }) => reports.length > 0)).toHaveLength(1)
  })
})

describe('the second call of reports beside the first', () => {
  const reporting = (drive: Drive): string[][] =>
    drive.open.filter(({ reports }) => reports.length > 0).map(({ reports }) => reports.map(({ hold }) => hold.jobId))

  /** `j0` is on its way, and then `j1` to `j4`. */
  const two = (): Drive => {
    const drive = full()
    for (const id of names(0, 5)) drive.settle(`${id}#1`)
    return drive
  }

  test('is sent only if it asks for jobs: other reports wait for the answer to the first', () => {
    const drive = full()
    for (const id of names(0, 4)) drive.settle(`${id}#1`)
    expect(reporting(drive)).toEqual([['j0']])
    drive.answer(drive.reporting ?? drive.listening)
    expect(reporting(drive)).toEqual([names(1, 3)])
  })

  test('is not sent by a worker that is quiet', () => {
    const drive = full().settle('j0#1').say({ in: 'quiet' }).settle('j1#1')
    expect(reporting(drive)).toEqual([['j0']])
  })

  test('brings jobs that start, whichever of both is answered first', () => {
    const drive = two()
    const [, first, second] = drive.open
    if (first === undefined || second === undefined) throw new Error('two calls should be under way')
    drive.answer(second, { jobs: jobs(10, 5) }).answer(first)
    for (const id of names(5, 5)) drive.settle(`${id}#1`)
    expect(started(drive).slice(-2)).toEqual(['j10#1', 'j11#1'])
  })

  test('is sent again with its own reports when it fails, and no report is lost or doubled', () => {
    const drive = two()
    const [, first, second] = drive.open
    if (first === undefined || second === undefined) throw new Error('two calls should be under way')
    drive.fail(second).answer(first).wait(60_000)
    for (let call = drive.reporting; call !== undefined; call = drive.reporting) drive.answer(call)
    const sent = drive.reported.filter((report) => report.startsWith('ack j'))
    expect(sent.filter((report) => report === 'ack j0')).toHaveLength(1)
    for (const id of names(1, 4)) expect(sent.filter((report) => report === `ack ${id}`)).toHaveLength(2)
  })

  test('asks for no job that the first has asked for', () => {
    const drive = two()
    const [, first] = drive.open
    if (first === undefined) throw new Error('a call should be under way')
    drive.answer(first)
    // Five are kept, five are asked for: the buffer is spoken for until it is half empty again.
    drive.settle('j5#1')
    expect(drive.open.reduce((sum, { count }) => sum + count, 0)).toBe(5)
  })
})

describe('a buffered job', () => {
  test('begins when a slot is free, in the order of arrival', () => {
    const drive = full()
    expect(started(drive)).toEqual(['j0#1', 'j1#1'])
    expect(drive.session.active).toBe(2)
    drive.settle('j1#1').settle('j0#1')
    expect(started(drive)).toEqual(['j0#1', 'j1#1', 'j2#1', 'j3#1'])
  })

  test('begins in the turn after the one in which a slot became free', () => {
    const drive = full()
    const ending = { kind: 'returned', result: 1 } as const
    const effects = drive.session.step({ in: 'settled', key: 'j0#1', ending }, drive.now)
    expect(effects.filter((effect) => effect.do === 'start')).toEqual([])
    expect(drive.session.step({ in: 'turn' }, drive.now)).toContainEqual(
      expect.objectContaining({ do: 'start', key: 'j2#1' }),
    )
  })

  test('is listed in beats from its arrival on, before any handler of its answer begins', () => {
    const drive = full()
    const order = drive.effects.flatMap((effect) =>
      effect.do === 'watch'
        ? [effect.watched.key]
        : effect.do === 'start' || effect.do === 'flush-guard'
          ? [effect.do]
          : [],
    )
    expect(order.slice(-13)).toEqual([...names(0, 10).map((id) => `${id}#1`), 'flush-guard', 'start', 'start'])
    expect(drive.all('unwatch').filter(({ key }) => key.startsWith('j'))).toEqual([])
  })

  test('is listed by a new guard, too', () => {
    const drive = full()
    const before = drive.all('watch').length
    drive.say({ in: 'guard-back' })
    expect(
      drive
        .all('watch')
        .slice(before)
        .map(({ watched }) => watched.jobId),
    ).toEqual(names(0, 10))
  })

  test.each([
    ['quiet', { in: 'quiet' } as const],
    ['leaving', { in: 'stop', drainMs: millis(25_000) } as const],
  ])('is handed back when the worker is %s, and never begins', (_, word) => {
    const drive = full().say(word)
    expect(drive.handedBack).toEqual(BUFFERED)
    drive.settle('j0#1').settle('j1#1')
    expect(started(drive)).toEqual(['j0#1', 'j1#1'])
  })

  test('is not named as begun by the deregistration, although its hand-back did not arrive', () => {
    const drive = full().say({ in: 'stop', drainMs: millis(0) })
    drive.throws('j0#1').throws('j1#1')
    drive.wait(5_000).say({ in: 'silenced' })
    expect(drive.last('deregister').leases).toEqual([])
  })

  test('that is cancelled never begins, and nothing is reported of it', () => {
    const drive = full().order({ job_id: 'j2', reason: 'cancelled', x_lease: 1 }).settle('j0#1').settle('j1#1')
    expect(started(drive)).toEqual(['j0#1', 'j1#1', 'j3#1', 'j4#1'])
    expect(drive.reported).not.toContain('nack j2')
    expect(drive.all('unwatch').map(({ key }) => key)).toContain('j2#1')
  })

  test('whose job is handed out anew never begins; the newer lease does', () => {
    const drive = full()
    drive.bring(job('j2', 2)).settle('j0#1').settle('j1#1')
    for (const id of names(3, 7)) drive.settle(`${id}#1`)
    expect(started(drive)).not.toContain('j2#1')
    expect(started(drive).at(-1)).toBe('j2#2')
  })

  test('is handed back when the server was not heard for too long, and is in no beat from then on', () => {
    const drive = full().say({ in: 'fence' })
    expect(drive.handedBack).toEqual(BUFFERED)
    expect(drive.all('unwatch').map(({ key }) => key)).toEqual(expect.arrayContaining(BUFFERED))
    drive.throws('j0#1').throws('j1#1')
    expect(started(drive)).toEqual(['j0#1', 'j1#1'])
  })

  test('does not begin after a sleep in which its lease may have run out', () => {
    const drive = full()
    drive.now = after(drive.now, millis(29_000))
    drive.settle('j0#1')
    expect(started(drive)).toEqual(['j0#1', 'j1#1'])
    expect(drive.last('abort')).toMatchObject({ key: 'j1#1', stop: { why: 'lost' } })
  })

  test('goes back after a second without a slot, and the next call asks for no more than slots', () => {
    const drive = full().wait(999)
    expect(drive.handedBack).toEqual([])
    drive.wait(1)
    expect(drive.handedBack).toEqual(BUFFERED)
    drive.answer(drive.reporting ?? drive.listening).settle('j0#1')
    expect(started(drive)).toEqual(['j0#1', 'j1#1'])
    expect(Math.max(...drive.open.map(({ count }) => count))).toBe(1)
  })

  test('is looked at by itself when its time in the buffer is over', () => {
    const drive = full()
    expect(drive.last('wake').at).toBe(after(drive.now, millis(1_000)))
  })

  test('does not begin when its time in the buffer is over, although the wake-up is late', () => {
    const drive = full()
    drive.now = after(drive.now, millis(1_000))
    drive.settle('j0#1')
    expect(started(drive)).toEqual(['j0#1', 'j1#1'])
    drive.answer(drive.reporting ?? drive.listening)
    expect(drive.handedBack).toEqual(BUFFERED)
  })

  test('that begins and times out says how long it had waited', () => {
    const drive = full()
    drive.now = after(drive.now, millis(250))
    drive.settle('j0#1')
    expect(started(drive).at(-1)).toBe('j2#1')
    for (let ms = 0; ms < 60_000; ms += 10_000) drive.wait(10_000).beat()
    drive.throws('j2#1')
    for (let call = drive.reporting; call !== undefined; call = drive.reporting) drive.answer(call)
    const reports = drive.all('call').flatMap(({ call }) => call.reports)
    const timeout = reports.find(({ kind, hold }) => kind === 'nack' && hold.jobId === 'j2')
    expect(timeout).toMatchObject({ requeue: false, error: { type: 'timeout', details: { buffered_ms: 250 } } })
  })

  test('goes back after a tenth of its shortest clock', () => {
    const drive = busy()
    const limits = { ...job('x').x_limits, heartbeat_timeout_ms: 400 } as NonNullable<HandedJob['x_limits']>
    const short = job('short', 1, { x_limits: limits })
    drive.answer(drive.reporting ?? drive.listening, { jobs: [...jobs(0, 2), short] }).wait(39)
    expect(drive.handedBack).toEqual([])
    drive.wait(1)
    expect(drive.handedBack).toEqual(['short#1'])
  })
})
