/** Jobs that a worker took in advance are never lost, never burnt, and in nothing's way. */
import { expect, test } from 'vitest'
import { until, within } from '../server-process.ts'
import { Crew, fresh, now, QUICK_BEATS, tally, type Member } from './crew.ts'

const ONE_TRY = { retry: { max_attempts: 1 } }
const PATIENT = { timeout: 300_000 }
/** Short enough for a worker to take jobs in advance. */
const SHORT_MS = 3
const LONG_MS = 60_000
const CANCEL_BOUND_MS = 1_000

interface Counts {
  readonly available: number
  readonly active: number
  readonly completed: number
  readonly discarded: number
}

async function counts(crew: Crew, queue: string): Promise<Counts> {
  const { body } = await crew.server.get(`/ojs/v1/queues/${queue}/stats`)
  const { available = 0, active = 0, completed = 0, discarded = 0 } = body.stats as Partial<Counts>
  return { available, active, completed, discarded }
}

/** Until so many jobs of the queue are completed. */
async function someCompleted(crew: Crew, queue: string, count: number): Promise<void> {
  await until(`${String(count)} jobs are completed`, async () => (await counts(crew, queue)).completed >= count)
}

/** Until the server has handed out more jobs than the worker has slots. */
async function buffers(crew: Crew, queue: string, concurrency: number): Promise<void> {
  await until('the worker holds more jobs than it has slots', async () => {
    const { active } = await counts(crew, queue)
    return active >= 2 * concurrency
  })
}

const interrupted = async (crew: Crew): Promise<number> => (await crew.events(['job.interrupted'])).length

test('thirty busy workers that are replaced lose no job and use up no try', PATIENT, async () => {
  const [DEPARTURES, GROUP, JOBS] = [30, 10, 120]
  const crew = await Crew.open(QUICK_BEATS)
  const [queues, ids, left]: [string[], string[], Member[]] = [[], [], []]
  while (left.length < DEPARTURES) {
    const group = await crew.members(GROUP)
    await Promise.all(
      group.map(async (member) => {
        const theirs = await crew.batch(JOBS, member.queue, SHORT_MS, ONE_TRY)
        await someCompleted(crew, member.queue, 25)
        member.signal('SIGTERM')
        ids.push(...theirs)
        queues.push(member.queue)
      }),
    )
    left.push(...group)
  }
  const exits = await Promise.all(left.map(({ exited }) => within('a worker ends', exited)))
  expect(tally(exits.map(({ code }) => code))).toEqual({ 0: DEPARTURES })
  expect(await interrupted(crew), 'jobs that were handed back').toBeGreaterThan(DEPARTURES)
  // What was handed back is with the server, and nothing of it was begun.
  const seen = await Promise.all(queues.map((queue) => counts(crew, queue)))
  const lost = seen.filter(({ available, completed }) => available + completed !== JOBS)
  expect(lost).toEqual([])
  const runs = ids.filter((id) => crew.journal.runsOf(id).length > 0).length
  expect(runs).toBe(seen.reduce((sum, { completed }) => sum + completed, 0))
  await crew.member({ queues })
  await until('all are completed', async () => {
    const done = await Promise.all(queues.map(async (queue) => (await counts(crew, queue)).completed))
    return done.every((completed) => completed === JOBS)
  })
  expect(tally(ids.map((id) => crew.journal.runsOf(id).length))).toEqual({ 1: ids.length })
})

test('a worker that becomes quiet hands back what it took in advance, at once', PATIENT, async () => {
  const [JOBS, SLOTS] = [600, 4]
  const crew = await Crew.open()
  const member = await crew.member({ concurrency: SLOTS })
  const { queue, pid } = member
  const ids = await crew.batch(JOBS, queue, SHORT_MS, ONE_TRY)
  await buffers(crew, queue, SLOTS)
  member.signal('SIGTSTP')
  const { at } = await crew.journal.wrote(pid, 'signal:SIGTSTP')
  await until('nothing is active', async () => (await counts(crew, queue)).active === 0, 2_000)
  const begun = ids.flatMap((id) => crew.journal.runsOf(id)).map(({ beganAt }) => beganAt)
  expect(begun.filter((beganAt) => beganAt > at)).toEqual([])
  expect(await interrupted(crew), 'jobs that were handed back').toBeGreaterThan(0)
  expect(await counts(crew, queue)).toMatchObject({ completed: begun.length, available: JOBS - begun.length })
  member.signal('SIGCONT')
  await until('all are completed', async () => (await counts(crew, queue)).completed === JOBS)
  expect(tally(ids.map((id) => crew.journal.runsOf(id).length))).toEqual({ 1: JOBS })
})

test('a cancel reaches a running handler at once while the worker has jobs in advance', PATIENT, async () => {
  const [CANCELS, WIDTH, SLOTS] = [50, 10, 60]
  const crew = await Crew.open()
  const [long, short] = [fresh('long'), fresh('short')]
  await crew.member({ queues: [long, short], concurrency: SLOTS })
  const ids = await crew.batch(CANCELS, long, LONG_MS)
  await crew.begun(ids)
  for (let batches = 0; batches < 8; batches += 1) await crew.batch(500, short, SHORT_MS)
  const delays: number[] = []
  let buffered = 0
  for (let first = 0; first < CANCELS; first += WIDTH) {
    const { active } = await counts(crew, short)
    buffered = Math.max(buffered, active - (SLOTS - CANCELS + delays.length))
    delays.push(...(await Promise.all(ids.slice(first, first + WIDTH).map((id) => cancelDelay(crew, id)))))
  }
  expect(buffered, 'jobs in advance').toBeGreaterThan(0)
  expect(delays.filter((ms) => ms > CANCEL_BOUND_MS)).toEqual([])
})

/** From the request to the abort of the handler's signal. */
async function cancelDelay(crew: Crew, id: string): Promise<number> {
  const sentAt = now()
  expect((await crew.server.call('DELETE', `/ojs/v1/jobs/${id}`)).status).toBe(200)
  const toldAt = await until('the handler knows', () => crew.journal.runsOf(id)[0]?.toldAt ?? undefined)
  return toldAt - sentAt
}
