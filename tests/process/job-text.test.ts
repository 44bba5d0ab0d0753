/**
 * What a job carries is data. Line breaks, escape sequences, quotes and NUL go in and come out unchanged, and appear
 * nowhere else: not in the log, not in the metrics, not in a header.
 */
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { EventSource } from './event-source.ts'
import { RawSocket, requestText } from './raw-socket.ts'
import { lines, ServerProcess } from './server-process.ts'

/** Findable in any encoding; never written by the server of its own accord. */
const SECRET = 'tattletale'
const NASTY = `${SECRET}\r\n{"level":60,"msg":"forged"}\n\u001b[31mred\u001b[0m"\\\u0000\u007f\u2028 id: 1\ndata: x\n\n`

let server: ServerProcess
let stream: EventSource

beforeAll(async () => {
  // Everything that could be logged is logged.
  server = await ServerProcess.start({ flags: ['--log-level', 'debug'] })
  stream = await EventSource.open(server, '/ojs/v1/events/stream')
})

afterAll(async () => {
  await server.stop()
  expectCleanLog()
})

function expectCleanLog(): void {
  expect(server.log.length).toBeGreaterThan(0) // every line has been parsed
  expect(server.stderr).not.toContain(SECRET)
  expect(lines(server.stderr).filter((line) => hasControlCharacter(line))).toEqual([])
  expect(server.log.filter(({ msg }) => msg === 'forged')).toEqual([])
  expect(lines(server.stdout)).toHaveLength(1)
}

function hasControlCharacter(line: string): boolean {
  return [...line].some((letter) => (letter < ' ' && letter !== '\n') || letter === '\u007f')
}

describe('nasty text', () => {
  test('in args, meta, results, errors, progress and checkpoints comes back as it was sent', async () => {
    const { id } = await server.enqueue({ args: [NASTY], meta: { [NASTY]: NASTY }, tags: [NASTY], x_own: NASTY })
    const [job] = await server.fetch({ worker_id: 'w' })
    expect(job).toMatchObject({ id, args: [NASTY], meta: { [NASTY]: NASTY }, tags: [NASTY], x_own: NASTY })
    const path = `/ojs/v1/jobs/${String(id)}`
    await server.call('PUT', `${path}/progress`, { progress: 0.5, message: NASTY, data: { [NASTY]: NASTY } })
    await server.call('PUT', `${path}/checkpoint`, { state: { [NASTY]: NASTY }, metadata: { [NASTY]: NASTY } })
    const error = { type: NASTY, code: NASTY, message: NASTY, details: { [NASTY]: NASTY }, backtrace: [NASTY] }
    const nack = await server.post('/ojs/v1/workers/nack', { job_id: id as string, error })
    expect(nack.status).toBe(200)
    expect(await server.job(id as string)).toMatchObject({
      state: 'retryable',
      args: [NASTY],
      error: { type: NASTY, message: NASTY, details: { [NASTY]: NASTY } },
    })
    expect((await server.get(`${path}/checkpoint`)).body.state).toEqual({ [NASTY]: NASTY })
    expect((await server.get(`${path}/progress`)).body.message).toBe(NASTY)

    const other = await server.enqueue({ queue: 'other' })
    await server.fetch({ queues: ['other'] })
    await server.post('/ojs/v1/workers/ack', { job_id: other.id as string, result: { [NASTY]: NASTY } })
    expect((await server.job(other.id as string)).result).toEqual({ [NASTY]: NASTY })
    // In a stream a line break would end a field: every frame is whole.
    expect((await stream.frame('job.completed', other.id as string)).data.data.result).toEqual({ [NASTY]: NASTY })
    expect((await stream.frame('job.failed', id as string)).data.data.error.message).toBe(NASTY)
    expect(stream.frames.every(({ data }) => typeof data === 'object')).toBe(true)
  })

  test('as a worker id is refused', async () => {
    for (const letter of ['\n', '\r', '\u0000', '\u001b', '\u007f']) {
      const workerId = `w${letter}${SECRET}`
      for (const [path, body] of [
        ['/ojs/v1/workers/fetch', { queues: ['default'], worker_id: workerId }],
        ['/ojs/v1/workers/heartbeat', { worker_id: workerId, active_job_ids: [] }],
        ['/ojs/v1/workers/ack', { job_id: 'x', worker_id: workerId }],
      ] as const) {
        const reply = await server.post(path, body)
        expect([path, reply.status]).toEqual([path, 400])
      }
      expect((await server.register(workerId)).status).toBe(400)
    }
    const { body } = await server.get('/ojs/v1/workers')
    expect((body.workers as { worker_id: string }[]).map(({ worker_id }) => worker_id)).toEqual(['w'])
  })

  test('as a queue, type or id is refused', async () => {
    for (const field of ['queue', 'type', 'id'])
      expect((await server.post('/ojs/v1/jobs', { type: 'test.job', args: [], [field]: NASTY })).status).toBe(400)
  })

  test('in error messages of the server is not repeated in the log', async () => {
    const replies = [
      await server.post('/ojs/v1/jobs', { type: 'test.job', args: [], timeout: NASTY }),
      await server.post('/ojs/v1/jobs', `{"type": "${SECRET}`),
      await server.get(`/ojs/v1/jobs/${encodeURIComponent(NASTY)}`),
      await server.get(`/ojs/v1/jobs?cursor=${encodeURIComponent(NASTY)}`),
      await server.get(`/ojs/v1/events?after=${encodeURIComponent(NASTY)}`),
    ]
    for (const { status } of replies) {
      expect(status).toBeGreaterThanOrEqual(400)
      expect(status).toBeLessThan(500)
    }
    expectCleanLog()
  })
})

describe('X-Request-Id', () => {
  test('is echoed when it is a plain word, and replaced when it is not', async () => {
    expect((await server.get('/health', { 'X-Request-Id': 'abc-123' })).headers['x-request-id']).toBe('abc-123')
    const odd = ['', 'two words', `${SECRET}\tx`, 'x'.repeat(10_000), '\u00fcber', '"<script>" x', '\u001b[31m']
    for (const sent of odd) {
      const socket = await RawSocket.open(server)
      await socket.send(
        Buffer.from(`GET /health HTTP/1.1\r\nHost: localhost\r\nX-Request-Id: ${sent}\r\n\r\n`, 'latin1'),
      )
      const [status] = await socket.answers(1)
      const head = socket.received.slice(0, socket.received.indexOf('\r\n\r\n'))
      if (status === 200) expect(head).toMatch(/^X-Request-Id: req_[0-9a-f-]{36}\r?$/m)
      else expect(status).toBe(400) // the parser itself refuses control characters
      expect(socket.statuses).toHaveLength(1)
      await socket.hangUp()
    }
  })

  test('cannot smuggle a second answer', async () => {
    const socket = await RawSocket.open(server)
    await socket.send(requestText('GET', '/health', '', 'X-Request-Id: a\r\n\tb: c\r\n'))
    expect(await socket.answers(1)).toHaveLength(1)
    expect(socket.received).not.toMatch(/^\tb: c/m)
    await socket.hangUp()
  })
})

test('metrics stay parseable, and know nothing of what jobs carry', async () => {
  const { text } = await server.get('/metrics')
  expect(text).not.toContain(SECRET)
  const label = String.raw`[a-z_]\w*="(?:[^"\\\n]|\\[\\n"])*"`
  const sample = new RegExp(String.raw`^[a-z_:][\w:]*(\{${label}(,${label})*,?\})? (-?\d[\d.e+-]*|NaN|[+-]Inf)$`, 'i')
  const comment = /^# (HELP|TYPE) [a-z_:][\w:]* .+$/i
  const strange = text.split('\n').filter((line) => line !== '' && !sample.test(line) && !comment.test(line))
  expect(strange).toEqual([])
  expect(text).toMatch(/^ojs_job_enqueued_total\{queue="default",type="test\.job"\} 1$/m)
  // A name is declared once: two sets of samples under one name would be two metrics.
  const names = [...text.matchAll(/^# TYPE (\S+)/gm)].map(([, name]) => name)
  expect(new Set(names).size).toBe(names.length)
})
