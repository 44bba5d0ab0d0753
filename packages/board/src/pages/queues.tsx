/** Pace, waits, limits of a queue; pause, drain, resume. */
import type { JSX } from 'preact'
import { useState } from 'preact/hooks'
import { ask, queryOf } from '../api.ts'
import { useQuery } from '../query.ts'
import { length } from '../time.ts'
import {
  act,
  count,
  Dialog,
  Facts,
  JobLink,
  Json,
  Link,
  Loading,
  Needs,
  Page,
  perSecond,
  Source,
  offsetInAddress,
  Paging,
  Table,
  Time,
  Trouble,
} from '../ui.tsx'
import type { AtRisk, Pagination, QueueStats, QueueView, State } from '../wire.ts'
import { STATES } from '../wire.ts'

interface QueueList {
  readonly queues: readonly QueueView[]
  readonly pagination: Pagination
}

export function Queues(): JSX.Element {
  const { data, error } = useQuery<QueueList>(`/ojs/v1/queues${queryOf({ limit: 100, offset: offsetInAddress() })}`)
  const risk = useQuery<AtRisk>('/ojs/v1/admin/at-risk?limit=200')
  if (data === null)
    return (
      <Page title="Queues">
        <Loading error={error} />
      </Page>
    )
  return (
    <Page title="Queues">
      <Trouble error={error} />
      {data.queues.length === 0 ? <p>A queue is created by its first job.</p> : null}
      <Table
        label="Queues"
        head={[
          'Queue',
          '#Waiting',
          '#Active',
          '#To retry',
          '#Scheduled',
          '#Done',
          '#Discarded',
          '#Starts/s',
          '#At risk',
          'State',
        ]}
      >
        {data.queues.map(({ name, counts, status }) => {
          const pace = risk.data?.queues.find(({ queue }) => queue === name)
          const late = risk.data?.items.filter(({ queue }) => queue === name).length ?? 0
          return (
            <tr key={name}>
              <th scope="row">
                <Link to={`/queues/${encodeURIComponent(name)}`}>{name}</Link>
              </th>
              {(['available', 'active', 'retryable', 'scheduled', 'completed', 'discarded'] as const).map((state) => (
                <td class="num" key={state}>
                  {count(counts[state])}
                </td>
              ))}
              <td class="num">{pace === undefined ? '–' : perSecond(pace.starts_per_second)}</td>
              <td class="num">{late === 0 ? '–' : count(late)}</td>
              <td class={status === 'active' ? undefined : 's-paused'}>{status === 'active' ? 'running' : status}</td>
            </tr>
          )
        })}
      </Table>
      <Paging pagination={data.pagination} what="queues" />
    </Page>
  )
}

type Word = 'pause' | 'drain' | 'resume'
const DONE: Readonly<Record<Word, string>> = { pause: 'Paused.', drain: 'Draining.', resume: 'Resumed.' }

export function QueuePage({ at: [name = ''] }: { readonly at: readonly string[] }): JSX.Element {
  const where = encodeURIComponent(name)
  const { data, error, refresh } = useQuery<QueueView & { config: object }>(`/ojs/v1/admin/queues/${where}`)
  const stats = useQuery<{ stats: QueueStats }>(`/ojs/v1/queues/${where}/stats`)
  const risk = useQuery<AtRisk>(`/ojs/v1/admin/at-risk${queryOf({ queue: name, limit: 20 })}`)
  const [asked, setAsked] = useState<Word | null>(null)
  if (data === null)
    return (
      <Page title={`Queue ${name}`}>
        <Loading error={error} />
      </Page>
    )
  const isRunning = data.status === 'active'
  const tell = (word: Word): Promise<void> =>
    act(DONE[word], () => ask('POST', `/ojs/v1/queues/${where}/${word}`)).then(refresh)
  const figures = stats.data?.stats
  return (
    <Page
      title={
        <>
          {name} <span class={isRunning ? 's-running' : 's-paused'}>{isRunning ? 'running' : data.status}</span>
        </>
      }
      aside={
        <Needs role="operate">
          <div class="buttons">
            {isRunning ? (
              (['pause', 'drain'] as const).map((word) => (
                <button
                  key={word}
                  type="button"
                  onClick={() => {
                    setAsked(word)
                  }}
                >
                  {word === 'pause' ? 'Pause…' : 'Drain…'}
                </button>
              ))
            ) : (
              <button type="button" class="main" onClick={() => void tell('resume')}>
                Resume
              </button>
            )}
          </div>
        </Needs>
      }
    >
      <Trouble error={error} />
      <Facts
        of={[
          figures === undefined ? null : ['Done in the last hour', count(figures.completed_last_hour)],
          figures === undefined ? null : ['Failed in the last hour', count(figures.failed_last_hour)],
          typeof figures?.avg_wait_ms === 'number' ? ['Average wait', length(figures.avg_wait_ms)] : null,
          typeof figures?.avg_duration_ms === 'number' ? ['Average attempt', length(figures.avg_duration_ms)] : null,
          figures === undefined ? null : ['Done per second', perSecond(figures.throughput_per_second)],
          data.paused_at === undefined ? null : ['Since', <Time at={data.paused_at} />],
        ]}
      />
      <ul class="tiles" aria-label="Jobs by state">
        {STATES.map((state: State) => (
          <li key={state}>
            <Link to={`/jobs${queryOf({ queue: name, state })}`}>
              <strong>{count(data.counts[state])}</strong>
              <span>{state}</span>
            </Link>
          </li>
        ))}
      </ul>
      <h2>Jobs that will be late at the present pace</h2>
      {risk.data === null || risk.data.items.length === 0 ? (
        <p>None.</p>
      ) : (
        <Table label="Jobs at risk" head={['Job', 'Type', '#Ahead', 'Must start by', '#Late by', 'Limit']}>
          {risk.data.items.map((item) => (
            <tr key={item.job_id}>
              <td>
                <JobLink id={item.job_id} />
              </td>
              <td>{item.type}</td>
              <td class="num">{count(item.jobs_ahead)}</td>
              <td>
                <Time at={item.latest_start} />
              </td>
              <td class="num">{item.late_by_ms === null ? 'not starting' : length(item.late_by_ms)}</td>
              <td>
                {item.limit} <Source source={item.source} type={item.type} queue={name} />
              </td>
            </tr>
          ))}
        </Table>
      )}
      <h2>Limits of this queue</h2>
      {Object.keys(data.config).length === 0 ? (
        <p>None of its own: jobs keep those of their type and of the server.</p>
      ) : (
        <Json name="Configuration" value={data.config} open />
      )}
      {asked === null ? null : (
        <Dialog
          title={`${asked === 'pause' ? 'Pause' : 'Drain'} ${name}?`}
          confirm={asked === 'pause' ? 'Pause it' : 'Drain it'}
          onConfirm={() => tell(asked)}
          onClose={() => {
            setAsked(null)
          }}
        >
          <p>
            {asked === 'pause'
              ? `No more of its jobs are handed out: ${count(data.counts.available)} wait. Their total deadlines keep running.`
              : 'It takes no new jobs; what is in it is still handed out.'}
          </p>
        </Dialog>
      )}
    </Page>
  )
}
