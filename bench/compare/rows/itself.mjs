// Curfew beside itself: does it become slower with what it holds, or with what each job asks for?
import { withServerCpu } from './cost.mjs'

const isCurfew = ({ kind }) => kind === 'curfew'
const count = (number) => String(number).replace(/\B(?=(\d{3})+$)/g, ' ')

/** Jobs that one call fills in: each call has to answer within its bound. */
const FILL_STEP = 50_000

export async function fill(running, jobs) {
  for (let filled = 0; filled < jobs; filled += FILL_STEP)
    await running.call('fillUpTo', Math.min(jobs, filled + FILL_STEP))
}

/** Two figures of the same contender in different situations; the first one is what the others are divided by. */
function itself({ id, title, situations, arrange }) {
  const [enqueued, processed] = [`${id}-enqueue`, `${id}-process`]
  return {
    id,
    figures: [
      { id: enqueued, title: `${title}: enqueue, 50 in flight`, unit: 'jobs/s', better: 'higher' },
      { id: processed, title: `${title}: process, concurrency 100`, unit: 'jobs/s', better: 'higher' },
    ],
    who: isCurfew,
    settings: (quick) => ({
      quick,
      enqueue: { inFlight: 50, count: quick ? 5_000 : 15_000, maxMs: quick ? 1_500 : 3_000 },
      process: {
        concurrency: 100,
        warmUp: 1_000,
        count: quick ? 4_000 : 8_000,
        tail: 1_000,
        maxMs: quick ? 3_000 : 5_000,
      },
    }),
    variants: (contender, { quick }) =>
      situations(quick).map(({ name, label, ...more }) => ({
        id: `${contender.id}/${name}`,
        of: contender.id,
        label: `${contender.label}, ${label}`,
        ...more,
      })),
    async prepare(running, settings) {
      await arrange(running, settings)
      await running.call('enqueueRate', settings.enqueue)
      await running.call('processRate', { ...settings.process, depth: running.depth })
    },
    async once(running, { enqueue, process }) {
      const work = { ...process, depth: running.depth }
      const first = await withServerCpu(running, () => running.call('enqueueRate', enqueue))
      await running.call('fillUpTo', Math.max(running.depth ?? 0, work.warmUp + work.count + work.tail))
      const second = await withServerCpu(running, () => running.call('processRate', work))
      return { [enqueued]: first, [processed]: second }
    },
  }
}

export const GROWTH = itself({
  id: 'growth',
  title: 'With more waiting jobs',
  situations: (quick) =>
    [
      { name: 'small', depth: quick ? 5_000 : 10_000 },
      { name: 'medium', depth: quick ? 20_000 : 100_000 },
      { name: 'large', depth: quick ? 50_000 : 1_000_000 },
    ].map((one) => ({ ...one, label: `${count(one.depth)} waiting` })),
  arrange: (running) => fill(running, running.depth),
})

export const KEPT = itself({
  id: 'kept',
  title: 'With finished jobs kept',
  situations: (quick) => [
    { name: 'none', label: 'none kept', kept: 0 },
    { name: 'many', label: `${count(quick ? 10_000 : 200_000)} kept`, kept: quick ? 10_000 : 200_000 },
  ],
  async arrange(running, settings) {
    const step = { ...settings.process, warmUp: 1, count: 20_000, maxMs: 60_000 }
    for (let finished = 0; finished < running.kept;)
      finished += (await running.call('processRate', { ...step, count: Math.min(step.count, running.kept) })).handled
  },
})

/** So long that none of them ends a job here: what is measured is the cost of having them. */
const EVERY_LIMIT = {
  timeout: '10m',
  gracePeriod: '10s',
  heartbeatTimeout: '5m',
  totalTimeout: '2h',
  enqueueTtl: '1h',
  visibilityTimeout: '15m',
  onTimeout: 'discard',
}

export const LIMITS = itself({
  id: 'limits',
  title: 'With every limit set',
  situations: () => [
    { name: 'none', label: 'no limit in the job' },
    { name: 'every', label: 'every limit in the job', settings: { limits: EVERY_LIMIT } },
  ],
  arrange: () => {},
})
