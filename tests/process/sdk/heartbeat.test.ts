/** A handler that works is never taken for stuck: the worker beats as often as the shortest limit of its jobs needs it. */
import { expect, test } from 'vitest'
import { Crew, tally } from './crew.ts'

const WORK_MS = 6_000
const LIMITS = [
  { heartbeat_timeout_ms: 1_000 },
  { heartbeat_timeout_ms: 2_000 },
  { visibility_timeout_ms: 1_000 },
  { visibility_timeout_ms: 3_000 },
]

test('fifty jobs with limits shorter than the beat interval complete at the first attempt', async () => {
  const crew = await Crew.open()
  const inline = await crew.member({ concurrency: 44 })
  const apart = await crew.member({ concurrency: 6, isolation: 'process' })
  const ids = await Promise.all(
    Array.from({ length: 50 }, (_, index) =>
      crew.job(index < 44 ? inline.queue : apart.queue, WORK_MS, {
        args: [WORK_MS, 'still'],
        ...LIMITS[index % LIMITS.length],
        retry: { max_attempts: 5, initial_interval: 'PT0.1S' },
      }),
    ),
  )
  const jobs = await crew.settled(ids, WORK_MS * 2)
  expect(tally(jobs.map(({ state, attempt }) => `${String(state)} at attempt ${String(attempt)}`))).toEqual({
    'completed at attempt 1': 50,
  })
  expect(tally(ids.map((id) => crew.journal.runsOf(id).length))).toEqual({ 1: 50 })
})

test.each([{ heartbeat_timeout_ms: 2_000 }, { visibility_timeout_ms: 2_000 }])(
  'a job with a limit of two seconds (%o) is not stopped because another handler keeps the thread busy for longer',
  async (limit) => {
    const crew = await Crew.open()
    const { queue } = await crew.member({ concurrency: 3 })
    const retry = { max_attempts: 2, initial_interval: 'PT0.1S' }
    const ids = await crew.jobs(2, queue, WORK_MS, { args: [WORK_MS, 'still'], ...limit, retry })
    await crew.begun(ids)
    const busy = await crew.job(queue, 4_000, { args: [4_000, 'busy'] })
    const jobs = await crew.settled([...ids, busy], WORK_MS * 3)
    expect(tally(jobs.map(({ state, attempt }) => `${String(state)} at attempt ${String(attempt)}`))).toEqual({
      'completed at attempt 1': 3,
    })
    expect(ids.flatMap((id) => crew.journal.runsOf(id).map(({ reason }) => reason))).toEqual([null, null])
  },
)
