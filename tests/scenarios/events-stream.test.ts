/** Events as they happen: frames, channels, resuming, gaps, and when a stream ends. */
import { expect, test } from 'vitest'
import { days, eventId, instant } from '@curfew/core'
import { at, idle, TestServer } from '../harness.ts'
import { openTestStore } from '../stores.ts'

test('a frame has the event’s id, its type, and one line of data with the keys of data at the top as well', async () => {
  const server = await TestServer.open()
  const stream = await server.listen('/ojs/v1/events/stream')
  const id = await server.enqueue({ queue: 'mail', type: 'mail.send' })
  await idle()
  expect(stream.text).toMatch(/^retry: 3000\n\n/)
  const [enqueued, changed] = stream.frames()
  const [stored] = await server.events(id)
  expect(enqueued).toMatchObject({ id: stored?.id, event: 'job.enqueued' })
  expect(enqueued?.data).toEqual({
    ...stored,
    job_id: id,
    job_type: 'mail.send',
    queue: 'mail',
    priority: 0,
    type: 'job.enqueued',
  })
  expect(changed).toEqual({
    id: stored?.id,
    event: 'job.state_changed',
    data: expect.objectContaining({
      job_id: id,
      queue: 'mail',
      from: null,
      to: 'available',
      timestamp: at(0),
    }),
  })
})

test('a change of state tells where from and where to, with the type of the job', async () => {
  const server = await TestServer.open()
  const stream = await server.listen('/ojs/v1/events/stream')
  const { id } = await server.start({ type: 'mail.send' })
  await server.ack(id)
  await idle()
  const changes = stream.frames().filter(({ event }) => event === 'job.state_changed')
  expect(changes.map(({ data }): unknown => [data.from, data.to])).toEqual([
    [null, 'available'],
    ['available', 'active'],
    ['active', 'completed'],
  ])
  for (const { data } of changes) expect(data).toMatchObject({ job_id: id, queue: 'default', type: 'mail.send' })
})

test('what time does is streamed like everything else', async () => {
  const server = await TestServer.open()
  const { id } = await server.start({ timeout: 10, retry: { max_attempts: 1 } })
  const stream = await server.listen(`/ojs/v1/jobs/${id}/events`)
  await server.advance(10_000)
  expect(stream.frames().map(({ event }) => event)).toEqual([
    'job.timeout',
    'job.failed',
    'job.discarded',
    'job.state_changed',
  ])
  expect(stream.ended).toBe(true)
})

test.each(['job:', 'queue:', 'all'])('channel %s… carries what belongs to it', async (channel) => {
  const server = await TestServer.open()
  const mine = await server.enqueue({ queue: 'mine' })
  const which = { 'job:': mine, 'queue:': 'mine', all: '' }[channel] ?? ''
  const stream = await server.listen(`/ojs/v1/events/stream?channel=${channel}${which}`)
  const also = await server.enqueue({ queue: 'mine' })
  const other = await server.enqueue({ queue: 'other' })
  await server.call('DELETE', `/ojs/v1/jobs/${mine}`)
  await idle()
  const seen = new Set(stream.frames().map(({ data }) => data.job_id as string))
  expect([...seen].sort()).toEqual(
    { 'job:': [mine], 'queue:': [mine, also], all: [mine, also, other] }[channel]?.sort(),
  )
})

test('the paths of a job and a queue are channels too, and types filter a stream', async () => {
  const server = await TestServer.open()
  const queue = await server.listen('/ojs/v1/queues/a/events')
  const only = await server.listen('/ojs/v1/events/stream?types=job.cancelled')
  const id = await server.enqueue({ queue: 'a' })
  await server.enqueue({ queue: 'b' })
  await server.call('DELETE', `/ojs/v1/jobs/${id}`)
  await idle()
  expect(queue.frames().every(({ data }) => data.queue === 'a')).toBe(true)
  expect(only.frames().map(({ event }) => event)).toEqual(['job.cancelled'])
})

test('GET /events gives the stream to a client that accepts it', async () => {
  const server = await TestServer.open()
  const stream = await server.listen('/ojs/v1/events', { accept: 'text/event-stream' })
  await server.enqueue()
  await idle()
  expect(stream.frames()[0]?.event).toBe('job.enqueued')
})

test('headers of a stream', async () => {
  const server = await TestServer.open()
  const signal = AbortSignal.abort()
  const reply = await server.handler({ method: 'GET', url: '/ojs/v1/events/stream', headers: {}, body: '', signal })
  expect(reply.headers).toMatchObject({ 'Content-Type': 'text/event-stream', 'Cache-Control': 'no-cache' })
})

test('Last-Event-ID resumes after that event, without a gap and without a repeat', async () => {
  const server = await TestServer.open()
  for (let n = 0; n < 5; n += 1) await server.enqueue({ type: `t${String(n)}` })
  const events = await server.events()
  const stream = await server.listen('/ojs/v1/events/stream', { 'last-event-id': events[1]?.id ?? '' })
  await server.enqueue({ type: 't5' })
  await idle()
  const heard = stream.frames().filter(({ event }) => event === 'job.enqueued')
  expect(heard.map(({ data }): unknown => data.job_type)).toEqual(['t2', 't3', 't4', 't5'])
  expect(stream.frames().some(({ event }) => event === 'system.gap')).toBe(false)
})

test('an id that is gone or unknown is answered with system.gap, and the stream goes on', async () => {
  const store = await openTestStore({ maxAgeMs: days(7), maxCount: 10 })
  const server = await TestServer.open({ store })
  await server.enqueue()
  const [first] = await server.events()
  for (let n = 0; n < 200; n += 1) await server.enqueue()
  const beyond = eventId(instant(Date.parse(at(0))), 100_000)
  for (const [id, reason] of [
    [first?.id ?? '', 'events_pruned'],
    ['never-heard-of', 'unknown_event_id'],
    [beyond, 'unknown_event_id'],
  ] as const) {
    const stream = await server.listen('/ojs/v1/events/stream', { 'last-event-id': id })
    await server.enqueue({ type: 'fresh' })
    await idle()
    expect(stream.frames()[0]).toMatchObject({ event: 'system.gap', data: { reason, resumed_at: at(0) } })
    expect(stream.frames().at(-2)).toMatchObject({ event: 'job.enqueued', data: { job_type: 'fresh' } })
    stream.hangUp()
  }
})

test('frames that are live only carry the id of the last stored event', async () => {
  const server = await TestServer.open()
  await server.enqueue()
  const [stored] = await server.events()
  const stream = await server.listen('/ojs/v1/events/stream')
  await server.enqueue({ pending: true })
  await idle()
  expect(stream.frames()).toMatchObject([{ event: 'job.state_changed', id: stored?.id, data: { to: 'pending' } }])
})

test('beats are told live and not stored', async () => {
  const server = await TestServer.open()
  const { id } = await server.start({ visibility_timeout: 30 }, { worker_id: 'w' })
  const stream = await server.listen('/ojs/v1/events/stream')
  await server.advance(5_000)
  await server.beat('w', [id])
  await idle()
  const beat = stream.frames().find(({ event }) => event === 'job.heartbeat')
  expect(beat?.data).toMatchObject({ job_id: id, worker_id: 'w', attempt: 1, visible_until: at(35_000) })
  expect(stream.frames().some(({ event }) => event === 'worker.heartbeat')).toBe(true)
  expect((await server.eventTypes()).filter((type) => type.endsWith('heartbeat'))).toEqual([])
})

test('a job that is over is sent once and the stream closes', async () => {
  const server = await TestServer.open()
  const { id } = await server.start()
  await server.ack(id)
  for (const url of [`/ojs/v1/jobs/${id}/events`, `/ojs/v1/events/stream?channel=job:${id}`]) {
    const stream = await server.listen(url)
    expect(stream.frames()).toMatchObject([
      { event: 'job.state_changed', data: { job_id: id, from: 'active', to: 'completed' } },
    ])
    expect(stream.ended).toBe(true)
  }
})

test('a stream resumed at a job that is over sends what was missed, then the end once, and closes', async () => {
  const server = await TestServer.open()
  const { id } = await server.start()
  await server.ack(id)
  const ids = (await server.events(id)).map((event) => String(event.id))
  const end = { event: 'job.state_changed', data: { job_id: id, from: 'active', to: 'completed', timestamp: at(0) } }
  for (const url of [`/ojs/v1/jobs/${id}/events`, `/ojs/v1/events/stream?channel=job:${id}`]) {
    const stream = await server.listen(url, { 'last-event-id': ids[0] ?? '' })
    expect(stream.frames()).toMatchObject([
      { event: 'job.started', id: ids[1] },
      { event: 'job.completed', id: ids[2] },
      { ...end, id: ids[2] },
    ])
    expect(stream.ended).toBe(true)
    for (const nothingMissed of [ids.at(-1) ?? '', '']) {
      const newest = await server.listen(url, { 'last-event-id': nothingMissed })
      expect(newest.frames()).toMatchObject([end])
      expect(newest.ended).toBe(true)
    }
    const unknown = await server.listen(url, { 'last-event-id': 'never-heard-of' })
    expect(unknown.frames().map(({ event }) => event)).toEqual([
      'system.gap',
      'job.enqueued',
      'job.started',
      'job.completed',
      'job.state_changed',
    ])
    expect(unknown.ended).toBe(true)
  }
})

test('a job that ends while its stream begins is sent once', async () => {
  const server = await TestServer.open()
  const { id } = await server.start()
  const [enqueued] = await server.events(id)
  const heard = ['', enqueued?.id ?? ''].map((last) => ({
    last,
    stream: server.listen(`/ojs/v1/jobs/${id}/events`, { 'last-event-id': last }),
  }))
  await server.ack(id)
  await idle()
  for (const { last, stream } of heard) {
    const { frames, ended } = await stream.then((one) => ({ frames: one.frames(), ended: one.ended }))
    expect(
      frames.map(({ event, data }): unknown => data.to ?? event),
      last,
    ).toEqual(last === '' ? expect.arrayContaining(['completed']) : ['job.started', 'job.completed', 'completed'])
    expect(
      frames.filter(({ event }) => event === 'job.state_changed'),
      last,
    ).toHaveLength(1)
    expect(ended).toBe(true)
  }
})

test('the stream of a job ends with the job', async () => {
  const server = await TestServer.open()
  const { id } = await server.start()
  const stream = await server.listen(`/ojs/v1/jobs/${id}/events`)
  await server.enqueue()
  expect(stream.ended).toBe(false)
  await server.ack(id)
  await idle()
  expect(stream.frames().map(({ event }) => event)).toEqual(['job.completed', 'job.state_changed'])
  expect(stream.ended).toBe(true)
})

test('a stream of a job that does not exist is not found, of an unknown channel refused', async () => {
  const server = await TestServer.open()
  expect((await server.get('/ojs/v1/jobs/nope/events')).status).toBe(404)
  expect((await server.get('/ojs/v1/events/stream?channel=job:nope')).status).toBe(404)
  expect((await server.get('/ojs/v1/events/stream?channel=planet:mars')).body.error.details.field).toBe('channel')
})

test('a comment keeps the line open at least every 15 seconds', async () => {
  const server = await TestServer.open()
  const stream = await server.listen('/ojs/v1/events/stream')
  await server.advance(15_000)
  expect(stream.text).toContain(':heartbeat\n\n')
  await server.advance(15_000)
  expect(stream.text.split(':heartbeat').length - 1).toBe(2)
})

test('who hangs up is forgotten', async () => {
  const server = await TestServer.open()
  const stream = await server.listen('/ojs/v1/events/stream')
  stream.hangUp()
  await idle()
  expect(stream.ended).toBe(true)
})

test.each([
  ['completed', (server: TestServer, id: string) => server.ack(id)],
  ['failed', (server: TestServer, id: string) => server.nack(id, { message: 'x', retryable: false })],
  ['cancelled', (server: TestServer, id: string) => server.call('DELETE', `/ojs/v1/jobs/${id}`)],
] as const)('a stream of progress tells each report, then %s, and closes', async (ending, end) => {
  const server = await TestServer.open()
  const { id } = await server.start()
  const stream = await server.listen(`/ojs/v1/jobs/${id}/progress/stream`)
  await server.call('PUT', `/ojs/v1/jobs/${id}/progress`, { progress: 0.25 })
  await idle()
  await server.call('PUT', `/ojs/v1/jobs/${id}/progress`, { progress: 0.5, message: 'half' })
  await idle()
  await end(server, id)
  await idle()
  const frames = stream.frames()
  expect(frames.map(({ event }) => event)).toEqual(['progress', 'progress', ending])
  expect(frames.map(({ data }): unknown => data.progress).slice(0, 2)).toEqual([0.25, 0.5])
  expect(stream.ended).toBe(true)
})

test('a reader that looks away while much happens has little kept for it, and misses no stored event', async () => {
  const server = await TestServer.open()
  const { signal } = new AbortController()
  const asked = { method: 'GET', url: '/ojs/v1/events/stream', headers: {}, body: '', signal }
  const { body } = await server.handler(asked)
  const pieces = (body as AsyncIterable<string>)[Symbol.asyncIterator]()
  let [text, largest] = ['', 0]
  const take = async (): Promise<void> => {
    const { value } = (await pieces.next()) as { value: string }
    text += value
    largest = Math.max(largest, value.length)
  }
  await take()
  const first = take()
  await idle()
  await server.enqueue()
  await first
  for (let n = 0; n < 4; n += 1)
    await server.post('/ojs/v1/jobs/batch', { jobs: Array.from({ length: 500 }, () => ({ type: 'a', args: [] })) })
  const stored: string[] = []
  for (let after = '', more = true; more;) {
    const reply = await server.get(`/ojs/v1/events?limit=1000${after}`)
    stored.push(...reply.body.events.map(({ id }) => id))
    after = `&after=${reply.body.cursor}`
    more = reply.body['has_more'] as boolean
  }
  const newest = stored.at(-1) ?? ''
  while (!text.includes(`id: ${newest}\nevent: job.enqueued`)) await take()
  const heard = [...text.matchAll(/^id: (.+)\nevent: (?!job.state_changed)/gm)].map(([, id]) => id)
  expect(heard).toEqual(stored)
  expect(stored).toHaveLength(2_001)
  expect(largest).toBeLessThan(80 * 1024)
})
