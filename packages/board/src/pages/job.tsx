/** One job: where its time went, what happens next, and the source of each limit. */
import { asOf, instant, LIMIT_ANSWERS, LIMIT_NAMES, readBoardJob, timeline, type LimitName } from '@curfew/core'
import type { JSX } from 'preact'
import { useEffect, useMemo, useState } from 'preact/hooks'
import { ask, follow } from '../api.ts'
import { useQuery } from '../query.ts'
import { instantOf, length, monotonicMs, now, timeOfDay } from '../time.ts'
import { Timeline } from '../timeline.tsx'
import {
  act,
  count,
  Dialog,
  Facts,
  Json,
  Link,
  Loading,
  Needs,
  Page,
  Source,
  StateBadge,
  Table,
  Time,
  Trouble,
} from '../ui.tsx'
import type { Explanation, Failure, Job } from '../wire.ts'

const OVER = new Set(['completed', 'discarded', 'cancelled'])

export function JobPage({ at: [id = ''] }: { readonly at: readonly string[] }): JSX.Element {
  const where = encodeURIComponent(id)
  const asked = useQuery<{ job: Job }>(`/ojs/v1/jobs/${where}`)
  const record = useQuery<object>(`/api/v1/board/jobs/${where}`)
  const explained = useQuery<Explanation>(`/ojs/v1/jobs/${where}/explain`)
  const job = asked.data?.job ?? null
  const isOver = job === null || OVER.has(job.state)
  const refresh = (): void => {
    asked.refresh()
    record.refresh()
    explained.refresh()
  }
  useEffect(() => {
    if (isOver) return
    const gone = new AbortController()
    follow(`/ojs/v1/jobs/${where}/events`, gone.signal, refresh).catch(() => {})
    return () => {
      gone.abort()
    }
  }, [where, isOver])
  if (job === null)
    return (
      <Page title="Job">
        <Loading error={asked.error} />
      </Page>
    )
  return (
    <Page
      title={
        <>
          {job.type} <StateBadge state={job.state} />
        </>
      }
      aside={
        <Needs role="operate">
          <Actions job={job} done={refresh} />
        </Needs>
      }
    >
      <Trouble error={asked.error} />
      <p class="id">{job.id}</p>
      <Facts
        of={[
          ['Queue', <Link to={`/queues/${encodeURIComponent(job.queue)}`}>{job.queue}</Link>],
          ['Attempt', `${String(job.attempt)} of ${String(job.max_attempts)}`],
          job.worker_id === undefined
            ? null
            : ['Worker', <Link to={`/workers/${encodeURIComponent(job.worker_id)}`}>{job.worker_id}</Link>],
          ['Priority', String(job.priority)],
          ['Created', <Time at={job.created_at} />],
          job.workflow_id === undefined
            ? null
            : ['Workflow', <Link to={`/workflows/${encodeURIComponent(job.workflow_id)}`}>{job.workflow_id}</Link>],
          job.tags === undefined || job.tags.length === 0 ? null : ['Tags', job.tags.join(', ')],
        ]}
      />
      {record.data === null ? null : (
        <LiveTimeline record={record.data} ended={endedAt(job)} text={explained.data?.text ?? null} />
      )}
      <Limits job={job} />
      <Endings job={job} />
      <Log job={job} />
      {explained.data === null ? null : (
        <>
          <h2>What happened</h2>
          <pre tabIndex={0}>{explained.data.text}</pre>
        </>
      )}
      <h2>Data</h2>
      <Json name="Arguments" value={job.args} />
      {job.meta === undefined || Object.keys(job.meta as object).length === 0 ? null : (
        <Json name="Meta" value={job.meta} />
      )}
      {job.result === undefined ? null : <Json name="Result" value={job.result} open />}
      <Json name="Whole record" value={job} />
    </Page>
  )
}

const endedAt = (job: Job): number | null => instantOf(job.completed_at ?? job.discarded_at ?? job.cancelled_at)

/** Runs with the clock while the job lives; of a job that is over it shows the moment of its end, or replays its last minute. */
function LiveTimeline({
  record,
  ended,
  text,
}: {
  record: object
  ended: number | null
  text: string | null
}): JSX.Element {
  const input = useMemo(() => readBoardJob(record), [record])
  const [replayed, setReplayed] = useState<number | null>(null)
  // An answer may be a little ahead of the page's clock.
  const at = ended ?? Math.max(now.value, input.now)
  const model = timeline(input, instant(at))
  const ending = ended === null ? null : (text?.trim().split('\n').at(-1) ?? null)
  if (ended === null) return <Timeline model={model} line="now" />
  const isReplayed = replayed !== null && replayed < ended
  return (
    <>
      <Timeline
        model={isReplayed ? asOf(model, instant(replayed)) : ending === null ? model : { ...model, sentence: ending }}
        line={isReplayed ? 'then' : null}
      />
      <Replay from={Math.max(input.job.createdAt, ended - REPLAY_MS)} to={ended} at={replayed} show={setReplayed} />
    </>
  )
}

const REPLAY_MS = 60_000
/** A replay takes so long, however short the life was. */
const REPLAY_TAKES_MS = 10_000

/** The end of a job's life again: by itself, or moved by hand. `at` null: not replayed. */
function Replay({
  from,
  to,
  at,
  show,
}: {
  from: number
  to: number
  at: number | null
  show: (at: number | null) => void
}): JSX.Element {
  const [isRunning, setRunning] = useState(false)
  useEffect(() => {
    if (!isRunning) return
    const began = monotonicMs()
    const timer = setInterval(() => {
      const next = from + ((monotonicMs() - began) / REPLAY_TAKES_MS) * (to - from)
      if (next < to) show(next)
      else {
        show(null)
        setRunning(false)
      }
    }, 100)
    return () => {
      clearInterval(timer)
    }
  }, [isRunning, from, to])
  if (to <= from) return <></>
  return (
    <div class="filters">
      <button
        type="button"
        onClick={() => {
          setRunning(!isRunning)
        }}
      >
        {isRunning ? 'Hold' : `Replay the last ${length(to - from)}`}
      </button>
      <label class="wide">
        As it was at {timeOfDay(at ?? to)}
        <input
          type="range"
          min={from}
          max={to}
          step="any"
          value={at ?? to}
          onInput={(event) => {
            setRunning(false)
            const value = Number(event.currentTarget.value)
            show(value < to ? value : null)
          }}
        />
      </label>
    </div>
  )
}

const MEANINGS: Readonly<Record<LimitName, string>> = {
  timeout: 'How long one attempt may run',
  grace: 'Time to clean up after that',
  total: 'All attempts together, from enqueue on',
  ttl: 'How long it may wait for its start',
  heartbeat: 'Longest silence of an attempt',
  visibility: 'How long a worker holds it without a sign',
}

function Limits({ job }: { job: Job }): JSX.Element | null {
  const { x_limits: limits } = job
  const rows = LIMIT_NAMES.flatMap((name) => {
    const ms = limits[LIMIT_ANSWERS[name]]
    return ms === undefined ? [] : [{ name, ms, words: MEANINGS[name], source: limits.sources[name] }]
  })
  if (rows.length === 0) return null
  return (
    <>
      <h2>Limits</h2>
      <Table label="Limits" head={['Limit', 'Length', 'Set by', 'Meaning']}>
        {rows.map(({ name, ms, words, source }) => (
          <tr key={name}>
            <th scope="row">{name}</th>
            <td>{length(ms)}</td>
            <td>{source === undefined ? '' : <Source source={source} type={job.type} queue={job.queue} />}</td>
            <td class="soft">{words}</td>
          </tr>
        ))}
      </Table>
    </>
  )
}

/** How late it was decided; where a worker reported the timeout, how long after the limit the report came. */
function latenessOf({
  overshoot_ms: overshoot,
  timeout_kind: kind,
  limit_ms: limit,
  elapsed_ms: passed,
}: Failure): string {
  if (overshoot !== undefined) return `+${length(overshoot)}`
  if (kind === undefined || limit === undefined || passed === undefined) return ''
  return `+${length(passed - limit)}, by the worker`
}

function Endings({ job }: { job: Job }): JSX.Element | null {
  const errors: readonly Failure[] = job.errors ?? (job.error === undefined ? [] : [job.error])
  if (errors.length === 0) return null
  return (
    <>
      <h2>Failed attempts</h2>
      <Table label="Failed attempts" head={['#Attempt', 'Ended by', 'Limit', 'Set by', 'Decided', 'When', 'Message']}>
        {errors.map((error, index) => (
          <tr key={index}>
            <td class="num">{error.attempt ?? '–'}</td>
            <td>{error.timeout_kind?.replaceAll('_', ' ') ?? error.type}</td>
            <td>{error.limit_ms === undefined ? '' : length(error.limit_ms)}</td>
            <td>
              {error.source === undefined ? '' : <Source source={error.source} type={job.type} queue={job.queue} />}
            </td>
            <td>{latenessOf(error)}</td>
            <td>
              <Time at={error.occurred_at} />
            </td>
            <td class="wrap">{error.message}</td>
          </tr>
        ))}
      </Table>
    </>
  )
}

/** What the handlers wrote, as text. */
function Log({ job: { x_log: log } }: { job: Job }): JSX.Element | null {
  if (log === undefined) return null
  return (
    <>
      <h2>Log</h2>
      {log.dropped === 0 ? null : <p class="soft">{count(log.dropped)} older lines were dropped.</p>}
      <Table label="Log" head={['When', '#Attempt', 'Message', 'Fields']}>
        {log.lines.map(({ at, attempt, message, fields, cut }, index) => (
          <tr key={index}>
            <td>
              <Time at={at} />
            </td>
            <td class="num">{attempt}</td>
            <td class="wrap">
              {message}
              {cut === true ? <span class="soft"> (cut)</span> : null}
            </td>
            <td class="wrap">{fields === undefined ? '' : JSON.stringify(fields)}</td>
          </tr>
        ))}
      </Table>
    </>
  )
}

function Actions({ job, done }: { job: Job; done: () => void }): JSX.Element {
  const [isAsking, setAsking] = useState(false)
  const where = `/ojs/v1/admin/jobs/${encodeURIComponent(job.id)}`
  const mayRetry = job.state === 'discarded' || job.state === 'cancelled'
  const mayCancel = !OVER.has(job.state)
  return (
    <div class="buttons">
      {mayRetry ? (
        <button
          type="button"
          class="main"
          onClick={() =>
            void act('Retried: the job waits for a worker.', () => ask('POST', `${where}/retry`)).then(done)
          }
        >
          Retry
        </button>
      ) : null}
      {mayCancel ? (
        <button
          type="button"
          onClick={() => {
            setAsking(true)
          }}
        >
          Cancel…
        </button>
      ) : null}
      {isAsking ? (
        <Dialog
          title="Cancel this job?"
          confirm="Cancel the job"
          isDanger
          onConfirm={() => act('Cancelled.', () => ask('POST', `${where}/cancel`)).then(done)}
          onClose={() => {
            setAsking(false)
          }}
        >
          <p>
            {job.state === 'active'
              ? 'Its attempt is asked to stop, and its result no longer counts.'
              : 'It will not be started. A cancelled job can be retried.'}
          </p>
        </Dialog>
      ) : null}
    </div>
  )
}
