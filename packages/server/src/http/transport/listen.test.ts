import { EventEmitter, once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { afterEach, describe, expect, test } from 'vitest'
import { nodeHost } from '../../host.ts'
import type { Handler } from '../api/app.ts'
import { listen, type Listener } from './listen.ts'

const open: { listener: Listener; socket: Socket }[] = []

/** What the handler's answer to one request looks like on the wire, packet by packet. */
async function packets(request: string, handler: Handler): Promise<string[]> {
  const listener = await listen(handler, nodeHost, '127.0.0.1', 0)
  const socket = connect(listener.port, '127.0.0.1')
  open.push({ listener, socket })
  const received: string[] = []
  socket.setEncoding('utf8').on('data', (chunk: string) => received.push(chunk))
  socket.write(request)
  await once(socket, 'data')
  return received
}

const answering =
  (status: number, body: string): Handler =>
  () =>
    Promise.resolve({ status, headers: { 'Content-Type': 'text/plain', 'X-Mine': 'yes' }, body })

const asking = (method: string): string => `${method} /x HTTP/1.1\r\nHost: a\r\n\r\n`

afterEach(async () => {
  for (const { listener, socket } of open.splice(0)) {
    socket.destroy()
    await listener.close(0)
  }
})

describe('a request', () => {
  const seen: Handler = async ({ url, headers, arriving, skipping }) => {
    const hasBody = url === '/skip' ? await skipping?.() : null
    const body = url === '/read' ? await arriving?.() : null
    return { status: 200, headers: {}, body: JSON.stringify({ host: headers['host'], hasBody, body }) }
  }
  const sent = async (text: string): Promise<unknown> => {
    const [packet = ''] = await packets(text, seen)
    return JSON.parse(packet.slice(packet.indexOf('\r\n\r\n')))
  }

  test.each([
    ['GET http://evil.test:1/x HTTP/1.1\r\nHost: localhost', 'evil.test:1, localhost'],
    ['GET http://localhost/x HTTP/1.1\r\nHost: evil.test', 'localhost, evil.test'],
    ['GET http://localhost/x HTTP/1.1\r\nHost: localhost', 'localhost'],
    ['GET http://evil.test/x HTTP/1.0', 'evil.test'],
    ['GET /x?http://evil.test/ HTTP/1.1\r\nHost: localhost', 'localhost'],
  ])('that begins with %j is for the host %s', async (head, host) => {
    expect(await sent(`${head}\r\n\r\n`)).toMatchObject({ host })
  })

  test('has a body that can be taken from the line without being kept', async () => {
    const chunked = (path: string, body: string): string =>
      `POST ${path} HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n${body}0\r\n\r\n`
    expect(await sent(chunked('/skip', '2\r\nab\r\n'))).toMatchObject({ hasBody: true })
    expect(await sent(chunked('/skip', ''))).toMatchObject({ hasBody: false })
    expect(await sent(chunked('/read', '2\r\nab\r\n3\r\né-\r\n1\r\nx\r\n'))).toMatchObject({ body: 'abé-x' })
  })
})

describe('an answer', () => {
  test('of text leaves in one packet: our headers in their order, its length in bytes, the body', async () => {
    const [packet = '', ...more] = await packets(asking('GET'), answering(200, 'grün'))
    expect(more).toEqual([])
    expect(packet).toMatch(
      /^HTTP\/1.1 200 OK\r\nContent-Type: text\/plain\r\nX-Mine: yes\r\nContent-Length: 5\r\nDate: .*\r\nConnection: keep-alive\r\n/,
    )
    expect(packet).toMatch(/\r\n\r\ngrün$/)
  })

  test('to HEAD tells the length and has no body', async () => {
    const [packet] = await packets(asking('HEAD'), answering(200, 'grün'))
    expect(packet).toMatch(/Content-Length: 5\r\n[^]*\r\n\r\n$/)
  })

  test('of 204 has neither body nor length', async () => {
    const [packet] = await packets(asking('POST'), answering(204, ''))
    expect(packet).toMatch(/^HTTP\/1.1 204 No Content\r\n[^]*\r\n\r\n$/)
    expect(packet).not.toContain('Content-Length')
  })

  test('may be empty', async () => {
    const [packet] = await packets(asking('GET'), answering(200, ''))
    expect(packet).toMatch(/Content-Length: 0\r\n[^]*\r\n\r\n$/)
  })

  test('that never comes is a closed connection', async () => {
    const listener = await listen(() => Promise.reject(new Error('broken')), nodeHost, '127.0.0.1', 0)
    const socket = connect(listener.port, '127.0.0.1')
    open.push({ listener, socket })
    socket.resume().write(asking('GET'))
    await once(socket, 'close')
    expect(socket.bytesRead).toBe(0)
  })
})

test.each([
  ['http://a/x?y=1', '/x?y=1'],
  ['HTTP://a:80', '/'],
  ['https://a?y=1', '/?y=1'],
])('a request for %s, as one sends it to a proxy, is one for %s', async (target, url) => {
  const [packet] = await packets(`GET ${target} HTTP/1.1\r\nHost: a\r\n\r\n`, (request) =>
    Promise.resolve({ status: 200, headers: {}, body: request.url }),
  )
  expect(packet?.split('\r\n\r\n')[1]).toBe(url)
})

test('a call knows that its caller has hung up, whether it asks before or after', async () => {
  const signals: AbortSignal[] = []
  const calls = new EventEmitter()
  const listener = await listen(
    async (request) => {
      signals.push(request.signal)
      calls.emit('asked')
      await once(request.signal, 'abort')
      signals.push(request.signal)
      calls.emit('hung up')
      return { status: 200, headers: {}, body: '' }
    },
    nodeHost,
    '127.0.0.1',
    0,
  )
  const socket = connect(listener.port, '127.0.0.1')
  open.push({ listener, socket })
  const [asked, hungUp] = [once(calls, 'asked'), once(calls, 'hung up')]
  socket.write(asking('GET'))
  await asked
  expect(signals[0]?.aborted).toBe(false)
  socket.destroy()
  await hungUp
  expect(signals.map(({ aborted }) => aborted)).toEqual([true, true])
})

test('a listener that closes ends idle connections at once, by whichever way they were served', async () => {
  const listener = await listen(answering(200, 'x'), nodeHost, '127.0.0.1', 0)
  for (const method of ['GET', 'HEAD']) {
    const socket = connect(listener.port, '127.0.0.1')
    socket.write(asking(method))
    await once(socket, 'data')
  }
  await listener.close(60_000)
})

describe('a call whose time runs from its first line on', () => {
  const HEAD = 'POST /api/v1/apis/quote HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\n'

  async function calling(handler: Handler): Promise<{ socket: Socket; received: () => string }> {
    const listener = await listen(handler, nodeHost, '127.0.0.1', 0)
    const socket = connect(listener.port, '127.0.0.1')
    open.push({ listener, socket })
    let text = ''
    socket.setEncoding('utf8').on('data', (chunk: string) => (text += chunk))
    return { socket, received: () => text }
  }

  test('is served before its body is there, and gets it when it comes', async () => {
    const calls = new EventEmitter()
    const { socket, received } = await calling(async ({ body, arriving }) => {
      calls.emit('served', body)
      return { status: 200, headers: {}, body: `got ${(await arriving?.()) ?? 'nothing'}` }
    })
    const served = once(calls, 'served')
    socket.write(HEAD + 'ab')
    expect(await served).toEqual([''])
    socket.write('cd')
    await once(socket, 'data')
    expect(received()).toMatch(/Connection: keep-alive[^]*\r\n\r\ngot abcd$/)
  })

  test('may be answered while its body is still on its way, and then the connection ends', async () => {
    const { socket, received } = await calling(() => Promise.resolve({ status: 504, headers: {}, body: 'late' }))
    socket.write(HEAD + 'a')
    await once(socket, 'end')
    expect(received()).toMatch(/^HTTP\/1.1 504[^]*Connection: close[^]*\r\n\r\nlate$/)
  })

  test('whose body is not text gets that answer from the route that reads it', async () => {
    const { socket, received } = await calling(async ({ arriving }) => ({
      status: 400,
      headers: {},
      body: (await arriving?.().catch((error: Error) => error.message)) ?? '',
    }))
    socket.write(Buffer.from(HEAD, 'latin1'))
    socket.write(Buffer.from([0x22, 0xff, 0xfe, 0x22]))
    await once(socket, 'data')
    expect(received()).toContain('not valid UTF-8')
  })
})
