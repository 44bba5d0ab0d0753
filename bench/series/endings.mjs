// Jobs of every ending through two servers, and the same figures from the series and from the event log.
import { timeoutKindOf } from '@curfew/core'

const A_ROUND = 400
const OUTCOMES = {
  'job.started': 'started',
  'job.completed': 'completed',
  'job.failed': 'failed',
  'job.retrying': 'retried',
  'job.interrupted': 'interrupted',
  'job.cancelled': 'cancelled',
  'job.discarded': 'discarded',
  'job.expired': 'expired',
}
const ONCE = { max_attempts: 1 }
/** What becomes of a job is said by its type. */
const KINDS = [
  { type: 'done' },
  { type: 'done.too' },
  { type: 'fails', retry: ONCE },
  { type: 'fails.once', retry: { max_attempts: 2, initial_interval: 'PT0.05S' } },
  { type: 'late', timeout_ms: 100, grace_period: 0, retry: ONCE },
  { type: 'late.in-total', total_timeout_ms: 300, retry: ONCE },
  { type: 'never', queue: 'never', enqueue_ttl_ms: 200 },
  { type: 'cancelled', queue: 'never' },
]

/**
 * `call(server, method, path, body)` answers the parsed body; `server` is 0 or 1. `halfway` is awaited once in between.
 * Answers how many jobs were made of each kind.
 */
export async function play({ jobs, call, halfway }) {
  const made = {}
  let turn = 0
  let isHalfway = false
  const either = () => (turn += 1) % 2
  for (let from = 0; from < jobs; from += A_ROUND) {
    const round = []
    for (let n = from; n < Math.min(jobs, from + A_ROUND); n += 1)
      round.push({ args: [], queue: 'work', ...KINDS[n % KINDS.length] })
    for (const { type } of round) made[type] = (made[type] ?? 0) + 1
    const { jobs: entered } = await call(either(), 'POST', '/ojs/v1/jobs/batch', { jobs: round })
    const cancelled = entered.filter(({ type }) => type === 'cancelled')
    await inParallel(cancelled, ({ id }) => call(either(), 'DELETE', `/ojs/v1/jobs/${id}`))
    await work(call, either)
    if (!isHalfway && from + A_ROUND >= jobs / 2) {
      isHalfway = true
      await halfway?.()
    }
  }
  for (;;) {
    await work(call, either)
    const { jobs: counts } = await call(0, 'GET', '/ojs/v1/admin/stats')
    if (counts.available + counts.active + counts.retryable + counts.scheduled === 0) return made
  }
}

/** Takes what there is, until nothing is left at the moment. */
async function work(call, either) {
  for (;;) {
    const { jobs } = await call(either(), 'POST', '/ojs/v1/workers/fetch', {
      queues: ['work'],
      count: 200,
      worker_id: 'w',
    })
    if (jobs.length === 0) return
    await inParallel(jobs, async ({ id, type, attempt }) => {
      if (type.startsWith('late')) return
      const isFailing = type === 'fails' || (type === 'fails.once' && attempt === 1)
      const report = { job_id: id, worker_id: 'w', ...(isFailing ? { error: { message: 'x' } } : {}) }
      await call(either(), 'POST', `/ojs/v1/workers/${isFailing ? 'nack' : 'ack'}`, report)
    })
  }
}

async function inParallel(entries, act) {
  const left = [...entries]
  const one = async () => {
    for (let entry = left.pop(); entry !== undefined; entry = left.pop()) await act(entry)
  }
  await Promise.all(Array.from({ length: 16 }, one))
}

/** What the log says, event by event. */
export async function fromLog(call) {
  const counted = { outcomes: {}, types: {}, kinds: {}, sources: {}, overshoots: 0 }
  const add = (to, name) => (to[name] = (to[name] ?? 0) + 1)
  let after = ''
  let bySubject = new Set()
  for (let more = true; more;) {
    const page = await call(0, 'GET', `/ojs/v1/events?limit=1000${after === '' ? '' : `&after=${after}`}`)
    for (const event of page.events) {
      const outcome = OUTCOMES[event.type]
      if (outcome !== undefined) add(counted.outcomes, outcome)
      if (event.type === 'job.completed') add(counted.types, event.data.job_type)
      // The two events of a TTL follow each other.
      if (event.type === 'job.ttl_expired') bySubject.add(event.subject)
      const beside =
        event.type === 'job.expired' && bySubject.delete(event.subject) ? [{ type: 'job.ttl_expired' }] : []
      const kind = timeoutKindOf(event, beside)
      if (kind === null) continue
      add(counted.kinds, kind)
      add(counted.sources, event.data.source)
      if (typeof event.data.overshoot_ms === 'number') counted.overshoots += 1
    }
    after = page.cursor ?? after
    more = page.has_more
  }
  return counted
}

/** What the series say, at a resolution. */
export async function fromSeries(call, server, step) {
  const totals = async (query) => {
    const { groups, complete } = await call(server, 'GET', `/api/v1/board/series?from=-2h&step=${step}&${query}`)
    if (!complete) throw new Error('the series were not read whole')
    return Object.fromEntries(groups.map(({ name, total }) => [name, total]))
  }
  const { created, late, ...outcomes } = await totals('metric=throughput')
  const overshoots = await totals('metric=overshoot')
  return {
    created: created ?? 0,
    late: late ?? 0,
    counted: {
      outcomes,
      types: await totals('metric=throughput&by=type&outcome=completed'),
      kinds: await totals('metric=timeouts&by=kind'),
      sources: await totals('metric=timeouts&by=source'),
      overshoots: overshoots['all'] ?? 0,
    },
  }
}
