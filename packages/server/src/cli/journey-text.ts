/** Runs as a person reads them. */
import { LIMITED_BY, readableDuration, type LimitedBy } from '@curfew/core'
import { clean, cleaned } from './frame/clean.ts'
import type { Moments } from './frame/rows.ts'
import { budgetBar, inkOn, type Ink, type Paper } from './journey-chart.ts'

interface RunView {
  readonly journeyId: string
  readonly journeyName: string
  readonly journeyVersion: string
  readonly kind: string
  readonly phase: 'RUNNING' | 'SUCCEEDED' | 'FAILED'
  readonly startedAt: string
  readonly endedAt?: string
  readonly effectiveMaxDurationSec: number
  readonly limitedBy: LimitedBy
  readonly compensatedBy?: string
  readonly _links?: Readonly<Record<string, unknown>>
}

export interface StatusView extends RunView {
  readonly currentState: string
  readonly activeStates?: readonly string[]
  readonly remainingMs: number
}

export interface OutcomeView extends RunView {
  readonly status: string
  readonly output: unknown
  readonly error: { readonly code: string; readonly reason: string } | null
  readonly terminationKind: string
  readonly terminatedAtState: string
  readonly outcomeId?: string
}

export function statusText(given: StatusView, paper: Paper, when: Moments): string {
  const run = cleaned(given)
  const ink = inkOn(paper)
  const budgetMs = run.effectiveMaxDurationSec * 1000
  if (run.phase !== 'RUNNING')
    return [...headOf(run, ink, when), `${phaseOf(run, ink)} at ${run.currentState}`].join('\n')
  const steps = Object.keys(run._links ?? {}).flatMap((name) => (name.startsWith('step:') ? [name.slice(5)] : []))
  return [
    ...headOf(run, ink, when),
    `${phaseOf(run, ink)} at ${(run.activeStates ?? [run.currentState]).join(', ')}`,
    budgetBar(budgetMs - run.remainingMs, budgetMs, Math.min(40, paper.width - 8)),
    `${readableDuration(run.remainingMs)} left of ${readableDuration(budgetMs)} (${LIMITED_BY[run.limitedBy]})`,
    ...steps.map((step) => `open: curfew journey submit ${run.journeyId} ${step} --input …`),
  ].join('\n')
}

export function outcomeText({ output, ...given }: OutcomeView, paper: Paper, when: Moments): string {
  const run = cleaned(given)
  const ink = inkOn(paper)
  const { error, terminationKind, terminatedAtState, status, outcomeId } = run
  const budgetMs = run.effectiveMaxDurationSec * 1000
  const spentMs = Date.parse(run.endedAt ?? run.startedAt) - Date.parse(run.startedAt)
  const why = error === null ? '' : `: ${error.code}: ${error.reason}`
  return [
    ...headOf(run, ink, when),
    `${phaseOf(run, ink)} at ${terminatedAtState} (${terminationKind})${why}`,
    budgetBar(spentMs, budgetMs, Math.min(40, paper.width - 8)),
    `${readableDuration(spentMs)} of ${readableDuration(budgetMs)} (${LIMITED_BY[run.limitedBy]})`,
    ...(status === run.phase || status === error?.code ? [] : [`status: ${status}`]),
    ...(outcomeId === undefined ? [] : [`outcome: ${outcomeId}`]),
    ...(run.compensatedBy === undefined ? [] : [`compensated by ${run.compensatedBy}`]),
    ...(output === null ? [] : [clean(JSON.stringify(output, null, 2))]),
  ].join('\n')
}

export function listText(given: readonly StatusView[], paper: Paper, when: Moments): string {
  const runs = cleaned(given)
  if (runs.length === 0) return 'No runs.'
  const ink = inkOn(paper)
  const rows = runs.map((run) => [
    run.journeyId,
    `${run.journeyName} ${run.journeyVersion}`,
    run.phase,
    run.currentState,
    when(run.startedAt),
    run.phase === 'RUNNING' ? `${readableDuration(run.remainingMs)} left` : '',
  ])
  const head = ['id', 'journey', 'phase', 'state', 'started', '']
  const widths = head.map((_, column) => Math.max(...[head, ...rows].map((cells) => cells[column]?.length ?? 0)))
  const line = (cells: readonly string[]): string =>
    cells
      .map((cell, column) => cell.padEnd(widths[column] ?? 0))
      .join('  ')
      .trimEnd()
  return [ink.faint(line(head)), ...rows.map(line)].join('\n')
}

function headOf(run: RunView, ink: Ink, when: Moments): string[] {
  const { journeyId, journeyName, journeyVersion, kind, startedAt, endedAt } = run
  return [
    `${ink.bold(`${journeyName} ${journeyVersion}`)}${kind === 'Journey' ? '' : ` (${kind})`}  ${journeyId}`,
    `started ${when(startedAt)}${endedAt === undefined ? '' : `, ended ${when(endedAt)}`}`,
  ]
}

function phaseOf({ phase }: RunView, ink: Ink): string {
  return { RUNNING: ink.plain, SUCCEEDED: ink.green, FAILED: ink.red }[phase](phase)
}
