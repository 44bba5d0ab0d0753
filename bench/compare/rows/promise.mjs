// What Curfew promises about time, and what that costs: deadlines, beats, a restart, memory, and plain HTTP.
import { setTimeout as pause } from 'node:timers/promises'
import { Pool } from '../../lib/http-client.mjs'
import { memoryOf, startLoad } from '../../lib/processes.mjs'
import { quantile } from '../../lib/report.mjs'
import { fill } from './itself.mjs'

const isCurfew = ({ kind }) => kind === 'curfew'
const module = (name) => new URL(`../../server/${name}.mjs`, import.meta.url).href

export const OVERSHOOT = {
  id: 'overshoot',
  figures: [
    { id: 'overshoot-idle', title: 'Overshoot of deadlines, idle, p99', unit: 'ms', better: 'lower' },
    { id: 'overshoot-load', title: 'Overshoot of deadlines, under full load, p99', unit: 'ms', better: 'lower' },
    { id: 'overshoot-idle-timers', title: 'Bare timers in the idle seconds, p99', unit: 'ms', better: 'lower' },
    { id: 'overshoot-load-timers', title: 'Bare timers in the seconds under load, p99', unit: 'ms', better: 'lower' },
    { id: 'overshoot-least', title: 'Overshoot of deadlines, the earliest', unit: 'ms', better: 'higher' },
  ],
  note: 'Half execution timeouts, half TTLs of waiting jobs, as `overshoot_ms` of each job says. Bare timers show what the machine itself adds. Load: 50 enqueues in flight and a worker with concurrency 100.',
  maxRounds: 3,
  who: isCurfew,
  settings: (quick) =>
    quick ? { deadlines: 1_000, armMs: 3_000, spreadMs: 3_000 } : { deadlines: 4_000, armMs: 8_000, spreadMs: 10_000 },
  async prepare(running, { armMs, ...settings }) {
    await running.call('mixedRate', { inFlight: 50, concurrency: 100, forMs: 2_000 })
    await deadlines(running, { ...settings, armMs, deadlines: 200, spreadMs: 500 })
  },
  async once(running, settings) {
    const idle = await deadlines(running, settings)
    const loaded = async () => {
      await pause(settings.armMs)
      await running.call('mixedRate', { inFlight: 50, concurrency: 100, forMs: settings.spreadMs })
    }
    const [load] = await Promise.all([deadlines(running, settings), loaded()])
    return {
      'overshoot-idle': { value: quantile(idle.overshoots, 0.99) },
      'overshoot-load': { value: quantile(load.overshoots, 0.99) },
      'overshoot-idle-timers': { value: quantile(idle.timers, 0.99) },
      'overshoot-load-timers': { value: quantile(load.timers, 0.99) },
      'overshoot-least': { value: Math.min(idle.overshoots[0], load.overshoots[0]) },
    }
  },
}

let batches = 0

/** Answers the overshoots, in order, and beside them the lateness of as many timers in an otherwise idle process. */
async function deadlines({ settings: { port } }, args) {
  batches += 1
  const queues = [`waiting-${batches}`, `held-${batches}`]
  const [load, idler] = [startLoad(), startLoad()]
  try {
    const watching = idler.run(module('overshoot'), 'bareTimers', args)
    const { overshoots } = await load.run(module('overshoot'), 'armAndWait', { port, queues, ...args })
    return { overshoots, timers: await watching }
  } finally {
    await Promise.all([load.stop(), idler.stop()])
  }
}

export const BEATS = {
  id: 'beats',
  figures: [{ id: 'beats', title: 'A heartbeat that lists 10 jobs, median', unit: 'ms', better: 'lower' }],
  who: isCurfew,
  settings: (quick) => ({ beats: quick ? 150 : 400, many: quick ? 1_000 : 10_000 }),
  variants: (contender, { many }) =>
    [
      { name: 'few', active: 10 },
      { name: 'many', active: many },
    ].map(({ name, active }) => ({
      id: `${contender.id}/${name}`,
      of: contender.id,
      label: `${contender.label}, ${active} active jobs`,
      active,
    })),
  async prepare(running, { beats }) {
    const { port } = running.settings
    running.ids = await running.run(module('beat'), 'hold', { port, others: running.active - 10 })
    await running.run(module('beat'), 'beat', { port, ids: running.ids, beats })
  },
  async once({ run, ids, settings: { port } }, { beats }) {
    return { beats: { value: await run(module('beat'), 'beat', { port, ids, beats }) } }
  },
}

export const MEMORY = {
  id: 'memory',
  figures: [
    { id: 'memory-server', title: 'Memory of the server process', unit: 'MB', better: 'lower' },
    { id: 'memory-client', title: 'Memory of the client process', unit: 'MB', better: 'lower' },
  ],
  note: 'Resident memory after filling in the waiting jobs (100 000; in a quick look 10 000) and processing 5 000 of them. Redis holds all jobs in memory. PostgreSQL is not counted.',
  maxRounds: 1,
  who: ({ kind }) => kind !== 'limit',
  settings: (quick) => ({ jobs: quick ? 10_000 : 100_000 }),
  async prepare(running, { jobs }) {
    await fill(running, jobs)
    const work = { concurrency: 100, warmUp: 1, count: 5_000, tail: 0, maxMs: 10_000, depth: jobs }
    await running.call('processRate', work)
  },
  async once({ pid, call }) {
    const megabytes = (bytes) => ({ value: bytes / 2 ** 20 })
    const server = pid === null ? null : memoryOf(pid)
    return {
      ...(server === null ? {} : { 'memory-server': megabytes(server) }),
      'memory-client': megabytes(await call('memory')),
    }
  },
}

export const RESTART = {
  id: 'restart',
  figures: [{ id: 'restart', title: 'From the start to the first answer', unit: 'ms', better: 'lower' }],
  note: 'Stopped in order and started again with 1 000 000 waiting jobs (in a quick look 50 000); the answer is that of an enqueue.',
  who: isCurfew,
  settings: (quick) => ({ jobs: quick ? 50_000 : 1_000_000 }),
  prepare: (running, { jobs }) => fill(running, jobs),
  async once({ server }) {
    await server.end()
    const began = performance.now()
    await server.launch()
    const pool = new Pool(server.port, 1)
    await pool.json('POST', '/ojs/v1/jobs', { type: 'bench.compare', args: [], queue: 'work' }, 201)
    const value = performance.now() - began
    pool.close()
    return { restart: { value } }
  },
}

export const HTTP_50 = {
  id: 'http-50',
  figures: [{ id: 'http-50', title: 'Plain HTTP POST of one job, 50 connections', unit: '/s', better: 'higher' }],
  note: 'No client library: prepared bytes on kept-alive connections. The bare node:http server parses the body and stores nothing.',
  who: ({ id, kind }) => kind === 'curfew' || id === 'limit-http',
  settings: (quick) => ({ forMs: quick ? 1_000 : 2_500, warmUpMs: quick ? 1_500 : 4_000 }),
  prepare: ({ run, settings: { port } }, { warmUpMs }) => run(module('enqueue'), 'enqueue', { port, forMs: warmUpMs }),
  async once({ run, settings: { port } }, { forMs }) {
    return { 'http-50': { value: (await run(module('enqueue'), 'enqueue', { port, forMs })).perSecond } }
  },
}
