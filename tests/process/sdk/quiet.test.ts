/** A quiet worker begins nothing: not what was on its way when it became quiet, and not what arrives later. */
import { expect, test } from 'vitest'
import { pause, until } from '../server-process.ts'
import { Crew, now, QUICK_BEATS, tally, type Member } from './crew.ts'

const REPEATS = 50
const MEMBERS = 10
const LATEST_MS = 300
/** Beats of a worker that is quiet for so long have told the server. */
const WATCH_MS = 700
const ONE_TRY = { retry: { max_attempts: 1 } }
const PATIENT = { timeout: 120_000 }

/** From 0 to the latest, most of them early. */
const delayOf = (repeat: number): number => LATEST_MS * (repeat / (REPEATS - 1)) ** 2

/** What became of a job that was enqueued while its worker was quiet. */
async function story(crew: Crew, member: Member, delayMs: number): Promise<string> {
  const { pid, queue } = member
  await pause(delayMs)
  const id = await crew.job(queue, 0, ONE_TRY)
  await pause(WATCH_MS)
  const { state } = (await crew.server.job(id)) as { state: string }
  if (state !== 'available' || crew.journal.runsOf(id).length > 0) return `${state} while the worker was quiet`
  const resumedAt = now()
  member.signal('SIGCONT')
  await crew.journal.wrote(pid, 'signal:SIGCONT', resumedAt)
  const [job] = await crew.settled([id], 5_000)
  return `${String(job.state)} after ${String(crew.journal.runsOf(id).length)} runs`
}

async function becomeQuiet(crew: Crew, member: Member): Promise<void> {
  const sentAt = now()
  member.signal('SIGTSTP')
  await crew.journal.wrote(member.pid, 'signal:SIGTSTP', sentAt)
}

test('a job enqueued up to 300 ms after SIGTSTP waits for SIGCONT', PATIENT, async () => {
  const crew = await Crew.open(QUICK_BEATS)
  const members = await crew.members(MEMBERS)
  const rounds = REPEATS / MEMBERS
  const stories = await Promise.all(
    members.map(async (member, index) => {
      const found: string[] = []
      for (let round = 0; round < rounds; round += 1) {
        await becomeQuiet(crew, member)
        found.push(await story(crew, member, delayOf(index * rounds + round)))
        member.signal('SIGCONT')
      }
      return found
    }),
  )
  expect(tally(stories.flat())).toEqual({ 'completed after 1 runs': REPEATS })
})

test('the same right after the start', PATIENT, async () => {
  const crew = await Crew.open(QUICK_BEATS)
  const quiet = await crew.members(MEMBERS, () => ({ until: 'listening' }))
  await Promise.all(quiet.map((member) => becomeQuiet(crew, member)))
  await Promise.all(quiet.map((member) => member.said('ready')))
  const stories = await Promise.all(quiet.map((member, index) => story(crew, member, index * 10)))
  expect(tally(stories)).toEqual({ 'completed after 1 runs': MEMBERS })
})

test('an operator’s quiet and resume reach a worker without waiting for its beat', PATIENT, async () => {
  const crew = await Crew.open()
  const { workers } = await crew.member({ workers: MEMBERS, ownSignals: false })
  const order = async (id: string, what: string): Promise<void> => {
    expect((await crew.server.post(`/ojs/v1/admin/workers/${id}/${what}`)).status).toBe(200)
  }
  const stories = await Promise.all(
    workers.map(async ({ id, queue }) => {
      await order(id, 'quiet')
      const isQuiet = async (): Promise<boolean> =>
        (await crew.server.get(`/ojs/v1/workers/${id}`)).body.state === 'quiet'
      const quietInTime = await until('the worker is quiet', isQuiet, 2_000).catch(() => false)
      if (!quietInTime) return 'not quiet within 2 s'
      const job = await crew.job(queue, 0, ONE_TRY)
      await pause(WATCH_MS)
      if (crew.journal.runsOf(job).length > 0) return 'began although quiet'
      await order(id, 'resume')
      const [view] = await crew.settled([job], 5_000)
      return String(view.state)
    }),
  )
  expect(tally(stories)).toEqual({ completed: MEMBERS })
})
