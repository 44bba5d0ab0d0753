/** Jobs that ended without success and were kept to be looked at. */
import type { JSX } from 'preact'
import { useState } from 'preact/hooks'
import { ask, may, queryOf } from '../api.ts'
import { useQuery } from '../query.ts'
import { search, setFilters } from '../router.ts'
import {
  act,
  count,
  Dialog,
  JobLink,
  Loading,
  Needs,
  offsetInAddress,
  Page,
  Paging,
  Table,
  Time,
  Trouble,
} from '../ui.tsx'
import type { Job, JobList } from '../wire.ts'

export function DeadLetters(): JSX.Element {
  const queue = search.value.get('queue')
  const list = useQuery<JobList>(`/ojs/v1/dead-letter${queryOf({ queue, limit: 50, offset: offsetInAddress() })}`)
  const stats = useQuery<{ total: number; by_queue: Readonly<Record<string, number>> }>('/ojs/v1/dead-letter/stats')
  const [asked, setAsked] = useState<Job | 'all' | null>(null)
  if (list.data === null)
    return (
      <Page title="Dead letters">
        <Loading error={list.error} />
      </Page>
    )
  const { jobs, pagination } = list.data
  const retry = (job: Job): Promise<void> =>
    act('Retried: the job waits for a worker.', () =>
      ask('POST', `/ojs/v1/dead-letter/${encodeURIComponent(job.id)}/retry`),
    ).then(list.refresh)
  return (
    <Page title="Dead letters">
      <Trouble error={list.error} />
      <form class="filters">
        <label>
          Queue
          <select
            value={queue ?? ''}
            onChange={(event) => {
              setFilters({ queue: event.currentTarget.value, from: null })
            }}
          >
            <option value="">all ({count(stats.data?.total ?? 0)})</option>
            {Object.entries(stats.data?.by_queue ?? {}).map(([name, many]) => (
              <option key={name} value={name}>
                {name} ({count(many)})
              </option>
            ))}
          </select>
        </label>
        {jobs.length === 0 || !may('operate') ? null : (
          <button
            type="button"
            onClick={() => {
              setAsked('all')
            }}
          >
            Retry all {queue === null ? '' : `of ${queue}`}…
          </button>
        )}
      </form>
      {jobs.length === 0 ? (
        <p>No dead letters. Jobs come here when their attempts are used up and their retry policy says dead_letter.</p>
      ) : (
        <Table label="Dead letters" head={['Job', 'Type', 'Queue', 'Error', 'Message', 'Ended', 'Do']}>
          {jobs.map((job) => (
            <tr key={job.id}>
              <td>
                <JobLink id={job.id} />
              </td>
              <td class="name">{job.type}</td>
              <td class="name">{job.queue}</td>
              <td>{job.error?.timeout_kind?.replaceAll('_', ' ') ?? job.error?.type}</td>
              <td class="wrap">{job.error?.message}</td>
              <td>
                <Time at={job.discarded_at} />
              </td>
              <td class="do">
                <Needs role="operate">
                  <button type="button" onClick={() => void retry(job)}>
                    Retry
                  </button>{' '}
                  <Needs role="admin">
                    <button
                      type="button"
                      onClick={() => {
                        setAsked(job)
                      }}
                    >
                      Delete…
                    </button>
                  </Needs>
                </Needs>
              </td>
            </tr>
          ))}
        </Table>
      )}
      <Paging pagination={pagination} what="dead letters" />
      {asked === null ? null : asked === 'all' ? (
        <Dialog
          title="Retry all of them?"
          confirm={`Retry ${count(pagination.total ?? jobs.length)}`}
          onConfirm={() =>
            act('Retried.', () =>
              ask('POST', '/ojs/v1/dead-letter/retry', { ...(queue === null ? {} : { queue }), confirm: true }),
            ).then(list.refresh)
          }
          onClose={() => {
            setAsked(null)
          }}
        >
          <p>
            {count(pagination.total ?? jobs.length)} jobs {queue === null ? 'of all queues' : `of ${queue}`} start again
            with new attempts, and their limits count from now.
          </p>
        </Dialog>
      ) : (
        <Dialog
          title="Delete this dead letter?"
          confirm="Delete the job"
          isDanger
          onConfirm={() =>
            act('Deleted.', () => ask('DELETE', `/ojs/v1/dead-letter/${encodeURIComponent(asked.id)}`)).then(
              list.refresh,
            )
          }
          onClose={() => {
            setAsked(null)
          }}
        >
          <p>The job and everything recorded of it are removed. This cannot be undone.</p>
        </Dialog>
      )}
    </Page>
  )
}
