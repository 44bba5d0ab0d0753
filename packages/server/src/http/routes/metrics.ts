/**
 * The text of the metrics. Any caller may request it at any rate, so it is short and cheap however many queues
 * there are: the queues that came first have series of their own, all others are summed as `other`. The text is made one
 * family a turn.
 */
import {
  clockOffsetMs,
  depthOf,
  elapsed,
  JOB_STATES,
  lastSignAt,
  queueBound,
  type Instant,
  type Worker,
} from '@curfew/core'
import { Gauge, Registry } from 'prom-client'
import type { Engine } from '../../engine/engine.ts'
import { MAX_SERIES, OTHER } from '../../engine/metrics/series.ts'
import { nextTurn, type Turning } from '../../engine/kernel/turns.ts'
import type { Reads } from '../../store/store.ts'
import { withCounts } from './queue-routes.ts'
import { workerSummary } from './registry-routes.ts'

/** How many active jobs are looked at for the age of their last sign of life, and how many of them in one turn. */
const MAX_AGES = 1_000
const AGES_A_TURN = 200

type Gauges = (name: string, help: string, labels: string[]) => Gauge

export async function metricsText(engine: Engine): Promise<string> {
  const gauges = new Registry()
  const gauge: Gauges = (name, help, labelNames) => new Gauge({ name, help, labelNames, registers: [gauges] })
  await engine.read(async (reads, now) => {
    const named = await queueGauges(reads, gauge)
    await nextTurn(engine.host)
    await deadLetterGauge(reads, gauge, named)
    await workerGauge(engine, reads, gauge, now)
    await nextTurn(engine.host)
    await activeGauges(engine, reads, gauge, named, now)
  })
  clockGauges(engine, gauge)
  return (await textOf(engine.host, engine.meters.registry)) + '\n' + (await textOf(engine.host, gauges))
}

async function textOf(host: Turning, registry: Registry): Promise<string> {
  const families: string[] = []
  for (const { name } of registry.getMetricsAsArray()) {
    families.push(await registry.getSingleMetricAsString(name))
    await nextTurn(host)
  }
  return `${families.join('\n\n')}\n`
}

/** Answers the names that have series of their own. */
async function queueGauges(reads: Reads, gauge: Gauges): Promise<ReadonlySet<string>> {
  const depth = gauge('ojs_queue_depth', 'Jobs in a queue, by state.', ['queue', 'state'])
  const pressure = gauge('ojs_backpressure_pressure', 'How much of its bound a queue has used.', ['queue'])
  const first = await withCounts(reads, await reads.firstQueues(MAX_SERIES))
  const left = { ...(await reads.totals()) }
  for (const { name, queue, counts } of first) {
    for (const state of JOB_STATES) {
      depth.set({ queue: name, state }, counts[state])
      left[state] -= counts[state]
    }
    const bound = queue === null ? null : queueBound(queue.config)
    if (bound !== null) pressure.set({ queue: name }, depthOf(counts) / bound.maxDepth)
  }
  if ((await reads.queueTotals()).total > first.length)
    for (const state of JOB_STATES) depth.inc({ queue: OTHER, state }, Math.max(0, left[state]))
  return new Set(first.map(({ name }) => name))
}

const labelOf = (named: ReadonlySet<string>, queue: string): string => (named.has(queue) ? queue : OTHER)

async function deadLetterGauge(reads: Reads, gauge: Gauges, named: ReadonlySet<string>): Promise<void> {
  const dead = gauge('ojs_dead_letter_depth', 'Dead letters of a queue.', ['queue'])
  const sums = new Map<string, number>()
  for (const { queue, count } of await reads.deadLetterCounts()) {
    const label = labelOf(named, queue)
    sums.set(label, (sums.get(label) ?? 0) + count)
  }
  for (const [queue, count] of sums) dead.set({ queue }, count)
}

async function workerGauge(engine: Engine, reads: Reads, gauge: Gauges, now: Instant): Promise<void> {
  const active = gauge('ojs_workers_active', 'Workers in the registry, by state.', ['state'])
  const { running, quiet, terminate } = await workerSummary(engine, reads, now)
  for (const [state, count] of Object.entries({ running, quiet, terminate })) active.set({ state }, count)
}

/** Oldest sign of life and busy workers per queue, over the active jobs. */
async function activeGauges(
  engine: Engine,
  reads: Reads,
  gauge: Gauges,
  named: ReadonlySet<string>,
  now: Instant,
): Promise<void> {
  const age = gauge('ojs_job_heartbeat_age_seconds', 'Longest time since the last sign of life of an active job.', [
    'queue',
  ])
  const busy = gauge('ojs_workers_busy', 'Workers that hold jobs of a queue.', ['queue'])
  const workers = new Map<string, Worker | null>()
  const oldest = new Map<string, number>()
  const holders = new Map<string, Set<string>>()
  for (const [index, job] of (await reads.activeJobs(MAX_AGES)).entries()) {
    if (index % AGES_A_TURN === 0) await nextTurn(engine.host)
    const holder = job.hold?.workerId ?? null
    if (holder !== null && !workers.has(holder)) workers.set(holder, await reads.worker(holder))
    const sign = lastSignAt(job, holder === null ? null : (workers.get(holder) ?? null)) ?? now
    const queue = labelOf(named, job.queue)
    oldest.set(queue, Math.max(oldest.get(queue) ?? 0, elapsed(sign, now)))
    const known = holders.get(queue) ?? new Set<string>()
    holders.set(queue, holder === null ? known : known.add(holder))
  }
  for (const [queue, ms] of oldest) age.set({ queue }, ms / 1000)
  for (const [queue, ids] of holders) busy.set({ queue }, ids.size)
}

function clockGauges(engine: Engine, gauge: Gauges): void {
  gauge('curfew_clock_offset_seconds', 'How far the wall clock is ahead of the engine clock.', []).set(
    clockOffsetMs(engine.host, engine.clock) / 1000,
  )
  const { clock } = engine.store
  if (clock !== null)
    gauge('curfew_clock_error_seconds', "Uncertainty of what is known about the database's clock.", []).set(
      clock.offset().errorMs / 1000,
    )
}
