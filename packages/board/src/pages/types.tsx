/** Types of jobs: durations against limits, and the limits set for a type. */
import type { JSX } from 'preact'
import { useState } from 'preact/hooks'
import { ask, may, queryOf } from '../api.ts'
import { useQuery } from '../query.ts'
import type { Series } from '../series.ts'
import { length } from '../time.ts'
import { act, count, Link, Loading, Page, Table, Trouble } from '../ui.tsx'
import { Distribution } from './timeouts.tsx'

interface Policy {
  readonly type: string
  readonly updated_at?: string
  readonly [member: string]: unknown
}

export function Types(): JSX.Element {
  const durations = useQuery<Series>('/api/v1/board/series?metric=durations&by=type&from=-24h', 10_000)
  const policies = useQuery<{ items: readonly Policy[] }>('/api/v1/job-types', 10_000)
  if (durations.data === null || policies.data === null)
    return (
      <Page title="Types">
        <Loading error={durations.error ?? policies.error} />
      </Page>
    )
  const laidDown = new Map(policies.data.items.map((policy) => [policy.type, policy]))
  const groups = new Map(durations.data.groups.map((group) => [group.name ?? 'other', group]))
  const names = [...new Set([...groups.keys(), ...laidDown.keys()])].sort()
  return (
    <Page title="Types">
      <Trouble error={durations.error} />
      {names.length === 0 ? <p>No attempt has ended in the last 24 hours, and no type has limits of its own.</p> : null}
      <Table label="Types" head={['Type', '#Attempts in 24 h', '#p50', '#p95', '#p99', 'Limits of the type']}>
        {names.map((name) => {
          const group = groups.get(name)
          return (
            <tr key={name}>
              <th scope="row">
                <Link to={`/types/${encodeURIComponent(name)}`}>{name}</Link>
              </th>
              <td class="num">{group === undefined ? '–' : count(group.total)}</td>
              {[group?.p50_ms, group?.p95_ms, group?.p99_ms].map((ms, index) => (
                <td class="num" key={index}>
                  {typeof ms === 'number' ? length(ms) : '–'}
                </td>
              ))}
              <td>{limitsIn(laidDown.get(name))}</td>
            </tr>
          )
        })}
      </Table>
    </Page>
  )
}

function limitsIn(policy: Policy | undefined): string {
  if (policy === undefined) return 'none of its own'
  const { type: _type, updated_at: _at, ...rest } = policy
  return Object.entries(rest)
    .map(([name, value]) => `${name} ${typeof value === 'string' ? value : JSON.stringify(value)}`)
    .join(', ')
}

export function TypePage({ at: [type = ''] }: { readonly at: readonly string[] }): JSX.Element {
  const durations = useQuery<Series>(
    `/api/v1/board/series${queryOf({ metric: 'durations', by: 'type', type, from: '-24h' })}`,
    10_000,
  )
  const policy = useQuery<Policy>(`/api/v1/job-types/${encodeURIComponent(type)}`, null)
  const isNone = policy.error?.status === 404
  return (
    <Page title={type} aside={<Link to={`/jobs${queryOf({ type })}`}>Jobs of this type</Link>}>
      {durations.data === null ? (
        <Loading error={durations.error} />
      ) : (
        <Distribution type={type} group={durations.data.groups.find(({ name }) => name === type)} since="24h" />
      )}
      <h2>Limits set for this type</h2>
      {policy.data === null && !isNone ? (
        <Loading error={policy.error} />
      ) : (
        <PolicyForm key={JSON.stringify(policy.data)} type={type} policy={policy.data} done={policy.refresh} />
      )}
    </Page>
  )
}

const EXAMPLE = '{\n  "timeout": 30,\n  "caps": { "total_timeout": 600 }\n}'

function PolicyForm({ type, policy, done }: { type: string; policy: Policy | null; done: () => void }): JSX.Element {
  const { type: _type, updated_at: _at, ...rest } = policy ?? { type }
  const [text, setText] = useState(policy === null ? '' : JSON.stringify(rest, null, 2))
  if (!may('admin')) return policy === null ? <p>None.</p> : <pre tabIndex={0}>{text}</pre>
  return (
    <form
      onSubmit={(event) => {
        event.preventDefault()
        void act(`Saved. Jobs of ${type} that are enqueued from now on get these limits.`, () =>
          ask('PUT', `/api/v1/job-types/${encodeURIComponent(type)}`, JSON.parse(text) as unknown),
        ).then(done)
      }}
    >
      <label class="stacked">
        {policy === null
          ? 'None yet. Lengths are in seconds; stored jobs are not touched.'
          : 'Lengths are in seconds; stored jobs are not touched.'}
        <textarea
          rows={8}
          spellcheck={false}
          value={text}
          placeholder={EXAMPLE}
          onInput={(event) => {
            setText(event.currentTarget.value)
          }}
        />
      </label>
      <div class="buttons">
        <button type="submit" class="main" disabled={text.trim() === ''}>
          Save
        </button>
      </div>
    </form>
  )
}
