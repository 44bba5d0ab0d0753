/** Which jobs, how many, what have they in common? Filters are in the address; rows stay where they are while one reads. */
import type { JSX } from 'preact'
import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks'
import { may, queryOf } from '../api.ts'
import { Budget, Why } from '../budget.tsx'
import { useQuery } from '../query.ts'
import { go, search } from '../router.ts'
import { clockTime } from '../time.ts'
import { count, JobLink, jobPath, Link, Loading, Needs, Page, StateBadge, Time, Trouble } from '../ui.tsx'
import type { FoundJob, FoundJobs } from '../wire.ts'
import { FilterForm, filtersOf, isTyping, parametersOf, type Filters } from './jobs-filters.tsx'
import { BulkDialog, type Bulk } from './jobs-bulk.tsx'

/** Of these no count is kept, and nothing can be done to all of them at once. */
const COMPARED = ['source', 'id_prefix']
const PAGE = 50
/** A search that looks at many jobs is not repeated as often. */
const MANY = 2_000

export function Jobs(): JSX.Element {
  const query = search.value
  const filters = filtersOf(query)
  const cursor = query.get('cursor')
  const [asked, setAsked] = useState(() => parametersOf(filters))
  const key = query.toString()
  const seen = useRef(key)
  if (seen.current !== key) {
    seen.current = key
    setAsked(parametersOf(filters))
  }
  const [isLong, setLong] = useState(false)
  const where = `/api/v1/board/jobs${queryOf({ ...asked, limit: PAGE, cursor })}`
  const { data, error, refresh } = useQuery<FoundJobs>(where, isLong ? 10_000 : 2_000)
  useEffect(() => {
    if (data !== null) setLong(data.examined > MANY)
  }, [data])
  return (
    <Page title="Jobs">
      <FilterForm filters={filters} />
      <Trouble error={error} />
      {data === null ? (
        error === null ? (
          <Loading />
        ) : null
      ) : (
        <List key={key} data={data} filters={filters} asked={asked} refresh={refresh} />
      )}
    </Page>
  )
}

function List({
  data,
  filters,
  asked,
  refresh,
}: {
  data: FoundJobs
  filters: Filters
  asked: Record<string, string | null>
  refresh: () => void
}): JSX.Element {
  const [shown, setShown] = useState<readonly FoundJob[]>(data.items)
  const byId = new Map(data.items.map((job) => [job.id, job]))
  const known = new Set(shown.map(({ id }) => id))
  const newest = shown[0]?.created_at ?? ''
  const newer = data.items.filter((job) => !known.has(job.id) && job.created_at >= newest).length
  // Older rows are pushed off the answer by newer ones: they may still fit.
  const oldest = data.complete ? '' : (data.items.at(-1)?.created_at ?? '')
  const rows = shown.map((job) => ({
    job: byId.get(job.id) ?? job,
    isGone: !byId.has(job.id) && job.created_at >= oldest,
  }))
  const [at, setAt] = useState(-1)
  const [selected, setSelected] = useState<ReadonlySet<string>>(new Set())
  const [bulk, setBulk] = useState<Bulk | null>(null)
  useEffect(() => {
    if (shown.length === 0 && data.items.length > 0) setShown(data.items)
  }, [data])
  const toggle = (id: string): void => {
    const next = new Set(selected)
    if (!next.delete(id)) next.add(id)
    setSelected(next)
  }
  // With the rows, not after them: a key that follows at once would be answered from the rows before.
  useLayoutEffect(() => {
    const onKey = (event: KeyboardEvent): void => {
      if (
        isTyping(event) ||
        event.ctrlKey ||
        event.metaKey ||
        event.altKey ||
        document.querySelector('dialog') !== null
      )
        return
      const row = rows[at]
      if (event.key === 'j') setAt(Math.min(rows.length - 1, at + 1))
      else if (event.key === 'k') setAt(Math.max(0, at - 1))
      else if (event.key === 'x' && row !== undefined) toggle(row.job.id)
      else if (event.key === 'Enter' && row !== undefined && event.target === document.body) go(jobPath(row.job.id))
      else return
      event.preventDefault()
    }
    document.addEventListener('keydown', onKey)
    return () => {
      document.removeEventListener('keydown', onKey)
    }
  })
  useEffect(() => {
    document.querySelector('tr.at')?.scrollIntoView({ block: 'nearest' })
  }, [at])
  const ids = [...selected]
  const isFiltered = Object.values(filters).some((value) => value !== null && value !== '')
  return (
    <>
      <p class="soft" role="status">
        {foundIn(data)}
        {newer > 0 ? (
          <>
            {' '}
            <button
              type="button"
              onClick={() => {
                setShown(data.items)
                setAt(-1)
              }}
            >
              Show {String(newer)} new
            </button>
          </>
        ) : null}
      </p>
      {shown.length === 0 ? (
        <p>
          {!isFiltered
            ? 'There are no jobs yet.'
            : data.complete
              ? 'No job fits these filters.'
              : 'None of the jobs examined so far fits these filters. Older ones may.'}
        </p>
      ) : (
        <div class="scroll" role="region" aria-label="Jobs" tabIndex={0}>
          <table>
            <thead>
              <tr>
                <th scope="col">
                  <input
                    type="checkbox"
                    aria-label="Select all on this page"
                    checked={selected.size === rows.length}
                    onChange={() => {
                      setSelected(selected.size === rows.length ? new Set() : new Set(rows.map(({ job }) => job.id)))
                    }}
                  />
                </th>
                {['ID', 'State', 'Type', 'Budget', 'Why', 'Queue', 'Created'].map((name) => (
                  <th scope="col" key={name}>
                    {name}
                  </th>
                ))}
              </tr>
            </thead>
            <tbody>
              {rows.map(({ job, isGone }, index) => (
                <tr
                  key={job.id}
                  class={`${isGone ? 'gone' : ''}${index === at ? ' at' : ''}`}
                  aria-current={index === at ? 'true' : undefined}
                >
                  <td>
                    <input
                      type="checkbox"
                      aria-label={`Select ${job.id}`}
                      checked={selected.has(job.id)}
                      onChange={() => {
                        toggle(job.id)
                      }}
                    />
                  </td>
                  <td>
                    <JobLink id={job.id} />
                  </td>
                  <td>
                    <StateBadge state={job.state} />
                    {isGone ? <span class="soft"> no longer listed</span> : null}
                  </td>
                  <td class="name">{job.type}</td>
                  <td>
                    <Budget job={job} />
                  </td>
                  <td>
                    <Why job={job} />
                  </td>
                  <td class="name">{job.queue}</td>
                  <td>
                    <Time at={job.created_at} />
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
      <div class="buttons">
        <Needs role="operate">
          {(may('admin') ? (['retry', 'cancel', 'delete'] as const) : (['retry', 'cancel'] as const)).map((action) => (
            <button
              key={action}
              type="button"
              disabled={ids.length === 0}
              onClick={() => {
                setBulk({ action, what: { job_ids: ids } })
              }}
            >
              {action} {ids.length === 0 ? 'selected' : String(ids.length)}…
            </button>
          ))}
          {isFiltered && shown.length > 0 && COMPARED.every((name) => (filters[name] ?? '') === '')
            ? (['retry', 'cancel'] as const).map((action) => (
                <button
                  key={`all ${action}`}
                  type="button"
                  onClick={() => {
                    setBulk({ action, what: { filter: filterBody(asked) } })
                  }}
                >
                  {action} all that fit…
                </button>
              ))
            : null}
        </Needs>
        {data.next_cursor === null ? null : (
          <Link to={`/jobs${queryOf({ ...filters, cursor: data.next_cursor })}`}>
            {data.items.length < PAGE ? 'Look further back' : 'Older'}
          </Link>
        )}
        {search.value.has('cursor') ? <Link to={`/jobs${queryOf({ ...filters })}`}>Newest</Link> : null}
      </div>
      <p class="soft">
        <kbd>j</kbd> <kbd>k</kbd> move, <kbd>x</kbd> select, <kbd>Enter</kbd> open, <kbd>/</kbd> search
      </p>
      {bulk === null ? null : (
        <BulkDialog
          bulk={bulk}
          onClose={() => {
            setBulk(null)
            setSelected(new Set())
            refresh()
          }}
        />
      )}
    </>
  )
}

/** How many there are, and how far the search has looked. */
function foundIn({ items, total, total_exact: isExact, examined, looked_back_to: until, complete }: FoundJobs): string {
  const found =
    total === null
      ? `${count(items.length)} shown`
      : isExact
        ? `${count(total)} found`
        : `${count(total)} or more found`
  const order = items.length === 0 ? '' : ', newest first'
  // A page that is full was not looked for any further.
  const isCut = !complete && items.length < PAGE && until !== null
  return found + order + (isCut ? `; examined ${count(examined)} jobs, back to ${clockTime(until)}` : '')
}

const filterBody = (asked: Record<string, string | null>): object =>
  Object.fromEntries(
    Object.entries(asked)
      .filter(([, value]) => value !== null && value !== '')
      .map(([name, value]) => [name, name === 'state' ? (value ?? '').split(',') : value]),
  )
