/** Is anything late, about to be, or stuck? A verdict, at most five causes, the numbers, the queues. */
import { elapsed, hours } from '@curfew/core'
import type { JSX } from 'preact'
import { queryOf } from '../api.ts'
import { pulse } from '../live.ts'
import { useQuery } from '../query.ts'
import { folded, kindFilter, type Series } from '../series.ts'
import { clockTime, instantAt, length, now, running, untilMs } from '../time.ts'
import { Ago, Columns, count, Link, Loading, Page, perSecond, Table, Trouble } from '../ui.tsx'
import type { AtRisk, ForecastView, Health, Manifest, Note, QueueView, Stats, WorkerView } from '../wire.ts'
import { lateQueues, silentWorkers, stuckIn, stuckQueues, troubleIn, type Cause } from './now-causes.tsx'
import { Greeting } from './now-greeting.tsx'

const MAX_CAUSES = 5

interface QueuesShown {
  readonly queues: readonly QueueView[]
  readonly pagination: { readonly total: number }
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
