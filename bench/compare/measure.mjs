// Runs in the client process of one contender: opens its driver, and takes the measurements that are the same for all.
import { setTimeout as pause } from 'node:timers/promises'
import { quantile } from '../lib/report.mjs'

/** About a hundred bytes as JSON. */
const ARGUMENT = { to: 'ada@example.com', text: 'x'.repeat(66) }

let client = null
/** Jobs of this queue that were enqueued and not yet handled. */
let waiting = 0

export async function open({ driver, settings }) {
  const module = await import(driver)
  client = await module.open(settings)
}

export async function close() {
  await client?.close()
}

/** Calls a second with so many in flight, each waiting for its own answer. */
export async function enqueueRate({ inFlight, count, maxMs }) {
  return rate(1, inFlight, count, maxMs, () => client.enqueue(ARGUMENT))
}

/** Jobs a second in calls of `size` jobs, one call after the other. */
export async function bulkRate({ size, count, maxMs }) {
  const inputs = Array.from({ length: size }, () => ARGUMENT)
  return rate(size, 1, count, maxMs, () => client.enqueueMany(inputs))
}

async function rate(size, inFlight, count, maxMs, call) {
  const cpu = process.cpuUsage()
  const began = performance.now()
  let [begun, done] = [0, 0]
  const lane = async () => {
    while (begun < count && performance.now() - began < maxMs) {
      begun += size
      await call()
      done += size
    }
  }
  await Promise.all(Array.from({ length: inFlight }, lane))
  waiting += done
  return answer(done, performance.now() - began, cpu)
}

/** Until so many jobs wait. */
export async function fillUpTo(jobs) {
  while (waiting < jobs) {
    const size = Math.min(1_000, jobs - waiting)
    await client.enqueueMany(Array.from({ length: size }, () => ARGUMENT))
    waiting += size
  }
}

/**
 * Jobs handled a second out of a backlog, by one worker that is running already: counted from the `warmUp`th job on (a
 * slow contender: from a fifth of `maxMs` on), and there are still `tail` jobs left at the end. So neither the start nor
 * the last, half empty fetch is in it.
 */
export async function processRate({ concurrency, warmUp, count, tail, maxMs, depth = 0 }) {
  await fillUpTo(Math.max(depth, warmUp + count + tail))
  let handled = 0
  let first = null
  let end = null
  const begin = () => (first ??= { at: performance.now(), handled, cpu: process.cpuUsage() })
  const ended = new Promise((resolve) => (end = resolve))
  const stop = await client.work(concurrency, () => {
    handled += 1
    if (handled === warmUp) begin()
    else if (handled === warmUp + count) end()
  })
  const timers = [setTimeout(begin, maxMs / 5), setTimeout(end, maxMs)]
  await ended
  timers.forEach((timer) => clearTimeout(timer))
  const span = answer(handled - first.handled, performance.now() - first.at, first.cpu)
  await stop()
  waiting -= handled
  return { ...span, handled }
}

/**
 * From the call of enqueue to the start of the handler, in ms; the worker is idle before each job. Pauses differ, and for
 * a contender that polls they are as long as its interval: else every job would arrive just after a poll.
 */
export async function idleLatency({ samples, warmUp, pauseMs, maxMs }) {
  let arrived = null
  const stop = await client.work(10, () => arrived?.(performance.now()))
  const taken = []
  const began = performance.now()
  for (let n = 0; n < warmUp + samples && performance.now() - began < maxMs; n += 1) {
    await pause(Math.max(pauseMs * 0.5, Math.random() * Math.max(pauseMs * 1.5, client.pollMs ?? 0)))
    const handled = new Promise((resolve) => (arrived = resolve))
    const sentAt = performance.now()
    const enqueued = client.enqueue(ARGUMENT)
    taken.push((await handled) - sentAt)
    await enqueued
  }
  await stop()
  const sorted = taken.slice(Math.min(warmUp, Math.floor(taken.length / 4))).sort((a, b) => a - b)
  return { count: sorted.length, p50: quantile(sorted, 0.5), p99: quantile(sorted, 0.99) }
}

/** Both at once for so long: so many enqueues in flight, and one worker. Rates of both. */
export async function mixedRate({ inFlight, concurrency, forMs }) {
  let handled = 0
  const stop = await client.work(concurrency, () => (handled += 1))
  const before = handled
  const { perSecond, elapsedMs } = await enqueueRate({ inFlight, count: Infinity, maxMs: forMs })
  const finished = ((handled - before) / elapsedMs) * 1000
  await stop()
  waiting -= handled
  return { enqueued: perSecond, finished }
}

export const memory = () => process.memoryUsage().rss

function answer(count, elapsedMs, since) {
  const { user, system } = process.cpuUsage(since)
  return { count, elapsedMs, perSecond: (count / elapsedMs) * 1000, clientUs: (user + system) / Math.max(1, count) }
}
