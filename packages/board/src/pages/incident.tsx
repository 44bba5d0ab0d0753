/** What happened when: deaths, pauses, timeouts and outages of time on one axis, as a link and as Markdown. */
import { before, timeBetween, hours, iso, minutes, type Instant, type Millis } from '@curfew/core'
import type { JSX } from 'preact'
import { useEffect, useState } from 'preact/hooks'
import { ApiError, ask, get, queryOf } from '../api.ts'
import { search, setFilters } from '../router.ts'
import { clockTime, instantAt, length, now, serverNow } from '../time.ts'
import { act, Copy, count, JobLink, Link, Needs, Page, Table, Trouble } from '../ui.tsx'
import type { EventView, Note } from '../wire.ts'

const KINDS = [
  ...['worker.died', 'worker.quiet', 'worker.started', 'worker.stopped'],
  ...['queue.paused', 'queue.draining', 'queue.resumed', 'operator.action'],
  ...['job.timeout', 'job.total_timeout', 'job.ttl_expired', 'job.expired', 'job.stalled', 'journey.timeout'],
  ...['backpressure.rejected', 'backpressure.dropped', 'webhook.dead', 'workflow.failed'],
]
const SPANS: Readonly<Record<string, Millis>> = { '15m': minutes(15), '1h': hours(1), '6h': hours(6), '24h': hours(24) }
const NOTE = 'note'
const MAX_CALLS = 20
const MAX_SHOWN = 60

interface Found {
  readonly events: readonly EventView[]
  /** The log was not read to its end. */
  readonly isPart: boolean
}

export function Incident(): JSX.Element {
  const since = search.value.get('since') ?? '1h'
  const [found, setFound] = useState<Found | null>(null)
  const [error, setError] = useState<ApiError | null>(null)
  const [reads, setReads] = useState(0)
  useEffect(() => {
    const over = new AbortController()
    setFound(null)
    const from = before(serverNow(), SPANS[since] ?? hours(1))
    const both = Promise.all([readLog(from, over.signal), readNotes(from, over.signal)])
    const merged = both.then(([log, notes]) => ({
      ...log,
      events: [...log.events, ...notes].sort((one, other) => instantAt(other.time) - instantAt(one.time)),
    }))
    merged.then(setFound, (caught: unknown) => {
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

const MAX_NOTES = 50

/** Notes of operators beside what the log tells. */
async function readNotes(from: Instant, signal: AbortSignal): Promise<EventView[]> {
  const { items } = await get<{ items: readonly Note[] }>(`/api/v1/annotations?limit=${String(MAX_NOTES)}`, signal)
  return items
    .filter(({ time }) => instantAt(time) >= from)
    .map(({ id, time, text, by }) => ({
      id,
      time,
      type: NOTE,
      subject: by ?? 'operator',
      data: { text },
    }))
}

/** From the newest event back to this instant. Bounded, and honest about it. */
async function readLog(from: Instant, signal: AbortSignal): Promise<Found> {
  const events: EventView[] = []
  let after: string | null = null
  for (let calls = 0; calls < MAX_CALLS; calls += 1) {
    const page: { events: readonly EventView[]; cursor: string | null; has_more: boolean } = await get(
      `/ojs/v1/events${queryOf({ types: KINDS.join(','), order: 'desc', limit: 1000, after })}`,
      signal,
    )
    const within = page.events.filter(({ time }) => instantAt(time) >= from)
    events.push(...within)
    const isPast = within.length < page.events.length
    if (isPast || !page.has_more || page.cursor === null) return { events, isPart: false }
    after = page.cursor
  }
  return { events, isPart: true }
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

function Shown({ found: { events, isPart }, spanMs }: { found: Found; spanMs: number }): JSX.Element {
  const kinds = [...new Set(events.map(({ type }) => type))].sort()
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
                {kinds.map((kind) => (
                  <option key={kind} value={kind}>
                    {kind} ({count(events.filter(({ type }) => type === kind).length)})
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
                <td>
                  <Subject event={event} />
                </td>
                <td class="wrap">{detailsOf(event)}</td>
              </tr>
            ))}
          </Table>
          {shown.length > MAX_SHOWN ? (
            <p class="soft">
              The newest {String(MAX_SHOWN)} of {count(shown.length)} are shown.
            </p>
          ) : null}
          <h2>As Markdown</h2>
          <Copy text={markdownOf(shown)} />
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
  kinds: readonly string[]
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
          {kinds.map((kind) => {
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
                        class={/timeout|died|stalled|expired|failed|dead/.test(kind) ? 'deadline' : 'nowline'}
                        x1={x(event.time)}
                        x2={x(event.time)}
                        y1={1}
                        y2={15}
                      />
                    ))}
                  </svg>
                </td>
                <td>{count(own.length)}</td>
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

function detailsOf({ data }: EventView): string {
  return ['text', 'job_type', 'queue', 'timeout_kind', 'limit_ms', 'source', 'overshoot_ms', 'action', 'token']
    .flatMap((name) => {
      const value = data[name]
      return typeof value === 'string' || typeof value === 'number'
        ? [name === 'text' ? String(value) : `${name.replaceAll('_', ' ')} ${String(value)}`]
        : []
    })
    .join(', ')
}

const markdownOf = (events: readonly EventView[]): string =>
  [
    '| when | what | subject | details |',
    '|---|---|---|---|',
    ...[...events]
      .slice(0, MAX_SHOWN)
      .reverse()
      .map((event) => `| ${event.time} | ${event.type} | ${cell(event.subject)} | ${cell(detailsOf(event))} |`),
  ].join('\n')

/** Text in a cell of a Markdown table. */
const cell = (text: string): string => text.replaceAll(/\s+/g, ' ').replaceAll('|', '\\|')
