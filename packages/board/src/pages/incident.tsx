/** What happened when: deaths, pauses, timeouts and outages of time on one axis, as a link and as Markdown. */
import {
  before,
  hours,
  incidentDetails,
  incidentMarkdown,
  iso,
  minutes,
  readIncident,
  timeBetween,
  type IncidentKind,
  type Millis,
  type ReadIncident,
} from '@curfew/core'
import type { JSX } from 'preact'
import { useEffect, useState } from 'preact/hooks'
import { ApiError, ask, get } from '../api.ts'
import { search, setFilters } from '../router.ts'
import { clockTime, instantAt, length, now, serverNow } from '../time.ts'
import { act, Copy, count, JobLink, Link, Needs, Page, Table, Trouble } from '../ui.tsx'
import type { EventView } from '../wire.ts'

const SPANS: Readonly<Record<string, Millis>> = { '15m': minutes(15), '1h': hours(1), '6h': hours(6), '24h': hours(24) }
const MAX_SHOWN = 60

export function Incident(): JSX.Element {
  const since = search.value.get('since') ?? '1h'
  const [found, setFound] = useState<ReadIncident | null>(null)
  const [error, setError] = useState<ApiError | null>(null)
  const [reads, setReads] = useState(0)
  useEffect(() => {
    const over = new AbortController()
    setFound(null)
    const from = before(serverNow(), SPANS[since] ?? hours(1))
    readIncident((path) => get(path, over.signal), from, Infinity).then(setFound, (caught: unknown) => {
      if (!over.signal.aborted) setError(caught instanceof ApiError ? caught : null)
    })
    return () => {
      over.abort()
    }
  }, [since, reads])
  return (
    <Page title="Incident">
      <form class="filters">
        <label>
          Within the last
          <select
            value={since}
            onChange={(event) => {
              setFilters({ since: event.currentTarget.value })
            }}
          >
            {Object.keys(SPANS).map((value) => (
              <option key={value}>{value}</option>
            ))}
          </select>
        </label>
        <button
          type="button"
          onClick={() => {
            setReads(reads + 1)
          }}
        >
          Read again
        </button>
      </form>
      <Needs role="operate">
        <AddNote
          done={() => {
            setReads(reads + 1)
          }}
        />
      </Needs>
      <Trouble error={error} />
      {found === null ? (
        error === null ? (
          <p class="soft">Reading the log of events…</p>
        ) : null
      ) : (
        <Shown found={found} spanMs={SPANS[since] ?? hours(1)} />
      )}
    </Page>
  )
}

/** A deploy, a switch that was flipped: what explains the rest. */
function AddNote({ done }: { done: () => void }): JSX.Element {
  return (
    <form
      class="filters"
      onSubmit={(event) => {
        event.preventDefault()
        const form = event.currentTarget
        const fields = new FormData(form)
        const [text, ago] = [fields.get('text'), Number(fields.get('minutes'))]
        const at = iso(before(serverNow(), minutes(ago)))
        void act('Noted.', () => ask('POST', '/api/v1/annotations', { text, ...(ago > 0 ? { at } : {}) })).then(() => {
          form.reset()
          done()
        })
      }}
    >
      <label class="wide">
        Note
        <input name="text" required maxLength={500} autocomplete="off" placeholder="deployed media 1.4" />
      </label>
      <label>
        Minutes ago
        <input name="minutes" type="number" min="0" max="1440" defaultValue="0" />
      </label>
      <button type="submit">Add note</button>
    </form>
  )
}

function Shown({ found: { events, kinds, isPart }, spanMs }: { found: ReadIncident; spanMs: number }): JSX.Element {
  const [only, setOnly] = useState<string | null>(null)
  const shown = events.filter(({ type }) => only === null || type === only)
  return (
    <>
      {isPart ? <p class="soft">The log is long: events further back than the last of these were not read.</p> : null}
      {events.length === 0 ? (
        <p>Nothing of note: no deaths, no pauses, no timeouts, no notes of operators.</p>
      ) : (
        <>
          <Lanes events={events} kinds={kinds} spanMs={spanMs} />
          <div class="filters">
            <label>
              Show
              <select
                value={only ?? ''}
                onChange={(event) => {
                  setOnly(event.currentTarget.value === '' ? null : event.currentTarget.value)
                }}
              >
                <option value="">everything ({count(events.length)})</option>
                {kinds.map(({ type, count: many }) => (
                  <option key={type} value={type}>
                    {type} ({count(many)})
                  </option>
                ))}
              </select>
            </label>
          </div>
          <Table label="Events" head={['When', 'What', 'Subject', 'Details']}>
            {shown.slice(0, MAX_SHOWN).map((event) => (
              <tr key={event.id}>
                <td>{clockTime(event.time)}</td>
                <td>{event.type}</td>
                <td class="name">
                  <Subject event={event} />
                </td>
                <td class="wrap">{incidentDetails(event)}</td>
              </tr>
            ))}
          </Table>
          {shown.length > MAX_SHOWN ? (
            <p class="soft">
              The newest {String(MAX_SHOWN)} of {count(shown.length)} are shown.
            </p>
          ) : null}
          <h2>As Markdown</h2>
          <Copy text={incidentMarkdown(shown, MAX_SHOWN)} />
        </>
      )}
    </>
  )
}

function Lanes({
  events,
  kinds,
  spanMs,
}: {
  events: readonly EventView[]
  kinds: readonly IncidentKind[]
  spanMs: number
}): JSX.Element {
  const to = now.value
  const x = (time: string): number => Math.max(0, 1_000 - (timeBetween(instantAt(time), to) / spanMs) * 1_000)
  return (
    <div class="scroll" role="region" aria-label="Events over time" tabIndex={0}>
      <table class="gantt">
        <thead>
          <tr>
            <th scope="col">Kind</th>
            <th scope="col">{length(spanMs)} ago until now</th>
            <th scope="col">Events</th>
          </tr>
        </thead>
        <tbody>
          {kinds.map(({ type: kind, count: many, isBad }) => {
            const own = events.filter(({ type }) => type === kind)
            return (
              <tr key={kind}>
                <th scope="row">{kind}</th>
                <td class="lane">
                  <svg viewBox="0 0 1000 16" preserveAspectRatio="none" aria-hidden="true">
                    <rect class="track" width={1000} height={16} />
                    {own.slice(0, 500).map((event) => (
                      <line
                        key={event.id}
                        class={isBad ? 'deadline' : 'nowline'}
                        x1={x(event.time)}
                        x2={x(event.time)}
                        y1={1}
                        y2={15}
                      />
                    ))}
                  </svg>
                </td>
                <td>{count(many)}</td>
              </tr>
            )
          })}
        </tbody>
      </table>
    </div>
  )
}

function Subject({ event }: { event: EventView }): JSX.Element {
  if (event.type.startsWith('job.')) return <JobLink id={event.subject} />
  if (event.type.startsWith('worker.'))
    return <Link to={`/workers/${encodeURIComponent(event.subject)}`}>{event.subject}</Link>
  if (event.type.startsWith('queue.'))
    return <Link to={`/queues/${encodeURIComponent(event.subject)}`}>{event.subject}</Link>
  return <>{event.subject}</>
}
