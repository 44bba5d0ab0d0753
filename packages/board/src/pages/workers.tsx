/** Who works, who has fallen silent, and what would be hit if a worker went away now. */
import { foresee, instant, readBoardJob, type Foreseen } from '@curfew/core'
import type { JSX } from 'preact'
import { useEffect, useState } from 'preact/hooks'
import { ask, get, queryOf } from '../api.ts'
import { useQuery } from '../query.ts'
import { now, relative, serverNow } from '../time.ts'
import {
  act,
  Ago,
  count,
  Dialog,
  Facts,
  JobLink,
  Link,
  Loading,
  Needs,
  offsetInAddress,
  Page,
  Paging,
  StateBadge,
  Table,
  Trouble,
} from '../ui.tsx'
import type { Job, JobList, Pagination, WorkerView } from '../wire.ts'

interface WorkerList {
  readonly items: readonly WorkerView[]
  readonly summary: Readonly<Record<string, number>>
  readonly pagination: Pagination
}

const MAX_NAMED = 5

const namesOf = (queues: readonly string[]): string =>
  queues.length <= MAX_NAMED
    ? queues.join(', ')
    : `${queues.slice(0, MAX_NAMED).join(', ')} and ${count(queues.length - MAX_NAMED)} more`

export function Workers(): JSX.Element {
  const { data, error } = useQuery<WorkerList>(
    `/ojs/v1/admin/workers${queryOf({ limit: 100, offset: offsetInAddress() })}`,
  )
  if (data === null)
    return (
      <Page title="Workers">
        <Loading error={error} />
      </Page>
    )
  return (
    <Page title="Workers">
      <Trouble error={error} />
      <Facts of={Object.entries(data.summary).map(([name, value]) => [name, count(value)] as const)} />
      {data.items.length === 0 ? (
        <p>
          No worker has connected yet. How to start one: <code>docs/sdk-worker.md</code>.
        </p>
      ) : (
        <Table label="Workers" head={['Worker', 'State', '#Holds', '#Slots', 'Queues', 'Host', 'Last sign']}>
          {data.items.map((worker) => (
            <tr key={worker.worker_id}>
              <th scope="row">
                <Link to={`/workers/${encodeURIComponent(worker.worker_id)}`}>{worker.worker_id}</Link>
              </th>
              <td>
                <WorkerState worker={worker} />
              </td>
              <td class="num">{count(worker.active_jobs)}</td>
              <td class="num">{worker.concurrency === null ? '–' : count(worker.concurrency)}</td>
              <td class="name">{namesOf(worker.queues)}</td>
              <td class="name">
                {worker.hostname ?? <span class="soft">not registered</span>}{' '}
                <span class="soft">{worker.pid === null ? '' : String(worker.pid)}</span>
              </td>
              <td>
                <Ago at={worker.last_seen_at} />
              </td>
            </tr>
          ))}
        </Table>
      )}
      <Paging pagination={data.pagination} what="workers" />
    </Page>
  )
}

function WorkerState({ worker }: { worker: WorkerView }): JSX.Element {
  const { state, directive } = worker
  const isAsked = directive !== 'continue' && directive !== state
  return (
    <>
      <StateBadge state={state} />
      {isAsked ? <span class="soft"> asked to {directive}</span> : null}
    </>
  )
}

export function WorkerPage({ at: [id = ''] }: { readonly at: readonly string[] }): JSX.Element {
  const where = encodeURIComponent(id)
  const { data, error, refresh } = useQuery<{ worker: WorkerView } & WorkerView>(`/ojs/v1/workers/${where}`)
  const held = useQuery<JobList>(`/ojs/v1/jobs${queryOf({ worker: id, state: 'active', limit: MAX_HELD })}`)
  const all = useQuery<{ workers: readonly WorkerView[] }>('/ojs/v1/workers?limit=200', 5_000)
  const [asked, setAsked] = useState<'quiet' | 'terminate' | null>(null)
  const worker = data === null ? null : 'worker' in data ? data.worker : data
  if (worker === null)
    return (
      <Page title={`Worker ${id}`}>
        <Loading error={error} />
      </Page>
    )
  const jobs = held.data?.jobs ?? []
  const isTold = worker.directive !== 'continue'
  return (
    <Page
      title={
        <>
          {worker.worker_id} <WorkerState worker={worker} />
        </>
      }
      aside={
        <Needs role="operate">
          <div class="buttons">
            {isTold ? (
              <button
                type="button"
                onClick={() =>
                  void act('The worker gets the order with its next sign of life.', () =>
                    ask('POST', `/ojs/v1/admin/workers/${where}/resume`),
                  ).then(refresh)
                }
              >
                Resume
              </button>
            ) : (
              <button
                type="button"
                onClick={() => {
                  setAsked('quiet')
                }}
              >
                Quiet…
              </button>
            )}
            <button
              type="button"
              onClick={() => {
                setAsked('terminate')
              }}
            >
              Terminate…
            </button>
          </div>
        </Needs>
      }
    >
      <Trouble error={error} />
      <Facts
        of={[
          worker.hostname === null ? null : ['Host', worker.hostname],
          worker.pid === null ? null : ['Process', String(worker.pid)],
          ['Queues', worker.queues.join(', ')],
          worker.concurrency === null
            ? ['Holds', count(worker.active_jobs)]
            : ['Slots', `${count(worker.active_jobs)} of ${count(worker.concurrency)} in use`],
          ['Last sign', <Ago at={worker.last_seen_at} />],
          worker.labels.length === 0 ? null : ['Labels', worker.labels.join(', ')],
        ]}
      />
      <h2>Blast radius: if it fell silent now</h2>
      <Radius jobs={jobs} total={held.data?.pagination.total ?? jobs.length} />
      {asked === null ? null : (
        <Dialog
          title={`${asked === 'quiet' ? 'Quiet' : 'Terminate'} ${worker.worker_id}?`}
          confirm={asked === 'quiet' ? 'Quiet it' : 'Terminate it'}
          isDanger={asked === 'terminate'}
          onConfirm={() =>
            act(`The worker gets the order to ${asked} with its next sign of life.`, () =>
              ask('POST', `/ojs/v1/admin/workers/${where}/${asked}`),
            ).then(refresh)
          }
          onClose={() => {
            setAsked(null)
          }}
        >
          <p>
            {asked === 'quiet'
              ? `It takes no more jobs. The ${count(jobs.length)} it holds go on.`
              : `It takes no more jobs, lets the ${count(jobs.length)} it holds finish, and exits. What it cannot finish is handed back.`}
          </p>
          <Unserved worker={worker} all={all.data?.workers ?? []} />
          <Radius jobs={jobs} total={held.data?.pagination.total ?? jobs.length} />
        </Dialog>
      )}
    </Page>
  )
}

/** Queues that no other running worker serves. */
function Unserved({ worker, all }: { worker: WorkerView; all: readonly WorkerView[] }): JSX.Element {
  const others = all.filter(({ worker_id: other, state }) => other !== worker.worker_id && state === 'running')
  const left = worker.queues.filter((queue) => !others.some(({ queues }) => queues.includes(queue)))
  return left.length === 0 ? (
    <p>All of its queues are served by other workers as well.</p>
  ) : (
    <p class="trouble">No other running worker serves {left.join(', ')}: jobs there will wait.</p>
  )
}

const MAX_HELD = 50

/** Asks the rules of the server what becomes of each job if nothing more is heard of it. */
function Radius({ jobs, total }: { jobs: readonly Job[]; total: number }): JSX.Element {
  const [steps, setSteps] = useState<ReadonlyMap<string, Foreseen | null>>(new Map())
  const key = jobs.map(({ id }) => id).join()
  useEffect(() => {
    let isOver = false
    void Promise.all(
      jobs.map(async ({ id }): Promise<[string, Foreseen | null]> => {
        try {
          const record = readBoardJob(await get(`/api/v1/board/jobs/${encodeURIComponent(id)}`))
          const { steps: coming } = foresee(record.job, record.life, instant(serverNow()))
          return [id, coming.find(({ kind }) => kind !== 'soft_deadline') ?? null]
        } catch {
          return [id, null]
        }
      }),
    ).then((found) => {
      if (!isOver) setSteps(new Map(found))
    })
    return () => {
      isOver = true
    }
  }, [key])
  if (jobs.length === 0) return <p>It holds no job, so no job would be affected.</p>
  const ends = jobs.filter(({ id }) => ENDS.has(steps.get(id)?.then ?? '')).length
  const known = jobs.filter(({ id }) => (steps.get(id) ?? null) !== null).length
  return (
    <>
      <p>
        <strong>
          {String(known - ends)} would come back, {String(ends)} would end.
        </strong>
        {total > jobs.length ? ` ${count(total - jobs.length)} more are not examined.` : ''}
      </p>
      <Table label="Jobs it holds" head={['Job', 'Type', '#Attempt', 'Until', 'Then']}>
        {jobs.map((job) => {
          const step = steps.get(job.id) ?? null
          return (
            <tr key={job.id}>
              <td>
                <JobLink id={job.id} />
              </td>
              <td>{job.type}</td>
              <td class="num">
                {String(job.attempt)} of {String(job.max_attempts)}
              </td>
              <td>{step === null ? '–' : `${step.kind.replaceAll('_', ' ')} ${relative(step.at, now.value)}`}</td>
              <td>{step === null ? '–' : THEN[step.then]}</td>
            </tr>
          )
        })}
      </Table>
    </>
  )
}

const ENDS = new Set(['discard', 'cancel'])
const THEN: Readonly<Record<Foreseen['then'], string>> = {
  available: 'waits again',
  grace: 'is asked to stop',
  retry: 'comes back for another attempt',
  retry_or_discard: 'comes back, or ends if the backoff leaves no time',
  discard: 'ends, discarded',
  cancel: 'ends, cancelled',
  attempt: 'runs again',
}
