/** A session and a server in trouble: refusals, repeats, late answers, a guard that ends. */
import { describe, expect, test } from 'vitest'
import { after, millis } from '@curfew/core'
import type { HandedJob } from '../wire/jobs.ts'
import type { Input } from './inputs.ts'
import { Drive, job as anyJob } from './session.suite.ts'

/** A job that no deadline ends during a test. */
function job(id: string, lease = 1, more: Partial<HandedJob> = {}): HandedJob {
  const { x_limits: limits } = anyJob(id)
  if (limits === undefined) throw new Error('a job of this test has limits')
  const long = { ...limits, timeout_ms: 600_000, soft_ms: 600_000, hard_ms: 610_000 }
  return anyJob(id, lease, { x_limits: long, ...more })
}

const stop: Input = { in: 'stop', drainMs: millis(25_000) }

describe('leaving', () => {
  test('the server repeating the state that the worker reports does not shorten the drain that stop() asked for', () => {
    const drive = new Drive().bring(job('a')).say({ ...stop, drainMs: millis(300_000) })
    for (let beats = 0; beats < 12; beats += 1) drive.beat({ state: 'terminate' }).wait(5_000)
    expect(drive.all('abort')).toEqual([])
  })

  test('results of a worker that was being registered again when it was stopped are still reported', () => {
    const drive = new Drive().bring(job('a')).beat({ isForgotten: true })
    drive.say({ in: 'register-failed', reason: 'reset', isRefused: false })
    drive.say(stop).wait(1_000).settle('a#1').wait(1_000)
    expect(drive.reported).toEqual(['ack a'])
  })

  test('a worker that was being registered again when it was stopped deregisters', () => {
    const drive = new Drive().bring(job('a')).beat({ isForgotten: true })
    drive.say({ in: 'register-failed', reason: 'reset', isRefused: false })
    drive.say(stop).settle('a#1').wait(1_000).wait(6_000).say({ in: 'silenced' })
    expect(drive.all('deregister')).toHaveLength(1)
  })

  test('a worker whose registration was not answered before it left deregisters all the same', () => {
    const drive = new Drive(2, { isRegistered: false }).say(stop).wait(6_000).say({ in: 'silenced' })
    expect(drive.all('deregister')).toHaveLength(1)
  })

  test('a job that was handed back unheard is not named as begun when the worker deregisters', () => {
    const drive = new Drive()
    const asking = drive.listening
    drive.say(stop).answer(asking, { jobs: [job('b')] })
    // The report is on its way and never answered.
    drive.wait(6_000).say({ in: 'silenced' })
    expect(drive.all('deregister').at(-1)?.leases).toEqual([])
  })

  test('a guard that ends before it fell silent does not hold up the end', () => {
    const drive = new Drive()
    const asking = drive.listening
    drive.say(stop).answer(asking)
    expect(drive.all('silence')).toHaveLength(1)
    drive.say({ in: 'guard-gone' })
    expect(drive.all('deregister')).toHaveLength(1)
  })

  test('a worker that the server takes for gone does not ask again without a rest while it drains', () => {
    const drive = new Drive().bring(job('a')).say(stop)
    const before = drive.all('call').length
    for (let answers = 0; answers < 50; answers += 1) {
      const open = drive.open.find(({ listen }) => listen !== null)
      if (open === undefined) break
      drive.answer(open, { orders: { state: 'terminate', stops: [], isForgotten: true } })
    }
    expect(drive.all('call').length - before).toBeLessThan(5)
  })
})

describe('calls', () => {
  test('no call asks for more jobs than the server hands out at once', () => {
    expect(new Drive(5_000).listening.count).toBeLessThanOrEqual(1_000)
  })

  test('orders that come one after the other do not keep the next call waiting', () => {
    const drive = new Drive(20)
    drive.bring(...Array.from({ length: 10 }, (_, n) => job(`job-${String(n)}`)))
    for (let n = 0; n < 10; n += 1) {
      const stops = [{ job_id: `job-${String(n)}`, reason: 'cancelled', x_lease: 1 } as const]
      drive.answer(drive.listening, { orders: { stops, isForgotten: false } })
    }
    expect(drive.all('abort')).toHaveLength(10)
    expect(drive.listening.count).toBeGreaterThan(0)
  })

  test('an order that several answers repeat is acknowledged once', () => {
    const drive = new Drive(1).bring(job('a'))
    const stops = [{ job_id: 'a', reason: 'timeout', x_lease: 1 } as const]
    for (let beats = 0; beats < 100; beats += 1) drive.beat({ stops })
    drive.answer(drive.listening, { orders: { stops, isForgotten: false } })
    expect(drive.listening.listen?.heard).toHaveLength(1)
  })

  test('an open call that is too large for the server is not sent again without a rest', () => {
    const drive = new Drive(1).bring(job('a'))
    const before = drive.all('call').length
    for (let tries = 0; tries < 50; tries += 1) {
      const open = drive.open.find(({ listen }) => listen !== null)
      if (open === undefined) break
      drive.fail(open, 'payload_too_large')
    }
    expect(drive.all('call').length - before).toBeLessThan(5)
  })

  test('one report that the server cannot store does not fill the log, nor is it sent again without a rest', () => {
    const drive = new Drive().bring(job('a')).settle('a#1')
    let sent = 0
    for (let ms = 0; ms < 10_000; ms += 50) {
      const call = drive.reporting
      if (call !== undefined) {
        sent += 1
        drive.answer(call, { deliveries: [{ kind: 'unsent', reason: 'disk' }] })
      }
      drive.wait(50)
    }
    expect(drive.all('log').filter(({ level }) => level === 'warn').length).toBeLessThan(5)
    expect(sent).toBeLessThan(30)
  })

  test('a job whose failure the server refuses while it still holds it is not handed back as if its answer was lost', () => {
    const drive = new Drive().bring(job('a'))
    drive.say({ in: 'settled', key: 'a#1', ending: { kind: 'threw', error: { name: 'Error', message: 'no' } } })
    const call = drive.reporting ?? drive.listening
    drive.answer(call, { deliveries: [{ kind: 'refused', code: 'payload_too_large', message: 'too large' }] })
    drive.wait(5_000).beat({}, { unlisted: [{ jobId: 'a', lease: 1, heldMs: 5_000 }] })
    const refunds = drive
      .all('call')
      .flatMap(({ call: { reports } }) => reports)
      .filter((report) => report.kind === 'nack' && report.requeue)
    expect(refunds).toEqual([])
  })

  test('a job that arrived, ended and was reported while a beat was answered is not taken for lost', () => {
    const drive = new Drive(1)
    const asked = drive.listening
    drive.wait(100)
    // The server claims the job, reads the beat (which cannot list it yet), and answers the beat last.
    drive.answer(asked, { jobs: [job('a')] }).settle('a#1')
    drive.answer(drive.reporting ?? asked, { jobs: [job('b')] })
    drive.beat({}, { unlisted: [{ jobId: 'a', lease: 1, heldMs: 5 }] })
    expect(drive.all('log').filter(({ level }) => level === 'warn')).toEqual([])
  })
})

describe('a new guard', () => {
  test('lists the attempts that began while there was none', () => {
    const drive = new Drive().say({ in: 'guard-gone' })
    drive.bring(job('a'))
    const before = drive.effects.length
    drive.say({ in: 'guard-back' })
    const watched = drive.effects.slice(before).flatMap((effect) => (effect.do === 'watch' ? [effect.watched.key] : []))
    // Either nothing was begun without a guard, or the new one learns of it.
    expect(drive.all('start').map(({ key }) => key)).toEqual(watched)
  })
})

describe('stalls', () => {
  test('an attempt that stalled counts as a failure, also when the worker notices before the server', () => {
    const limits = job('a').x_limits
    if (limits === undefined) throw new Error('a job of this test has limits')
    const stalling = job('a', 1, { type: 'manual', x_limits: { ...limits, heartbeat_timeout_ms: 10_000 } })
    // The server counts from the beat that carries a sign, which is later than the sign.
    const drive = new Drive().bring(stalling).wait(1_000).say({ in: 'sign', key: 'a#1' }).beat().wait(10_000)
    expect(drive.all('abort')).toMatchObject([{ stop: { why: 'deadline', kind: 'stalled' } }])
    drive.say({ in: 'settled', key: 'a#1', ending: { kind: 'threw', error: { name: 'DeadlineError', message: '' } } })
    expect(drive.reporting?.reports).toMatchObject([{ kind: 'nack', requeue: false, error: { type: 'stalled' } }])
  })
})

describe('lost answers', () => {
  test('an answer that is late because this thread was busy is not taken for lost', () => {
    const drive = new Drive().wait(100)
    const asked = drive.listening
    // A handler blocked this thread for two seconds. The answer and that to a beat have both arrived meanwhile; the order
    // in which they are read is a matter of chance.
    drive.now = after(drive.now, millis(2_000))
    drive.beat({}, { unlisted: [{ jobId: 'a', lease: 1, heldMs: 1_500 }] })
    drive.answer(asked, { jobs: [job('a')] })
    expect(drive.all('start')).toHaveLength(1)
  })

  test('a job on its way is not handed back because the servers’ clocks differ', () => {
    const drive = new Drive().wait(100)
    const asked = drive.listening
    drive.wait(50)
    // Claimed just now by one server; the beat was answered by another, whose clock is 300 ms ahead.
    drive.beat({}, { unlisted: [{ jobId: 'a', lease: 1, heldMs: 310 }] })
    drive.answer(asked, { jobs: [job('a')] })
    expect(drive.all('start')).toHaveLength(1)
  })
})

describe('registering again', () => {
  test('is logged once, however often the server refuses it, and reports are sent all the same', () => {
    const drive = new Drive().bring(job('a')).beat({ isForgotten: true }).settle('a#1')
    for (let tries = 0; tries < 20; tries += 1)
      drive.say({ in: 'register-failed', reason: 'no', isRefused: true }).wait(1_500)
    expect(drive.all('log').filter(({ level }) => level === 'error')).toHaveLength(1)
    expect(drive.reported).toEqual(['ack a'])
  })
})

describe('orders', () => {
  test('a job whose cancellation arrived before the job itself is not started', () => {
    const drive = new Drive(2).bring(job('x'), job('y')).settle('x#1')
    const bringing = drive.reporting
    if (bringing === undefined) throw new Error('no report was sent')
    expect(bringing.count).toBe(1)
    const stops = [{ job_id: 'a', reason: 'cancelled', x_lease: 1 } as const]
    drive.answer(drive.listening, { orders: { stops, isForgotten: false } })
    drive.answer(bringing, { jobs: [job('a')] })
    expect(drive.all('start').map(({ key }) => key)).not.toContain('a#1')
  })
})
