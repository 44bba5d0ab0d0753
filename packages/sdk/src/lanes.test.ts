import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { FakeClock, instant, millis } from '@curfew/core'
import { Lanes } from './lanes.ts'
import type { Courier, Return, Trip } from './courier.ts'
import { RequestError } from './errors.ts'
import type { Report } from './report.ts'
import type { HandedJob } from './wire.ts'

interface Sent {
  readonly trip: Trip
  answer: (jobs?: number, unsent?: boolean) => Promise<void>
  fail: (error?: Error) => Promise<void>
}

/** A worker of so many slots on a road that a test controls. */
class Road {
  readonly clock = new FakeClock()
  readonly sent: Sent[] = []
  readonly delivered: Report[] = []
  running = 0
  isFetching = true
  readonly lanes: Lanes

  constructor(slots: number, waits = true) {
    const courier: Courier = {
      takesBeats: false,
      waits,
      travel: (trip) =>
        new Promise((resolve, reject) => {
          const entry: Sent = {
            trip,
            answer: async (jobs = 0, unsent = false) => {
              this.sent.splice(this.sent.indexOf(entry), 1)
              resolve(back(trip, jobs, unsent))
              await turn()
            },
            fail: async (error = new Error('no answer')) => {
              this.sent.splice(this.sent.indexOf(entry), 1)
              reject(error)
              await turn()
            },
          }
          this.sent.push(entry)
        }),
    }
    this.lanes = new Lanes({
      host: this.clock,
      random: () => 0.5,
      log: { debug: () => {}, info: () => {}, warn: () => {}, error: () => {} },
      courier,
      freeSlots: () => slots - this.running,
      mayFetch: () => this.isFetching,
      longestWaitMs: () => 20_000,
      dueBeat: () => null,
      onJobs: (jobs) => {
        this.running += jobs.length
      },
      onDelivered: (report) => this.delivered.push(report),
      onContact: () => {},
      onBeat: () => {},
    })
  }

  finish(): void {
    this.running -= 1
    const hold = { jobId: 'a', attempt: 1, lease: 1 }
    this.lanes.report({ kind: 'ack', hold, result: null })
  }

  get asked(): number {
    return this.sent.reduce((sum, { trip }) => sum + (trip.ask?.count ?? 0), 0)
  }
}

function back({ reports }: Trip, jobs: number, unsent: boolean): Return {
  return {
    deliveries: reports.map(() => (unsent ? { kind: 'unsent', error: null } : { kind: 'done' })),
    jobs: Array.from({ length: jobs }, () => ({}) as HandedJob),
    asked: { at: instant(0), waitedMs: millis(0) },
    beat: null,
    failure: null,
  }
}

const turn = (): Promise<void> => new Promise((resolve) => void setImmediate(resolve))

async function open(slots: number, waits = true): Promise<Road> {
  const road = new Road(slots, waits)
  road.lanes.pump()
  await turn()
  return road
}

describe('the lanes of a worker', () => {
  test('an idle worker waits for work with one call, for all its slots', async () => {
    const road = await open(10)
    expect(road.sent.map(({ trip }) => trip.ask)).toEqual([{ count: 10, waitMs: 20_000 }])
  })

  test('a report does not wait behind a poll, and takes along a call for what the poll does not ask for', async () => {
    const road = await open(3)
    await road.sent[0]?.answer(3)
    expect(road.sent).toEqual([])
    road.finish()
    await turn()
    expect(road.sent.map(({ trip }) => [trip.reports.length, trip.ask])).toEqual([[1, { count: 1, waitMs: 0 }]])
    await road.sent[0]?.answer(0)
    expect(road.sent.map(({ trip }) => [trip.reports.length, trip.ask])).toEqual([[0, { count: 1, waitMs: 20_000 }]])
    road.finish()
    await turn()
    expect(road.sent.map(({ trip }) => [trip.reports.length, trip.ask])).toEqual([
      [0, { count: 1, waitMs: 20_000 }],
      [1, { count: 1, waitMs: 0 }],
    ])
  })

  test('what ends while a report is under way travels together with the next', async () => {
    const road = await open(4)
    await road.sent[0]?.answer(4)
    road.finish()
    await turn()
    road.finish()
    road.finish()
    await turn()
    expect(road.sent).toHaveLength(1)
    await road.sent[0]?.answer(1)
    expect(road.sent[0]?.trip.reports).toHaveLength(2)
  })

  test('reports that did not arrive are sent again, after a rest that grows', async () => {
    const road = await open(1)
    await road.sent[0]?.answer(1)
    road.finish()
    await turn()
    const rests: number[] = []
    for (let tries = 0; tries < 5; tries += 1) {
      await (tries % 2 === 0 ? road.sent[0]?.fail() : road.sent[0]?.answer(0, true))
      expect(road.sent).toEqual([])
      const rest = (road.clock.nextTimerAt() ?? 0) - road.clock.now()
      rests.push(rest)
      road.clock.advance(rest)
      await turn()
      expect(road.sent[0]?.trip.reports).toHaveLength(1)
    }
    expect(rests[4]).toBeGreaterThan(rests[0] ?? 0)
    expect(road.delivered).toEqual([])
    await road.sent[0]?.answer(0)
    expect(road.delivered).toHaveLength(1)
  })

  test('what is too large to travel together travels alone; what is too large alone is refused', async () => {
    const large = new RequestError({
      code: 'payload_too_large',
      message: 'no',
      retryable: false,
      details: {},
      hint: null,
      requestId: null,
      status: 413,
      retryAfterMs: null,
    })
    const road = await open(2)
    await road.sent[0]?.answer(2)
    road.isFetching = false
    road.finish()
    road.finish()
    await turn()
    expect(road.sent[0]?.trip.reports).toHaveLength(2)
    await road.sent[0]?.fail(large)
    expect(road.sent[0]?.trip.reports).toHaveLength(1)
    await road.sent[0]?.fail(large)
    expect(road.delivered).toHaveLength(1)
    await road.sent[0]?.answer()
    expect(road.delivered).toHaveLength(2)
    expect(road.sent).toEqual([])
  })

  test('a server that does not wait is not asked without end', async () => {
    const road = await open(1, false)
    await road.sent[0]?.answer(0)
    expect(road.sent).toEqual([])
    road.clock.advance(2_000)
    await turn()
    expect(road.sent).toHaveLength(1)
  })

  test('a worker that may not fetch reports, and asks for nothing', async () => {
    const road = await open(2)
    await road.sent[0]?.answer(2)
    road.isFetching = false
    road.finish()
    await turn()
    expect(road.sent.map(({ trip }) => trip.ask)).toEqual([null])
    await road.sent[0]?.answer(0)
    expect(road.sent).toEqual([])
  })

  test('emptied waits for every report to be answered', async () => {
    const road = await open(1)
    await road.sent[0]?.answer(1)
    road.isFetching = false
    road.finish()
    let emptied = 0
    void road.lanes.emptied().then(() => (emptied += 1))
    await turn()
    void road.lanes.emptied().then(() => (emptied += 1))
    await turn()
    expect(emptied).toBe(0)
    await road.sent[0]?.answer(0)
    expect(emptied).toBe(2)
  })

  test('emptied does not take the end of a poll for the answer to a report', async () => {
    const road = await open(2)
    await road.sent[0]?.answer(1)
    road.isFetching = false
    road.finish()
    await turn()
    const [poll, report] = road.sent
    expect([poll?.trip.reports.length, report?.trip.reports.length]).toEqual([0, 1])
    let emptied = 0
    void road.lanes.emptied().then(() => (emptied += 1))
    await poll?.answer(0)
    expect(emptied).toBe(0)
    await report?.answer(0)
    expect(emptied).toBe(1)
  })

  test('whatever happens, what runs and what is asked for never exceed the slots', async () => {
    const step = fc.record({
      what: fc.constantFrom('answer', 'fail', 'finish', 'time', 'quiet'),
      which: fc.nat(3),
      jobs: fc.nat(10),
    })
    await fc.assert(
      fc.asyncProperty(fc.integer({ min: 1, max: 8 }), fc.array(step, { maxLength: 60 }), async (slots, steps) => {
        const road = await open(slots)
        for (const { what, which, jobs } of steps) {
          const sent = road.sent[which % Math.max(1, road.sent.length)]
          if (what === 'answer') await sent?.answer(Math.min(jobs, sent.trip.ask?.count ?? 0))
          else if (what === 'fail') await sent?.fail()
          else if (what === 'finish' && road.running > 0) road.finish()
          else if (what === 'time') road.clock.advance(20_000)
          else if (what === 'quiet') road.isFetching = !road.isFetching
          await turn()
          expect(road.running + road.asked).toBeLessThanOrEqual(slots)
          expect(road.sent.length).toBeLessThanOrEqual(2)
        }
      }),
      { numRuns: 60 },
    )
  })
})
