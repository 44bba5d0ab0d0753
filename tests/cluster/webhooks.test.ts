/** Several servers on one database deliver each event once, and go on when the one that knew of the endpoint is gone. */
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { Cluster } from '../postgres/cluster.ts'
import { until } from '../process/server-process.ts'
import { Fleet } from './fleet.ts'

let database: Cluster
let fleet: Fleet
let endpoint: Server
const arrived: { id: string; subject: string }[] = []

beforeAll(async () => {
  database = await Cluster.start()
  fleet = await Fleet.start({
    database: database.url(),
    skewsMs: [0, 0, 0],
    flags: ['--allow-private-network'],
  })
  endpoint = createServer((request, response) => {
    let body = ''
    request.setEncoding('utf8').on('data', (chunk: string) => (body += chunk))
    request.on('end', () => {
      const { subject } = JSON.parse(body) as { subject: string }
      arrived.push({ id: String(request.headers['webhook-id']), subject })
      response.end('ok')
    })
  })
  await new Promise<void>((resolve) => endpoint.listen(0, '127.0.0.1', resolve))
})
afterAll(async () => {
  await fleet.stop()
  await database.remove()
  endpoint.closeAllConnections()
  endpoint.close()
})

async function finish(count: number): Promise<string[]> {
  const ids: string[] = []
  for (let made = 0; made < count; made += 1) {
    const pushed = await fleet.call('POST', '/ojs/v1/jobs', { type: 'a.b', args: [made] })
    ids.push(String(pushed?.body.job.id))
    const fetched = await fleet.call('POST', '/ojs/v1/workers/fetch', { queues: ['default'] })
    await fleet.call('POST', '/ojs/v1/workers/ack', { job_id: fetched?.body.job.id })
  }
  return ids
}

const heardOf = (ids: readonly string[]) =>
  until('everything arrived', () => {
    const subjects = new Set(arrived.map(({ subject }) => subject))
    return ids.every((id) => subjects.has(id)) ? true : undefined
  })

test('each event is delivered once, whichever servers it happened on, and by whom is left', async () => {
  const url = `http://127.0.0.1:${String((endpoint.address() as AddressInfo).port)}/`
  const [first, second] = fleet.members
  if (first?.server == null || second?.server == null) throw new Error('no servers')
  const made = await first.server.post('/ojs/v1/webhooks/subscriptions', { url, events: ['job.completed'] })
  expect(made.status).toBe(201)
  const before = await finish(20)
  await heardOf(before)
  // Started after the subscription was made, so it knows of it.
  await fleet.kill(second)
  await fleet.start(second)
  const both = await finish(20)
  await heardOf(both)
  await fleet.kill(first)
  const after = await finish(20)
  await heardOf(after)
  // One job for each event, and none was claimed twice: no server was killed in the middle of a delivery.
  const { body } = (await fleet.call('GET', '/ojs/v1/webhooks/deliveries?limit=200')) ?? { body: {} }
  const deliveries = body.deliveries as { event_id: string }[]
  expect(deliveries).toHaveLength(60)
  expect(new Set(deliveries.map(({ event_id: id }) => id)).size).toBe(60)
  expect(new Set(arrived.map(({ id }) => id)).size).toBe(60)
})
