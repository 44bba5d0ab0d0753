/**
 * Our own conformance cases in real time, against the real server on each store. They mostly wait, and wait together: the
 * whole takes about as long as a worker takes to be declared dead.
 */
import { afterAll, beforeAll, expect, test } from 'vitest'
import { main } from '../conformance/run.mjs'
import { Cluster } from '../postgres/cluster.ts'
import { ServerProcess } from './server-process.ts'

let cluster: Cluster

beforeAll(async () => {
  cluster = await Cluster.start()
})

afterAll(() => cluster.remove())

const STORES: [name: string, flags: () => string[]][] = [
  ['SQLite', () => []],
  ['PostgreSQL', () => ['--database', cluster.url()]],
]

test.concurrent.each(STORES)(
  'our cases pass on %s',
  async (_, flags) => {
    const server = await ServerProcess.start({ flags: ['--conformance', '--log-level', 'error', ...flags()] })
    let said = ''
    const out = { log: (text: string) => (said += `${text}\n`) }
    const options = ['--with', 'x_curfew', '--concurrency', '32', '--slack', '10000']
    const code = await main(['--url', server.url, ...options], out)
    await server.stop()
    expect(code, said).toBe(0)
  },
  180_000,
)
