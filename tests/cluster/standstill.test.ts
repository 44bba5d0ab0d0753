/** A server whose word reaches the database late: it was stopped, or the way was blocked. What it decides is of now. */
import { once } from 'node:events'
import { connect, createServer, type AddressInfo, type Socket } from 'node:net'
import { expect, onTestFinished, test } from 'vitest'
import { Cluster } from '../postgres/cluster.ts'
import { pause, ServerProcess, until } from '../process/server-process.ts'

const TIMEOUT_MS = 2_000

test('an attempt begins when it is claimed, however long its server stood still before', async () => {
  const database = await Cluster.start()
  const road = await openRoad(new URL(database.url()))
  const server = await ServerProcess.start({ flags: ['--database', road.url] })
  const other = await ServerProcess.start({ flags: ['--database', database.url()] })
  const { id } = await other.enqueue({ timeout_ms: TIMEOUT_MS, grace_period_ms: 0, retry: { max_attempts: 1 } })
  road.blockAt('lock_workers')
  const fetching = server.fetch({ queues: ['default'], worker_id: 'w' })
  await until('the claim is on its way', () => road.isBlocked())
  // Not for something to happen: time itself is what the claim must not miss.
  await pause(2 * TIMEOUT_MS)
  road.open()
  const [job] = await fetching
  expect(job).toMatchObject({ id, attempt: 1 })
  const reply = await other.post('/ojs/v1/workers/ack', { job_id: id, worker_id: 'w', x_lease: job.x_lease })
  expect([reply.status, reply.body.job?.state ?? reply.text]).toEqual([200, 'completed'])
  await Promise.all([server.stop(), other.stop()])
  await database.remove()
})

/** The way from a server to its database, which can be blocked where a statement passes that has this name. */
async function openRoad(to: URL) {
  const sockets = new Set<Socket>()
  const held: { to: Socket; data: Buffer }[] = []
  let word: string | null = null
  let blocked = false
  const road = createServer((client) => {
    const database = connect(Number(to.port), to.hostname)
    client.on('data', (data) => {
      blocked ||= word !== null && data.includes(`\0${word}\0`)
      if (blocked) held.push({ to: database, data })
      else database.write(data)
    })
    database.on('data', (data) => client.write(data))
    const end = (): void => {
      client.destroy()
      database.destroy()
    }
    for (const socket of [client, database]) sockets.add(socket.on('error', end).on('close', end))
  }).listen(0, '127.0.0.1')
  await once(road, 'listening')
  onTestFinished(() => {
    for (const socket of sockets) socket.destroy()
    road.close()
  })
  const url = new URL(to)
  url.port = String((road.address() as AddressInfo).port)
  return {
    url: url.href,
    blockAt: (name: string) => (word = name),
    isBlocked: () => blocked,
    open: () => {
      word = null
      blocked = false
      for (const { to: database, data } of held.splice(0)) database.write(data)
    },
  }
}
