// How late are deadlines decided when there are many?
import { Buffer } from 'node:buffer'
import { hammer, Pool, requestBytes } from '../lib/http-client.mjs'
import { startLoad, startServer } from '../lib/processes.mjs'
import { atMost, quantile, row } from '../lib/report.mjs'
import { fill } from './fetch-ack.mjs'

export const name = 'Overshoot of deadlines'
const question =
  '10 000 armed deadlines spread evenly over the seconds that follow: half are execution timeouts of jobs held by ' +
  'workers, half are TTLs of waiting jobs. Overshoot is the decision minus the deadline, as each job tells it. Beside ' +
  'it as many bare timers in a Node process of their own, at the same time: what the machine itself adds.'

/** How many jobs one worker holds. */
const HELD_BY_ONE = 100

export async function run({ quick }) {
  const args = quick
    ? { deadlines: 2_000, armMs: 2_000, spreadMs: 4_000 }
    : { deadlines: 10_000, armMs: 9_000, spreadMs: 15_000 }
  const idle = [await once(args, false)]
  if (!quick) idle.push(await once(args, false))
  const busy = quick ? [] : [await once(args, true)]
  return {
    name,
    question: question.replace('10 000', String(args.deadlines).replace(/(?=000$)/, ' ')),
    rows: [
      ...rows('nothing else to do', idle, atMost(20)),
      ...(quick ? [] : rows('while 20 connections enqueue without pause', busy)),
    ],
    notes: [`From /metrics, with nothing else to do: ${idle[0].histogram}.`],
  }
}

function rows(label, runs, target) {
  const at = (which, q) => runs.map((figures) => quantile(figures[which], q))
  return [
    row(`${label}: p50`, 'ms', at('overshoots', 0.5)),
    row(`${label}: p99`, 'ms', at('overshoots', 0.99), target),
    row(`${label}: most`, 'ms', at('overshoots', 1)),
    row(`${label}: bare timers, p99`, 'ms', at('bare', 0.99)),
  ]
}

async function once(args, busy) {
  const server = await startServer()
  const [load, other, timers] = [startLoad(), startLoad(), startLoad()]
  try {
    const watching = timers.run(import.meta.url, 'bareTimers', args)
    const enqueueing = busy ? other.run(import.meta.url, 'enqueueSteadily', { port: server.port, ...args }) : null
    const figures = await load.run(import.meta.url, 'armAndWait', { port: server.port, ...args })
    await enqueueing
    return { ...figures, bare: await watching }
  } finally {
    await Promise.all([server, load, other, timers].map((one) => one.stop()))
  }
}

/**
 * Arms all deadlines, waits until the last has passed, and answers what the jobs and the histogram say. `queues`: fresh
 * ones, of the jobs that wait and of those that are held.
 */
export async function armAndWait({ port, deadlines, armMs, spreadMs, queues = ['waiting', 'held'] }) {
  const [waiting, held] = queues
  const pool = new Pool(port, 10)
  const half = deadlines / 2
  const began = performance.now()
  // Each length is counted from its own start, so that the deadlines, not the lengths, are spread evenly.
  const lengthFor = (n) => Math.round(armMs - (performance.now() - began) + (n / half) * spreadMs)
  const retry = { max_attempts: 1 }
  await fill(pool, waiting, half, (n) => ({ retry, options: { enqueue_ttl_ms: lengthFor(n) } }))
  await fill(pool, held, half, (n) => ({ retry, options: { timeout_ms: lengthFor(n), grace_period_ms: 0 } }))
  for (let taken = 0, worker = 0; taken < half; worker += 1) {
    const asked = { queues: [held], count: HELD_BY_ONE, worker_id: `${held}-${worker}` }
    taken += (await pool.json('POST', '/ojs/v1/workers/fetch', asked)).jobs.length
  }
  for (let ended = 0; ended < deadlines;) {
    await new Promise((resolve) => setTimeout(resolve, 500))
    if (performance.now() - began > armMs + spreadMs + 20_000) throw new Error(`only ${ended} deadlines were decided`)
    if (performance.now() - began < armMs + spreadMs) continue
    const counts = await Promise.all(queues.map((queue) => pool.json('GET', `/ojs/v1/queues/${queue}/stats`)))
    ended = counts.reduce((sum, { stats }) => sum + stats.discarded, 0)
  }
  const overshoots = [...(await overshootsOf(pool, waiting)), ...(await overshootsOf(pool, held))]
  const { body } = await pool.request(metricsRequest)
  pool.close()
  if (overshoots.length !== deadlines) throw new Error(`${overshoots.length} overshoots of ${deadlines}`)
  return { overshoots: overshoots.sort((a, b) => a - b), histogram: summary(body.toString()) }
}

const metricsRequest = Buffer.from('GET /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n')

async function overshootsOf(pool, queue) {
  const found = []
  for (let cursor = ''; ;) {
    const { jobs, pagination } = await pool.json(
      'GET',
      `/ojs/v1/jobs?queue=${queue}&state=discarded&limit=200${cursor}`,
    )
    for (const { error } of jobs) found.push(error.overshoot_ms)
    if (pagination.next_cursor === undefined) return found
    cursor = `&cursor=${pagination.next_cursor}`
  }
}

/** `execution: 5000, 99 % within 2 ms`, for each kind in the histogram. */
function summary(text) {
  const kinds = new Map()
  const bucket = /^curfew_deadline_overshoot_seconds_bucket\{le="([^"]+)",kind="(\w+)"\} (\d+)/gm
  for (const [, le, kind, count] of text.matchAll(bucket)) {
    if (!kinds.has(kind)) kinds.set(kind, [])
    kinds.get(kind).push([Number(le === '+Inf' ? Infinity : le) * 1000, Number(count)])
  }
  const told = [...kinds].map(([kind, buckets]) => {
    const all = buckets.at(-1)[1]
    const within = (share) => buckets.find(([, count]) => count >= all * share)[0]
    return `${kind} ${all} decided, half within ${within(0.5)} ms, 99 % within ${within(0.99)} ms, all within ${within(1)} ms`
  })
  return told.join('; ')
}

/** Enqueues without a pause, on a queue without workers, until the deadlines are over. */
export async function enqueueSteadily({ port, armMs, spreadMs }) {
  await new Promise((resolve) => setTimeout(resolve, armMs))
  const bytes = requestBytes('POST', '/ojs/v1/jobs', { type: 'bench.noise', args: [], queue: 'noise' })
  return hammer({ port, connections: 20, forMs: spreadMs, bytes, expected: 201 })
}

/** How late the timers of an otherwise idle Node process are, in the same seconds. */
export async function bareTimers({ deadlines, armMs, spreadMs }) {
  const lateness = []
  await Promise.all(
    Array.from({ length: deadlines }, (_, n) => {
      const ms = Math.round(armMs + (n / deadlines) * spreadMs)
      const dueAt = performance.now() + ms
      return new Promise((resolve) =>
        setTimeout(() => {
          lateness.push(Math.max(0, performance.now() - dueAt))
          resolve()
        }, ms),
      )
    }),
  )
  return lateness.sort((a, b) => a - b)
}
