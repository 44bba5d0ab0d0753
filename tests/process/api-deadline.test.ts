/** An Api is answered at its deadline on real sockets too, by whichever way its body comes, or does not. */
import { afterAll, beforeAll, expect, test } from 'vitest'
import { RawSocket } from './raw-socket.ts'
import { pause, ServerProcess, within } from './server-process.ts'

let server: ServerProcess

beforeAll(async () => {
  server = await ServerProcess.start()
  const execution = { maxDurationSec: 1, onTimeout: { errorCode: 'SLOW', reason: 'too slow' } }
  const spec = { execution, start: 'done', states: { done: { type: 'succeed' } } }
  const definition = { apiVersion: 'v1', kind: 'Api', metadata: { name: 'echo', version: '1.0.0' }, spec }
  const media = { 'Content-Type': 'application/json' }
  const { status } = await server.call('PUT', '/api/v1/definitions/echo', definition, media)
  expect(status).toBe(201)
  // The first call of all pays for much that is loaded only then.
  await server.call('POST', '/api/v1/apis/echo', {}, media)
})

afterAll(() => server.stop())

const HEAD = 'POST /api/v1/apis/echo HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n'

test.each([
  ['of which a part never comes', `${HEAD}Content-Length: 100\r\n\r\n{`, null],
  ['that drips', `${HEAD}Content-Length: 100\r\n\r\n{`, ' '],
  ['that drips in chunks', `${HEAD}Transfer-Encoding: chunked\r\n\r\n`, '1\r\n \r\n'],
])('a body %s is on the account of its call', async (_, head, drop) => {
  const socket = await RawSocket.open(server)
  const sentAt = performance.now()
  await socket.send(head)
  let isClosed = false
  const closed = socket.closed.then(() => (isClosed = true))
  while (drop !== null && !isClosed && performance.now() - sentAt < 5_000) {
    await socket.send(drop)
    await pause(50)
  }
  await within('the connection ends', closed)
  const tookMs = performance.now() - sentAt
  expect(socket.statuses).toEqual([504])
  expect(socket.received).toContain('"code":"SLOW"')
  expect(tookMs).toBeGreaterThan(990)
  expect(tookMs).toBeLessThan(2_000)
})

test('a body that comes in time, however slowly, is served', async () => {
  const socket = await RawSocket.open(server)
  await socket.send(`${HEAD}Content-Length: 9\r\n\r\n{"sku"`)
  await pause(300)
  await socket.send(':7}')
  expect(await socket.answers(1)).toEqual([200])
  expect(socket.received).toMatch(/\r\n\r\n\{"sku":7\}$/)
  await socket.hangUp()
})

/** Time passes between the first byte of a head and its last; then all of the body comes at once. */
async function dripHead(socket: RawSocket, ms: number): Promise<void> {
  const head = `${HEAD}X-Drip: ${'x'.repeat(40)}\r\nContent-Length: 2\r\n\r\n`
  const until = performance.now() + ms
  for (let at = 0; at < head.length - 4; at += 1) {
    await socket.send(head[at] ?? '')
    const left = head.length - 4 - at
    await pause(Math.max(0, (until - performance.now()) / left))
  }
  await socket.send(`${head.slice(-4)}{}`)
}

test.each(['the first', 'a later'])(
  'the time of %s call on a connection runs from the first byte of its head',
  async (which) => {
    const socket = await RawSocket.open(server)
    if (which === 'a later') {
      // Odd enough to be served by node:http, which keeps the connection.
      await socket.send(`${HEAD}Expect: 100-continue\r\nContent-Length: 2\r\n\r\n{}`)
      await within(
        'the first answer',
        until(() => socket.received.includes('HTTP/1.1 200')),
      )
    }
    await dripHead(socket, 1_300)
    await within(
      'the answer',
      until(() => socket.received.includes('HTTP/1.1 504')),
    )
    expect(socket.received).toContain('"code":"SLOW"')
    await socket.hangUp()
  },
)

test('a head that drips and is complete in time is served', async () => {
  const socket = await RawSocket.open(server)
  await dripHead(socket, 300)
  await within(
    'the answer',
    until(() => socket.received.includes('HTTP/1.1 200')),
  )
  await socket.hangUp()
})

async function until(holds: () => boolean): Promise<void> {
  while (!holds()) await pause(10)
}
