/** Why a job is late or will be: the store, queues without pace, silent workers, queues that no worker serves. */
import { after, elapsed, millis } from '@curfew/core'
import type { ComponentChildren } from 'preact'
import { queryOf } from '../api.ts'
import { clockTime, instantAt, length, now, serverNow } from '../time.ts'
import { count, JobLink, Link, perSecond, Source } from '../ui.tsx'
import type { AtRisk, Health, QueueView, WorkerView } from '../wire.ts'

export interface Cause {
  readonly key: string
  readonly at: number
  readonly isLate: boolean
  readonly what: ComponentChildren
  readonly more: ComponentChildren
}

/** The server itself. */
export function troubleIn(health: Health | null): Cause[] {
  if (health === null || health.status === 'ok') return []
  return [
    {
      key: 'health',
      at: 0,
      isLate: true,
      what: `The store is ${health.backend.status}: ${health.backend.reason ?? 'no reason given'}`,
      more: <Link to="/settings">server</Link>,
    },
  ]
}

/** The pace that would save the first of them, or why nothing moves. */
function paceInWords(pace: AtRisk['queues'][number] | undefined, needed: number, why: string | undefined): string {
  if (why !== undefined) return `, ${why}`
  if (pace === undefined || pace.starts_per_second === 0) return ', nothing starts'
  return `, ${perSecond(pace.starts_per_second)}/s, needs ${perSecond(needed)}/s`
}

export function lateQueues({ items, queues }: AtRisk, stuck: ReadonlyMap<string, string>): Cause[] {
  const names = [...new Set(items.map(({ queue }) => queue))]
  return names.flatMap((name) => {
    const [first] = items.filter(({ queue }) => queue === name)
    const pace = queues.find(({ queue }) => queue === name)
    if (first === undefined) return []
    const at = instantAt(first.latest_start)
    const needed = (first.jobs_ahead + 1) / Math.max(1, elapsed(serverNow(), at) / 1_000)
    return [
      {
        key: `queue ${name}`,
        at,
        isLate: true,
        what: (
          <>
            <Link to={`/queues/${encodeURIComponent(name)}`}>{name}</Link>: {count(pace?.waiting ?? 0)} waiting
            {paceInWords(pace, needed, stuck.get(name))}. {first.type} <JobLink id={first.job_id} /> has{' '}
            {count(first.jobs_ahead)} ahead and must start by {clockTime(first.latest_start)}
          </>
        ),
        more: (
          <>
            {first.limit.replaceAll('_', ' ')} <Source source={first.source} type={first.type} queue={name} />
          </>
        ),
      },
    ]
  })
}

export function silentWorkers(workers: readonly WorkerView[], deadMs: number): Cause[] {
  return workers.flatMap((worker) => {
    const seen = instantAt(worker.last_seen_at)
    const silentMs = elapsed(seen, now.value)
    if (worker.active_jobs === 0 || silentMs < deadMs / 2 || silentMs > deadMs * 10) return []
    const left = deadMs - silentMs
    return [
      {
        key: `worker ${worker.worker_id}`,
        at: after(seen, millis(deadMs)),
        isLate: false,
        what: (
          <>
            <Link to={`/workers/${encodeURIComponent(worker.worker_id)}`}>{worker.worker_id}</Link> silent for{' '}
            {length(silentMs)}
            {left > 0 ? `, declared dead in ${length(left)}` : ', declared dead'}: it holds {String(worker.active_jobs)}{' '}
            {worker.active_jobs === 1 ? 'job' : 'jobs'}
          </>
        ),
        more: <Link to={`/workers/${encodeURIComponent(worker.worker_id)}`}>blast radius</Link>,
      },
    ]
  })
}

/** Queues with jobs that no worker can take, and why. */
export function stuckIn(queues: readonly QueueView[], workers: readonly WorkerView[]): Map<string, string> {
  const found = new Map<string, string>()
  for (const { name, counts, paused, status, paused_at: at } of queues) {
    if (counts.available === 0) continue
    const isServed = workers.some((worker) => worker.state === 'running' && worker.queues.includes(name))
    if (paused) found.set(name, at === undefined ? status : `${status} since ${clockTime(at)}`)
    else if (!isServed) found.set(name, NOT_SERVED)
  }
  return found
}

/** More than these are one cause: what is wrong is then no matter of single queues. */
const MAX_STUCK_APART = 2
const NOT_SERVED = 'no registered worker serves it'

export function stuckQueues(
  queues: readonly QueueView[],
  stuck: ReadonlyMap<string, string>,
  isPart: boolean,
): Cause[] {
  const unserved = [...stuck].filter(([, why]) => why === NOT_SERVED).map(([name]) => name)
  if (unserved.length <= MAX_STUCK_APART) return eachStuck(queues, stuck)
  const jobs = queues.reduce((sum, { name, counts }) => sum + (unserved.includes(name) ? counts.available : 0), 0)
  const together: Cause = {
    key: 'stuck, no worker',
    at: Infinity,
    isLate: false,
    what: (
      <>
        {isPart ? 'At least ' : ''}
        {count(unserved.length)} queues: {count(jobs)} waiting, no registered worker serves them
      </>
    ),
    more: <Link to="/queues">queues</Link>,
  }
  return [...eachStuck(queues, new Map([...stuck].filter(([, why]) => why !== NOT_SERVED))), together]
}

function eachStuck(queues: readonly QueueView[], stuck: ReadonlyMap<string, string>): Cause[] {
  return [...stuck].map(([name, why]) => ({
    key: `stuck ${name}`,
    at: Infinity,
    isLate: false,
    what: (
      <>
        <Link to={`/queues/${encodeURIComponent(name)}`}>{name}</Link>:{' '}
        {count(queues.find((queue) => queue.name === name)?.counts.available ?? 0)} waiting, {why}
      </>
    ),
    more: <Link to={`/jobs${queryOf({ queue: name, state: 'available' })}`}>jobs</Link>,
  }))
}
