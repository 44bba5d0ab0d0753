/** The client by which the server calls others, on real sockets: what it refuses, what it reads, when it gives up. */
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { gzipSync } from 'node:zlib'
import { afterEach, describe, expect, test } from 'vitest'
import {
  BLOCKED,
  BLOCKED_METADATA,
  CallFailed,
  CallRefused,
  type OutgoingCall,
} from '../../packages/server/src/engine/outgoing.ts'
import { openHttpClient, type HttpClient, type HttpClientOptions } from '../../packages/server/src/net/http-client.ts'

const open: { close(): unknown }[] = []
afterEach(async () => {
  for (const one of open.splice(0)) await one.close()
})

function client(options: Partial<HttpClientOptions> = {}): HttpClient {
  const made = openHttpClient({ allowPrivateNetwork: true, ...options })
  open.push(made)
  return made
}

interface Site {
  readonly url: string
  readonly port: number
  readonly seen: IncomingMessage[]
  readonly connections: () => number
}

async function site(answer: (request: IncomingMessage, response: ServerResponse) => void): Promise<Site> {
  const seen: IncomingMessage[] = []
  let connections = 0
  const server: Server = createServer((request, response) => {
    seen.push(request)
    answer(request, response)
  })
  server.on('connection', () => (connections += 1))
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  open.push({
    close: () => {
      server.closeAllConnections()
      return new Promise((resolve) => server.close(resolve))
    },
  })
  const { port } = server.address() as AddressInfo
  return { url: `http://127.0.0.1:${String(port)}/hook`, port, seen, connections: () => connections }
}

const call = (url: string, more: Partial<OutgoingCall> = {}): OutgoingCall => ({
  method: 'POST',
  url,
  headers: {},
  body: '{}',
  signal: AbortSignal.timeout(5_000),
  mostBytes: 1_024,
  ...more,
})

const ok = (_: IncomingMessage, response: ServerResponse): unknown => response.end('fine')
const one = (address: string) => [{ address, family: address.includes(':') ? 6 : 4 }]

describe('the private-network guard', () => {
  test('refuses an address of this machine, and makes no connection', async () => {
    const there = await site(ok)
    const { send } = client({ allowPrivateNetwork: false })
    for (const host of ['127.0.0.1', '2130706433', '[::ffff:127.0.0.1]', 'localhost']) {
      await expect(send(call(`http://${host}:${String(there.port)}/`)), host).rejects.toThrow(new CallRefused(BLOCKED))
    }
    expect(there.connections()).toBe(0)
  })

  test('refuses a name when one of its addresses is private, wherever that stands', async () => {
    const found = [...one('93.184.216.34'), ...one('10.0.0.1')]
    for (const addresses of [found, found.toReversed()]) {
      const { send } = client({ allowPrivateNetwork: false, resolve: () => Promise.resolve(addresses) })
      await expect(send(call('http://mixed.example/'))).rejects.toThrow(BLOCKED)
    }
  })

  test('connects to the address that was checked: the name is looked up once for each connection', async () => {
    const there = await site(ok)
    let looks = 0
    const { send } = client({
      resolve: () => {
        looks += 1
        return Promise.resolve(one('127.0.0.1'))
      },
    })
    // A name that only this lookup knows: another lookup would not find it.
    const url = `http://pinned.invalid:${String(there.port)}/`
    expect(await send(call(url))).toMatchObject({ status: 200, body: 'fine' })
    expect(await send(call(url))).toMatchObject({ status: 200 })
    expect(looks).toBe(there.connections())
    expect(there.seen[0]?.headers.host).toBe(`pinned.invalid:${String(there.port)}`)
  })

  test('a name that turns to a private address later is refused then', async () => {
    let looks = 0
    const { send } = client({
      allowPrivateNetwork: false,
      resolve: () => Promise.resolve(one((looks += 1) === 1 ? '192.0.1.1' : '10.0.0.1')),
    })
    const soon = new AbortController()
    const first = send(call('http://rebind.example/', { signal: soon.signal }))
    soon.abort()
    await expect(first).rejects.toThrow(CallFailed)
    looks = 1
    await expect(send(call('http://rebind.example:81/'))).rejects.toThrow(BLOCKED)
  })

  test('refuses metadata services of clouds even where private networks are allowed', async () => {
    const { send } = client({ allowPrivateNetwork: true })
    for (const host of ['169.254.169.254', '0xA9FEA9FE', '168.63.129.16', '[64:ff9b::a9fe:a9fe]', '[fd00:ec2::254]'])
      await expect(send(call(`http://${host}/`)), host).rejects.toThrow(new CallRefused(BLOCKED_METADATA))
    const named = client({ allowPrivateNetwork: true, resolve: () => Promise.resolve(one('169.254.169.254')) })
    await expect(named.send(call('http://metadata.example/'))).rejects.toThrow(BLOCKED_METADATA)
  })

  test('checks every call anew, so a redirect cannot lead inside', async () => {
    const there = await site((_, response) => response.writeHead(307, { Location: 'http://10.0.0.1/' }).end())
    const { send } = client()
    const answer = await send(call(there.url))
    expect(answer).toMatchObject({ status: 307, headers: { location: 'http://10.0.0.1/' } })
    expect(there.seen).toHaveLength(1)
    await expect(client({ allowPrivateNetwork: false }).send(call(answer.headers['location'] ?? ''))).rejects.toThrow(
      BLOCKED,
    )
  })
})

describe('what is not sent at all', () => {
  test.each([
    ['ftp://example.com/', 'only http and https'],
    ['file:///etc/passwd', 'only http and https'],
    ['https://user:word@example.com/', 'credentials'],
    ['https://user@example.com/', 'credentials'],
    ['no url', 'cannot be read'],
    [`https://example.com/${'a'.repeat(5_000)}`, 'cannot be read'],
  ])('%s', async (url, reason) => {
    await expect(client().send(call(url))).rejects.toThrow(reason)
    await expect(client().send(call(url))).rejects.toThrow(CallRefused)
  })

  test.each([
    { 'x-a': 'one\r\nx-b: two' },
    { 'x-a': 'a\u0000b' },
    { 'x-a': '€' },
    { 'x a': 'b' },
    { host: 'other.example' },
    { 'Content-Length': '5' },
    { 'transfer-encoding': 'chunked' },
    { Connection: 'upgrade' },
  ])('headers %j', async (headers) => {
    const there = await site(ok)
    await expect(client().send(call(there.url, { headers }))).rejects.toThrow(CallRefused)
    expect(there.seen).toHaveLength(0)
  })
})

describe('what is read of an answer', () => {
  test('no more than asked for; the rest is dropped with its connection', async () => {
    let closed = false
    const there = await site((_, response) => {
      response.on('close', () => (closed = true))
      const more = (): void => {
        if (!closed && response.write('x'.repeat(16_384))) setImmediate(more)
        else if (!closed) response.once('drain', more)
      }
      more()
    })
    const answer = await client().send(call(there.url, { mostBytes: 100 }))
    expect(answer).toEqual({ status: 200, headers: expect.any(Object), body: 'x'.repeat(100), truncated: true })
    await expect.poll(() => closed).toBe(true)
  })

  test('as it comes: nothing is unpacked', async () => {
    const bomb = gzipSync(Buffer.alloc(1_000_000))
    const there = await site((_, response) => response.writeHead(200, { 'Content-Encoding': 'gzip' }).end(bomb))
    const answer = await client().send(call(there.url, { mostBytes: 65_536 }))
    expect(answer.body.length).toBeLessThanOrEqual(bomb.length)
  })

  test('repeated headers are joined, names are in lower case', async () => {
    const there = await site((_, response) => response.writeHead(204, { 'X-Two': ['a', 'b'] }).end())
    expect((await client().send(call(there.url))).headers['x-two']).toBe('a, b')
  })
})

test('slow answers do not hold up the calls beside them', async () => {
  const there = await site((request, response) => {
    if (request.url === '/fast') response.end('fine')
  })
  const { send } = client()
  const slow = new AbortController()
  const waiting = Array.from({ length: 200 }, () => send(call(there.url, { signal: slow.signal })).catch(() => null))
  await expect.poll(() => there.seen.length).toBe(200)
  expect(await send(call(there.url.replace('/hook', '/fast')))).toMatchObject({ body: 'fine' })
  slow.abort()
  await Promise.all(waiting)
})

describe('when it gives up', () => {
  test('at the deadline, though the answer drips', async () => {
    const there = await site((_, response) => {
      const timer = setInterval(() => response.write('.'), 20)
      response.on('close', () => {
        clearInterval(timer)
      })
    })
    const begun = performance.now()
    const sent = client().send(call(there.url, { signal: AbortSignal.timeout(300) }))
    await expect(sent).rejects.toThrow('no answer: the time was up')
    expect(performance.now() - begun).toBeLessThan(2_000)
  })

  test('at the deadline, though there is no answer at all', async () => {
    const there = await site(() => {})
    await expect(client().send(call(there.url, { signal: AbortSignal.timeout(200) }))).rejects.toThrow(
      'the time was up',
    )
  })

  test('at the deadline, though the name is still being looked up', async () => {
    const { send } = client({ resolve: () => new Promise(() => {}) })
    await expect(send(call('http://slow.example/', { signal: AbortSignal.timeout(200) }))).rejects.toThrow(
      'the time was up',
    )
  })

  test.each([
    ['no listener', 'http://127.0.0.1:1/', 'the connection was refused'],
    ['an unknown name', 'http://unknown.invalid/', 'the host'],
  ])('at once, when %s', async (_, url, reason) => {
    await expect(client().send(call(url))).rejects.toThrow(reason)
    await expect(client().send(call(url))).rejects.toThrow(CallFailed)
  })

  test('when the other side hangs up', async () => {
    const there = await site((request) => request.socket.destroy())
    await expect(client().send(call(there.url))).rejects.toThrow(CallFailed)
  })
})
