/** Two servers on one database and a restart: the series of both say what the one log says. */
import { afterAll, beforeAll, expect, test } from 'vitest'
import { fromLog, fromSeries, play } from '../../bench/series/endings.mjs'
import { Cluster } from '../postgres/cluster.ts'
import { until, type ServerProcess } from '../process/server-process.ts'
import { Fleet } from './fleet.ts'

const JOBS = 2_400
let database: Cluster
let fleet: Fleet

beforeAll(async () => {
  database = await Cluster.start()
  fleet = await Fleet.start({ database: database.url(), skewsMs: [0, 30_000] })
})
afterAll(async () => {
  await fleet.stop()
  await database.remove()
})

function server(index: number): ServerProcess {
  const found = fleet.members[index]?.server
  if (found == null) throw new Error(`server ${String(index)} is not there`)
  return found
}

// eslint-disable-next-line @typescript-eslint/no-explicit-any
const call = async (index: number, method: string, path: string, body?: unknown): Promise<any> =>
  (await server(index).call(method, path, body)).body

type Counted = Awaited<ReturnType<typeof fromLog>>
const sum = ({ outcomes, kinds, overshoots }: Counted): number =>
  [...Object.values<number>(outcomes), ...Object.values<number>(kinds)].reduce((total, n) => total + n, overshoots)

test('jobs of every ending through two servers, one of them restarted, are counted as the log tells of them', async () => {
  const halfway = async (): Promise<void> => {
    const second = fleet.members[1]!
    await second.server?.stop()
    await fleet.start(second)
  }
  await play({ jobs: JOBS, call, halfway })
  const logged = await fromLog(call)
  for (const index of [0, 1]) {
    for (const step of ['1m', '10m', '3h']) {
      // What the other server counted last is saved within ten seconds.
      const counted = await until(`the series ${step} of server ${String(index)}`, async () => {
        const told = await fromSeries(call, index, step)
        return told.created >= JOBS && sum(told.counted) >= sum(logged) ? told.counted : null
      })
      expect(counted).toEqual(logged)
    }
  }
  expect(logged.kinds).toMatchObject({ execution: JOBS / 8, enqueue_ttl: JOBS / 8 })
})
