/** Server-Sent Events over a real socket: in order, with ids, and resumed without loss or repetition. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { EventSource, type Frame } from './event-source.ts'
import { RawSocket, requestText } from './raw-socket.ts'
import { ServerProcess, until } from './server-process.ts'

const STREAM = '/ojs/v1/events/stream'

let server: ServerProcess
/** Nothing happens in its queue; it is opened first because a keep-alive takes its time. */
let quiet: EventSource

beforeAll(async () => {
  server = await ServerProcess.start()
  quiet = await EventSource.open(server, '/ojs/v1/queues/quiet/events')
})

afterAll(() => server.stop())

/** A job's whole life: three events. */
async function live(on: ServerProcess, queue: string): Promise<string> {
  const { id } = await on.enqueue({ queue })
  await on.fetch({ queues: [queue] })
  await on.post('/ojs/v1/workers/ack', { job_id: id as string })
  return id as string
}

function tale(frames: readonly Frame[]): string[] {
  return frames.map(({ id, event, data }) => `${id ?? '-'} ${event} ${String(data.subject)}`)
}

/** The whole log, by the other way to read it. */
async function logged(on: ServerProcess): Promise<string[]> {
  const { events } = (await on.get('/ojs/v1/events?limit=1000')).body as {
    events: { id: string; type: string; subject: string }[]
  }
  return events.map(({ id, type, subject }) => `${id} ${type} ${subject}`)
}

describe('a stream', () => {
  test('tells every event once, in order, with its id, envelope and data', async () => {
    const stream = await EventSource.open(server, STREAM)
    const ids: string[] = []
    for (let n = 0; n < 5; n += 1) ids.push(await live(server, 'told'))
    await stream.frame('job.completed', ids.at(-1))
    stream.close()
    expect(tale(stream.stored)).toEqual(await logged(server))
    for (const { id, event, data } of stream.stored) {
      expect(data).toMatchObject({ specversion: '1.0', id, type: event, data: { job_id: data.subject, queue: 'told' } })
      expect(data.job_id).toBe(data.subject) // and once more at the top, where the official SDK reads it
    }
    const first = stream.stored.filter(({ data }) => data.subject === ids[0]).map(({ event }) => event)
    expect(first).toEqual(['job.enqueued', 'job.started', 'job.completed'])
    const changes = stream.frames.filter(({ event, data }) => event === 'job.state_changed' && data.job_id === ids[0])
    expect(changes.map(({ data }) => String(data.to))).toEqual(['available', 'active', 'completed'])
  })

  test('has the headers of one, and does not end', async () => {
    const socket = await RawSocket.open(server)
    await socket.send(requestText('GET', STREAM))
    await until('the stream has begun', () => socket.received.includes('retry: 3000\n\n'))
    expect(socket.received).toMatch(/^HTTP\/1\.1 200 OK\r$/m)
    expect(socket.received).toMatch(/^Content-Type: text\/event-stream\r$/m)
    expect(socket.received).toMatch(/^Cache-Control: no-cache\r$/m)
    await socket.hangUp()
  })

  test('of one job ends with the job', async () => {
    const { id } = await server.enqueue({ queue: 'one' })
    const stream = await EventSource.open(server, `/ojs/v1/jobs/${String(id)}/events`)
    await live(server, 'another')
    await server.fetch({ queues: ['one'] })
    await server.post('/ojs/v1/workers/ack', { job_id: id as string })
    await stream.ended
    expect(stream.stored.map(({ event }) => event)).toEqual(['job.started', 'job.completed'])
    const late = await EventSource.open(server, `${STREAM}?channel=job:${String(id)}`)
    await late.ended
    expect(late.frames).toMatchObject([{ event: 'job.state_changed', data: { job_id: id as string, to: 'completed' } }])
  })

  test('of one queue tells of no other', async () => {
    const stream = await EventSource.open(server, `${STREAM}?channel=queue:mine`)
    await live(server, 'other')
    const id = await live(server, 'mine')
    await stream.frame('job.completed', id)
    stream.close()
    expect(new Set(stream.stored.map(({ data }) => data.data.queue as string))).toEqual(new Set(['mine']))
  })

  test('has a dozen readers who all hear the same', async () => {
    const readers = await Promise.all(Array.from({ length: 12 }, () => EventSource.open(server, STREAM)))
    const id = await live(server, 'crowd')
    const heard = await Promise.all(
      readers.map(async (reader) => {
        await reader.frame('job.completed', id)
        reader.close()
        return tale(reader.stored).join('\n')
      }),
    )
    expect(new Set(heard).size).toBe(1)
  })
})

describe('large events', () => {
  test('reach a reader who now and then is slow, and leave nothing behind in the server', async () => {
    const reader = await RawSocket.open(server)
    await reader.send(requestText('GET', `${STREAM}?channel=queue:large`))
    await until('the stream has begun', () => reader.received.includes('retry:'))
    const finish = async (bytes: number): Promise<string> => {
      const { id } = await server.enqueue({ queue: 'large' })
      await server.fetch({ queues: ['large'] })
      await server.post('/ojs/v1/workers/ack', { job_id: id as string, result: 'x'.repeat(bytes) })
      return id as string
    }
    const heard = (id: string): Promise<boolean> =>
      until(`the end of ${id}`, () => new RegExp(`"job_id":"${id}".*"to":"completed"`).test(reader.received))
    // More than the stream takes without waiting for its reader, many times.
    for (let n = 0; n < 16; n += 1) await heard(await finish(50_000))
    // More than all buffers on the way can hold, without a reader.
    reader.pause()
    const ids: string[] = []
    for (let n = 0; n < 12; n += 1) ids.push(await finish(800_000))
    reader.resume()
    for (const id of ids) await heard(id)
    await reader.hangUp()
    expect(server.log.filter(({ level }) => Number(level) >= 40)).toEqual([])
  })
})

describe('Last-Event-ID', () => {
  test('resumes without loss or repetition, while events keep coming', async () => {
    const writing = (async () => {
      for (let n = 0; n < 40; n += 1) await live(server, 'busy')
    })()
    const heard: string[] = []
    let last: string | undefined
    for (let connections = 0; connections < 6; connections += 1) {
      const stream = await EventSource.open(server, STREAM, last)
      await until('a few events', () => stream.stored.length >= 10)
      stream.close()
      const frames = stream.stored
      heard.push(...tale(frames))
      last = frames.at(-1)?.id ?? last
    }
    await writing
    const all = await logged(server)
    const from = all.indexOf(heard[0] ?? '')
    expect(from).toBeGreaterThanOrEqual(0)
    expect(heard).toEqual(all.slice(from, from + heard.length))
  })

  test('resumes across a kill -9 and a restart', async () => {
    const first = await ServerProcess.start()
    const stream = await EventSource.open(first, STREAM)
    await live(first, 'before')
    await until('three events', () => stream.stored.length === 3)
    const missed = await live(first, 'missed')
    await first.kill()
    await stream.ended
    const second = await ServerProcess.start({ data: first.data })
    const unread = await live(second, 'after')
    // As if only the first three had been read: the reader comes back with the id of the third.
    const again = await EventSource.open(second, STREAM, stream.stored[2]?.id ?? '')
    const fresh = await live(second, 'live')
    await again.frame('job.completed', fresh)
    expect(tale(stream.stored.slice(0, 3)).concat(tale(again.stored))).toEqual(await logged(second))
    for (const id of [missed, unread, fresh])
      expect(again.stored.filter(({ data }) => data.subject === id)).toHaveLength(3)
    expect(again.frames.some(({ event }) => event === 'system.gap')).toBe(false)
    await second.stop()
  })

  test('that has been pruned gets the gap, and goes on from what is left', async () => {
    const small = await ServerProcess.start({ flags: ['--retention-events-max', '20'] })
    const stream = await EventSource.open(small, STREAM)
    await live(small, 'old')
    const old = (await stream.frame('job.enqueued')).id ?? ''
    for (let n = 0; n < 20; n += 1) await live(small, 'new')
    const left = await logged(small)
    expect(left.length).toBeLessThan(60)
    expect(await small.get(`/ojs/v1/events?after=${old}`)).toMatchObject({ status: 410 })
    const again = await EventSource.open(small, STREAM, old)
    await until('what is left', () => again.stored.length >= left.length)
    expect(again.frames[0]).toMatchObject({ event: 'system.gap' })
    expect(tale(again.stored)).toEqual(left)
    await small.stop()
  })

  test('that this server never gave gets the gap as well', async () => {
    const stream = await EventSource.open(server, STREAM, 'evt_from-somewhere-else')
    expect((await stream.frame('system.gap')).event).toBe('system.gap')
    stream.close()
  })
})

test('a stream in which nothing happens is kept alive by a comment at least every 15 seconds', async () => {
  await until('a comment', () => quiet.comments.includes('heartbeat'), 17_000)
  expect(quiet.frames).toEqual([])
})
