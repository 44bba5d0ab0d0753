/** The filters of the page Jobs: in the address, in the query bar, and as parameters of the API. */
import { before, days, floorTo, hours, iso, minutes, type Millis } from '@curfew/core'
import type { JSX } from 'preact'
import { useEffect, useRef, useState } from 'preact/hooks'
import { go, setFilters } from '../router.ts'
import { serverNow } from '../time.ts'
import { jobPath } from '../ui.tsx'
import { STATES, TIMEOUT_KINDS } from '../wire.ts'

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
const SPANS: Readonly<Record<string, Millis>> = { '15m': minutes(15), '1h': hours(1), '24h': hours(24), '7d': days(7) }

export interface Filters {
  readonly [name: string]: string | null
}

export function filtersOf(query: URLSearchParams): Filters {
  const names = ['state', 'timeout_kind', 'since', ...Object.values(WORDS)]
  return Object.fromEntries(names.map((name) => [name, query.get(name)]))
}

/** What the API is asked; moments that move are rounded to the minute, so that one list stays one list. */
export function parametersOf({ since, ...rest }: Filters): Record<string, string | null> {
  const span = since === null || since === undefined ? undefined : SPANS[since]
  const from = span === undefined ? null : iso(floorTo(before(serverNow(), span), minutes(1)))
  return { ...rest, created_after: from }
}

export function FilterForm({ filters }: { filters: Filters }): JSX.Element {
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
/** Keys are letters while one writes. */
export function isTyping({ target }: KeyboardEvent): boolean {
  return target instanceof HTMLElement && target.matches('input:not([type=checkbox]), textarea, select')
}
