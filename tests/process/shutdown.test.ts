/** SIGTERM: callers that wait are answered, whatever was acknowledged stays, and the process is gone within five seconds. */
import { describe, expect, test } from 'vitest'
import { EventSource } from './event-source.ts'
import { RawSocket, requestText } from './raw-socket.ts'
import { ServerProcess, within } from './server-process.ts'

const LIMIT_MS = 5_000
/** Where all callers finish in time, none is cut off: then it is much quicker. */
const WILLING_MS = 2_000

describe('SIGTERM', () => {
  test('answers an open long poll with nothing, ends a stream, and exits with 0', async () => {
    const server = await ServerProcess.start()
    const stream = await EventSource.open(server, '/ojs/v1/events/stream')
    const poll = server.post('/ojs/v1/workers/fetch', { queues: ['default'], worker_id: 'w', wait_ms: 30_000 })
    await waitsFor(server, 'w')
    const began = performance.now()
    server.signal('SIGTERM')
    expect(await within('the poll is answered', poll)).toMatchObject({ status: 200, body: { jobs: [] } })
    await within('the stream ends', stream.ended)
    expect(await server.exited).toEqual({ code: 0, signal: null })
    expect(performance.now() - began).toBeLessThan(WILLING_MS)
  })

  test('lets a request that is under way finish, and keeps what it stored', async () => {
    const server = await ServerProcess.start()
    const body = JSON.stringify({ type: 'test.job', args: ['late'] })
    const bytes = requestText('POST', '/ojs/v1/jobs', body)
    const socket = await RawSocket.open(server)
    await socket.send(bytes.subarray(0, bytes.length - 5))
    await server.get('/health') // answered after the server has read what came before
    server.signal('SIGTERM')
    await socket.send(bytes.subarray(bytes.length - 5))
    expect(await socket.answers(1)).toEqual([201])
    expect(await server.exited).toEqual({ code: 0, signal: null })
    const again = await ServerProcess.start({ data: server.data })
    expect(await again.fetch()).toMatchObject([{ args: ['late'] }])
    await again.stop()
  })

  test('is not held up by callers who never finish, keep-alive connections or a second signal', async () => {
    const server = await ServerProcess.start()
    const slow = await RawSocket.open(server)
    await slow.send('POST /ojs/v1/jobs HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{"type":')
    const idle = await RawSocket.open(server)
    await idle.send(requestText('GET', '/health'))
    await idle.answers(1)
    const silent = await RawSocket.open(server)
    const began = performance.now()
    server.signal('SIGTERM')
    server.signal('SIGTERM')
    server.signal('SIGINT')
    expect(await server.exited).toEqual({ code: 0, signal: null })
    expect(performance.now() - began).toBeLessThan(LIMIT_MS)
    for (const socket of [slow, idle, silent]) await within('the connection is closed', socket.closed)
  })

  test('loses nothing that was acknowledged under load, and refuses the rest honestly', async () => {
    const server = await ServerProcess.start()
    const acknowledged: string[] = []
    const strange: string[] = []
    let signalled = false
    const caller = async (name: number): Promise<void> => {
      for (let n = 0; ; n += 1) {
        try {
          const { status, body } = await server.post('/ojs/v1/jobs', { type: 'test.job', args: [name, n] })
          if (status === 201) acknowledged.push(body.job.id as string)
          else if (status === 503) return
          else strange.push(`${String(status)}`)
          if (acknowledged.length >= 300 && !signalled) {
            signalled = true
            server.signal('SIGTERM')
          }
        } catch {
          return // the connection was closed
        }
      }
    }
    await Promise.all(Array.from({ length: 20 }, (_, name) => caller(name)))
    expect(await server.exited).toEqual({ code: 0, signal: null })
    expect(strange).toEqual([])
    const again = await ServerProcess.start({ data: server.data })
    const replies = await Promise.all(acknowledged.map((id) => again.get(`/ojs/v1/jobs/${id}`)))
    expect(replies.filter(({ status }) => status !== 200)).toEqual([])
    await again.stop()
  })

  test('SIGINT does the same', async () => {
    const server = await ServerProcess.start()
    server.signal('SIGINT')
    expect(await server.exited).toEqual({ code: 0, signal: null })
  })
})

/** A fetch of this worker has arrived: it is in the registry. */
async function waitsFor(server: ServerProcess, workerId: string): Promise<void> {
  await within(
    'the worker is seen',
    (async () => {
      while ((await server.get(`/ojs/v1/workers/${workerId}`)).status !== 200);
    })(),
  )
}
