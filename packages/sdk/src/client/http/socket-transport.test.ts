/** Calls against servers that misbehave, on real sockets. */
import { execFileSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { createServer, type LookupFunction, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createServer as createSecureServer } from 'node:tls'
import { afterEach, describe, expect, test } from 'vitest'
import { FakeClock, type Host } from '@curfew/core'
import { Client } from '../client.ts'
import { Connection } from '../connection.ts'
import { InputError, NetworkError } from '../../errors.ts'
import { nodeHost } from '../../host.ts'
import { idle } from '../../scripted.suite.ts'
import type { Begun, Transport } from '../transport.ts'
import { StaleConnectionError } from './http-connection.ts'
import { RawServer, said, type RawRequest, type Script } from './raw-server.suite.ts'
import { socketTransport, type SocketSettings } from './socket-transport.ts'

const open: { close(): void }[] = []
afterEach(() => {
  for (const one of open.splice(0)) one.close()
})

async function raw(script: Script, host?: string): Promise<RawServer> {
  const server = await RawServer.open(script, host)
  open.push(server)
  return server
}

function transport(server: { url: string }, settings: SocketSettings = {}, host: Host = nodeHost): Transport {
  const made = socketTransport(server.url, host, settings)
  open.push(made)
  return made
}

const request = { method: 'GET', url: '/', headers: {}, body: '' }
const streaming = { ...request, headers: { accept: 'text/event-stream' } }
const STREAM = 'HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n'

const get = (over: Transport, more: Partial<typeof request> = {}): Begun['answer'] =>
  over.begin({ ...request, ...more }).answer

const closed = (socket: RawRequest['socket']): Promise<void> =>
  new Promise((resolve) => {
    if (socket.closed) resolve()
    else socket.once('close', () => void resolve())
  })

describe('connections', () => {
  test('are kept: calls after one another share one, calls side by side have one each', async () => {
    const server = await raw(({ socket, count }) => socket.write(said(String(count))))
    const over = transport(server)
    expect((await get(over)).body).toBe('1')
    expect((await get(over)).body).toBe('2')
    expect(server.sockets).toHaveLength(1)
    await Promise.all([get(over), get(over), get(over)])
    expect(server.sockets).toHaveLength(3)
  })

  test('beyond the bound calls wait for one in their order, and an aborted one is passed over', async () => {
    const server = await raw(() => {})
    const over = transport(server, { maxConnections: 1 })
    const first = over.begin({ ...request, url: '/1' })
    const second = over.begin({ ...request, url: '/2' })
    const third = over.begin({ ...request, url: '/3' })
    second.abort(new Error('enough'))
    await expect(second.answer).rejects.toThrow('enough')
    await server.asked(1)
    server.requests[0]?.socket.write(said('one'))
    await server.asked(2)
    server.requests[1]?.socket.write(said('three'))
    expect((await first.answer).body).toBe('one')
    expect((await third.answer).body).toBe('three')
    expect(server.requests.map(({ head }) => head.split(' ')[1])).toEqual(['/1', '/3'])
    expect(server.sockets).toHaveLength(1)
  })

  test('beyond the bound, a call waits no longer for a connection that broke', async () => {
    const server = await raw(({ socket, count }) => (count === 1 ? socket.destroy() : socket.write(said('fine'))))
    const over = transport(server, { maxConnections: 1 })
    const [first, second] = await Promise.allSettled([get(over), get(over)])
    expect([first.status, second.status]).toEqual(['rejected', 'fulfilled'])
  })

  test('that the server closes after its answer are not used again', async () => {
    const server = await raw(({ socket }) => socket.end(said('x', 'connection: close\r\n')))
    const over = transport(server)
    await get(over)
    await get(over)
    expect(server.sockets).toHaveLength(2)
  })

  test('of HTTP/1.0 are not used again', async () => {
    const server = await raw(({ socket }) => socket.write('HTTP/1.0 200 OK\r\ncontent-length: 1\r\n\r\nx'))
    const over = transport(server)
    await get(over)
    await get(over)
    expect(server.sockets).toHaveLength(2)
  })

  test.each([
    ['a second less than the server says', 'keep-alive: timeout=10\r\n', 9_000],
    ['four seconds if it says nothing', '', 4_000],
  ])('are given up after %s', async (_, header, keptMs) => {
    const clock = new FakeClock()
    const server = await raw(({ socket }) => socket.write(said('x', header)))
    const over = transport(server, {}, clock)
    await get(over)
    clock.advance(keptMs - 1)
    await get(over)
    expect(server.sockets).toHaveLength(1)
    clock.advance(keptMs)
    await get(over)
    expect(server.sockets).toHaveLength(2)
  })

  test('are closed with the transport: idle ones at once, others after their answers', async () => {
    const server = await raw(({ socket, count }) => {
      if (count === 1) socket.write(said('idle'))
    })
    const over = transport(server)
    await get(over)
    over.close()
    await closed(server.sockets[0]!)
    const late = get(over)
    await server.asked(2)
    server.requests[1]?.socket.write(said('late'))
    expect((await late).body).toBe('late')
    await closed(server.sockets[1]!)
  })

  test('are closed with the client', async () => {
    const server = await raw(({ socket }) => socket.write(said('{"status":"ok"}')))
    const client = new Client({ url: server.url })
    await client.health()
    await client.close()
    await closed(server.sockets[0]!)
    expect(server.requests).toHaveLength(1)
  })

  test('an idle one that says something is closed, and what it said answers nothing', async () => {
    const server = await raw(({ socket, count }) => socket.write(said(`answer ${String(count)}`)))
    const over = transport(server)
    await get(over)
    server.sockets[0]?.write(said('planted'))
    await closed(server.sockets[0]!)
    expect((await get(over)).body).toBe('answer 2')
    expect(server.sockets).toHaveLength(2)
  })

  test('content after an answer is dropped with its connection', async () => {
    const server = await raw(({ socket, count }) => socket.write(said(`answer ${String(count)}`) + said('planted')))
    const over = transport(server)
    expect((await get(over)).body).toBe('answer 1')
    expect((await get(over)).body).toBe('answer 2')
    expect(server.sockets).toHaveLength(2)
  })
})

describe('names and addresses', () => {
  test.each(['127.0.0.1', '::1'])(
    'a name with addresses of both families is found where only %s listens',
    async (address) => {
      const server = await raw(({ socket }) => socket.write(said('here')), address)
      const lookup: LookupFunction = (_name, _options, found) => {
        found(null, [
          { address: '::1', family: 6 },
          { address: '127.0.0.1', family: 4 },
        ])
      }
      const over = transport({ url: `http://both.test:${String(server.port)}` }, { lookup })
      expect((await get(over)).body).toBe('here')
    },
  )

  test('localhost is found', async () => {
    const server = await raw(({ socket }) => socket.write(said('here')))
    const over = transport({ url: `http://localhost:${String(server.port)}` })
    expect((await get(over)).body).toBe('here')
    expect(server.requests[0]?.head).toContain(`host: localhost:${String(server.port)}\r\n`)
  })

  test('an address of IPv6 is understood', async () => {
    const server = await raw(({ socket }) => socket.write(said('here')), '::1')
    const over = transport({ url: `http://[::1]:${String(server.port)}` })
    expect((await get(over)).body).toBe('here')
    expect(server.requests[0]?.head).toContain(`host: [::1]:${String(server.port)}\r\n`)
  })

  test.each(['127.0.0.1', 'localhost'])(
    'where nothing listens on %s, the error names address and reason',
    async (name) => {
      const server = await RawServer.open(() => {})
      server.close()
      const url = `http://${name}:${String(server.port)}`
      const error = await get(transport({ url })).catch((thrown: unknown) => thrown)
      expect(error).toBeInstanceOf(NetworkError)
      expect(String(error)).toContain(`No answer from ${url}: connect ECONNREFUSED 127.0.0.1:${String(server.port)}`)
    },
  )

  test.each(['http://user:pass@curfew.test', 'http://curfew.test:99999', 'http://'])('%s is refused', (url) => {
    expect(() => new Connection({ url })).toThrow(InputError)
  })
})

describe('answers', () => {
  test('in pieces of one byte are read', async () => {
    const text = said('{"ä":1}', 'x-request-id: r\r\n')
    const server = await raw(({ socket }) => {
      const bytes = Buffer.from(text)
      const drip = (at: number): void => {
        if (at < bytes.length) socket.write(bytes.subarray(at, at + 1), () => void setImmediate(drip, at + 1))
      }
      drip(0)
    })
    const { status, headers, body } = await get(transport(server))
    expect({ status, id: headers['x-request-id'], body }).toEqual({ status: 200, id: 'r', body: '{"ä":1}' })
  })

  test('without a length end with the connection', async () => {
    const server = await raw(({ socket }) => socket.end('HTTP/1.1 200 OK\r\n\r\nall of it'))
    expect((await get(transport(server))).body).toBe('all of it')
  })

  test('to HEAD have no body', async () => {
    const server = await raw(({ socket }) => socket.write('HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n'))
    const over = transport(server)
    expect((await get(over, { method: 'HEAD' })).body).toBe('')
    expect((await get(over, { method: 'HEAD' })).body).toBe('')
    expect(server.sockets).toHaveLength(1)
  })

  test('with a mark of byte order are read without it', async () => {
    const server = await raw(({ socket }) => socket.write(said('\uFEFF{}')))
    expect((await get(transport(server))).body).toBe('{}')
  })

  test.each([
    ['garbage', 'nonsense\r\n\r\n', 'the answer is not HTTP/1.1'],
    [
      'two lengths',
      'HTTP/1.1 200 OK\r\ncontent-length: 1\r\ncontent-length: 5\r\n\r\nxHTTP',
      'the answer has two lengths',
    ],
    ['an endless head', `HTTP/1.1 200 OK\r\nx: ${'x'.repeat(20_000)}`, 'the head of the answer is too large'],
    ['a coding that was not asked for', said('x', 'content-encoding: gzip\r\n'), 'the answer is encoded (gzip)'],
    ['a body beyond the bound', said('x'.repeat(2_000)), 'the answer is larger than 1000 bytes'],
  ])('of %s are a network error, and end the connection', async (_, text, reason) => {
    const server = await raw(({ socket }) => socket.write(text))
    const over = transport(server, { maxBodyBytes: 1_000 })
    const error: unknown = await get(over).catch((thrown: unknown) => thrown)
    expect(error).toBeInstanceOf(NetworkError)
    expect(String(error)).toContain(`No answer from ${server.url}: ${reason}`)
    await closed(server.sockets[0]!)
  })

  test('that break off are a network error, and no stale connection', async () => {
    const server = await raw(({ socket, count }) => {
      if (count === 1) socket.write(said('fine'))
      else socket.end('HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhalf')
    })
    const over = transport(server)
    await get(over)
    const error: unknown = await get(over).catch((thrown: unknown) => thrown)
    expect(String(error)).toContain('the connection was closed in the middle of the answer')
    expect((error as NetworkError).cause).not.toBeInstanceOf(StaleConnectionError)
  })

  test('that come before the request was sent are heard, and the connection is not used again', async () => {
    const server = await raw(({ socket }) => socket.write(said('fine')))
    const over = transport(server)
    await get(over)
    const connection = server.sockets[0]!
    // Reads the head only, and refuses.
    connection.removeAllListeners('data')
    connection.once('data', () => {
      connection.pause()
      connection.end('HTTP/1.1 413 Content Too Large\r\ncontent-length: 3\r\n\r\nbig')
    })
    const answer = await get(over, { method: 'POST', body: 'x'.repeat(20_000_000) })
    expect(answer).toMatchObject({ status: 413, body: 'big' })
    expect((await get(over)).body).toBe('fine')
    expect(server.sockets).toHaveLength(2)
  })
})

describe('giving up', () => {
  test('rejects with the reason and closes the connection', async () => {
    const server = await raw(() => {})
    const call = transport(server).begin(request)
    await server.asked(1)
    call.abort(new Error('enough'))
    await expect(call.answer).rejects.toThrow('enough')
    await closed(server.sockets[0]!)
  })

  test('while the answer drips in', async () => {
    const server = await raw(({ socket }) => socket.write('HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nfirst'))
    const call = transport(server).begin(request)
    await server.asked(1)
    await idle()
    call.abort(new Error('enough'))
    await expect(call.answer).rejects.toThrow('enough')
    await closed(server.sockets[0]!)
  })

  test('after the answer leaves the connection to the next call', async () => {
    const server = await raw(({ socket, count }) => {
      if (count === 1) socket.write(said('one'))
    })
    const over = transport(server)
    const first = over.begin(request)
    await first.answer
    const second = over.begin(request)
    await server.asked(2)
    first.abort(new Error('late'))
    server.requests[1]?.socket.write(said('two'))
    expect((await second.answer).body).toBe('two')
  })

  test('a try ends at its timeout although the server drips on', async () => {
    const clock = new FakeClock()
    const server = await raw(({ socket }) => socket.write('HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n{'))
    const connection = new Connection({ url: server.url, host: clock, timeout: '2s' })
    const outcome = connection.call({ method: 'POST', path: '/', idempotent: false })
    const ended = expect(outcome).rejects.toThrow('No answer within 2s.')
    await server.asked(1)
    server.sockets[0]?.write('"')
    clock.advance(2_000)
    await ended
    await closed(server.sockets[0]!)
    expect(clock.nextTimerAt()).toBeNull()
  })
})

describe('what may be repeated', () => {
  /** The first call is answered; the second meets a connection that the server closes without a word. */
  const closing: Script = ({ socket, count }) => {
    if (count === 2) socket.destroy()
    else socket.write(said(`{"count":${String(count)}}`))
  }

  test('a call that may be repeated is, at once, when its idle connection turns out to be closed', async () => {
    const clock = new FakeClock()
    const server = await raw(closing)
    const connection = new Connection({ url: server.url, host: clock })
    open.push(connection)
    const call = { method: 'GET', path: '/', idempotent: true } as const
    await connection.call(call)
    expect(await connection.send(call)).toMatchObject({ body: '{"count":3}', tries: 2 })
    // Nothing was waited for: this clock stands still.
    expect(server.sockets).toHaveLength(2)
  })

  test('a call that may not be repeated is said once', async () => {
    const server = await raw(closing)
    const connection = new Connection({ url: server.url })
    open.push(connection)
    const call = { method: 'POST', path: '/', idempotent: false } as const
    await connection.call(call)
    await expect(connection.call(call)).rejects.toBeInstanceOf(NetworkError)
    expect(server.requests).toHaveLength(2)
  })

  test('one closed connection tells of the others: idle ones are not tried one by one', async () => {
    const server = await raw(({ socket, count, connection }) => {
      if (count <= 3 || connection > 3) socket.write(said('{}'))
      else socket.destroy()
    })
    const connection = new Connection({ url: server.url, retries: 1 })
    open.push(connection)
    const call = { method: 'GET', path: '/', idempotent: true } as const
    await Promise.all([connection.call(call), connection.call(call), connection.call(call)])
    expect((await connection.send(call)).tries).toBe(2)
  })

  test('a first connection that is closed without a word is waited over, as any failure', async () => {
    const clock = new FakeClock()
    const server = await raw(({ socket, count }) => (count === 1 ? socket.destroy() : socket.write(said('{}'))))
    const connection = new Connection({ url: server.url, host: clock, random: () => 0.5 })
    open.push(connection)
    const outcome = connection.call({ method: 'GET', path: '/', idempotent: true })
    await server.asked(1)
    await closed(server.sockets[0]!)
    while (clock.nextTimerAt() === null || clock.nextTimerAt()! > clock.now() + 1_000) await idle()
    expect(server.requests).toHaveLength(1)
    clock.advance(100)
    expect(await outcome).toEqual({})
  })

  test('a header that cannot be sent is an input error, and is not tried again', async () => {
    const server = await raw(() => {})
    const connection = new Connection({ url: server.url, token: 'a\r\nx-evil: 1' })
    await expect(connection.call({ method: 'GET', path: '/', idempotent: true })).rejects.toBeInstanceOf(InputError)
    expect(server.sockets).toHaveLength(0)
  })
})

describe('streams', () => {
  test('come in pieces, characters whole, and leave the connection for other calls', async () => {
    const server = await raw(({ socket, count }) => {
      if (count > 1) socket.write(said('next'))
      else socket.write(`${STREAM}3\r\ndat\r\n`)
    })
    const over = transport(server)
    const { body } = await get(over, streaming)
    const reader = (body as AsyncIterable<string>)[Symbol.asyncIterator]()
    expect(await reader.next()).toEqual({ done: false, value: 'dat' })
    const [first, second] = [Buffer.from('ä').subarray(0, 1), Buffer.from('ä').subarray(1)]
    server.sockets[0]?.write(Buffer.concat([Buffer.from('3\r\n:x'), first, Buffer.from('\r\n')]))
    expect(await reader.next()).toEqual({ done: false, value: ':x' })
    server.sockets[0]?.write(Buffer.concat([Buffer.from('1\r\n'), second, Buffer.from('\r\n0\r\n\r\n')]))
    expect(await reader.next()).toEqual({ done: false, value: 'ä' })
    expect(await reader.next()).toEqual({ done: true, value: undefined })
    expect((await get(over)).body).toBe('next')
    expect(server.sockets).toHaveLength(1)
  })

  test('that are over leave the connection alone when they are aborted', async () => {
    const server = await raw(({ socket, count }) => {
      if (count === 1) socket.write(`${STREAM}1\r\nx\r\n0\r\n\r\n`)
    })
    const over = transport(server)
    const stream = over.begin(streaming)
    const { body } = await stream.answer
    for await (const piece of body as AsyncIterable<string>) expect(piece).toBe('x')
    const next = get(over)
    await server.asked(2)
    stream.abort(new Error('late'))
    server.requests[1]?.socket.write(said('next'))
    expect((await next).body).toBe('next')
    expect(server.sockets).toHaveLength(1)
  })

  test('have no bound: only what was not read yet counts', async () => {
    const server = await raw(({ socket }) => socket.write(`${STREAM}6\r\nabcdef\r\n`))
    const { body } = await get(transport(server, { maxBodyBytes: 10 }), streaming)
    const reader = (body as AsyncIterable<string>)[Symbol.asyncIterator]()
    expect((await reader.next()).value).toBe('abcdef')
    server.sockets[0]?.write('6\r\nghijkl\r\n')
    expect((await reader.next()).value).toBe('ghijkl')
  })

  test('end when they are aborted, with a reader that waits', async () => {
    const server = await raw(({ socket }) => socket.write(`${STREAM}1\r\nx\r\n`))
    const call = transport(server).begin(streaming)
    const reader = ((await call.answer).body as AsyncIterable<string>)[Symbol.asyncIterator]()
    expect(await reader.next()).toEqual({ done: false, value: 'x' })
    const next = reader.next()
    call.abort(new Error('enough'))
    expect(await next).toEqual({ done: true, value: undefined })
    await closed(server.sockets[0]!)
  })

  test('end when their reader leaves', async () => {
    const server = await raw(({ socket }) => socket.write(`${STREAM}1\r\nx\r\n`))
    const { body } = await get(transport(server), streaming)
    for await (const piece of body as AsyncIterable<string>) {
      expect(piece).toBe('x')
      break
    }
    await closed(server.sockets[0]!)
  })

  test('that break off are a network error, after what came before', async () => {
    const server = await raw(({ socket }) => {
      socket.write(`${STREAM}1\r\nx\r\n`, () => void socket.destroy())
    })
    const { body } = await get(transport(server), streaming)
    const reader = (body as AsyncIterable<string>)[Symbol.asyncIterator]()
    expect(await reader.next()).toEqual({ done: false, value: 'x' })
    const error: unknown = await reader.next().catch((thrown: unknown) => thrown)
    expect(error).toBeInstanceOf(NetworkError)
    expect(String(error)).toContain('The stream broke off.')
  })

  test('whose reader is slow are held up, and go on with it', async () => {
    const piece = 'x'.repeat(65_536)
    const total = 400
    let sent = 0
    const server = await raw(({ socket }) => {
      socket.write(STREAM)
      const push = (): void => {
        while (sent < total) {
          sent += 1
          if (!socket.write(`10000\r\n${piece}\r\n`)) return
        }
        socket.write('0\r\n\r\n')
        socket.off('drain', push)
      }
      socket.on('drain', push)
      push()
    })
    const { body } = await get(transport(server), streaming)
    // Until the server can send no more.
    for (let before = -1; before !== sent;) {
      before = sent
      for (let turns = 0; turns < 50; turns += 1) await idle()
    }
    expect(sent).toBeLessThan(total)
    let length = 0
    for await (const text of body as AsyncIterable<string>) length += text.length
    expect(length).toBe(total * piece.length)
  })

  test('that were not asked for are read whole', async () => {
    const server = await raw(({ socket }) => socket.write(`${STREAM}1\r\nx\r\n0\r\n\r\n`))
    expect((await get(transport(server))).body).toBe('x')
  })
})

describe('over TLS', () => {
  const folder = mkdtempSync(join(tmpdir(), 'curfew-tls-'))
  const [keyFile, certFile] = [join(folder, 'key.pem'), join(folder, 'cert.pem')]
  execFileSync(
    'openssl',
    ['req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes', '-days', '2']
      .concat(['-keyout', keyFile, '-out', certFile, '-subj', '/CN=curfew'])
      .concat(['-addext', 'subjectAltName=DNS:localhost,IP:127.0.0.1']),
    { stdio: 'ignore' },
  )
  const [key, cert] = [readFileSync(keyFile), readFileSync(certFile)]
  rmSync(folder, { recursive: true })

  const names: (string | false | null)[] = []
  const protocols: (string | false | null)[] = []
  async function secure(): Promise<RawServer> {
    const server = await RawServer.open(
      ({ socket, count }) => socket.write(said(String(count))),
      undefined,
      (serve) =>
        createSecureServer({ key, cert, ALPNProtocols: ['h2', 'http/1.1'] }, (socket) => {
          names.push(socket.servername)
          protocols.push(socket.alpnProtocol)
          serve(socket)
        }),
    )
    open.push(server)
    return server
  }

  test('a certificate that is trusted is accepted by name and by address, and the connection is kept', async () => {
    const server = await secure()
    for (const name of ['localhost', '127.0.0.1']) {
      const over = transport({ url: `https://${name}:${String(server.port)}` }, { ca: cert })
      expect((await get(over)).status).toBe(200)
      expect((await get(over)).status).toBe(200)
    }
    expect(server.sockets).toHaveLength(2)
    // An address is not a name to ask for (RFC 6066 §3).
    expect(names).toEqual(['localhost', false])
    expect(protocols).toEqual(['http/1.1', 'http/1.1'])
  })

  test('a certificate that nothing vouches for is a network error, and nothing is sent', async () => {
    const server = await secure()
    const over = transport({ url: `https://localhost:${String(server.port)}` })
    await expect(get(over, { headers: { authorization: 'Bearer secret' } })).rejects.toThrow(/self-signed certificate/)
    expect(server.requests).toHaveLength(0)
  })

  test('a certificate for another name is a network error, and nothing is sent', async () => {
    const server = await secure()
    const over = transport({ url: `https://127.0.0.2:${String(server.port)}` }, { ca: cert })
    await expect(get(over)).rejects.toThrow(NetworkError)
    expect(server.requests).toHaveLength(0)
  })

  test('a server that speaks plain HTTP is a network error', async () => {
    const plain = (socket: Socket): void => void socket.on('error', () => {}).write(said('plain'))
    const server = await RawServer.open(
      () => {},
      undefined,
      () => createServer(plain),
    )
    open.push(server)
    const over = transport({ url: `https://127.0.0.1:${String(server.port)}` })
    await expect(get(over)).rejects.toBeInstanceOf(NetworkError)
  })
})
