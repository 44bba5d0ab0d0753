/** Checks that read everything: now and then, and at the end. */
import { ANY_JOB, nextDue, type Job, type Outage } from '@curfew/core'
import type { Store } from '../../packages/server/src/store/store.ts'
import type { Checker } from './checker.ts'
import type { DueKind } from './model/records.ts'
import type { Model } from './model/model.ts'
import { insist, type Invariant } from './violation.ts'

const EVERYTHING = { limit: 10_000, offset: 0 }

/** What is stored, read back, is what was committed; and the counts are right. */
export async function checkStore(store: Store, { rows }: Checker, model: Model): Promise<void> {
  const { jobs } = await store.jobs(ANY_JOB, null, EVERYTHING)
  const { total } = await store.countJobs(ANY_JOB)
  insist('store', total === rows.size && jobs.length === rows.size, () => {
    return `${String(jobs.length)} jobs are stored, ${String(total)} are counted, ${String(rows.size)} were committed`
  })
  for (const job of jobs) {
    const committed = rows.get(job.id)
    const [found, expected] = [text(job), committed === undefined ? '' : text(committed)]
    insist('store', found === expected, () => `stored:    ${found}\n  committed: ${expected}`)
  }
  for (const [queue, counts] of await store.counts()) {
    for (const [state, count] of Object.entries(counts)) {
      const recount = jobs.filter((job) => job.queue === queue && job.state === state).length
      insist('counts', count === recount, () => `${queue}: ${String(count)} ${state} counted, ${String(recount)} found`)
    }
  }
  const dead = (await store.deadLetterCounts()).reduce((sum, { count }) => sum + count, 0)
  const recount = jobs.filter(({ deadLetter }) => deadLetter).length
  insist('counts', dead === recount, () => `${String(dead)} dead letters counted, ${String(recount)} found`)
  for (const { id, checkpoint } of model.jobs.values()) {
    if (checkpoint === null) continue
    const stored = await store.checkpoint(id)
    insist('durable', stored?.state === checkpoint.state && stored.sequence === checkpoint.sequence, () => {
      return `the checkpoint of ${id} is ${String(stored?.state)}; ${checkpoint.state} was acknowledged`
    })
  }
  const next = await store.nextWakeAt()
  const first = Math.min(
    ...jobs.map(({ wakeAt }) => wakeAt ?? Infinity),
    ...(await store.workers()).map(({ wakeAt }) => wakeAt ?? Infinity),
  )
  insist(
    'wake',
    (next ?? Infinity) === first,
    () => `the next wake is said to be ${String(next)}; it is ${String(first)}`,
  )
}

/** The row's own sums on time, made when a clock comes due, come to what the model knew all along. */
export async function checkClocks(store: Store, model: Model, outages: readonly Outage[]): Promise<void> {
  const workers = new Map((await store.workers()).map((worker) => [worker.id, worker]))
  for (const row of (await store.jobs(ANY_JOB, null, EVERYTHING)).jobs) {
    const job = model.jobs.get(row.id)
    const holder = row.hold?.workerId ?? ''
    if (job === undefined || model.turn.polling.has(holder)) continue
    const life = { worker: workers.get(holder) ?? null, outages, workerTimeoutMs: model.settings.workerTimeoutMs }
    const [found, expected] = [nextDue(row, life), model.dueOf(job)]
    insist(promiseOf(expected?.kind), found?.kind === expected?.kind && found?.at === expected?.at, () => {
      return `next for ${row.id} (${row.state}) is ${JSON.stringify(found)}; it should be ${JSON.stringify(expected)}`
    })
  }
}

function promiseOf(kind: DueKind | undefined): Invariant {
  if (kind === 'total') return 'total'
  if (kind === 'enqueue_ttl' || kind === 'expires_at') return 'ttl'
  return kind === 'scheduled' || kind === 'backoff' || kind === 'purge' || kind === undefined
    ? 'wake'
    : 'attemptDeadline'
}

/** A job as text, without what the store itself assigns; the order of keys does not matter. */
function text({ seq: _seq, version: _version, ...job }: Job): string {
  return JSON.stringify(job, (_, value: unknown) =>
    typeof value === 'object' && value !== null && !Array.isArray(value)
      ? Object.fromEntries(Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1)))
      : value,
  )
}
