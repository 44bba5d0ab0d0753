/** What fires next, and what each entry starts. */
import type { JSX } from 'preact'
import { ask } from '../api.ts'
import { useQuery } from '../query.ts'
import { instantAt, now, relative } from '../time.ts'
import { act, count, Link, Loading, Needs, Page, Table, Time, Trouble } from '../ui.tsx'

interface Entry {
  readonly name: string
  readonly expression: string
  readonly timezone: string
  readonly overlap_policy: string
  readonly enabled: boolean
  readonly type: string
  readonly queue: string
  readonly next_run_at: string | null
  readonly last_run_at: string | null
  readonly run_count: number
}

export function CronPage(): JSX.Element {
  const { data, error, refresh } = useQuery<{ crons: readonly Entry[] }>('/ojs/v1/cron?limit=200')
  const tell = (entry: Entry, word: string, said: string): void => {
    void act(said, () => ask('POST', `/ojs/v1/cron/${encodeURIComponent(entry.name)}/${word}`)).then(refresh)
  }
  const entries = [...(data?.crons ?? [])].sort((a, b) => (a.next_run_at ?? '9').localeCompare(b.next_run_at ?? '9'))
  return (
    <Page title="Cron">
      <Trouble error={error} />
      {data === null ? (
        <Loading />
      ) : entries.length === 0 ? (
        <p>
          No entries. How to write one: <code>docs/cron.md</code>.
        </p>
      ) : (
        <Table label="Cron entries" head={['Entry', 'When', 'Starts', 'Next', 'Last', '#Runs', 'Do']}>
          {entries.map((entry) => (
            <tr key={entry.name} class={entry.enabled ? undefined : 'gone'}>
              <th scope="row">{entry.name}</th>
              <td>
                <code>{entry.expression}</code> <span class="soft">{entry.timezone}</span>
              </td>
              <td>
                <Link to={`/types/${encodeURIComponent(entry.type)}`}>{entry.type}</Link>{' '}
                <span class="soft">{entry.queue}</span>
              </td>
              <td>
                {!entry.enabled ? (
                  'off'
                ) : entry.next_run_at === null ? (
                  '–'
                ) : (
                  <>
                    <Time at={entry.next_run_at} />{' '}
                    <span class="soft">{relative(instantAt(entry.next_run_at), now.value)}</span>
                  </>
                )}
              </td>
              <td>{entry.last_run_at === null ? '–' : <Time at={entry.last_run_at} />}</td>
              <td class="num">{count(entry.run_count)}</td>
              <td class="do">
                <Needs role="operate">
                  <button
                    type="button"
                    onClick={() => {
                      tell(entry, 'trigger', `${entry.name} fired.`)
                    }}
                  >
                    Fire now
                  </button>{' '}
                  <button
                    type="button"
                    onClick={() => {
                      tell(
                        entry,
                        entry.enabled ? 'pause' : 'resume',
                        `${entry.name} is ${entry.enabled ? 'off' : 'on'}.`,
                      )
                    }}
                  >
                    {entry.enabled ? 'Turn off' : 'Turn on'}
                  </button>
                </Needs>
              </td>
            </tr>
          ))}
        </Table>
      )}
    </Page>
  )
}
