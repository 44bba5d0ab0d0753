/** Invalid input: each gets an answer that says what is wrong, and the server goes on as if nothing had been. */
import { seededRandom } from '@curfew/core'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { RawSocket, requestText } from './raw-socket.ts'
import { ServerProcess, within } from './server-process.ts'

const JOB = { type: 'test.job', args: [1, 'two', { three: null }] }

let server: ServerProcess

beforeAll(async () => {
  server = await ServerProcess.start()
})

afterAll(async () => {
  // After all of it: still up, still at work, and nothing in the log that calls for help.
  expect((await server.get('/health')).status).toBe(200)
  await server.enqueue({ queue: 'after' })
  expect(await server.fetch({ queues: ['after'] })).toHaveLength(1)
  expect(server.log.filter(({ level }) => Number(level) >= 40)).toEqual([])
  await server.stop()
})

describe('a body', () => {
  const code = (value: string): object => ({ error: { code: value } })

  test.each([
    ['that is empty', ''],
    ['that is blank', ' \n'],
    ['that stops in the middle', '{"type":"test.job","args":[1,'],
    ['that is not JSON', 'type=test.job&args=1'],
    ['with a trailing comma', '{"type":"test.job","args":[],}'],
    ['with NaN', '{"type":"test.job","args":[NaN]}'],
    ['with a bare control character', '{"type":"test.job","args":["\n"]}'],
    ['with a byte order mark', '\uFEFF{"type":"test.job","args":[]}'],
  ])('%s is 400 invalid_payload', async (_, body) => {
    expect(await server.post('/ojs/v1/jobs', body)).toMatchObject({ status: 400, body: code('invalid_payload') })
  })

  test.each([
    ['an array', '[]'],
    ['a number', '7'],
    ['null', 'null'],
    ['a string', '"job"'],
  ])('that is %s is 400', async (_, body) => {
    expect((await server.post('/ojs/v1/jobs', body)).status).toBe(400)
  })

  test('of the wrong media type is 400 invalid_request', async () => {
    const sent = { 'Content-Type': 'text/plain' }
    const reply = await server.call('POST', '/ojs/v1/jobs', JOB, sent)
    expect(reply).toMatchObject({ status: 400, body: code('invalid_request') })
    for (const media of ['application/json; charset=utf-8', 'application/openjobspec+json', 'Application/JSON'])
      expect((await server.call('POST', '/ojs/v1/jobs', JOB, { 'Content-Type': media })).status).toBe(201)
  })

  test('of more than 10 MiB is 413; a large one below that is taken', async () => {
    const large = (bytes: number): string => JSON.stringify({ type: 'test.job', args: ['x'.repeat(bytes)] })
    const reply = await server.post('/ojs/v1/jobs', large(10 * 1024 * 1024))
    expect(reply).toMatchObject({ status: 413, body: code('payload_too_large') })
    const taken = await server.post('/ojs/v1/jobs', large(9 * 1024 * 1024))
    expect(taken.status).toBe(201)
    await server.call('DELETE', `/ojs/v1/jobs/${String(taken.body.job.id)}`)
  })

  test('nested 64 deep is taken, deeper is 400, and 100 000 deep does not hurt', async () => {
    const nested = (depth: number): string => {
      const inner = depth - 2 // the body and args
      return `{"type":"test.job","args":[${'['.repeat(inner)}${']'.repeat(inner)}]}`
    }
    expect((await server.post('/ojs/v1/jobs', nested(64))).status).toBe(201)
    for (const depth of [65, 100_000])
      expect(await server.post('/ojs/v1/jobs', nested(depth))).toMatchObject({
        status: 400,
        body: code('invalid_payload'),
      })
  })

  test('that is not UTF-8 is 400, not repaired', async () => {
    const [before, after] = ['{"type":"test.job","args":["', '"]}'].map((text) => Buffer.from(text))
    for (const bytes of [[0xff], [0xc3, 0x28], [0xed, 0xa0, 0x80], [0xf8, 0x88, 0x80, 0x80]]) {
      const socket = await RawSocket.open(server)
      await socket.send(requestText('POST', '/ojs/v1/jobs', Buffer.concat([before!, Buffer.from(bytes), after!])))
      expect(await socket.answers(1)).toEqual([400])
      expect(socket.received).toContain('invalid_payload')
      expect(socket.received).toMatch(/^x-request-id: \S+/im)
      await socket.hangUp()
    }
  })

  test('that the caller never finishes is forgotten', async () => {
    const before = (await server.get('/ojs/v1/jobs?limit=1')).body.pagination.total as number
    const text = JSON.stringify({ type: 'test.job', args: ['never'] })
    for (let n = 0; n < 20; n += 1) {
      const socket = await RawSocket.open(server)
      const bytes = requestText('POST', '/ojs/v1/jobs', text)
      await socket.send(bytes.subarray(0, bytes.length - 1 - n))
      await socket.hangUp()
    }
    expect((await server.get('/ojs/v1/jobs?limit=1')).body.pagination.total).toBe(before)
  })

  test('with __proto__ and the like is plain data', async () => {
    const text = '{"type":"test.job","args":[{"__proto__":{"a":1},"constructor":2}],"__proto__":{"x":1},"toString":3}'
    const reply = await server.post('/ojs/v1/jobs', text)
    expect(reply.status).toBe(201)
    expect(reply.text).toContain('"args":[{"__proto__":{"a":1},"constructor":2}]')
    expect((await server.enqueue({})).x).toBeUndefined()
  })
})

describe('a request', () => {
  test.each(['ASSERT', 'push', 'get', 'FOO', 'G\u00CBT'])('with the method %s gets an HTTP answer', async (method) => {
    const socket = await RawSocket.open(server)
    await socket.send(Buffer.from(`${method} /ojs/v1/jobs HTTP/1.1\r\nHost: localhost\r\n\r\n`, 'latin1'))
    const [status] = await socket.answers(1)
    expect([400, 405, 501]).toContain(status)
    expect(socket.reset).toBe(false)
    await socket.hangUp()
  })

  test.each([
    ['a known method the path does not take', requestText('PUT', '/ojs/v1/jobs', '{}'), 405],
    ['a path that is not there', requestText('GET', '/ojs/v2/jobs'), 404],
    ['a path with broken escapes', requestText('GET', '/ojs/v1/jobs/%E0%A4%A'), 404],
    ['a path full of slashes', requestText('GET', '/'.repeat(2_000)), 404],
    ['an absolute address', requestText('GET', 'http://localhost/health'), 200],
    ['the absolute address of another host', requestText('GET', 'http://elsewhere/health'), 403],
    ['no HTTP at all', Buffer.from('SSH-2.0-OpenSSH_9.6\r\n\r\n'), 400],
    ['no host', Buffer.from('GET /health HTTP/1.1\r\n\r\n'), 400],
    ['two hosts', requestText('GET', '/health', '', 'Host: evil.test\r\n'), 400],
    ['two hosts that agree', requestText('GET', '/health', '', 'hOST: localhost\r\n'), 400],
    ['no version, as HTTP/0.9 had it', Buffer.from('GET /health\r\n\r\n'), 505],
    ['version 0.9', Buffer.from('GET /health HTTP/0.9\r\nHost: localhost\r\n\r\n'), 505],
    ['version 2.0', Buffer.from('GET /health HTTP/2.0\r\nHost: localhost\r\n\r\n'), 505],
    ['version 1.7', Buffer.from('GET /health HTTP/1.7\r\nHost: localhost\r\n\r\n'), 400],
    ['version 1.0 and no host', Buffer.from('GET /health HTTP/1.0\r\n\r\n'), 200],
    ['two lengths', requestText('POST', '/ojs/v1/jobs', '{}', 'Content-Length: 3\r\n'), 400],
    ['a length and chunks', requestText('POST', '/ojs/v1/jobs', '0\r\n\r\n', 'Transfer-Encoding: chunked\r\n'), 400],
    ['headers beyond all measure', requestText('GET', '/health', '', `X-Long: ${'x'.repeat(100_000)}\r\n`), 431],
    ['an OJS version of the future', requestText('GET', '/ojs/v1/queues', '', 'OJS-Version: 2.0\r\n'), 422],
  ])('with %s is answered', async (_, bytes, status) => {
    const socket = await RawSocket.open(server)
    await socket.send(bytes)
    expect(await socket.answers(1)).toEqual([status])
    await socket.hangUp()
  })

  test('may come with others in one packet; answers come in their order', async () => {
    const socket = await RawSocket.open(server)
    const many = [
      requestText('POST', '/ojs/v1/jobs', JSON.stringify(JOB), 'X-Request-Id: first\r\n'),
      requestText('POST', '/ojs/v1/jobs', '{', 'X-Request-Id: second\r\n'),
      requestText('GET', '/health', '', 'X-Request-Id: third\r\n'),
      requestText('GET', '/nowhere', '', 'X-Request-Id: fourth\r\n'),
    ]
    await socket.send(Buffer.concat(many))
    expect(await socket.answers(4)).toEqual([201, 400, 200, 404])
    const ids = [...socket.received.matchAll(/^X-Request-Id: (\w+)/gim)].map(([, id]) => id)
    expect(ids).toEqual(['first', 'second', 'third', 'fourth'])
    await socket.hangUp()
  })

  test('that is bad, behind others that are answered at once, ends the connection and not the server', async () => {
    const [good, odd] = [requestText('POST', '/nowhere', '{}'), requestText('POST', '/nowhere', Buffer.from([0xff]))]
    for (const before of [
      [odd, good, good],
      [good, odd, good],
      [good, good, odd],
      [odd, odd],
      [good, good],
    ]) {
      const socket = await RawSocket.open(server)
      await socket.send(Buffer.concat([...before, Buffer.from('bad bad bad')]))
      await within('the connection is closed', socket.closed)
      expect((await server.get('/health')).status).toBe(200)
    }
  })

  test('may come byte by byte and in chunks', async () => {
    const socket = await RawSocket.open(server)
    for (const byte of requestText('POST', '/ojs/v1/jobs', JSON.stringify(JOB))) await socket.send(Buffer.from([byte]))
    expect(await socket.answers(1)).toEqual([201])
    const text = JSON.stringify(JOB)
    const head =
      'POST /ojs/v1/jobs HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n'
    const chunks = [...text].map((letter) => `1\r\n${letter}\r\n`).join('')
    await socket.send(`${head}${chunks}0\r\n\r\n`)
    expect(await socket.answers(2)).toEqual([201, 201])
    await socket.hangUp()
  })

  test('of a connection full of rubbish ends that connection and no other', async () => {
    const random = seededRandom(11)
    const good = await RawSocket.open(server)
    for (let n = 0; n < 20; n += 1) {
      const socket = await RawSocket.open(server)
      await socket.send(Buffer.from(Array.from({ length: 500 }, () => Math.floor(random() * 256))))
      await socket.send('\r\n\r\n')
      await within('the rubbish is refused', socket.closed)
    }
    await good.send(requestText('GET', '/health'))
    expect(await good.answers(1)).toEqual([200])
    await good.hangUp()
  })
})

describe('random mutations of good requests', () => {
  test('are answered with 2xx or 4xx, never with 5xx, and leave the server whole', async () => {
    const random = seededRandom(20_261)
    const { id } = await server.enqueue({ queue: 'fuzz' })
    const good: readonly (readonly [string, string, unknown])[] = [
      ['POST', '/ojs/v1/jobs', FULL_JOB],
      ['POST', '/ojs/v1/jobs/batch', { jobs: [JOB, FULL_JOB] }],
      ['POST', '/ojs/v1/jobs/plan', FULL_JOB],
      ['PATCH', `/ojs/v1/jobs/${String(id)}`, { priority: 3, timeout: 30, options: { total_timeout_ms: 90_000 } }],
      [
        'POST',
        '/ojs/v1/workers/fetch',
        { queues: ['fuzz', 'default'], count: 2, worker_id: 'w', visibility_timeout_ms: 9 },
      ],
      ['POST', '/ojs/v1/workers/ack', { job_id: id as string, worker_id: 'w', attempt: 1, result: { a: [1] } }],
      ['POST', '/ojs/v1/workers/nack', { job_id: id as string, error: { type: 'E', message: 'm', details: {} } }],
      ['POST', '/ojs/v1/workers/heartbeat', { worker_id: 'w', state: 'running', active_job_ids: [id], x_leases: {} }],
      ['POST', '/ojs/v1/workers/register', { worker_id: 'w', hostname: 'h', pid: 1, queues: ['q'], concurrency: 2 }],
      ['PUT', `/ojs/v1/jobs/${String(id)}/progress`, { progress: 0.5, message: 'half', data: { a: 1 } }],
      ['PUT', `/ojs/v1/jobs/${String(id)}/checkpoint`, { state: { at: 1 }, step_index: 2, metadata: {} }],
      ['PUT', '/ojs/v1/admin/queues/fuzz/config', { default_timeout: 30, default_total_timeout_ms: 60_000 }],
      ['PUT', '/api/v1/job-types/test.job', { timeout: 30, caps: { total_timeout: 60 }, x_on_timeout: 'retry' }],
      ['POST', '/ojs/v1/admin/jobs/bulk/cancel', { confirm: true, job_ids: [id], limit: 5 }],
    ]
    const odd: string[] = []
    const tally = new Map<number, number>()
    for (let n = 0; n < 700; n += 1) {
      const [method, path, body] = good[n % good.length]!
      const text = mutate(JSON.stringify(body), random)
      const { status } = await server.call(method, path, text)
      tally.set(status, (tally.get(status) ?? 0) + 1)
      if (status < 200 || status >= 500) odd.push(`${String(status)} ${method} ${path} ${text}`)
    }
    expect(odd).toEqual([])
    // The mutations are worth something: some pass, most are refused.
    expect(tally.get(400)).toBeGreaterThan(100)
    expect((tally.get(200) ?? 0) + (tally.get(201) ?? 0)).toBeGreaterThan(20)
  })

  test('of paths and queries as well', async () => {
    const random = seededRandom(4_711)
    const { id } = await server.enqueue({ queue: 'fuzz' })
    const good = [
      `/ojs/v1/jobs/${String(id)}`,
      `/ojs/v1/jobs/${String(id)}/explain`,
      '/ojs/v1/jobs?queue=fuzz&state=available&type=test.job&limit=5&offset=1',
      '/ojs/v1/events?types=job.*&queues=fuzz&limit=10',
      `/ojs/v1/jobs?cursor=${String(id)}&page=2&per_page=3`,
      '/ojs/v1/queues/fuzz/stats',
      '/ojs/v1/dead-letter?queue=fuzz&limit=2',
      '/ojs/v1/workers/w/health',
      '/ojs/v1/admin/jobs?page=1&per_page=2&state=active',
    ]
    const odd: string[] = []
    for (let n = 0; n < 300; n += 1) {
      const path = `/${mutate(good[n % good.length]!, random).replaceAll(/[^\x21-\x7e]/g, '%FF')}`.replace(/^\/+/, '/')
      const { status } = await server.get(path)
      // Asking a worker's health may truly be 503; nothing else may.
      if (status < 200 || (status >= 500 && !path.endsWith('/health'))) odd.push(`${String(status)} ${path}`)
    }
    expect(odd).toEqual([])
  })
})

const FULL_JOB = {
  type: 'test.job',
  args: [1, 'two', { three: [null, true, 4.5e3] }],
  queue: 'fuzz',
  priority: 5,
  meta: { trace_id: 'abc', nested: { a: [] } },
  tags: ['a', 'b'],
  timeout: 30,
  total_timeout: 600,
  retry: {
    max_attempts: 3,
    initial_interval: 'PT1S',
    backoff_coefficient: 2,
    jitter: false,
    non_retryable_errors: ['X.*'],
  },
  options: { enqueue_ttl_ms: 60_000, grace_period_ms: 100, delay_until: '+PT1S', expires_at: '2099-12-31T23:59:59Z' },
  x_on_timeout: 'discard',
  pending: false,
}

const MORSELS = [
  ...['""', '0', '-1', '1e999', '1e-7', '9007199254740993', 'null', 'true', '[]', '{}', '[[[[]]]]', '"\\u0000"'],
  ...['"\\ud800"', '"💥"', '"PT1S"', '"P999999999Y"', '"+PT0S"', '"2099-13-45T99:99:99Z"', '0.1', '-0', '2147483648'],
  ...['1e21', '"__proto__"', '"../../etc/passwd"', '"\'; DROP TABLE jobs; --"', '"' + 'x'.repeat(300) + '"', '\\', ','],
]

/** One to three changes: a value replaced, a piece doubled, dropped or moved, a character made another. */
function mutate(text: string, random: () => number): string {
  const pick = (below: number): number => Math.floor(random() * below)
  let mutated = text
  for (let changes = 1 + pick(3); changes > 0; changes -= 1) {
    const at = pick(mutated.length)
    const to = Math.min(mutated.length, at + 1 + pick(8))
    switch (pick(5)) {
      case 0:
      case 1: {
        const values = [...mutated.matchAll(/(?<=[:[,])("(?:[^"\\]|\\.)*"|-?\d[\d.e]*|null|true|false|\[\]|\{\})/g)]
        const value = values[pick(values.length)]
        if (value === undefined) break
        const morsel = MORSELS[pick(MORSELS.length)] ?? ''
        mutated = mutated.slice(0, value.index) + morsel + mutated.slice(value.index + value[0].length)
        break
      }
      case 2:
        mutated = mutated.slice(0, at) + mutated.slice(to)
        break
      case 3:
        mutated = mutated.slice(0, to) + mutated.slice(at)
        break
      default:
        mutated = mutated.slice(0, at) + String.fromCharCode(pick(128)) + mutated.slice(at + 1)
    }
  }
  return mutated
}
