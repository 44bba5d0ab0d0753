/** A worker survives an outage of its server: nothing is lost, the log stays short, and reports follow at once. */
import { expect, test } from 'vitest'
import { lines, pause, ServerProcess, within } from '../server-process.ts'
import { Crew, now, tally } from './crew.ts'
import { isReport, Link } from './link.ts'

const OUTAGE_MS = 14_000
const REPORT_BOUND_MS = 2_500
const WORKERS = 5
/** Jobs that end while the server is away, and jobs that end when it is back. */
const ENDS_IN_OUTAGE_MS = 4_000
const ENDS_AFTER_MS = 20_000

test('a server that is killed and starts again after 14 s', { timeout: 120_000 }, async () => {
  const crew = await Crew.open()
  const link = await Link.to(crew.server.port)
  const members = await crew.members(WORKERS, () => ({ url: link.url }))
  const [short, long] = await Promise.all(
    [ENDS_IN_OUTAGE_MS, ENDS_AFTER_MS].map((ms) => Promise.all(members.map(({ queue }) => crew.job(queue, ms)))),
  )
  if (short === undefined || long === undefined) throw new Error('two groups of jobs')
  await crew.begun([...short, ...long])
  const said = members.map(({ output }) => lines(output.stderr).length)

  await link.refuse()
  await crew.server.kill()
  await pause(OUTAGE_MS)
  const server = await ServerProcess.start({ data: crew.server.data })
  await link.accept(server.port)
  const backAt = now()

  const after = new Crew(server)
  const reports = await Promise.all(
    short.map(async (id) => {
      const { at } = await link.passed('a report', (passage) => isReport(passage, id), backAt)
      return at - backAt
    }),
  )
  const jobs = await after.settled([...short, ...long])
  const states = jobs.map(({ state, attempt }) => `${String(state)} at attempt ${String(attempt)}`)
  const counts = members.map(({ output }, index) => lines(output.stderr).length - (said[index] ?? 0))
  for (const member of members) member.signal('SIGTERM')
  await Promise.all(members.map(({ exited }) => within('a worker ends', exited)))
  expect({
    states: tally(states),
    late: reports.filter((ms) => ms > REPORT_BOUND_MS).map(Math.round),
    'lines on stderr': tally(counts),
  }).toEqual({
    states: { 'completed at attempt 1': 2 * WORKERS },
    late: [],
    'lines on stderr': { 2: WORKERS },
  })
})
