/** Is anything late, about to be, or stuck? A verdict, at most five causes, the numbers, the queues. */
import type { ComponentChildren, JSX } from 'preact'
import { ask, queryOf } from '../api.ts'
import { useQuery } from '../query.ts'
import { clockTime, length, now, running, serverNow } from '../time.ts'
import { act, Copy, count, JobLink, Link, Loading, Page, perSecond, Source, Table, Trouble } from '../ui.tsx'
import { href } from '../router.ts'
import type { AtRisk, Health, JobList, Manifest, QueueView, Stats, WorkerView } from '../wire.ts'
import { TIMEOUT_KINDS } from '../wire.ts'

const MAX_CAUSES = 5
const HOUR_MS = 3_600_000

interface Cause {
  readonly key: string
  readonly at: number
  readonly isLate: boolean
  readonly what: ComponentChildren
  readonly more: ComponentChildren
}

export function Now(): JSX.Element {
  const stats = useQuery<Stats>('/ojs/v1/admin/stats')
  const risk = useQuery<AtRisk>('/ojs/v1/admin/at-risk?limit=20')
  const queues = useQuery<{ queues: readonly QueueView[] }>('/ojs/v1/queues?limit=50')
  const workers = useQuery<{ workers: readonly WorkerView[] }>('/ojs/v1/workers?limit=200')
  const manifest = useQuery<Manifest>('/ojs/manifest', null)
  const health = useQuery<Health>('/ojs/v1/health', 5_000)
  if (stats.data === null || queues.data === null || workers.data === null || risk.data === null)
    return (
      <Page title="Now">
        <Loading error={stats.error ?? queues.error ?? workers.error ?? risk.error} />
      </Page>
    )
  const total = Object.values(stats.data.jobs).reduce((sum, value) => sum + value, 0)
  if (total === 0 && workers.data.workers.length === 0) return <Greeting />
  const deadMs = (manifest.data?.x_timeout_defaults['worker_heartbeat_timeout'] ?? 30) * 1_000
  const causes = [
    ...troubleIn(health.data),
    ...lateQueues(risk.data),
    ...silentWorkers(workers.data.workers, deadMs),
    ...stuckQueues(queues.data.queues, workers.data.workers),
  ].sort((a, b) => a.at - b.at)
  return (
    <Page title="Now">
      <Trouble error={stats.error} />
      <Verdict causes={causes} risk={risk.data} />
      {causes.length === 0 ? null : (
        <ul class="causes">
          {causes.slice(0, MAX_CAUSES).map((cause) => (
            <li key={cause.key}>
              <span>{cause.what}</span>
              <span>{cause.more}</span>
            </li>
          ))}
        </ul>
      )}
      {causes.length > MAX_CAUSES ? <p class="soft">and {String(causes.length - MAX_CAUSES)} more below</p> : null}
      <Tiles stats={stats.data} />
      <TimeoutsOfHour />
      <h2>Queues</h2>
      <QueueTable queues={queues.data.queues} risk={risk.data} />
    </Page>
  )
}

function Verdict({ causes, risk }: { causes: readonly Cause[]; risk: AtRisk }): JSX.Element {
  const late = causes.filter(({ isLate }) => isLate)
  const [first] = risk.items
  if (first !== undefined) {
    const left = Date.parse(first.latest_start) - now.value
    const many = risk.items.length
    return (
      <p class="verdict bad">
        <span aria-hidden="true">● </span>
        {many === 1 ? '1 job will be late' : `${many === 20 ? 'At least 20' : String(many)} jobs will be late`}
        {left > 0 ? `, first in ${running(left)}` : ', first now'}
      </p>
    )
  }
  if (late.length > 0 || causes.length > 0)
    return (
      <p class="verdict warn">
        <span aria-hidden="true">▲ </span>
        {causes.length === 1 ? 'One thing needs a look' : `${String(causes.length)} things need a look`}
      </p>
    )
  return (
    <p class="verdict">
      <span aria-hidden="true">✓ </span>All well: no job will be late at the present pace.
    </p>
  )
}

function troubleIn(health: Health | null): Cause[] {
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

function lateQueues({ items, queues }: AtRisk): Cause[] {
  const names = [...new Set(items.map(({ queue }) => queue))]
  return names.flatMap((name) => {
    const [first] = items.filter(({ queue }) => queue === name)
    const pace = queues.find(({ queue }) => queue === name)
    if (first === undefined) return []
    const at = Date.parse(first.latest_start)
    const needed = (first.jobs_ahead + 1) / Math.max(1, (at - serverNow()) / 1_000)
    return [
      {
        key: `queue ${name}`,
        at,
        isLate: true,
        what: (
          <>
            <Link to={`/queues/${encodeURIComponent(name)}`}>{name}</Link>: {count(pace?.waiting ?? 0)} waiting
            {pace?.paused === true
              ? ', paused'
              : `, ${perSecond(pace?.starts_per_second ?? 0)}/s, needs ${perSecond(needed)}/s`}
            . {first.type} <JobLink id={first.job_id} /> has {count(first.jobs_ahead)} ahead and must start by{' '}
            {clockTime(first.latest_start)}
          </>
        ),
        more: (
          <>
            {first.limit} <Source source={first.source} type={first.type} queue={name} />
          </>
        ),
      },
    ]
  })
}

function silentWorkers(workers: readonly WorkerView[], deadMs: number): Cause[] {
  return workers.flatMap((worker) => {
    const seen = Date.parse(worker.last_seen_at)
    const silentMs = now.value - seen
    if (worker.active_jobs === 0 || silentMs < deadMs / 2 || silentMs > deadMs * 10) return []
    const left = deadMs - silentMs
    return [
      {
        key: `worker ${worker.worker_id}`,
        at: seen + deadMs,
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

function stuckQueues(queues: readonly QueueView[], workers: readonly WorkerView[]): Cause[] {
  return queues.flatMap((queue) => {
    if (queue.counts.available === 0) return []
    const isServed = workers.some((worker) => worker.state === 'running' && worker.queues.includes(queue.name))
    if (!queue.paused && isServed) return []
    const waiting = `${count(queue.counts.available)} waiting`
    return [
      {
        key: `stuck ${queue.name}`,
        at: Infinity,
        isLate: false,
        what: (
          <>
            <Link to={`/queues/${encodeURIComponent(queue.name)}`}>{queue.name}</Link>: {waiting},{' '}
            {queue.paused
              ? `${queue.status} ${queue.paused_at === undefined ? '' : `since ${clockTime(queue.paused_at)}`}`
              : 'no registered worker serves it'}
          </>
        ),
        more: <Link to={`/jobs${queryOf({ queue: queue.name, state: 'available' })}`}>jobs</Link>,
      },
    ]
  })
}

function Tiles({ stats }: { stats: Stats }): JSX.Element {
  const { jobs, throughput } = stats
  const tiles: readonly (readonly [string, number, string])[] = [
    ['waiting', jobs.available, '/jobs?state=available'],
    ['active', jobs.active, '/jobs?state=active'],
    ['scheduled', jobs.scheduled, '/jobs?state=scheduled'],
    ['to retry', jobs.retryable, '/jobs?state=retryable'],
    ['discarded', jobs.discarded, '/jobs?state=discarded'],
    ['done / min', throughput.processed_per_minute, '/jobs?state=completed'],
    ['failed / min', throughput.failed_per_minute, '/jobs?state=retryable,discarded'],
  ]
  return (
    <ul class="tiles" aria-label="Jobs">
      {tiles.map(([name, value, to]) => (
        <li key={name}>
          <Link to={to}>
            <strong>{count(value)}</strong>
            <span>{name}</span>
          </Link>
        </li>
      ))}
    </ul>
  )
}

/** By kind, of jobs that were created within the hour. */
function TimeoutsOfHour(): JSX.Element {
  return (
    <>
      <h2>Jobs of the last hour that a limit ended</h2>
      <ul class="tiles" aria-label="Timeouts by kind">
        {TIMEOUT_KINDS.map((kind) => (
          <KindTile key={kind} kind={kind} />
        ))}
      </ul>
    </>
  )
}

function KindTile({ kind }: { kind: string }): JSX.Element {
  // The minute, so that the address stays the same for a while.
  const since = new Date(Math.floor((now.value - HOUR_MS) / 60_000) * 60_000).toISOString()
  const isKnown = now.value > HOUR_MS
  const { data } = useQuery<JobList>(
    isKnown ? `/ojs/v1/jobs${queryOf({ timeout_kind: kind, created_after: since, limit: 1 })}` : null,
    10_000,
  )
  const many = data?.pagination.total
  return (
    <li>
      <Link to={`/jobs${queryOf({ timeout_kind: kind, since: '1h' })}`}>
        <strong>{many === undefined ? '–' : count(many)}</strong>
        <span>{kind.replaceAll('_', ' ')}</span>
      </Link>
    </li>
  )
}

function QueueTable({ queues, risk }: { queues: readonly QueueView[]; risk: AtRisk }): JSX.Element {
  return (
    <Table label="Queues" head={['Queue', '#waiting', '#active', '#starts/s', '#at risk', 'state']}>
      {queues.map(({ name, counts, status }) => {
        const pace = risk.queues.find(({ queue }) => queue === name)
        const late = risk.items.filter(({ queue }) => queue === name).length
        return (
          <tr key={name}>
            <th scope="row">
              <Link to={`/queues/${encodeURIComponent(name)}`}>{name}</Link>
            </th>
            <td class="num">{count(counts.available)}</td>
            <td class="num">{count(counts.active)}</td>
            <td class="num">{pace === undefined ? '–' : perSecond(pace.starts_per_second)}</td>
            <td class="num">{late === 0 ? '–' : String(late)}</td>
            <td class={status === 'active' ? undefined : 's-paused'}>{status === 'active' ? 'running' : status}</td>
          </tr>
        )
      })}
    </Table>
  )
}

const FIRST_JOB = { type: 'email.send', args: ['ada@example.com'], options: { timeout_ms: 30_000 } }

/** The first page of a server on which nothing has happened yet. */
function Greeting(): JSX.Element {
  const base = window.location.origin + href('/')
  return (
    <Page title="This server is up, and empty">
      <p>Give it a job from a terminal:</p>
      <Copy
        text={`curl -sS ${base}ojs/v1/jobs -H 'Content-Type: application/json' \\\n  -d '${JSON.stringify(FIRST_JOB)}'`}
      />
      <p>
        <button
          type="button"
          class="main"
          onClick={() => void act('Sent. It waits for a worker.', () => ask('POST', '/ojs/v1/jobs', FIRST_JOB))}
        >
          Send this job now
        </button>
      </p>
      <p>
        A worker takes it with the SDK, or with three calls: fetch, heartbeat, ack. Every call is described in{' '}
        <a href={href('/openapi.json')}>openapi.json</a>; how limits work is in <code>docs/timeouts.md</code>, the SDK
        in <code>docs/sdk-worker.md</code>.
      </p>
    </Page>
  )
}
