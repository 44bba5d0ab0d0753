import { describe, expect, test } from 'vitest'
import { Client } from './client.ts'
import type { CurfewEvent, EventFilter } from './events.ts'
import { Channel, idle, refused, ScriptedServer, world, type Line } from '../scripted.suite.ts'

const JOB = '01890000-0000-7000-8000-00000000000a'

function stored(id: string, type: string, more: object = {}): string {
  const data = { job_id: JOB, job_type: 'a.b', queue: 'q', ...more }
  const envelope = { specversion: '1.0', id, type, time: '2026-01-01T12:00:00.000Z', subject: JOB, data }
  return `id: ${id}\nevent: ${type}\ndata: ${JSON.stringify({ ...envelope, ...data, type })}\n\n`
}

function changed(to: string): string {
  const data = { job_id: JOB, queue: 'q', type: 'a.b', from: 'active', to, timestamp: '2026-01-01T12:00:00.000Z' }
  return `event: job.state_changed\ndata: ${JSON.stringify(data)}\n\n`
}

/** One channel per connection, unless `rule` has a line for it. */
async function open(filter: EventFilter = {}, rule: (count: number) => Line | null = () => null) {
  const { host, random } = world()
  const channels: Channel[] = []
  const askedAt: number[] = []
  const server = new ScriptedServer((_, count) => {
    askedAt.push(host.now())
    const line = rule(count)
    if (line !== null) return line
    const channel = new Channel()
    channels.push(channel)
    return { body: channel }
  })
  const client = new Client({ server, host, random })
  const events = client.events(filter)
  const heard: CurfewEvent[] = []
  let ending: unknown = null
  void (async () => {
    try {
      for (let step = await events.next(); step.done !== true; step = await events.next()) heard.push(step.value)
      ending = 'ended'
    } catch (error) {
      ending = error
    }
  })()
  await idle()
  const pass = async (ms: number): Promise<void> => {
    await idle()
    const end = host.now() + ms
    while (host.now() < end) {
      const next = host.nextTimerAt()
      host.advance(next === null || next > end ? end - host.now() : next - host.now())
      await idle()
    }
  }
  const say = async (text: string): Promise<void> => {
    channels.at(-1)?.say(text)
    await idle()
  }
  const types = (): string[] => heard.map(({ type }) => type)
  return { host, server, client, channels, askedAt, events, heard, types, say, pass, ending: () => ending }
}

describe('an event', () => {
  test('a stored event comes out of its envelope', async () => {
    const { heard, say } = await open()
    await say(stored('evt_1', 'job.enqueued', { priority: 3 }))
    expect(heard).toEqual([
      {
        id: 'evt_1',
        type: 'job.enqueued',
        time: '2026-01-01T12:00:00.000Z',
        subject: JOB,
        data: { job_id: JOB, job_type: 'a.b', queue: 'q', priority: 3 },
      },
    ])
  })

  test('an event that is not stored has no id of its own', async () => {
    const { heard, say } = await open()
    await say(stored('evt_1', 'job.started') + `id: evt_1\n${changed('completed')}`)
    expect(heard[1]).toMatchObject({
      id: null,
      type: 'job.state_changed',
      subject: JOB,
      time: '2026-01-01T12:00:00.000Z',
      data: { from: 'active', to: 'completed' },
    })
  })

  test('frames may come in pieces of any size', async () => {
    const { types, channels } = await open()
    for (const letter of `retry: 3000\n\n:heartbeat\n\n${stored('evt_1', 'job.started')}`) channels[0]?.say(letter)
    await idle()
    expect(types()).toEqual(['job.started'])
  })

  test('a gap that the server reports is passed on, whatever was asked for', async () => {
    const { heard, say } = await open({ types: ['job.*'] })
    await say('event: system.gap\ndata: {"reason":"events_pruned","resumed_at":"2026-01-01T12:00:00.000Z"}\n\n')
    expect(heard).toMatchObject([{ type: 'system.gap', id: null, data: { reason: 'events_pruned' } }])
  })
})

describe('filters', () => {
  test('go to the server', async () => {
    const { server } = await open({
      types: ['job.*', 'queue.paused'],
      queues: ['a'],
      jobTypes: ['x.y'],
      after: 'evt_9',
    })
    const query = 'channel=all&types=job.*%2Cqueue.paused&queues=a&job_types=x.y'
    expect(server.asked[0]?.url).toBe(`/ojs/v1/events/stream?${query}`)
    expect(server.asked[0]?.headers).toMatchObject({ 'last-event-id': 'evt_9', accept: 'text/event-stream' })
  })

  test.each<[EventFilter, string[]]>([
    [{ types: ['job.started'] }, ['job.started']],
    [{ types: ['job.s*'] }, ['job.started', 'job.state_changed']],
    [{ queues: ['q'] }, ['job.started', 'job.state_changed']],
    [{ queues: ['other'] }, ['queue.paused']],
    [{ jobTypes: ['a.b'] }, ['job.started', 'job.state_changed']],
    [{ jobId: JOB }, ['job.started', 'job.state_changed']],
    [{ jobId: 'another' }, []],
  ])('a server that does not know %j tells everything; the rest is left out here', async (filter, expected) => {
    const { types, say } = await open(filter)
    const paused = { id: 'evt_2', type: 'queue.paused', subject: 'other', data: { queue: 'other' } }
    await say(`id: evt_2\nevent: queue.paused\ndata: ${JSON.stringify(paused)}\n\n`)
    await say(stored('evt_3', 'job.started') + changed('active'))
    expect(types()).toEqual(expected)
  })
})

describe('a stream that breaks', () => {
  test.each(['end', 'breakOff'] as const)('(%s) is opened again after the last event that was heard', async (how) => {
    const { server, channels, types, say, pass } = await open()
    await say(stored('evt_1', 'job.enqueued') + stored('evt_2', 'job.started'))
    channels[0]?.[how]()
    await pass(500)
    expect(server.asked).toHaveLength(2)
    expect(server.asked[0]?.headers).not.toHaveProperty('last-event-id')
    expect(server.asked[1]?.headers).toMatchObject({ 'last-event-id': 'evt_2' })
    await say(stored('evt_3', 'job.completed'))
    expect(types()).toEqual(['job.enqueued', 'job.started', 'job.completed'])
  })

  test('before anything was heard leaves a gap, and says so', async () => {
    const { channels, heard, pass } = await open()
    channels[0]?.end()
    await pass(500)
    expect(heard).toMatchObject([{ type: 'system.gap', id: null, data: { reason: 'reconnected' } }])
  })

  test('that says nothing for 45 seconds is taken for broken; a heartbeat is a sign of life', async () => {
    const { server, say, pass } = await open()
    for (let beat = 0; beat < 4; beat += 1) {
      await pass(44_000)
      await say(':heartbeat\n\n')
    }
    expect(server.asked).toHaveLength(1)
    await pass(44_999)
    expect(server.asked).toHaveLength(1)
    await pass(1)
    expect(server.asked[0]?.signal.aborted).toBe(true)
    await pass(500)
    expect(server.asked).toHaveLength(2)
  })

  test('is opened more and more slowly while there is no answer, and at once again after one', async () => {
    const { channels, askedAt, say, pass } = await open({ after: 'evt_1' }, (count) =>
      count >= 12 ? null : count % 2 === 0 ? 'dead' : refused(503, 'unavailable'),
    )
    while (askedAt.length < 12) await pass(1_000)
    const waits = askedAt.slice(1).map((at, index) => at - (askedAt[index] ?? 0))
    expect(Math.max(...waits)).toBeGreaterThan(8_000)
    expect(Math.max(...waits)).toBeLessThanOrEqual(30_000)
    await say(':heartbeat\n\n')
    channels[0]?.end()
    await pass(500)
    expect(channels).toHaveLength(2)
  })

  test('is not opened again after a refusal: the reader hears it', async () => {
    const { server, ending } = await open({ after: 'nonsense' }, () => refused(400, 'invalid_request'))
    expect(ending()).toMatchObject({ status: 400 })
    expect(server.asked).toHaveLength(1)
  })

  test('an answer that is not a stream is not taken for one', async () => {
    const { ending } = await open({}, () => ({ body: { events: [] } }))
    expect(ending()).toMatchObject({ code: 'unsupported' })
  })
})

describe('the end', () => {
  test('return() ends a reader that waits, hangs up, and leaves nothing behind', async () => {
    const { host, server, events, ending } = await open()
    await events.return?.()
    await idle()
    expect(ending()).toBe('ended')
    expect(server.asked[0]?.signal.aborted).toBe(true)
    expect(host.nextTimerAt()).toBeNull()
  })

  test('return() ends a reader between two connections', async () => {
    const { host, channels, events, ending } = await open()
    channels[0]?.end()
    await idle()
    expect(host.nextTimerAt()).not.toBeNull()
    await events.return?.()
    expect(ending()).toBe('ended')
    expect(host.nextTimerAt()).toBeNull()
  })

  test('the signal ends it without an error', async () => {
    const gone = new AbortController()
    const { host, server, ending } = await open({ signal: gone.signal })
    gone.abort(new Error('enough'))
    await idle()
    expect(ending()).toBe('ended')
    expect(server.asked[0]?.signal.aborted).toBe(true)
    expect(host.nextTimerAt()).toBeNull()
  })

  test('also while there is no answer yet', async () => {
    const gone = new AbortController()
    const { ending } = await open({ signal: gone.signal }, () => 'silent')
    gone.abort(new Error('enough'))
    await idle()
    expect(ending()).toBe('ended')
  })

  test('so does closing the client', async () => {
    const { client, ending } = await open()
    await client.close()
    await idle()
    expect(ending()).toBe('ended')
  })

  test('leaving the loop hangs up', async () => {
    const { host, random } = world()
    const channel = new Channel()
    const server = new ScriptedServer([{ body: channel }])
    const client = new Client({ server, host, random })
    channel.say(stored('evt_1', 'job.started'))
    for await (const { type } of client.events()) {
      expect(type).toBe('job.started')
      break
    }
    expect(server.asked[0]?.signal.aborted).toBe(true)
  })
})

describe('one job', () => {
  test('its events end with it, when the server has said all', async () => {
    const { server, channels, types, say, pass, ending } = await open({ jobId: JOB })
    expect(server.asked[0]?.url).toBe(`/ojs/v1/events/stream?channel=job%3A${JOB}`)
    await say(stored('evt_1', 'job.discarded') + stored('evt_2', 'dead_letter.added') + changed('discarded'))
    expect(ending()).toBeNull()
    channels[0]?.end()
    await pass(1_000)
    expect(ending()).toBe('ended')
    expect(types()).toEqual(['job.discarded', 'dead_letter.added', 'job.state_changed'])
    expect(server.asked).toHaveLength(1)
  })

  test('a server that stops is not the end of the job', async () => {
    const { server, channels, say, pass, ending } = await open({ jobId: JOB })
    await say(stored('evt_1', 'job.started'))
    channels[0]?.end()
    await pass(500)
    expect(server.asked).toHaveLength(2)
    // What is read from the log has no changes of state.
    await say(stored('evt_2', 'job.completed'))
    channels[1]?.end()
    await idle()
    expect(ending()).toBe('ended')
  })

  test('a job that was retried by hand goes on', async () => {
    const { server, channels, say, pass } = await open({ jobId: JOB, after: 'evt_0' })
    await say(
      stored('evt_1', 'job.discarded') + stored('evt_2', 'dead_letter.retried') + stored('evt_3', 'job.enqueued'),
    )
    channels[0]?.end()
    await pass(500)
    expect(server.asked).toHaveLength(2)
  })
})
