/** Runs of journeys: states as bars against the budget, and forms for steps that wait for an answer. */
import { timeBetween, elapsed } from '@curfew/core'
import type { JSX } from 'preact'
import { useState } from 'preact/hooks'
import { ApiError, ask, may, queryOf } from '../api.ts'
import { Gantt } from '../gantt.tsx'
import { useQuery } from '../query.ts'
import { href } from '../router.ts'
import { instantAt, length, now } from '../time.ts'
import { act, Dialog, Facts, Json, Link, Loading, Page, say, shortId, Table, Time, Trouble } from '../ui.tsx'

interface RunView {
  readonly journeyId: string
  readonly journeyName: string
  readonly journeyVersion: string
  readonly phase: string
  readonly currentState: string
  readonly startedAt: string
  readonly endedAt?: string
  readonly deadlineAt: string
  readonly remainingMs: number
  readonly _links?: Readonly<Record<string, { readonly href: string }>>
}

interface Explained {
  readonly budget: {
    readonly startedAt: string
    readonly limitMs: number
    readonly limitedBy: string
    readonly spentMs: number
  }
  readonly states: readonly {
    readonly state: string
    readonly type: string
    readonly visit: number
    readonly to?: string
    readonly startsAfterMs: number
    readonly durationMs: number
    readonly effectiveMs?: number
    readonly note?: string
  }[]
  readonly omitted: number
  readonly input?: object
  readonly text: string
}

function Phase({ phase }: { phase: string }): JSX.Element {
  const sign = phase === 'RUNNING' ? '▶' : phase === 'SUCCEEDED' ? '✓' : '✕'
  return (
    <span class={`state s-${phase === 'RUNNING' ? 'active' : phase}`}>
      <span aria-hidden="true">{sign}</span> {phase.toLowerCase()}
    </span>
  )
}

export function Runs(): JSX.Element {
  const { data, error } = useQuery<{ items: readonly RunView[]; nextPageToken: string | null }>('/api/v1/journeys')
  return (
    <Page title="Journeys">
      <Trouble error={error} />
      {data === null ? (
        <Loading />
      ) : data.items.length === 0 ? (
        <p>
          No runs. How to deploy a journey and start one: <code>docs/journeys.md</code>.
        </p>
      ) : (
        <Table label="Runs" head={['Run', 'Journey', 'Phase', 'State', 'Started', 'Left']}>
          {data.items.map((run) => (
            <tr key={run.journeyId}>
              <td>
                <Link class="id" to={`/runs/${encodeURIComponent(run.journeyId)}`} title={run.journeyId}>
                  {shortId(run.journeyId)}
                </Link>
              </td>
              <td>
                {run.journeyName} <span class="soft">{run.journeyVersion}</span>
              </td>
              <td>
                <Phase phase={run.phase} />
              </td>
              <td>{run.currentState}</td>
              <td>
                <Time at={run.startedAt} />
              </td>
              <td>{run.phase === 'RUNNING' ? length(elapsed(now.value, instantAt(run.deadlineAt))) : '–'}</td>
            </tr>
          ))}
        </Table>
      )}
      {data?.nextPageToken === null || data === null ? null : <p class="soft">The newest are shown.</p>}
    </Page>
  )
}

export function RunPage({ at: [id = ''] }: { readonly at: readonly string[] }): JSX.Element {
  const where = `/api/v1/journeys/${encodeURIComponent(id)}`
  const { data: run, error, refresh } = useQuery<RunView>(where)
  const explained = useQuery<Explained>(`${where}/explain`)
  const [isAsking, setAsking] = useState(false)
  if (run === null)
    return (
      <Page title="Run">
        <Loading error={error} />
      </Page>
    )
  const isRunning = run.phase === 'RUNNING'
  const began = instantAt(run.startedAt)
  const open = Object.entries(run._links ?? {}).filter(([name]) => name.startsWith('step:'))
  const told = explained.data
  const nowMs = timeBetween(began, now.value)
  const spent = isRunning ? nowMs : (told?.budget.spentMs ?? 0)
  const again = (): void => {
    refresh()
    explained.refresh()
  }
  return (
    <Page
      title={
        <>
          {run.journeyName} <Phase phase={run.phase} />
        </>
      }
      aside={
        run._links?.['cancel'] === undefined || !may('operate') ? null : (
          <button
            type="button"
            onClick={() => {
              setAsking(true)
            }}
          >
            Cancel…
          </button>
        )
      }
    >
      <Trouble error={error} />
      <p class="id">{run.journeyId}</p>
      <Facts
        of={[
          ['Version', run.journeyVersion],
          ['State', run.currentState],
          told === null
            ? null
            : ['Spent', `${length(spent)} of ${length(told.budget.limitMs)} (${percent(spent / told.budget.limitMs)})`],
          isRunning ? ['Left', length(elapsed(now.value, instantAt(run.deadlineAt)))] : null,
          ['Started', <Time at={run.startedAt} />],
          ['Deadline', <Time at={run.deadlineAt} />],
          ['Plain page', <a href={href(`/journeys/${encodeURIComponent(id)}`)}>without script</a>],
        ]}
      />
      {(may('operate') || may('produce') ? open : []).map(([name]) => (
        <StepForm key={name} run={run} step={name.slice('step:'.length)} done={again} />
      ))}
      {told === null ? null : (
        <>
          <h2>States</h2>
          {told.omitted > 0 ? <p class="soft">{String(told.omitted)} earlier states are not kept.</p> : null}
          <Gantt
            label="States"
            nowMs={isRunning ? nowMs : null}
            limitMs={told.budget.limitMs}
            steps={told.states.map((span) => {
              const isOpen = span.to === undefined
              const long = isOpen ? Math.max(span.durationMs, nowMs - span.startsAfterMs) : span.durationMs
              return {
                key: String(span.visit),
                depth: span.state.split('/').length - 1,
                name: (
                  <>
                    {span.state.split('/').slice(-2).join('/')} <span class="soft">{span.type}</span>
                  </>
                ),
                fromMs: span.startsAfterMs,
                toMs: isOpen ? null : span.startsAfterMs + span.durationMs,
                limitMs: span.effectiveMs ?? null,
                isWaiting: ['wait', 'webhook', 'timer'].includes(span.type),
                words: `${length(long)}${span.effectiveMs === undefined ? '' : ` of ${length(span.effectiveMs)}`}${span.note === undefined ? '' : `, ${span.note}`}`,
              }
            })}
          />
          <h2>What happened</h2>
          <pre tabIndex={0}>{told.text}</pre>
          {told.input === undefined ? null : <Json name="Input" value={told.input} />}
        </>
      )}
      {isAsking ? (
        <Dialog
          title="Cancel this run?"
          confirm="Cancel the run"
          isDanger
          onConfirm={() => act('Cancelled.', () => ask('POST', `${where}/steps/cancel`)).then(again)}
          onClose={() => {
            setAsking(false)
          }}
        >
          <p>Calls under way are hung up on, and open steps no longer take answers.</p>
        </Dialog>
      ) : null}
    </Page>
  )
}

const percent = (share: number): string => `${String(Math.min(100, Math.round(share * 100)))} %`

// ---- Forms of steps that wait ----

interface Schema {
  readonly type?: string | readonly string[]
  readonly title?: string
  readonly description?: string
  readonly enum?: readonly unknown[]
  readonly properties?: Readonly<Record<string, Schema>>
  readonly required?: readonly string[]
}

/** A state's schema, wherever in the definition the state is. */
function schemaOf(definition: unknown, step: string): Schema | null {
  if (typeof definition !== 'object' || definition === null) return null
  for (const [name, value] of Object.entries(definition as Record<string, unknown>)) {
    if (name === step && typeof value === 'object' && value !== null && 'type' in value) {
      const state = value as Record<string, { input?: { schema?: Schema } } | undefined>
      const found = state['wait']?.input?.schema ?? state['webhook']?.input?.schema
      if (found !== undefined) return found
    }
    const deeper = schemaOf(value, step)
    if (deeper !== null) return deeper
  }
  return null
}

function StepForm({ run, step, done }: { run: RunView; step: string; done: () => void }): JSX.Element {
  const name = encodeURIComponent(run.journeyName)
  const { data } = useQuery<{ definition: unknown }>(
    `/api/v1/definitions/${name}${queryOf({ version: run.journeyVersion })}`,
    null,
  )
  const schema = schemaOf(data?.definition, step)
  const fields = Object.entries(schema?.properties ?? {})
  const isPlain = fields.length > 0 && fields.every(([, field]) => kindOf(field) !== null)
  const [problem, setProblem] = useState<string | null>(null)
  const submit = (form: HTMLFormElement): void => {
    let body: unknown
    try {
      body = isPlain
        ? valuesOf(form, fields, schema?.required ?? [])
        : JSON.parse((form.elements.namedItem('json') as HTMLTextAreaElement).value)
    } catch {
      setProblem('This is not valid JSON.')
      return
    }
    ask('POST', `/api/v1/journeys/${encodeURIComponent(run.journeyId)}/steps/${encodeURIComponent(step)}`, body).then(
      () => {
        say(`Submitted ${step}.`)
        done()
      },
      (error: unknown) => {
        setProblem(error instanceof ApiError ? `${error.message} ${error.hint ?? ''}` : 'The server does not answer.')
      },
    )
  }
  return (
    <form
      class="step"
      aria-label={`Step ${step}`}
      onSubmit={(event) => {
        event.preventDefault()
        submit(event.currentTarget)
      }}
    >
      <strong>{step}</strong> waits for an answer
      {isPlain ? (
        fields.map(([field, shape]) => (
          <Field key={field} name={field} shape={shape} isRequired={schema?.required?.includes(field) === true} />
        ))
      ) : (
        <label>
          Answer as JSON
          <textarea name="json" rows={6} defaultValue="{}" spellcheck={false} />
        </label>
      )}
      {problem === null ? null : (
        <p class="trouble" role="alert">
          {problem}
        </p>
      )}
      <button type="submit" class="main">
        Submit
      </button>
    </form>
  )
}

type FieldKind = 'text' | 'number' | 'boolean' | 'choice'

function kindOf({ type, enum: choices }: Schema): FieldKind | null {
  if (choices !== undefined) return choices.every((choice) => typeof choice === 'string') ? 'choice' : null
  if (type === 'string') return 'text'
  if (type === 'number' || type === 'integer') return 'number'
  return type === 'boolean' ? 'boolean' : null
}

function Field({ name, shape, isRequired }: { name: string; shape: Schema; isRequired: boolean }): JSX.Element {
  const kind = kindOf(shape)
  const label = (
    <span>
      {shape.title ?? name}
      {isRequired ? ' (required)' : ''}
      {shape.description === undefined ? null : <span class="soft"> {shape.description}</span>}
    </span>
  )
  if (kind === 'choice' || kind === 'boolean')
    return (
      <label>
        {label}
        <select name={name} required={isRequired}>
          <option value="">–</option>
          {(kind === 'boolean' ? ['true', 'false'] : (shape.enum as readonly string[])).map((choice) => (
            <option key={choice} value={choice}>
              {kind === 'boolean' ? (choice === 'true' ? 'yes' : 'no') : choice}
            </option>
          ))}
        </select>
      </label>
    )
  return (
    <label>
      {label}
      <input name={name} required={isRequired} inputMode={kind === 'number' ? 'decimal' : undefined} />
    </label>
  )
}

/** What was left empty is left out: the server says what it misses. */
function valuesOf(
  form: HTMLFormElement,
  fields: readonly (readonly [string, Schema])[],
  required: readonly string[],
): object {
  const data = new FormData(form)
  return Object.fromEntries(
    fields.flatMap(([name, shape]) => {
      const given = data.get(name)
      const text = typeof given === 'string' ? given : ''
      if (text === '' && !(required.includes(name) && kindOf(shape) === 'text')) return []
      const kind = kindOf(shape)
      return [[name, kind === 'boolean' ? text === 'true' : kind === 'number' ? Number(text) : text]]
    }),
  )
}
