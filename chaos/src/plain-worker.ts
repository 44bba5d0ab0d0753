/**
 * A worker without the SDK, in a process of its own: it registers, beats, fetches and reports over HTTP, and keeps to the
 * deadlines it was given, counted from the moment it asked. Environment: URLS, JOURNAL, WHO.
 */
import { pause } from './child.ts'
import { call, type Reply } from './http.ts'
import { Journal, type Op } from './journal.ts'
import type { Behaviour } from './load.ts'

const { URLS = '[]', JOURNAL = '.', WHO = 'plain' } = process.env
const urls = JSON.parse(URLS) as string[]
const journal = new Journal(JOURNAL, WHO)
const SLOTS = 6
const BEAT_MS = 700
const REPORT_FOR_MS = 4_000

interface HandedOut {
  readonly id: string
  readonly x_lease: number
  readonly attempt: number
  readonly args: readonly [Behaviour]
  readonly x_limits: Readonly<Record<string, number>>
  readonly checkpoint?: unknown
}

const held = new Map<string, number>()
let turn = Math.floor(Math.random() * 1e6)
let isStopping = false

process.on('SIGTERM', () => {
  isStopping = true
})

async function noted(
  op: Op,
  path: string,
  request: Readonly<Record<string, unknown>>,
  timeoutMs: number,
  keep: (reply: Reply) => Readonly<Record<string, unknown>> = () => ({}),
): Promise<Reply | null> {
  const n = journal.sent(op, request)
  const url = urls[turn++ % urls.length] ?? ''
  const reply = await call(url, 'POST', path, request, timeoutMs)
  if (reply === null) journal.broken(n, op, 'no answer')
  else journal.answered(n, op, { status: reply.status, ...keep(reply) })
  return reply
}

const registration = { worker_id: WHO, hostname: 'chaos', pid: process.pid, queues: ['plain'], concurrency: SLOTS }

async function register(): Promise<void> {
  while (!isStopping && (await noted('register', '/ojs/v1/workers/register', registration, 2_000))?.status !== 200)
    await pause(100)
}

async function beat(): Promise<void> {
  while (!isStopping || held.size > 0) {
    const body = {
      worker_id: WHO,
      state: isStopping ? 'quiet' : 'running',
      active_jobs: [...held.keys()],
      x_leases: Object.fromEntries(held),
    }
    const url = urls[turn++ % urls.length] ?? ''
    const reply = await call(url, 'POST', '/ojs/v1/workers/heartbeat', body, 1_000)
    await pause(reply?.status === 200 ? BEAT_MS : 100)
  }
}

async function fetchJobs(): Promise<void> {
  while (!isStopping) {
    if (held.size >= SLOTS) {
      await pause(10)
      continue
    }
    const askedAt = performance.now()
    const body = { queues: ['plain'], count: SLOTS - held.size, worker_id: WHO, wait_ms: 400 }
    const reply = await noted('fetch', '/ojs/v1/workers/fetch', body, 3_000, ({ body: answer }) => ({
      jobs: jobsIn(answer).map(({ id, x_lease, attempt, x_limits, checkpoint }) => ({
        id,
        lease: x_lease,
        attempt,
        limits: x_limits,
        checkpoint: checkpoint ?? null,
      })),
    }))
    if (reply?.status !== 200) await pause(60)
    else for (const job of jobsIn(reply.body)) void run(job, askedAt)
  }
}

const jobsIn = (body: Reply['body']): HandedOut[] => (body['jobs'] ?? []) as HandedOut[]

async function run(job: HandedOut, askedAt: number): Promise<void> {
  const { id, x_lease: lease, x_limits: limits } = job
  const [{ does, forMs }] = job.args
  const endsAt = askedAt + Math.min(limits['hard_ms'] ?? Infinity, limits['soft_ms'] ?? Infinity)
  held.set(id, lease)
  try {
    if (does === 'hang') {
      await pause(Math.max(0, endsAt - performance.now()))
      return
    }
    await pause(Math.min(forMs, Math.max(0, endsAt - performance.now())))
    if (performance.now() >= endsAt) return
    const names = { job_id: id, worker_id: WHO, x_lease: lease }
    if (does === 'checkpoint') {
      const state = { lease, text: `${id}/${String(lease)}` }
      await noted('checkpoint', `/ojs/v1/jobs/${id}/checkpoint`, { ...names, state }, 2_000)
    }
    if (does === 'fail') await report('nack', { ...names, error: { type: 'Chaos', message: 'it failed' } })
    else await report('ack', { ...names, result: { lease } })
  } finally {
    if (held.get(id) === lease) held.delete(id)
  }
}

/** Again until a server has answered; late ones too, which must be refused. */
async function report(op: 'ack' | 'nack', body: Readonly<Record<string, unknown>>): Promise<void> {
  const giveUpAt = performance.now() + REPORT_FOR_MS
  while (performance.now() < giveUpAt) {
    const reply = await noted(op, `/ojs/v1/workers/${op}`, body, 2_000, ({ body: answer }) => ({
      already: answer['already'] ?? false,
      state: answer['state'] ?? null,
      error: answer['error'] ?? null,
    }))
    if (reply !== null && reply.status < 500) return
    await pause(60)
  }
}

await register()
process.stdout.write('ready\n')
await Promise.all([fetchJobs(), beat()])
