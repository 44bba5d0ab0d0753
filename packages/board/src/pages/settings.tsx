/** The server, its defaults, who is signed in, tokens and the audit. */
import type { JSX } from 'preact'
import { useState } from 'preact/hooks'
import { ask, may, session, signOut } from '../api.ts'
import { useQuery } from '../query.ts'
import { href } from '../router.ts'
import { isUtc, length, showUtc } from '../time.ts'
import { act, Ago, Copy, Dialog, Facts, Loading, Page, Table, Time, Trouble } from '../ui.tsx'
import type { Health, Manifest } from '../wire.ts'

export function Settings(): JSX.Element {
  const health = useQuery<Health>('/ojs/v1/health', 5_000)
  const manifest = useQuery<Manifest>('/ojs/manifest', null)
  const [theme, setTheme] = useState(document.documentElement.dataset['theme'] ?? '')
  const who = session.value
  return (
    <Page title="Settings">
      <h2>This page</h2>
      <div class="filters">
        <label>
          Colours
          <select
            value={theme}
            onChange={(event) => {
              const value = event.currentTarget.value
              setTheme(value)
              if (value === '') delete document.documentElement.dataset['theme']
              else document.documentElement.dataset['theme'] = value
              localStorage.setItem('curfew-theme', value)
            }}
          >
            <option value="">as the system</option>
            <option value="light">light</option>
            <option value="dark">dark</option>
          </select>
        </label>
        <label>
          Times
          <select
            value={isUtc.value ? 'utc' : 'local'}
            onChange={(event) => {
              showUtc(event.currentTarget.value === 'utc')
            }}
          >
            <option value="local">of this machine's zone</option>
            <option value="utc">UTC</option>
          </select>
        </label>
        {who?.authenticated === true ? (
          <button type="button" onClick={() => void act('Signed out.', signOut)}>
            Sign out {who.name}
          </button>
        ) : null}
      </div>
      {who === null ? null : (
        <Facts
          of={[
            ['Signed in as', who.name ?? (who.token_required ? '– (not signed in)' : '– (this server has no tokens)')],
            ['May', who.roles.join(', ')],
          ]}
        />
      )}
      <h2>Server</h2>
      <Trouble error={health.error} />
      {health.data === null || manifest.data === null ? (
        <Loading />
      ) : (
        <Facts
          of={[
            ['Version', health.data.server_version],
            ['Store', `${health.data.backend.type}, ${health.data.backend.status}`],
            ['Up', length(health.data.uptime_seconds * 1_000)],
            ['Clock', `${String(health.data.clock_offset_ms)} ms off`],
            ['API', <a href={href('/openapi.json')}>openapi.json</a>],
            ['Metrics', <a href={href('/metrics')}>metrics</a>],
          ]}
        />
      )}
      {manifest.data === null ? null : (
        <>
          <h2>Default limits</h2>
          <div class="narrow">
            <Table label="Default limits" head={['Limit', 'Length']}>
              {Object.entries(manifest.data.x_timeout_defaults).map(([name, seconds]) => (
                <tr key={name}>
                  <th scope="row">{name.replaceAll('_', ' ')}</th>
                  <td>{length(seconds * 1_000)}</td>
                </tr>
              ))}
            </Table>
          </div>
          <p class="soft">
            They are set when the server starts: <code>docs/configuration.md</code>.
          </p>
        </>
      )}
      {may('admin') ? <Tokens /> : null}
      <Audit />
    </Page>
  )
}

interface TokenView {
  readonly name: string
  readonly roles: readonly string[]
  readonly state: string
  readonly last_used_at?: string | null
}

const ROLES = ['read', 'produce', 'work', 'operate', 'admin']

function Tokens(): JSX.Element {
  const { data, error, refresh } = useQuery<{ items: readonly TokenView[] }>('/api/v1/tokens', 10_000)
  const [made, setMade] = useState<string | null>(null)
  const [asked, setAsked] = useState<TokenView | null>(null)
  const tokens = data?.items ?? []
  return (
    <>
      <h2>Tokens</h2>
      <Trouble error={error} />
      {tokens.length === 0 ? <p>No tokens are stored.</p> : null}
      {tokens.length === 0 ? null : (
        <Table label="Tokens" head={['Name', 'Roles', 'State', 'Last use', 'Do']}>
          {tokens.map((token) => (
            <tr key={token.name}>
              <th scope="row">{token.name}</th>
              <td>{token.roles.join(', ')}</td>
              <td>{token.state}</td>
              <td>{typeof token.last_used_at === 'string' ? <Ago at={token.last_used_at} /> : 'never'}</td>
              <td>
                {token.state === 'revoked' ? null : (
                  <button
                    type="button"
                    onClick={() => {
                      setAsked(token)
                    }}
                  >
                    Revoke…
                  </button>
                )}
              </td>
            </tr>
          ))}
        </Table>
      )}
      <form
        class="filters"
        onSubmit={(event) => {
          event.preventDefault()
          const form = new FormData(event.currentTarget)
          const body = { name: form.get('name'), roles: [form.get('role')] }
          void act('Made. Copy it now: it is not shown again.', async () => {
            const answer = await ask<{ token: string }>('POST', '/api/v1/tokens', body)
            setMade(answer.token)
            refresh()
          })
        }}
      >
        <label>
          Name
          <input name="name" required maxLength={64} autocomplete="off" />
        </label>
        <label>
          Role
          <select name="role">
            {ROLES.map((role) => (
              <option key={role}>{role}</option>
            ))}
          </select>
        </label>
        <button type="submit">Make a token</button>
      </form>
      {made === null ? null : <Copy text={made} />}
      {asked === null ? null : (
        <Dialog
          title={`Revoke ${asked.name}?`}
          confirm="Revoke it"
          isDanger
          onConfirm={() =>
            act('Revoked.', () => ask('DELETE', `/api/v1/tokens/${encodeURIComponent(asked.name)}`)).then(refresh)
          }
          onClose={() => {
            setAsked(null)
          }}
        >
          <p>Programs and sessions that use it are refused from then on.</p>
        </Dialog>
      )}
    </>
  )
}

interface Noted {
  readonly id: string
  readonly time: string
  readonly token: string | null
  readonly method: string
  readonly path: string
}

function Audit(): JSX.Element {
  const { data } = useQuery<{ items: readonly Noted[] }>('/api/v1/audit?limit=20', 10_000)
  const entries = data?.items ?? []
  return (
    <>
      <h2>Last changes by operators</h2>
      {entries.length === 0 ? (
        <p>None. A server without tokens knows no names, and writes nothing down.</p>
      ) : (
        <Table label="Audit" head={['When', 'Who', 'What']}>
          {entries.map((entry) => (
            <tr key={entry.id}>
              <td>
                <Time at={entry.time} />
              </td>
              <td>{entry.token}</td>
              <td>
                {entry.method} {entry.path}
              </td>
            </tr>
          ))}
        </Table>
      )}
    </>
  )
}
