/** A connection's life on the fast lane: order, patience, hanging up, and the end of it all. */
import { once } from 'node:events'
import { createServer } from 'node:http'
import { connect, type AddressInfo, type Socket } from 'node:net'
import { afterEach, expect, test } from 'vitest'
import type { Host } from '@curfew/core'
import { nodeHost } from '../../host.ts'
import type { Handler } from '../api/app.ts'
import { FastLane } from './fast-lane.ts'
import { TestLane } from './lanes.suite.ts'
import type { HttpResponse } from '../api/message.ts'

const lanes: TestLane[] = []

afterEach(async () => {
  for (const lane of lanes.splice(0)) await lane.close()
})

async function open(handler: Handler, machine: Host = nodeHost): Promise<TestLane> {
  const lane = await TestLane.open(handler, true, machine)
  lanes.push(lane)
  return lane
}

/** A machine on which the lane looks at its connections when the test says so. */
function handTurned(): { machine: Host; look: (times: number) => void } {
  let next = (): void => {}
  const setTimer: Host['setTimer'] = (_, fire) => {
    next = fire
    return { cancel: () => {} }
  }
  const look = (times: number): void => {
    for (let n = 0; n < times; n += 1) next()
  }
  return { machine: { ...nodeHost, setTimer }, look }
}

/** Answers when the test says so. */
class Slow {
  readonly signals: AbortSignal[] = []
  readonly #answers = new Map<string, (answer: HttpResponse) => void>()

  readonly handler: Handler = ({ url, signal }) => {
    this.signals.push(signal)
    return new Promise((resolve) => this.#answers.set(url, resolve))
  }

  answer(url: string, body: HttpResponse['body'] = url): void {
    this.#answers.get(url)?.({ status: 200, headers: {}, body })
  }
}

const get = (path: string, method = 'GET'): string => `${method} ${path} HTTP/1.1\r\nHost: a\r\n\r\n`
const quick: Handler = ({ url }) => Promise.resolve({ status: 200, headers: {}, body: url })

function listenTo(socket: Socket): { text: string; isClosed: boolean } {
  const heard = { text: '', isClosed: false }
  socket.on('data', (bytes: Buffer) => (heard.text += bytes.toString('latin1')))
  socket.on('end', () => (heard.isClosed = true)).on('close', () => (heard.isClosed = true))
  return heard
}

const bodies = (text: string): string[] => text.split('\r\n\r\n').flatMap((part) => /^\/[a-z]+/.exec(part)?.[0] ?? [])

test('requests on one connection are served side by side and answered in their order', async () => {
  const slow = new Slow()
  const lane = await open(slow.handler)
  const socket = await lane.connect()
  const heard = listenTo(socket)
  socket.write(get('/first') + get('/second'))
  await lane.called(2)
  socket.write(get('/third'))
  await lane.called(3)
  slow.answer('/third')
  slow.answer('/second')
  await lane.settled()
  expect(heard.text).toBe('')
  slow.answer('/first')
  await lane.settled()
  expect(bodies(heard.text)).toEqual(['/first', '/second', '/third'])
})

test('an answer that was prepared leaves when it may and not before, and says what it would have said', async () => {
  const answer: HttpResponse = { status: 201, headers: { 'X-A': 'b' }, body: '"é"' }
  const refusal: HttpResponse = { status: 503, headers: {}, body: 'no' }
  const mayLeave = new Map<string, (response: HttpResponse) => void>()
  const lane = await open((request) => {
    if (request.url === '/plainly') return Promise.resolve(answer)
    request.prepare?.(answer)
    return new Promise((resolve) => mayLeave.set(request.url, resolve))
  })
  const ask = async (url: string): Promise<{ text: string }> => {
    const socket = await lane.connect()
    const heard = listenTo(socket)
    socket.write(get(url))
    return heard
  }
  const [plainly, kept, refused] = [await ask('/plainly'), await ask('/kept'), await ask('/refused')]
  await lane.called(3)
  await lane.settled()
  expect(plainly.text).toMatch(/^HTTP\/1\.1 201 Created\r\nX-A: b\r\nContent-Length: 4\r\n[^]*\r\n\r\n"Ã©"$/)
  expect([kept.text, refused.text]).toEqual(['', ''])
  mayLeave.get('/kept')?.(answer)
  mayLeave.get('/refused')?.(refusal)
  await lane.settled()
  const withoutDate = (text: string): string => text.replace(/^Date: .*\r\n/m, '')
  expect(withoutDate(kept.text)).toBe(withoutDate(plainly.text))
  expect(refused.text).toMatch(/^HTTP\/1\.1 503 Service Unavailable\r\nContent-Length: 2\r\n[^]*\r\n\r\nno$/)
})

test('an answer that is a stream keeps its place among the others', async () => {
  const slow = new Slow()
  const lane = await open(slow.handler)
  const socket = await lane.connect()
  const heard = listenTo(socket)
  socket.write(get('/first') + get('/stream') + get('/last'))
  await lane.called(3)
  let goOn = (): void => {}
  const words = async function* (): AsyncIterable<string> {
    yield 'one'
    await new Promise<void>((resolve) => (goOn = resolve))
    yield 'two'
  }
  slow.answer('/stream', words())
  slow.answer('/last')
  slow.answer('/first')
  await lane.settled()
  expect(heard.text).toMatch(/\/first[^]*Transfer-Encoding: chunked\r\n\r\n3\r\none\r\n$/)
  goOn()
  await lane.settled()
  expect(heard.text).toMatch(/one\r\n3\r\ntwo\r\n0\r\n\r\nHTTP\/1\.1 200 OK\r\n[^]*\/last$/)
})

test('a request that is not plain waits for the answers before it, and later requests follow it', async () => {
  const slow = new Slow()
  const lane = await open(slow.handler)
  const socket = await lane.connect()
  const heard = listenTo(socket)
  socket.write(get('/first') + get('/odd', 'OPTIONS'))
  await lane.settled()
  socket.write(get('/last'))
  await lane.settled()
  expect(lane.calls).toHaveLength(1)
  slow.answer('/first')
  await lane.called(3)
  expect(lane.byNode).toBe(2)
  slow.answer('/odd')
  slow.answer('/last')
  await lane.settled()
  expect(bodies(heard.text)).toEqual(['/first', '/odd', '/last'])
})

test.each([
  ['hangs up', (socket: Socket) => socket.destroy()],
  ['does not want to send any more', (socket: Socket) => socket.end()],
])('a caller who %s takes back all its open calls', async (_, leave) => {
  const slow = new Slow()
  const lane = await open(slow.handler)
  const socket = await lane.connect()
  socket.resume().write(get('/first') + get('/second'))
  await lane.called(2)
  const gone = slow.signals.map((signal) => once(signal, 'abort'))
  leave(socket)
  await Promise.all(gone)
  slow.answer('/first') // is not missed
  slow.answer('/second')
  await lane.settled()
})

test('a caller who was answered took nothing back', async () => {
  const slow = new Slow()
  const lane = await open(slow.handler)
  const socket = await lane.connect()
  const heard = listenTo(socket)
  socket.write(get('/first'))
  await lane.called(1)
  slow.answer('/first')
  await lane.settled()
  socket.destroy()
  await lane.settled()
  expect([bodies(heard.text), slow.signals[0]?.aborted]).toEqual([['/first'], false])
})

test('a message that does not come to its end is left to node:http, which has a limit for that', async () => {
  const { machine, look } = handTurned()
  const lane = await open(quick, machine)
  const socket = await lane.connect()
  const heard = listenTo(socket)
  socket.write(get('/first'))
  await lane.settled()
  look(5)
  socket.write(get('/second').slice(0, 20))
  await lane.settled()
  look(1)
  socket.write(get('/second').slice(20))
  await lane.settled()
  expect(lane.byNode).toBe(0)
  socket.write(get('/third').slice(0, 20))
  await lane.settled()
  look(2)
  socket.write(get('/third').slice(20))
  await lane.settled()
  expect([lane.byNode, bodies(heard.text)]).toEqual([1, ['/first', '/second', '/third']])
})

test('the limits of node:http hold for a message that was left to it', async () => {
  const server = createServer({ headersTimeout: 100, requestTimeout: 200, connectionsCheckingInterval: 20 })
  const { machine, look } = handTurned()
  const lane = new FastLane(server, quick, machine)
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const socket = connect((server.address() as AddressInfo).port, '127.0.0.1')
  const heard = listenTo(socket)
  socket.write(get('/first') + get('/second').slice(0, 20))
  await once(socket, 'data')
  look(2)
  await once(socket, 'close')
  expect(heard.text).toMatch(/\/firstHTTP\/1\.1 408 Request Timeout/)
  lane.close()
  server.close()
  await once(server, 'close')
})

test('an idle connection is closed after 65 seconds, a silent one too, and none with an open call', async () => {
  const { machine, look } = handTurned()
  const slow = new Slow()
  const lane = await open(slow.handler, machine)
  const [silent, idle, waiting] = [await lane.connect(), await lane.connect(), await lane.connect()]
  const heard = [silent, idle, waiting].map(listenTo)
  idle.write(get('/idle'))
  waiting.write(get('/waiting'))
  await lane.called(2)
  look(13)
  slow.answer('/idle')
  await lane.settled()
  expect(heard.map(({ isClosed }) => isClosed)).toEqual([false, false, false])
  look(1)
  await lane.settled()
  expect(heard.map(({ isClosed }) => isClosed)).toEqual([true, false, false])
  look(13)
  await lane.settled()
  expect(heard.map(({ isClosed }) => isClosed)).toEqual([true, true, false])
  slow.answer('/waiting')
  await lane.settled()
  expect(bodies(heard[2]?.text ?? '')).toEqual(['/waiting'])
})

test('a lane that closes ends idle connections, and the others with their last answer, which says so', async () => {
  const slow = new Slow()
  const lane = await open(slow.handler)
  const [idle, waiting, sending] = [await lane.connect(), await lane.connect(), await lane.connect()]
  const heard = [idle, waiting, sending].map(listenTo)
  waiting.write(get('/first') + get('/second'))
  sending.write(get('/late').slice(0, 20))
  await lane.called(2)
  await lane.settled()
  lane.lane?.close()
  await once(idle, 'close')
  slow.answer('/first')
  sending.write(get('/late').slice(20))
  await lane.called(3)
  slow.answer('/second')
  slow.answer('/late')
  await Promise.all([once(waiting, 'close'), once(sending, 'close')])
  const [, first, second] = heard[1]?.text.split('HTTP/1.1 200') ?? []
  expect([first, second]).toEqual([expect.stringContaining('keep-alive'), expect.stringContaining('Connection: close')])
  expect(heard[2]?.text).toContain('Connection: close')
})

test('a caller who does not read its answers is not read from; it is when it does', async () => {
  const body = 'x'.repeat(100_000)
  const lane = await open(() => Promise.resolve({ status: 200, headers: {}, body }))
  const socket = await lane.connect()
  socket.pause()
  // Far more than the buffers of the system hold.
  const count = 2_000
  socket.write(Array.from({ length: count }, (_, n) => get(`/${String(n)}`)).join(''))
  await lane.settled()
  const before = lane.calls.length
  await lane.settled()
  expect(lane.calls.length).toBe(before)
  expect(before).toBeLessThan(count / 4)
  socket.resume()
  await lane.called(count)
  expect(lane.calls.map(({ url }) => url)).toEqual(Array.from({ length: count }, (_, n) => `/${String(n)}`))
})

test('a caller far ahead of its answers has to wait', async () => {
  const slow = new Slow()
  const lane = await open(slow.handler)
  const socket = await lane.connect()
  socket.resume()
  for (let n = 0; n < 150; n += 1) socket.write(get(`/${String(n)}`))
  await lane.settled()
  expect(lane.calls).toHaveLength(100)
  for (let n = 0; n < 150; n += 1) {
    await lane.called(n + 1)
    slow.answer(`/${String(n)}`)
  }
  await lane.called(150)
})

test('a handler that breaks, or answers with what cannot be sent, ends the connection', async () => {
  const broken: Handler[] = [
    () => {
      throw new Error('at once')
    },
    () => Promise.reject(new Error('later')),
    () => Promise.resolve({ status: 200, headers: { 'X-Mine': 'a\nb' }, body: '' }),
    () => Promise.resolve({ status: 200, headers: { 'X Mine': 'a' }, body: '' }),
  ]
  for (const handler of broken) {
    const lane = await open(handler)
    const socket = await lane.connect()
    socket.resume().write(get('/a'))
    await once(socket, 'close')
    expect(socket.bytesRead).toBe(0)
  }
})

const POST = 'POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\n'

test('what a connection holds of a message that is not complete is counted until it is served, handed over or gone', async () => {
  const lane = await open(quick)
  const held = (): number => lane.lane?.held.bytes ?? -1
  const [served, handedOver, gone] = [await lane.connect(), await lane.connect(), await lane.connect()]
  for (const socket of [served, handedOver, gone]) socket.resume().write(`${POST}12345`)
  await lane.settled()
  expect(held()).toBe(3 * (POST.length + 5))
  served.write('6789')
  for (const piece of '678') {
    handedOver.write(piece)
    await lane.settled()
  }
  for (const piece of ['9', 'H', 'EAD / HTTP/1.1\r\nHost: a\r\n\r\n']) handedOver.write(piece)
  gone.destroy()
  await lane.settled()
  expect([held(), lane.calls.length]).toEqual([0, 3])
})

test('where all connections together hold too much, a message is handed over before it is complete', async () => {
  const lane = await open(quick)
  const [first, second] = [await lane.connect(), await lane.connect()]
  first.resume().write(`${POST}12345`)
  await lane.settled()
  lane.lane?.held.change(16 * 1024 * 1024)
  second.resume().write(`${POST}12345`)
  await lane.settled()
  expect([lane.calls.length, lane.byNode]).toEqual([0, 1])
  second.write('6789')
  first.write('6789')
  await lane.called(2)
  expect(lane.calls.map(({ body }) => body)).toEqual(['123456789', '123456789'])
  await lane.settled()
  expect(lane.lane?.held.bytes).toBe(16 * 1024 * 1024)
})
