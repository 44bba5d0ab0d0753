// What one caller may send. `prepare` opens a pool of connections and brings the server into the state that the steps
// need; each step is measured by itself, so many times, and answers what the
// caller got.
import { connect } from 'node:net'
import { Pool, requestBytes } from '../lib/http-client.mjs'

const MIB = 1024 * 1024
const QUEUES = 30_000

const opened = (more) => async (port, quick) => {
  const pool = new Pool(port, 4)
  const stage = { port, quick, pool, close: () => pool.close() }
  // The first calls of a process compile what they run; that happens once, not per caller.
  for (let n = 0; n < 50; n += 1) await pool.json('POST', '/ojs/v1/jobs', jobIn('warm-up', n), 201)
  for (let n = 0; n < 5; n += 1) await pool.json('POST', '/ojs/v1/jobs/batch', batch(100), 201)
  return { ...stage, ...(await more?.(stage)) }
}

const jobIn = (queue, n) => ({ type: 'bench.job', args: [n, 'some text'], options: { queue } })
const batch = (size, queueOf = () => 'default') => ({
  jobs: Array.from({ length: size }, (_, n) => jobIn(queueOf(n), n)),
})

/** Sends one request; answers the status and, if it was refused, why. */
const sent = (method, path, bodyOf = () => '', times = 5) => {
  let bytes = null
  return {
    times,
    async act({ pool }) {
      bytes ??= requestBytes(method, path, bodyOf())
      const { status, body } = await pool.request(bytes)
      return status < 400 ? String(status) : `${status} ${JSON.parse(body.toString()).error?.code ?? ''}`.trim()
    },
  }
}

/** A JSON array of nearly 9 MiB made of one value, again and again. */
const many = (value) =>
  `[${Array(Math.floor((9 * MIB) / (value.length + 1)))
    .fill(value)
    .join(',')}]`
const argsOf = (list) => `{"type":"bench.job","args":${list}}`

/** A journey that runs so many branches, each a transform. */
function wideJourney(branches) {
  return JSON.stringify({
    apiVersion: 'v1',
    kind: 'Journey',
    metadata: { name: 'wide', version: '1.0.0' },
    spec: {
      start: 'fan',
      states: {
        fan: {
          type: 'parallel',
          parallel: {
            // Short names: a definition may have 1 MiB.
            branches: Array.from({ length: branches }, (_, n) => ({
              name: `b${n}`,
              start: 't',
              states: {
                t: {
                  type: 'transform',
                  transform: { mapper: { lang: 'jsonata', expr: '1' }, target: { kind: 'var' }, resultVar: 'v' },
                  next: 'o',
                },
                o: { type: 'succeed' },
              },
            })),
            join: {
              strategy: 'allOf',
              errorPolicy: 'failFast',
              mapper: { lang: 'jsonata', expr: '1' },
              resultVar: 'all',
            },
          },
          next: 'done',
        },
        done: { type: 'succeed', outputVar: 'all' },
      },
    },
  })
}

async function fillQueues({ pool }) {
  for (let from = 0; from < QUEUES; from += 500)
    await pool.json(
      'POST',
      '/ojs/v1/jobs/batch',
      batch(500, (n) => `queue-${from + n}`),
      201,
    )
}

/** Event streams whose sockets are never read. */
async function openStreams({ port, pool }) {
  const sockets = Array.from({ length: 20 }, () => {
    const socket = connect(port, '127.0.0.1')
    socket.pause()
    socket.on('error', () => {})
    socket.write('GET /ojs/v1/events HTTP/1.1\r\nHost: 127.0.0.1\r\nAccept: text/event-stream\r\n\r\n')
    return socket
  })
  return {
    close() {
      for (const socket of sockets) socket.destroy()
      pool.close()
    },
  }
}

export const SITUATIONS = {
  bodies: {
    prepare: opened(),
    steps: {
      'one job, 9 MiB of small numbers': sent('POST', '/ojs/v1/jobs', () => argsOf(many('1'))),
      'one job, 9 MiB of empty objects': sent('POST', '/ojs/v1/jobs', () => argsOf(many('{}'))),
      'one job, 9 MiB of short members': sent('POST', '/ojs/v1/jobs', () => argsOf(many('{"a":1}'))),
      'one job, 9 MiB in one text': sent('POST', '/ojs/v1/jobs', () => argsOf(`["${'x'.repeat(9 * MIB)}"]`)),
      'a batch of 9 MiB of numbers': sent('POST', '/ojs/v1/jobs/batch', () => `{"jobs":${many('1')}}`),
      'a beat of 9 MiB of ids': sent(
        'POST',
        '/ojs/v1/workers/heartbeat',
        () => `{"worker_id":"w","active_jobs":${many('"019a0000-0000-7000-8000-000000000000"')}}`,
      ),
    },
  },
  batches: {
    prepare: opened(),
    steps: {
      'a batch of 10 000 jobs': sent('POST', '/ojs/v1/jobs/batch', () => batch(10_000)),
      'a group of 10 000 jobs': sent('POST', '/ojs/v1/workflows', () => ({ type: 'group', ...batch(10_000) })),
    },
  },
  metrics: {
    prepare: opened(fillQueues),
    steps: {
      'GET /metrics, 30 000 queues': sent('GET', '/metrics'),
      'GET /ojs/v1/queues, 30 000 queues': sent('GET', '/ojs/v1/queues'),
      'GET /ojs/v1/queues/:name, 30 000 queues': sent('GET', '/ojs/v1/queues/queue-7/stats'),
      'GET /ojs/v1/admin/queues, 30 000 queues': sent('GET', '/ojs/v1/admin/queues'),
      'GET /ojs/v1/admin/stats, 30 000 queues': sent('GET', '/ojs/v1/admin/stats'),
      'GET /ojs/v1/health, 30 000 queues': sent('GET', '/ojs/v1/health'),
    },
  },
  branches: {
    prepare: opened(),
    steps: {
      'a journey of 5 000 branches is deployed': sent('PUT', '/api/v1/definitions/wide', () => wideJourney(5_000), 1),
      'a journey of 5 000 branches runs': sent('POST', '/api/v1/journeys/wide/start', () => '{}', 1),
    },
  },
  streams: {
    prepare: opened(openStreams),
    steps: {
      '30 000 jobs beside 20 unread streams': {
        times: 1,
        async act({ pool }) {
          for (let n = 0; n < 60; n += 1) await pool.json('POST', '/ojs/v1/jobs/batch', batch(500), 201)
          return '201'
        },
      },
    },
  },
}
