/** Workflows: which step eats the shared budget? */
import { timeBetween, elapsed } from '@curfew/core'
import type { JSX } from 'preact'
import { useState } from 'preact/hooks'
import { ask, may, queryOf } from '../api.ts'
import { Gantt, type Step } from '../gantt.tsx'
import { useQuery } from '../query.ts'
import { search, setFilters } from '../router.ts'
import { instantAt, instantOf, length, now } from '../time.ts'
import {
  act,
  count,
  Dialog,
  Facts,
  JobLink,
  Json,
  Link,
  Loading,
  Page,
  shortId,
  StateBadge,
  Table,
  Time,
  Trouble,
} from '../ui.tsx'

interface StepView {
  readonly id: string
  readonly type: string
  readonly name?: string
  readonly state: string
  readonly job_id: string | null
  readonly depends_on: readonly string[]
  readonly started_at?: string
  readonly completed_at?: string
  readonly steps?: readonly StepView[]
}

interface WorkflowView {
  readonly id: string
  readonly type: string
  readonly name?: string
  readonly state: string
  readonly steps_total: number
  readonly steps_completed: number
  readonly steps?: readonly StepView[]
  readonly created_at: string
  readonly completed_at?: string
  readonly deadline?: string
  readonly workflow_timeout?: number
  readonly [member: string]: unknown
}

const WORKFLOW_STATES = ['running', 'completed', 'failed', 'cancelled']

export function Workflows(): JSX.Element {
  const state = search.value.get('state')
  const { data, error } = useQuery<{ workflows: readonly WorkflowView[] }>(
    `/ojs/v1/workflows${queryOf({ state, limit: 50 })}`,
  )
  return (
    <Page title="Workflows">
      <form class="filters">
        <label>
          State
          <select
            value={state ?? ''}
            onChange={(event) => {
              setFilters({ state: event.currentTarget.value })
            }}
          >
            <option value="">any</option>
            {WORKFLOW_STATES.map((name) => (
              <option key={name}>{name}</option>
            ))}
          </select>
        </label>
      </form>
      <Trouble error={error} />
      {data === null ? (
        <Loading />
      ) : data.workflows.length === 0 ? (
        <p>
          No workflows. How to make one: <code>docs/workflows.md</code>.
        </p>
      ) : (
        <Table label="Workflows" head={['Workflow', 'Name', 'Kind', 'State', 'Steps', 'Created', 'Took']}>
          {data.workflows.map((workflow) => (
            <tr key={workflow.id}>
              <td>
                <Link class="id" to={`/workflows/${encodeURIComponent(workflow.id)}`} title={workflow.id}>
                  {shortId(workflow.id)}
                </Link>
              </td>
              <td>{workflow.name}</td>
              <td>{workflow.type}</td>
              <td>
                <StateBadge state={workflow.state} />
              </td>
              <td>
                {count(workflow.steps_completed)} of {count(workflow.steps_total)}
              </td>
              <td>
                <Time at={workflow.created_at} />
              </td>
              <td>{length(elapsed(instantAt(workflow.created_at), instantOf(workflow.completed_at) ?? now.value))}</td>
            </tr>
          ))}
        </Table>
      )}
    </Page>
  )
}

/** Where a workflow has a deadline, the server writes it under one of these names. */
function limitOf(workflow: WorkflowView): number | null {
  const created = instantAt(workflow.created_at)
  for (const name of ['deadline', 'deadline_at', 'workflow_deadline', 'x_deadline']) {
    const value = workflow[name]
    if (typeof value === 'string') return timeBetween(created, instantAt(value))
  }
  const seconds = workflow['workflow_timeout']
  if (typeof seconds === 'number') return seconds * 1_000
  const ms = workflow['workflow_timeout_ms']
  return typeof ms === 'number' ? ms : null
}

function stepsOf(steps: readonly StepView[], began: number, depth = 0): Step[] {
  return steps.flatMap((step) => {
    const from = instantOf(step.started_at)
    const to = instantOf(step.completed_at)
    return [
      {
        key: `${String(depth)} ${step.id}`,
        depth,
        name: (
          <>
            {step.name ?? step.id} <span class="soft">{step.type}</span>
            {step.job_id === null ? null : (
              <>
                {' '}
                <JobLink id={step.job_id} />
              </>
            )}
          </>
        ),
        fromMs: from === null ? null : from - began,
        toMs: to === null ? null : to - began,
        limitMs: null,
        isWaiting: false,
        words: (
          <>
            {from === null ? '' : `${length((to ?? now.value) - from)} `}
            <StateBadge state={step.state} />
          </>
        ),
      },
      ...stepsOf(step.steps ?? [], began, depth + 1),
    ]
  })
}

const MAX_DRAWN = 200

export function WorkflowPage({ at: [id = ''] }: { readonly at: readonly string[] }): JSX.Element {
  const where = `/ojs/v1/workflows/${encodeURIComponent(id)}`
  const { data, error, refresh } = useQuery<{ workflow: WorkflowView }>(where)
  const [isAsking, setAsking] = useState(false)
  if (data === null)
    return (
      <Page title="Workflow">
        <Loading error={error} />
      </Page>
    )
  const { workflow } = data
  const began = instantAt(workflow.created_at)
  const ended = instantOf(workflow.completed_at)
  const limit = limitOf(workflow)
  const spent = (ended ?? now.value) - began
  const steps = stepsOf(workflow.steps ?? [], began)
  return (
    <Page
      title={
        <>
          {workflow.name ?? workflow.type} <StateBadge state={workflow.state} />
        </>
      }
      aside={
        workflow.state === 'running' && may('operate') ? (
          <button
            type="button"
            onClick={() => {
              setAsking(true)
            }}
          >
            Cancel…
          </button>
        ) : null
      }
    >
      <Trouble error={error} />
      <p class="id">{workflow.id}</p>
      <Facts
        of={[
          ['Kind', workflow.type],
          ['Steps', `${count(workflow.steps_completed)} of ${count(workflow.steps_total)} done`],
          ['Created', <Time at={workflow.created_at} />],
          ['Spent', limit === null ? length(spent) : `${length(spent)} of ${length(limit)}`],
          limit === null || ended !== null ? null : ['Left', length(Math.max(0, limit - spent))],
        ]}
      />
      <Gantt label="Steps" steps={steps.slice(0, MAX_DRAWN)} nowMs={ended === null ? spent : null} limitMs={limit} />
      {steps.length > MAX_DRAWN ? (
        <p class="soft">
          The first {String(MAX_DRAWN)} of {count(steps.length)} steps are drawn.
        </p>
      ) : null}
      <h2>Data</h2>
      <Json name="Whole record" value={workflow} />
      {isAsking ? (
        <Dialog
          title="Cancel this workflow?"
          confirm="Cancel the workflow"
          isDanger
          onConfirm={() => act('Cancelled.', () => ask('DELETE', where)).then(refresh)}
          onClose={() => {
            setAsking(false)
          }}
        >
          <p>Waiting steps are cancelled. Active steps run on, and nothing follows from their results.</p>
        </Dialog>
      ) : null}
    </Page>
  )
}
