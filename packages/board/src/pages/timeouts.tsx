/** Which limit fires where; is the limit wrong, or the work? */
import { whatIf } from '@curfew/core'
import type { JSX } from 'preact'
import { useState } from 'preact/hooks'
import { queryOf } from '../api.ts'
import { useQuery } from '../query.ts'
import { search, setFilters } from '../router.ts'
import { folded, kindFilter, type Group, type Series } from '../series.ts'
import { length } from '../time.ts'
import { Columns, count, Link, Loading, Page, Source, Table, Trouble } from '../ui.tsx'
import type { JobList } from '../wire.ts'

const SPANS: Readonly<Record<string, string>> = { '1h': 'hour', '24h': '24 hours', '7d': '7 days' }

export function Timeouts(): JSX.Element {
  const since = search.value.get('since') ?? '1h'
  const from = `-${since}`
  const kinds = useQuery<Series>(`/api/v1/board/series${queryOf({ metric: 'timeouts', by: 'kind', from })}`, 10_000)
  const sources = useQuery<Series>(`/api/v1/board/series${queryOf({ metric: 'timeouts', by: 'source', from })}`, 10_000)
  const types = useQuery<Series>(`/api/v1/board/series${queryOf({ metric: 'timeouts', by: 'type', from })}`, 10_000)
  const durations = useQuery<Series>(
    `/api/v1/board/series${queryOf({ metric: 'durations', by: 'type', from })}`,
    10_000,
  )
  return (
    <Page title="Timeouts">
      <form class="filters">
        <label>
          Within the last
          <select
            value={since}
            onChange={(event) => {
              setFilters({ since: event.currentTarget.value })
            }}
          >
            {Object.entries(SPANS).map(([value, words]) => (
              <option key={value} value={value}>
                {words}
              </option>
            ))}
          </select>
        </label>
      </form>
      <Trouble error={kinds.error ?? types.error} />
      {kinds.data === null || types.data === null || durations.data === null ? (
        kinds.error === null ? (
          <Loading />
        ) : null
      ) : (
        <>
          <h2>By kind</h2>
          <Kinds series={kinds.data} since={since} />
          <h2>By who set the limit</h2>
          <ul class="tiles wide" aria-label="Timeouts by source">
            {(sources.data?.groups ?? []).map(({ name, total }) => (
              <li key={name}>
                <strong>{count(total)}</strong>
                <Source source={name ?? 'unknown'} />
              </li>
            ))}
          </ul>
          {kinds.data.complete ? null : <p class="soft">Only a part of the series was read.</p>}
          <h2>By type</h2>
          {types.data.groups.length === 0 ? (
            <p>No attempt was ended by a limit.</p>
          ) : (
            <Types cut={types.data.groups} durations={durations.data.groups} since={since} />
          )}
        </>
      )}
    </Page>
  )
}

function Kinds({ series, since }: { series: Series; since: string }): JSX.Element {
  if (series.groups.length === 0) return <p>No attempt was ended by a limit.</p>
  return (
    <ul class="tiles wide" aria-label="Timeouts by kind">
      {series.groups.map(({ name, total, points }) => (
        <li key={name}>
          <Link to={`/jobs${queryOf({ ...kindFilter(name), since })}`}>
            <strong>{count(total)}</strong>
            <span>{(name ?? 'other').replaceAll('_', ' ')}</span>
          </Link>
          <Columns values={folded(points, 30)} tone="bad" label={`${String(total)} within the time that is shown`} />
        </li>
      ))}
    </ul>
  )
}

function Types({
  cut,
  durations,
  since,
}: {
  cut: readonly Group[]
  durations: readonly Group[]
  since: string
}): JSX.Element {
  const chosen = search.value.get('type') ?? cut[0]?.name ?? null
  return (
    <>
      <Table label="Timeouts by type" head={['Type', '#Cut', '#Share', '#p50', '#p95', '#p99', '']}>
        {cut.map(({ name, total }) => {
          const lengths = durations.find((group) => group.name === name)
          const all = lengths?.total ?? total
          return (
            <tr key={name} class={name === chosen ? 'at' : undefined}>
              <th scope="row">
                <Link to={`/types/${encodeURIComponent(name ?? '')}`}>{name ?? 'other'}</Link>
              </th>
              <td class="num">{count(total)}</td>
              <td class="num">{all === 0 ? '–' : `${String(Math.round((Math.min(total, all) / all) * 100))} %`}</td>
              {[lengths?.p50_ms, lengths?.p95_ms, lengths?.p99_ms].map((ms, index) => (
                <td class="num" key={index}>
                  {typeof ms === 'number' ? length(ms) : '–'}
                </td>
              ))}
              <td>
                <button
                  type="button"
                  aria-pressed={name === chosen}
                  onClick={() => {
                    setFilters({ type: name })
                  }}
                >
                  Durations
                </button>
              </td>
            </tr>
          )
        })}
      </Table>
      {chosen === null ? null : (
        <Distribution key={chosen} type={chosen} group={durations.find(({ name }) => name === chosen)} since={since} />
      )}
    </>
  )
}

/** Lengths are known within a tenth, so where a timeout falls into a bucket there are two answers. */
function cutInWords(least: number, most: number, total: number): string {
  const share = (many: number): string => String(Math.round((many / total) * 100))
  return least === most
    ? `It would cut ${count(most)} of ${count(total)} attempts, ${share(most)} %.`
    : `It would cut ${count(least)} to ${count(most)} of ${count(total)} attempts, ${share(least)} to ${share(most)} %.`
}

/** Durations of attempts against the limit that cut the last of them, and what another limit would have cut. */
export function Distribution({
  type,
  group,
  since,
}: {
  type: string
  group: Group | undefined
  since: string
}): JSX.Element {
  const last = useQuery<JobList>(`/ojs/v1/jobs${queryOf({ type, timeout_kind: 'execution', limit: 1 })}`, null)
  const error = last.data?.jobs[0]?.error
  const limit = error?.limit_ms ?? null
  const [tried, setTried] = useState<number | null>(null)
  const buckets = group?.buckets ?? []
  if (buckets.length === 0) return <p class="soft">No attempt of {type} has ended within the time that is shown.</p>
  const most = Math.max(...buckets.map(([end]) => end), limit ?? 0) * 1.05
  const highest = Math.max(...buckets.map(([, many]) => many))
  const at = tried ?? limit ?? most
  const { total, least, most: over, isKnown } = whatIf(buckets, at, limit)
  const x = (ms: number): number => (ms / most) * 1_000
  return (
    <section aria-label={`Durations of ${type}`}>
      <h2>How long attempts of {type} ran</h2>
      <svg
        class="histogram"
        viewBox="0 0 1000 100"
        preserveAspectRatio="none"
        role="img"
        aria-label={`${count(total)} attempts${limit === null ? '' : `, limit ${length(limit)}`}`}
      >
        {buckets.map(([end, many]) => {
          const wide = Math.max(4, x(end) - x(end / 1.1))
          const high = Math.max(2, (many / highest) * 100)
          return (
            <rect
              key={end}
              class={limit !== null && end > limit * 1.02 ? 'cut' : ''}
              x={x(end) - wide}
              y={100 - high}
              width={wide - 1}
              height={high}
            />
          )
        })}
        {limit === null ? null : <line class="limitline" x1={x(limit)} x2={x(limit)} y1={0} y2={100} />}
        {tried === null ? null : <line class="triedline" x1={x(tried)} x2={x(tried)} y1={0} y2={100} />}
      </svg>
      <p class="soft">
        0 to {length(most)}. {count(total)} attempts.
        {limit === null ? (
          ' None of them has met a timeout.'
        ) : (
          <>
            {' '}
            The line is the timeout that cut the last one: {length(limit)}{' '}
            {error?.source === undefined ? null : <Source source={error.source} type={type} />}
          </>
        )}
      </p>
      <label class="whatif">
        What if the timeout was {length(at)}?
        <input
          type="range"
          min={1}
          max={Math.ceil(most)}
          value={at}
          onInput={(event) => {
            setTried(Number(event.currentTarget.value))
          }}
        />
      </label>
      <p>
        {tried === null
          ? 'Move the slider to see how many attempts a shorter timeout would have cut.'
          : !isKnown
            ? 'Attempts that were cut have no known length: what more time would have saved is unknown.'
            : cutInWords(least, over, total)}{' '}
        <Link to={`/jobs${queryOf({ type, timeout_kind: 'execution', since: since === '1h' ? '1h' : '24h' })}`}>
          Jobs that were cut
        </Link>
      </p>
    </section>
  )
}
