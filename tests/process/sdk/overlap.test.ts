/** Two attempts of a job never run side by side in one worker, however it lost the first one. */
import { describe, expect, test } from 'vitest'
import { until } from '../server-process.ts'
import { Crew, tally, type Isolation } from './crew.ts'
import { isBeat, Link } from './link.ts'

const LONG_MS = 60_000

/** Fifty in all; a process is expensive to start, so few run at a time. */
const ROUNDS: readonly { isolation: Isolation; rounds: number; jobs: number }[] = [
  { isolation: 'inline', rounds: 1, jobs: 20 },
  { isolation: 'thread', rounds: 2, jobs: 8 },
  { isolation: 'process', rounds: 3, jobs: 5 },
]

/** What the earlier run had been told when the later one began. */
function order(crew: Crew, ids: readonly string[]): string[] {
  return ids.map((id) => {
    const [first, second] = crew.journal.runsOf(id)
    if (first === undefined || second === undefined) return 'not begun twice'
    if (first.toldAt === null) return 'not told'
    return first.toldAt <= second.beganAt ? 'told first' : 'told too late'
  })
}

describe.each(ROUNDS)('$isolation', ({ isolation, rounds, jobs }) => {
  test('cancelled and retried by hand: the new attempt begins when the old one has stopped', async () => {
    const crew = await Crew.open()
    const { queue } = await crew.member({ isolation, concurrency: jobs * 2 + 2 })
    for (let round = 0; round < rounds; round += 1) {
      const ids = await crew.jobs(jobs, queue, LONG_MS)
      await crew.begun(ids)
      await Promise.all(
        ids.map(async (id) => {
          expect((await crew.server.call('DELETE', `/ojs/v1/jobs/${id}`)).status).toBe(200)
          expect((await crew.server.post(`/ojs/v1/admin/jobs/${id}/retry`)).status).toBe(200)
        }),
      )
      await crew.begun(ids, 2)
      expect(tally(order(crew, ids))).toEqual({ 'told first': jobs })
      expect(crew.journal.overlaps(ids)).toEqual([])
      // The slots are needed for the next round.
      await Promise.all(ids.map((id) => crew.server.call('DELETE', `/ojs/v1/jobs/${id}`)))
      await until('all of them have ended', () =>
        ids.every((id) => crew.journal.runsOf(id).every(({ endedAt }) => endedAt !== null)),
      )
    }
  })

  test('after a lapsed visibility the new attempt begins when the old one has stopped', async () => {
    const crew = await Crew.open()
    const link = await Link.to(crew.server.port)
    const { queue } = await crew.member({ isolation, concurrency: jobs * 2 + 2, url: link.url })
    const retry = { max_attempts: 5, initial_interval: 'PT0.1S', jitter: false }
    const ids = await crew.jobs(jobs, queue, LONG_MS, { visibility_timeout_ms: 2_000, retry })
    await crew.begun(ids)
    // The worker asks for jobs and is answered, but its beats are lost.
    link.onRequest = (passage) => (isBeat(passage) ? 'cut' : 'pass')
    await crew.begun(ids, 2)
    link.onRequest = () => 'pass'
    expect(tally(order(crew, ids))).toEqual({ 'told first': jobs })
    expect(crew.journal.overlaps(ids)).toEqual([])
  })
})
