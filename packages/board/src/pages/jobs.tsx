/** Which jobs, how many, what have they in common? Filters are in the address; rows stay where they are while one reads. */
import { before, days, floorTo, hours, iso, minutes, type Millis } from '@curfew/core'
import type { JSX } from 'preact'
import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks'
import { ask, may, queryOf } from '../api.ts'
import { Budget, Why } from '../budget.tsx'
import { useQuery } from '../query.ts'
import { go, search, setFilters } from '../router.ts'
import { clockTime, serverNow } from '../time.ts'
import {
  act,
  count,
  Dialog,
  Facts,
  JobLink,
  jobPath,
  Link,
  Loading,
  Needs,
  Page,
  StateBadge,
  Time,
  Trouble,
} from '../ui.tsx'
import { STATES, TIMEOUT_KINDS, type FoundJob, type FoundJobs } from '../wire.ts'

/** Names in the query bar, and the parameters they mean. */
const WORDS: Readonly<Record<string, string>> = {
  type: 'type',
  queue: 'queue',
  worker: 'worker',
  tag: 'tag',
  error: 'error_type',
  source: 'source',
  id: 'id_prefix',
}
/** Of these no count is kept, and nothing can be done to all of them at once. */
const COMPARED = ['source', 'id_prefix']
const SPANS: Readonly<Record<string, Millis>> = { '15m': minutes(15), '1h': hours(1), '24h': hours(24), '7d': days(7) }
const PAGE = 50
/** A search that looks at many jobs is not repeated as often. */
const MANY = 2_000

interface Filters {
  readonly [name: string]: string | null
}

function filtersOf(query: URLSearchParams): Filters {
  const names = ['state', 'timeout_kind', 'since', ...Object.values(WORDS)]
  return Object.fromEntries(names.map((name) => [name, query.get(name)]))
}

/** What the API is asked; moments that move are rounded to the minute, so that one list stays one list. */
function parametersOf({ since, ...rest }: Filters): Record<string, string | null> {
  const span = since === null || since === undefined ? undefined : SPANS[since]
  const from = span === undefined ? null : iso(floorTo(before(serverNow(), span), minutes(1)))
  return { ...rest, created_after: from }
}

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

function FilterForm({ filters }: { filters: Filters }): JSX.Element {
  const bar = useRef<HTMLInputElement>(null)
  const shown = Object.entries(WORDS)
    .filter(([, name]) => (filters[name] ?? '') !== '')
    .map(([word, name]) => `${word}:${filters[name] ?? ''}`)
    .join(' ')
  const [problem, setProblem] = useState<string | null>(null)
  useEffect(() => {
    const focus = (event: KeyboardEvent): void => {
      if (event.key !== '/' || isTyping(event)) return
      event.preventDefault()
      bar.current?.focus()
    }
    document.addEventListener('keydown', focus)
    return () => {
      document.removeEventListener('keydown', focus)
    }
  }, [])
  const apply = (text: string): void => {
    const words = text.trim() === '' ? [] : text.trim().split(/\s+/)
    const changes: Record<string, string | null> = Object.fromEntries(Object.values(WORDS).map((name) => [name, null]))
    for (const word of words) {
      const [, name = '', value = ''] = /^([a-z]+):(.+)$/.exec(word) ?? []
      const parameter = WORDS[name]
      if (parameter === undefined) {
        // An id alone opens the job.
        if (words.length === 1 && /^[\w-]{36,}$/.test(word)) {
          go(jobPath(word))
          return
        }
        if (/^[0-9a-f-]{4,35}$/.test(word)) {
          changes['id_prefix'] = word
          continue
        }
        setProblem(
          `"${word}" is not understood. Use ${Object.keys(WORDS)
            .map((known) => `${known}:…`)
            .join(' ')}, an id or the beginning of one.`,
        )
        return
      }
      changes[parameter] = value
    }
    setProblem(null)
    setFilters({ ...changes, cursor: null })
  }
  return (
    <form
      class="filters"
      role="search"
      onSubmit={(event) => {
        event.preventDefault()
        apply(bar.current?.value ?? '')
      }}
    >
      <label class="wide">
        <span>
          Search <kbd>/</kbd>
        </span>
        <input
          key={shown}
          ref={bar}
          defaultValue={shown}
          placeholder="type:report.build queue:media error:timeout source:queue, or an id"
          aria-describedby="query-problem"
        />
      </label>
      <Choice name="state" label="State" value={filters['state'] ?? ''} options={STATES} />
      <Choice
        name="timeout_kind"
        label="Ended by limit"
        value={filters['timeout_kind'] ?? ''}
        options={TIMEOUT_KINDS}
      />
      <Choice name="since" label="Created within" value={filters['since'] ?? ''} options={Object.keys(SPANS)} />
      <button type="submit">Search</button>
      <span id="query-problem" role="alert">
        {problem}
      </span>
    </form>
  )
}

function Choice({
  name,
  label,
  value,
  options,
}: {
  name: string
  label: string
  value: string
  options: readonly string[]
}): JSX.Element {
  const all = options.includes(value) || value === '' ? options : [...options, value]
  return (
    <label>
      {label}
      <select
        value={value}
        onChange={(event) => {
          setFilters({ [name]: event.currentTarget.value, cursor: null })
        }}
      >
        <option value="">any</option>
        {all.map((option) => (
          <option key={option} value={option}>
            {option.replaceAll('_', ' ')}
          </option>
        ))}
      </select>
    </label>
  )
}

/** The rows that were found first stay, in their order; what came later is only counted, until it is asked for. */
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

interface Bulk {
  readonly action: 'retry' | 'cancel' | 'delete'
  readonly what: object
}

interface Tried {
  readonly would_act_on: number
  readonly skipped: number
  readonly by_state: Readonly<Record<string, number>>
  readonly by_queue: Readonly<Record<string, number>>
}

/** Says what would be done before anything is. */
function BulkDialog({ bulk: { action, what }, onClose }: { bulk: Bulk; onClose: () => void }): JSX.Element {
  const [tried, setTried] = useState<Tried | null>(null)
  const [problem, setProblem] = useState<string | null>(null)
  const path = `/ojs/v1/admin/jobs/bulk/${action}`
  useEffect(() => {
    ask<Tried>('POST', path, { ...what, dry_run: true }).then(setTried, (error: unknown) => {
      setProblem(error instanceof Error ? error.message : 'The server does not answer.')
    })
  }, [])
  const many = tried?.would_act_on ?? 0
  return (
    <Dialog
      title={`${action[0]?.toUpperCase() ?? ''}${action.slice(1)} jobs`}
      confirm={many === 0 ? null : `${action} ${count(many)}`}
      isDanger={action !== 'retry'}
      onConfirm={() => act(`Done: ${action} of ${count(many)}.`, () => ask('POST', path, { ...what, confirm: true }))}
      onClose={onClose}
    >
      {problem === null ? null : <p class="trouble">{problem}</p>}
      {tried === null && problem === null ? <p>Finding the jobs that this affects…</p> : null}
      {tried === null ? null : (
        <>
          <p>
            {many === 0
              ? 'This would affect no job'
              : `This would affect ${count(many)} ${many === 1 ? 'job' : 'jobs'}`}
            {tried.skipped === 0 ? '.' : `; ${count(tried.skipped)} cannot be ${PAST[action]} as they are.`}
          </p>
          <Facts
            of={[
              ['By state', numbers(tried.by_state)],
              ['By queue', numbers(tried.by_queue)],
            ]}
          />
        </>
      )}
    </Dialog>
  )
}

const PAST = { retry: 'retried', cancel: 'cancelled', delete: 'deleted' } as const

function numbers(by: Readonly<Record<string, number>>): string {
  const parts = Object.entries(by).map(([name, value]) => `${name} ${count(value)}`)
  return parts.length === 0 ? 'none' : parts.join(', ')
}

/** Keys are letters while one writes. */
export function isTyping({ target }: KeyboardEvent): boolean {
  return target instanceof HTMLElement && target.matches('input:not([type=checkbox]), textarea, select')
}
