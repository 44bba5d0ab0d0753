/** Callers who send or leave unread as much as they can: what that costs the server is bounded. */
import { readFileSync } from 'node:fs'
import { describe, expect, test } from 'vitest'
import { RawSocket, requestText } from './raw-socket.ts'
import { ServerProcess, until, within } from './server-process.ts'

const MIB = 1024 * 1024
const BEARER = 'Authorization: Bearer secret\r\n'
const guarded = (...flags: string[]): Promise<ServerProcess> =>
  ServerProcess.start({ env: { CURFEW_TOKEN: 'secret' }, flags })

/** All of a request but its last byte. */
const unfinished = (headers = '', mebibytes = 9): Buffer => {
  const body = JSON.stringify({ type: 'test.job', args: ['x'.repeat(mebibytes * MIB)] })
  return requestText('POST', '/ojs/v1/jobs', body, headers).subarray(0, -1)
}

describe.skipIf(process.platform !== 'linux')('memory', () => {
  /** What the process holds now, in MiB. */
  const held = (server: ServerProcess): number =>
    Number(/^RssAnon:\s+(\d+) kB/m.exec(readFileSync(`/proc/${String(server.pid)}/status`, 'utf8'))?.[1]) / 1024

  test('is not filled by bodies of callers without the token: they are refused by their head', async () => {
    const server = await guarded()
    const before = held(server)
    const bytes = unfinished()
    const sockets: RawSocket[] = []
    for (let n = 0; n < 60; n += 1) {
      const socket = await RawSocket.open(server)
      sockets.push(socket)
      await socket.send(bytes)
    }
    await server.get('/health')
    expect(held(server) - before).toBeLessThan(150)
    for (const socket of sockets) expect(await socket.answers(1)).toEqual([401])
    for (const socket of sockets) await socket.hangUp()
    await server.stop()
  })

  test('is not filled by streams of events that are not read', async () => {
    const server = await guarded()
    const before = held(server)
    const readers: RawSocket[] = []
    for (let n = 0; n < 20; n += 1) {
      const reader = await RawSocket.open(server)
      await reader.send(requestText('GET', '/ojs/v1/events/stream', '', BEARER))
      await until('the stream has begun', () => reader.received.includes('retry:'))
      reader.pause()
      readers.push(reader)
    }
    const jobs = Array.from({ length: 1_000 }, () => ({ type: 'test.job', args: [] }))
    for (let n = 0; n < 12; n += 1)
      expect(
        (await server.call('POST', '/ojs/v1/jobs/batch', { jobs }, { Authorization: 'Bearer secret' })).status,
      ).toBe(201)
    expect(held(server) - before).toBeLessThan(200)
    for (const reader of readers) await reader.hangUp()
    await server.stop()
  })
})

describe('bodies', () => {
  test('of all callers together may hold 64 MiB; what exceeds it is to come again later', async () => {
    const server = await guarded()
    const bytes = unfinished(BEARER)
    const sockets: RawSocket[] = []
    for (let n = 0; n < 8; n += 1) {
      sockets.push(await RawSocket.open(server))
      void sockets[n]?.send(bytes)
    }
    const late = await until('one body is refused', () => sockets.find(({ statuses }) => statuses.length > 0))
    expect(late.statuses).toEqual([503])
    expect(late.received).toMatch(/^Retry-After: 1\r$/m)
    expect(late.received).toContain('"retryable":true')
    await within('the connection is closed', late.closed)
    for (const socket of sockets.filter((one) => one !== late)) {
      await socket.send('}')
      expect(await socket.answers(1)).toEqual([201])
      await socket.hangUp()
    }
    for (let n = 0; n < 8; n += 1) {
      const gone = await RawSocket.open(server)
      await gone.send(bytes)
      await gone.hangUp()
    }
    const again = await RawSocket.open(server)
    await again.send(Buffer.concat([bytes, Buffer.from('}')]))
    expect(await again.answers(1)).toEqual([201])
    await again.hangUp()
    await server.stop()
  })

  test('that are announced and refused are not asked for', async () => {
    const server = await guarded()
    const refused = await RawSocket.open(server)
    await refused.send(unfinished('Expect: 100-continue\r\n', 0).toString('latin1').split('\r\n\r\n')[0] + '\r\n\r\n')
    expect(await refused.answers(1)).toEqual([401])
    expect(refused.received).not.toContain('100 Continue')
    const taken = await RawSocket.open(server)
    const whole = requestText('POST', '/ojs/v1/jobs', '{"type":"a","args":[]}', `${BEARER}Expect: 100-continue\r\n`)
    const end = whole.indexOf('\r\n\r\n') + 4
    await taken.send(whole.subarray(0, end))
    await until('the server asks for the body', () => taken.received.includes('100 Continue'))
    await taken.send(whole.subarray(end))
    await until('the job is taken', () => taken.received.includes('201 Created'))
    for (const socket of [refused, taken]) await socket.hangUp()
    await server.stop()
  })

  test('of refused callers are taken from the line, so that the answer can be read by who reads late', async () => {
    const server = await guarded()
    const reply = await server.call('POST', '/ojs/v1/jobs', { type: 'test.job', args: ['x'.repeat(9 * MIB)] })
    expect([reply.status, reply.body.error.code]).toEqual([401, 'unauthenticated'])
    await server.stop()
  })
})

test('connections beyond the bound are closed, and the log says how many', async () => {
  const server = await guarded('--max-connections', '3')
  const open: RawSocket[] = []
  for (let n = 0; n < 3; n += 1) {
    const socket = await RawSocket.open(server)
    await socket.send(requestText('GET', '/health'))
    expect(await socket.answers(1)).toEqual([200])
    open.push(socket)
  }
  for (let n = 0; n < 5; n += 1) {
    const more = await RawSocket.open(server)
    await within('the connection is closed', more.closed)
  }
  const line = await until('it is logged', () =>
    server.log.find(({ msg }) => String(msg).includes('--max-connections')),
  )
  expect(line).toMatchObject({ level: 40, maxConnections: 3 })
  await open.pop()?.hangUp()
  await until('there is room again', async () => {
    const socket = await RawSocket.open(server)
    await socket.send(requestText('GET', '/health'))
    await Promise.race([socket.answers(1), socket.closed])
    return socket.statuses.length > 0
  })
  expect(server.log.filter(({ msg }) => String(msg).includes('--max-connections'))).toHaveLength(1)
  for (const socket of open) await socket.hangUp()
  await server.stop()
})
