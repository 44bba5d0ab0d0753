/** What a job's history tells of workers that left while they ran it. */
import { expect, test } from 'vitest'
import { within } from '../server-process.ts'
import { Crew, fresh, QUICK_BEATS } from './crew.ts'

const LONG_MS = 60_000
const HAND_BACKS = 3

test('a job that was handed back three times shows each of them, and counts no try', { timeout: 120_000 }, async () => {
  const crew = await Crew.open(QUICK_BEATS)
  const queue = fresh('queue')
  const id = await crew.job(queue, LONG_MS, { retry: { max_attempts: 2 } })
  for (let times = 1; times <= HAND_BACKS; times += 1) {
    const member = await crew.member({ queues: [queue], drain: '50ms' })
    await crew.begun([id], times)
    member.signal('SIGTERM')
    await within('the worker ends', member.exited)
    expect(await crew.server.job(id)).toMatchObject({ state: 'available', x_interruptions: times })
  }
  await crew.member({ queues: [queue] })
  await crew.begun([id], HAND_BACKS + 1)

  const attempts = crew.journal.runsOf(id).map(({ attempt }) => attempt)
  expect(Math.max(...attempts), `attempts seen by the handler: ${attempts.join(', ')}`).toBeLessThanOrEqual(2)
  const { errors } = (await crew.server.job(id)) as { errors?: { type: string }[] }
  expect((errors ?? []).map(({ type }) => type)).toEqual(Array<string>(HAND_BACKS).fill('shutdown'))
  const interrupted = (await crew.events(['job.interrupted'])).filter(({ subject }) => subject === id)
  expect(interrupted).toHaveLength(HAND_BACKS)
  const { text } = await crew.server.get(`/ojs/v1/jobs/${id}/explain`)
  expect(text).toMatch(/shutdown/)
})
