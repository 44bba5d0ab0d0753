// The work that every job queue does: enqueueing, processing a backlog, waiting for the next job.
import { withServerCpu } from './cost.mjs'

const jobServer = ({ kind }) => kind !== 'limit'
/** Batching is a matter of graphile's worker: its producer is the same. */
const producer = (...limits) => {
  return ({ id, kind }) => (kind === 'limit' ? limits.includes(id) : id !== 'graphile-batching')
}

function enqueueRow({ id, title, who, call, warmUp, full, quick }) {
  const measure = (running, args) => withServerCpu(running, () => running.call(call, args))
  return {
    id,
    figures: [{ id, title, unit: 'jobs/s', better: 'higher' }],
    who,
    settings: (isQuick) => ({ warmUp: isQuick ? quick : warmUp, round: isQuick ? quick : full }),
    prepare: (running, settings) => running.call(call, settings.warmUp),
    once: async (running, settings) => ({ [id]: await measure(running, settings.round) }),
  }
}

export const ENQUEUE_1 = enqueueRow({
  id: 'enqueue-1',
  title: 'Enqueue, 1 in flight',
  who: producer('limit-http', 'limit-sqlite', 'limit-fdatasync'),
  call: 'enqueueRate',
  warmUp: { inFlight: 1, count: 30_000, maxMs: 12_000 },
  full: { inFlight: 1, count: 6_000, maxMs: 2_500 },
  quick: { inFlight: 1, count: 2_000, maxMs: 1_500 },
})

export const ENQUEUE_50 = enqueueRow({
  id: 'enqueue-50',
  title: 'Enqueue, 50 in flight',
  who: producer('limit-http'),
  call: 'enqueueRate',
  warmUp: { inFlight: 50, count: 240_000, maxMs: 10_000 },
  full: { inFlight: 50, count: 60_000, maxMs: 2_500 },
  quick: { inFlight: 50, count: 10_000, maxMs: 1_500 },
})

export const BULK_1000 = enqueueRow({
  id: 'bulk-1000',
  title: 'Enqueue, 1 000 per call',
  who: producer('limit-sqlite'),
  call: 'bulkRate',
  warmUp: { size: 1_000, count: 300_000, maxMs: 8_000 },
  full: { size: 1_000, count: 80_000, maxMs: 2_500 },
  quick: { size: 1_000, count: 20_000, maxMs: 1_500 },
})

const WARM_UPS = 3

function processRow(concurrency) {
  const id = `process-${concurrency}`
  const args = { concurrency, warmUp: 1_000, count: 30_000, tail: 1_000, maxMs: 5_000 }
  const short = { ...args, count: 5_000, maxMs: 3_000 }
  return {
    id,
    figures: [{ id, title: `Process a backlog, concurrency ${concurrency}`, unit: 'jobs/s', better: 'higher' }],
    who: jobServer,
    settings: (isQuick) => (isQuick ? short : args),
    // Three times: the compiler of a contender whose client and server are both JavaScript settles only then.
    async prepare(running, settings) {
      for (let run = 0; run < WARM_UPS; run += 1) await running.call('processRate', settings)
    },
    async once(running, settings) {
      await running.call('fillUpTo', settings.warmUp + settings.count + settings.tail)
      return { [id]: await withServerCpu(running, () => running.call('processRate', settings)) }
    },
  }
}

export const PROCESS_10 = processRow(10)
export const PROCESS_100 = processRow(100)

export const IDLE_LATENCY = {
  id: 'idle-latency',
  figures: [
    { id: 'idle-p50', title: 'Idle latency, enqueue to handler, p50', unit: 'ms', better: 'lower' },
    { id: 'idle-p99', title: 'Idle latency, enqueue to handler, p99', unit: 'ms', better: 'lower' },
  ],
  note: 'Producer and worker share one process, for every contender. pg-boss polls, at most twice a second.',
  who: jobServer,
  settings: (isQuick) => ({
    warmUp: { samples: isQuick ? 200 : 400, warmUp: 0, pauseMs: 5, maxMs: isQuick ? 3_000 : 5_000 },
    round: { samples: isQuick ? 100 : 200, warmUp: 10, pauseMs: 15, maxMs: isQuick ? 3_000 : 6_000 },
  }),
  prepare: (running, settings) => running.call('idleLatency', settings.warmUp),
  async once(running, settings) {
    const { p50, p99 } = await running.call('idleLatency', settings.round)
    return { 'idle-p50': { value: p50 }, 'idle-p99': { value: p99 } }
  },
}

export const MIXED = {
  id: 'mixed',
  figures: [
    { id: 'mixed-finished', title: 'Mixed load, jobs finished', unit: 'jobs/s', better: 'higher' },
    { id: 'mixed-enqueued', title: 'Mixed load, jobs enqueued', unit: 'jobs/s', better: 'higher' },
  ],
  note: '50 enqueues in flight and one worker with concurrency 100, in one client process.',
  who: jobServer,
  settings: (isQuick) => ({ inFlight: 50, concurrency: 100, forMs: isQuick ? 1_500 : 3_000 }),
  prepare: (running, settings) => running.call('mixedRate', settings),
  async once(running, settings) {
    const { finished, enqueued } = await running.call('mixedRate', settings)
    return { 'mixed-finished': { value: finished }, 'mixed-enqueued': { value: enqueued } }
  },
}
