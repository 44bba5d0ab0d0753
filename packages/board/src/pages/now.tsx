/** Is anything late, about to be, or stuck? A verdict, at most five causes, the numbers, the queues. */
import { after, elapsed, hours, millis } from '@curfew/core'
import type { ComponentChildren, JSX } from 'preact'
import { ask, may, queryOf } from '../api.ts'
import { pulse } from '../live.ts'
import { useQuery } from '../query.ts'
import { folded, kindFilter, type Series } from '../series.ts'
import { clockTime, instantAt, length, now, running, serverNow, untilMs } from '../time.ts'
import {
  act,
  Ago,
  Columns,
  Copy,
  count,
  JobLink,
  Link,
  Loading,
  Needs,
  Page,
  perSecond,
  Source,
  Table,
  Trouble,
} from '../ui.tsx'
import { href } from '../router.ts'
import type { AtRisk, ForecastView, Health, Job, Manifest, Note, QueueView, Stats, WorkerView } from '../wire.ts'

const MAX_CAUSES = 5

interface QueuesShown {
  readonly queues: readonly QueueView[]
  readonly pagination: { readonly total: number }
}

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
  const queues = useQuery<QueuesShown>('/ojs/v1/queues?limit=50')
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
  const stuck = stuckIn(queues.data.queues, workers.data.workers)
  const late = lateQueues(risk.data, stuck)
  // What is late and stuck is one cause.
  const others = new Map([...stuck].filter(([name]) => !late.some(({ key }) => key === `queue ${name}`)))
  const causes = [
    ...troubleIn(health.data),
    ...late,
    ...silentWorkers(workers.data.workers, deadMs),
    ...stuckQueues(queues.data.queues, others, queues.data.pagination.total > queues.data.queues.length),
  ].sort((a, b) => a.at - b.at)
  return (
    <Page title="Now">
      <Trouble error={stats.error} />
      <Verdict causes={causes} risk={risk.data} />
      {risk.data.complete ? null : (
        <p class="soft">Much waits: only the jobs at the head of each queue were looked at for their deadlines.</p>
      )}
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
      <NextMinutes />
      <TimeoutsOfHour />
      <LastNotes />
      <h2>Queues</h2>
      <QueueTable queues={queues.data.queues} risk={risk.data} />
      {queues.data.pagination.total > queues.data.queues.length ? (
        <p class="soft">
          The first {count(queues.data.queues.length)} of {count(queues.data.pagination.total)} queues by name.{' '}
          <Link to="/queues">All queues</Link>
        </p>
      ) : null}
    </Page>
  )
}

function Verdict({ causes, risk }: { causes: readonly Cause[]; risk: AtRisk }): JSX.Element {
  const late = causes.filter(({ isLate }) => isLate)
  const [first] = risk.items
  if (first !== undefined) {
    const left = untilMs(instantAt(first.latest_start))
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

/** The pace that would save the first of them, or why nothing moves. */
function paceInWords(pace: AtRisk['queues'][number] | undefined, needed: number, why: string | undefined): string {
  if (why !== undefined) return `, ${why}`
  if (pace === undefined || pace.starts_per_second === 0) return ', nothing starts'
  return `, ${perSecond(pace.starts_per_second)}/s, needs ${perSecond(needed)}/s`
}

function lateQueues({ items, queues }: AtRisk, stuck: ReadonlyMap<string, string>): Cause[] {
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

function silentWorkers(workers: readonly WorkerView[], deadMs: number): Cause[] {
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
function stuckIn(queues: readonly QueueView[], workers: readonly WorkerView[]): Map<string, string> {
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

function stuckQueues(queues: readonly QueueView[], stuck: ReadonlyMap<string, string>, isPart: boolean): Cause[] {
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

const FORECAST_MINUTES = 15

/** Deadlines that lie in the next minutes, whether or not they will be met. */
function NextMinutes(): JSX.Element | null {
  const { data } = useQuery<ForecastView>(`/api/v1/board/forecast?minutes=${String(FORECAST_MINUTES)}`, 10_000)
  if (data === null || data.total + data.at_risk === 0) return null
  const kinds = new Map<string, number>()
  for (const { deadlines } of data.minutes)
    for (const [kind, n] of Object.entries(deadlines)) kinds.set(kind, (kinds.get(kind) ?? 0) + n)
  const parts = [...kinds].filter(([, n]) => n > 0).map(([kind, n]) => `${kind.replaceAll('_', ' ')} ${count(n)}`)
  const columns = data.minutes.map(({ deadlines }) => Object.values(deadlines).reduce((sum, n) => sum + n, 0))
  return (
    <>
      <h2>Deadlines in the next {String(FORECAST_MINUTES)} minutes</h2>
      <ul class="tiles wide" aria-label="Deadlines to come">
        <li>
          <strong>{count(data.total)}</strong>
          <span>{parts.join(', ')}</span>
          <Columns values={columns} label={`${count(data.total)} deadlines, by minute from now`} />
        </li>
        {data.at_risk === 0 ? null : (
          <li>
            <strong>{count(data.at_risk)}</strong>
            <span>will be missed at this pace</span>
            <Columns
              values={data.minutes.map(({ at_risk: late }) => late)}
              tone="bad"
              label={`${count(data.at_risk)} will be missed, by minute from now`}
            />
          </li>
        )}
      </ul>
      {data.complete ? null : <p class="soft">Only deadlines until {clockTime(data.looked_until)} were counted.</p>}
    </>
  )
}

/** What operators noted in the last hour: a deploy may explain the rest. */
function LastNotes(): JSX.Element | null {
  const { data } = useQuery<{ items: readonly Note[] }>('/api/v1/annotations?limit=5', 10_000)
  const recent = (data?.items ?? []).filter(({ time }) => elapsed(instantAt(time), now.value) < hours(1))
  if (recent.length === 0) return null
  return (
    <>
      <h2>
        <Link to="/incident">Notes</Link> of the last hour
      </h2>
      <ul class="causes" aria-label="Notes of operators">
        {recent.map(({ id, time, text, by }) => (
          <li key={id}>
            <span>{text}</span>
            <span>
              {by === null ? '' : `${by}, `}
              <Ago at={time} />
            </span>
          </li>
        ))}
      </ul>
    </>
  )
}

/** Attempts that a limit ended in the last hour, by kind, and how late they were decided. */
function TimeoutsOfHour(): JSX.Element {
  const { data } = useQuery<Series>('/api/v1/board/series?metric=timeouts&by=kind&from=-1h', 10_000)
  const recent = pulse.value?.recent ?? null
  return (
    <>
      <h2>
        <Link to="/timeouts">Timeouts</Link> in the last hour
      </h2>
      {data === null ? null : data.groups.length === 0 ? (
        <p>No attempt was ended by a limit.</p>
      ) : (
        <ul class="tiles wide" aria-label="Timeouts by kind">
          {data.groups.map(({ name, total, points }) => (
            <li key={name}>
              <Link to={`/jobs${queryOf({ ...kindFilter(name), since: '1h' })}`}>
                <strong>{count(total)}</strong>
                <span>{(name ?? 'other').replaceAll('_', ' ')}</span>
              </Link>
              <Columns values={folded(points, 30)} tone="bad" label={`${count(total)} in the last hour, by minute`} />
            </li>
          ))}
        </ul>
      )}
      {recent === null ? null : (
        <p class="soft">
          {recent.overshoot_p99_ms === null
            ? ''
            : `99 % of deadlines were decided within ${length(recent.overshoot_p99_ms)}. `}
          {recent.late_results_refused === 0 ? '' : `${count(recent.late_results_refused)} late results were refused.`}
        </p>
      )}
    </>
  )
}

function QueueTable({ queues, risk }: { queues: readonly QueueView[]; risk: AtRisk }): JSX.Element {
  return (
    <Table label="Queues" head={['Queue', '#Waiting', '#Active', '#Starts/s', '#At risk', 'State']}>
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

const DEMO_QUEUE = 'demo'

/** What is sent, and what becomes of it. */
const DEMO: readonly {
  readonly type: string
  readonly shows: string
  readonly isServed: boolean
  readonly options: Readonly<Record<string, unknown>>
}[] = [
  {
    type: 'demo.too-old',
    shows: 'It may wait 3 s for its start (enqueue_ttl); then it is discarded',
    isServed: false,
    options: { enqueue_ttl_ms: 3_000 },
  },
  {
    type: 'demo.total',
    shows: 'Its whole life may take 4 s (total_timeout), waiting included',
    isServed: false,
    options: { total_timeout_ms: 4_000 },
  },
  {
    type: 'demo.later',
    shows: 'It is scheduled: it may start in 2 s, and must have by 5 s',
    isServed: false,
    options: { delay_until: '+PT2S', expires_at: '+PT5S' },
  },
  {
    type: 'demo.cancelled',
    shows: 'It is cancelled right after it is enqueued',
    isServed: false,
    options: {},
  },
  {
    type: 'demo.work',
    shows: 'It waits until a worker serves the queue; an attempt may take 30 s',
    isServed: true,
    options: { timeout_ms: 30_000 },
  },
  {
    type: 'demo.retried',
    shows: 'Three attempts of 2 s each, with a grace of 1 s',
    isServed: true,
    options: { timeout_ms: 2_000, grace_period_ms: 1_000, retry: { max_attempts: 3 } },
  },
]

async function sendDemo(): Promise<void> {
  for (const { type, options } of DEMO) {
    const { job } = await ask<{ job: Job }>('POST', '/ojs/v1/jobs', {
      type,
      args: [],
      options: { queue: DEMO_QUEUE, ...options },
    })
    if (type === 'demo.cancelled' && may('operate')) await ask('DELETE', `/ojs/v1/jobs/${job.id}`)
  }
}

/** The first page of a server on which nothing has happened yet. */
function Greeting(): JSX.Element {
  const base = window.location.origin + href('/')
  return (
    <Page title="This server is up, and empty">
      <p>Enqueue a job from a terminal:</p>
      <Copy
        text={`curl -sS ${base}ojs/v1/jobs -H 'Content-Type: application/json' \\\n  -d '${JSON.stringify(FIRST_JOB)}'`}
      />
      <Needs role="produce">
        <button
          type="button"
          class="main"
          onClick={() => void act('Sent. It waits for a worker.', () => ask('POST', '/ojs/v1/jobs', FIRST_JOB))}
        >
          Send this job now
        </button>
        <h2>Or see what limits do</h2>
        <p>Six small jobs on the queue {DEMO_QUEUE}, each of which ends in a different way:</p>
        <Table label="Demo jobs" head={['Job', 'What it shows', 'Needs a worker']}>
          {DEMO.map(({ type, shows, isServed }) => (
            <tr key={type}>
              <th scope="row">{type}</th>
              <td class="wrap">{shows}</td>
              <td>{isServed ? 'yes' : 'no'}</td>
            </tr>
          ))}
        </Table>
        <p>
          <button
            type="button"
            onClick={() => void act('Sent. Those without a worker end within five seconds.', sendDemo)}
          >
            Send the demo jobs
          </button>
        </p>
      </Needs>
      <p>
        A worker takes it with the SDK, or with three calls: fetch, heartbeat, ack. Every call is described in{' '}
        <a href={href('/openapi.json')}>openapi.json</a>; how limits work is in <code>docs/timeouts.md</code>, the SDK
        in <code>docs/sdk-worker.md</code>.
      </p>
    </Page>
  )
}
