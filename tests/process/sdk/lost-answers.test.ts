/** An answer that is lost on its way costs time, never a job: what was handed out comes back, what was reported counts once. */
import { describe, expect, test } from 'vitest'
import { lines } from '../server-process.ts'
import { Crew, fresh, tally, type JobView } from './crew.ts'
import { Link, type Fate, type Passage } from './link.ts'

const WORKERS = 10
const EACH = 5
const JOBS = WORKERS * EACH
/** One beat and a bit. */
const BOUND_MS = 10_000
const ONE_TRY = { retry: { max_attempts: 1 } }
const PATIENT = { timeout: 120_000 }

/** Loses every answer that hands out a job for the first time. */
function loseFirstHandOuts(link: Link, fate: Fate): Set<string> {
  const lost = new Set<string>()
  link.onAnswer = (_, answer) => {
    const ids = ((answer?.jobs ?? []) as { id: string }[]).map(({ id }) => id)
    const isNew = ids.some((id) => !lost.has(id))
    for (const id of ids) lost.add(id)
    return isNew ? fate : 'pass'
  }
  return lost
}

/** Hand-backs are refunded: they use no try. */
const stateOf = ({ state, attempt, x_interruptions: refunds = 0 }: JobView): string =>
  `${String(state)} with try ${String(Number(attempt) - Number(refunds))}`

describe.each([
  { how: 'the connection is closed', fate: 'cut' as const },
  { how: 'the connection stays open', fate: 'swallow' as const },
])('the answer that hands out jobs is lost, $how', ({ fate }) => {
  test('jobs with one try are completed all the same', PATIENT, async () => {
    const crew = await Crew.open()
    const link = await Link.to(crew.server.port)
    const { workers } = await crew.member({ url: link.url, workers: WORKERS, ownSignals: false })
    const lost = loseFirstHandOuts(link, fate)
    const ids = (await Promise.all(workers.map(({ queue }) => crew.batch(EACH, queue, 0, ONE_TRY)))).flat()
    const jobs = await crew.settled(ids, BOUND_MS)
    expect({ lost: lost.size, states: tally(jobs.map(stateOf)) }).toEqual({
      lost: JOBS,
      states: { 'completed with try 1': JOBS },
    })
    expect(tally(ids.map((id) => crew.journal.runsOf(id).length))).toEqual({ 1: JOBS })
  })
})

describe('an ack', () => {
  const reported = ({ path, body }: Passage): string[] =>
    path.endsWith('/ack')
      ? [String(body.job_id)]
      : ((body?.acks ?? []) as JobView[]).map(({ job_id: id }) => String(id))

  test('whose answer is lost completes its job once, without an error', PATIENT, async () => {
    const crew = await Crew.open()
    const link = await Link.to(crew.server.port)
    const member = await crew.member({ url: link.url, workers: WORKERS, ownSignals: false })
    const lost = new Set<string>()
    link.onAnswer = (passage) => {
      const ids = reported(passage).filter((id) => !lost.has(id))
      for (const id of ids) lost.add(id)
      return ids.length > 0 ? 'cut' : 'pass'
    }
    const ids = (await Promise.all(member.workers.map(({ queue }) => crew.jobs(EACH, queue, 50, ONE_TRY)))).flat()
    await Promise.all(
      ids.map((id) => link.passed('the ack again', (p) => reported(p).includes(id) && p.answeredAt !== null)),
    )
    const jobs = await crew.settled(ids)
    expect({
      lost: lost.size,
      states: tally(jobs.map(stateOf)),
      errors: jobs.flatMap(({ errors }) => (errors ?? []) as unknown[]),
    }).toEqual({
      lost: JOBS,
      states: { 'completed with try 1': JOBS },
      errors: [],
    })
    expect(tally(ids.map((id) => crew.journal.runsOf(id).length))).toEqual({ 1: JOBS })
    const completed = (await crew.events(['job.completed'])).map(({ data }) => String(data.job_id))
    expect(completed.sort()).toEqual([...ids].sort())
    expect(lines(member.output.stderr).filter((line) => /refused|error/i.test(line.split('{')[0] ?? ''))).toEqual([])
  })

  test('that is repeated is answered 200 and says that it had been done', async () => {
    const { server } = await Crew.open()
    const [queue, worker_id] = [fresh('queue'), fresh('worker')]
    await server.enqueue({ queue, ...ONE_TRY })
    const [job] = await server.fetch({ queues: [queue], worker_id })
    const ack = { job_id: job.id, worker_id, attempt: job.attempt, x_lease: job.x_lease, result: { sum: 5 } }
    expect((await server.post('/ojs/v1/workers/ack', ack)).status).toBe(200)
    const again = await server.post('/ojs/v1/workers/ack', ack)
    expect({ status: again.status, already: again.body.already }).toEqual({ status: 200, already: true })
    const exchanged = await server.post('/ojs/v1/workers/exchange', { worker_id, acks: [ack] })
    expect(exchanged.body.acks).toMatchObject([{ ok: true, already: true }])
  })
})
