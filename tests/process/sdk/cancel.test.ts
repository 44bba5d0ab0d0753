/** A cancelled job's handler knows it at once, not with the next beat. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { Cluster } from '../../postgres/cluster.ts'
import { Fleet } from '../../cluster/fleet.ts'
import { pause, type ServerProcess } from '../server-process.ts'
import { Crew, now, type Isolation } from './crew.ts'

const CANCELS = 50
const BOUND_MS = 1_000
const LONG_MS = 60_000
/** So many are cancelled at the same time. */
const WIDTH = 10

interface Case {
  readonly jobs: number
  readonly freeSlots: number
  readonly isolation?: Isolation
}

/** Starts `jobs` at a time and cancels them at `by`; answers how long each handler took to know. */
async function delays(
  crew: Crew,
  by: ServerProcess,
  { jobs, freeSlots, isolation = 'inline' }: Case,
): Promise<number[]> {
  const { queue } = await crew.member({ isolation, concurrency: jobs + freeSlots })
  const found: number[] = []
  while (found.length < CANCELS) {
    const ids = await crew.jobs(jobs, queue, LONG_MS)
    await crew.begun(ids)
    for (let first = 0; first < jobs; first += WIDTH)
      found.push(...(await Promise.all(ids.slice(first, first + WIDTH).map((id) => delay(crew, by, id)))))
  }
  return found
}

/** From the request to the abort of the signal; `Infinity` where that took more than twice the bound. */
async function delay(crew: Crew, by: ServerProcess, id: string): Promise<number> {
  const sentAt = now()
  expect((await by.call('DELETE', `/ojs/v1/jobs/${id}`)).status).toBe(200)
  for (;;) {
    const toldAt = crew.journal.runsOf(id)[0]?.toldAt ?? null
    if (toldAt !== null) return toldAt - sentAt
    if (now() - sentAt > 2 * BOUND_MS) return Infinity
    await pause(10)
  }
}

function expectQuick(found: readonly number[]): void {
  expect(found).toHaveLength(CANCELS)
  const late = found.filter((ms) => ms > BOUND_MS)
  expect(late.length, `cancels that took more than ${String(BOUND_MS)} ms`).toBe(0)
}

describe('on one server', () => {
  test('a worker with free slots', async () => {
    const crew = await Crew.open()
    expectQuick(await delays(crew, crew.server, { jobs: 50, freeSlots: 10 }))
  })

  test('a worker without a free slot', async () => {
    const crew = await Crew.open()
    expectQuick(await delays(crew, crew.server, { jobs: 50, freeSlots: 0 }))
  })

  test('handlers in processes', async () => {
    const crew = await Crew.open()
    expectQuick(await delays(crew, crew.server, { jobs: 10, freeSlots: 2, isolation: 'process' }))
  })
})

describe('on PostgreSQL', () => {
  let database: Cluster
  let fleet: Fleet

  beforeAll(async () => {
    database = await Cluster.start()
    fleet = await Fleet.start({ database: database.url(), skewsMs: [0, 0] })
  })
  afterAll(async () => {
    await fleet.stop()
    await database.remove()
  })

  test('cancelled at another server than the worker’s', async () => {
    const [here, there] = fleet.members.map(({ server }) => server)
    if (here == null || there == null) throw new Error('both servers should run')
    expectQuick(await delays(new Crew(here), there, { jobs: 50, freeSlots: 10 }))
  })
})
