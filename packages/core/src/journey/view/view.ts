/**
 * A run as callers see it: where it is and how long it may still take (`statusView`), how it ended (`outcomeView`), and
 * the problem that a failed Api answers with. What a definition shows of its data besides (a projection) never takes
 * the place of what every answer has.
 */
import { iso, type Instant } from '../../time/clock.ts'
import { elapsed } from '../../time/sums.ts'
import type { Projection } from '../definition.ts'
import { currentState, leaves, openSteps, pathOf, type Data, type End, type Run } from '../run/run.ts'

/** Members of a status; a definition's own may have none of these names. */
export const STATUS_MEMBERS = [
  'journeyId',
  'journeyName',
  'journeyVersion',
  'kind',
  'phase',
  'currentState',
  'activeStates',
  'updatedAt',
  'startedAt',
  'endedAt',
  'deadlineAt',
  'remainingMs',
  'effectiveMaxDurationSec',
  'limitedBy',
  'compensates',
  'compensatedBy',
  'scheduleId',
  'tags',
  'attributes',
  '_links',
] as const

export const OUTCOME_MEMBERS = [
  'journeyId',
  'journeyName',
  'journeyVersion',
  'kind',
  'phase',
  'status',
  'output',
  'error',
  'terminationKind',
  'terminatedAtState',
  'outcomeId',
  'startedAt',
  'endedAt',
  'deadlineAt',
  'effectiveMaxDurationSec',
  'limitedBy',
  'compensates',
  'compensatedBy',
  'scheduleId',
  'tags',
  'attributes',
  '_links',
] as const

export interface Link {
  readonly href: string
  readonly method: 'GET' | 'POST'
}

/** `links`: whether the definition lets answers tell where to go next. */
export function statusView(run: Run, now: Instant, links: boolean): Data {
  const { path } = currentState(run.root)
  const isOver = run.end !== null
  const active = isOver ? [] : openLeaves(run)
  return {
    ...headOf(run),
    phase: run.phase,
    currentState: run.end?.terminatedAtState ?? path,
    ...(active.length > 1 ? { activeStates: active } : {}),
    updatedAt: iso(run.updatedAt),
    ...timesOf(run),
    remainingMs: isOver ? 0 : elapsed(now, run.deadlineAt),
    ...relativesOf(run),
    tags: run.tags,
    attributes: run.attributes,
    ...(links ? { _links: statusLinks(run) } : {}),
  }
}

/** What an asynchronous start answers. */
export function startView(run: Run, links: boolean): Data {
  return {
    journeyId: run.id,
    journeyName: run.name,
    statusUrl: runUrl(run.id),
    ...(links ? { _links: statusLinks(run) } : {}),
  }
}

/** How a run ended. `outcomeId` is the name its definition has for such an end, if it has one. */
export function outcomeView(run: Run, end: End, outcomeId: string | null, links: boolean): Data {
  return {
    ...headOf(run),
    phase: end.phase,
    status: businessStatus(end),
    output: end.output ?? null,
    error: end.error,
    terminationKind: end.terminationKind,
    terminatedAtState: end.terminatedAtState,
    ...(outcomeId === null ? {} : { outcomeId }),
    ...timesOf(run),
    ...relativesOf(run),
    tags: run.tags,
    attributes: run.attributes,
    ...(links ? { _links: outcomeLinks(run) } : {}),
  }
}

/** What the definition calls such an end: its output's own `status`, or else the code of the error. */
export function businessStatus({ phase, output, error }: End): string {
  const own = isData(output) && Object.hasOwn(output, 'status') ? output['status'] : undefined
  if (typeof own === 'string' && own !== '') return own
  return phase === 'FAILED' ? (error?.code ?? 'FAILED') : 'SUCCEEDED'
}

/** An answer with the members of an object in the context beside its own, which stay what they are. */
export function project(answer: Data, reserved: readonly string[], context: Data, shown: Projection | null): Data {
  const name = shown?.outputVar ?? null
  const value = name !== null && Object.hasOwn(context, name) ? context[name] : undefined
  if (!isData(value)) return answer
  const own = Object.entries(value).filter(([key]) => !reserved.includes(key))
  return Object.fromEntries([...Object.entries(answer), ...own])
}

export interface Problem {
  readonly type: string
  readonly title: string
  readonly status: number
  readonly detail: string
  readonly instance?: string
  readonly code: string
  readonly reason: string
}

/** The problem (RFC 9457) of an Api run that failed, if it was one at all (id null: nothing was stored); a rule of its definition may choose another status. */
export function problemOf(runId: string | null, end: End): Problem {
  const { code, reason } = end.error ?? { code: 'RUNTIME_INTERNAL', reason: 'It failed without saying why.' }
  return {
    type: code,
    title: reason,
    status: end.terminationKind === 'Timeout' ? 504 : 500,
    detail: `${ENDINGS[end.terminationKind]} in state ${end.terminatedAtState}.`,
    ...(runId === null ? {} : { instance: runUrl(runId) }),
    code,
    reason,
  }
}

/** What expressions see of a run that is over. `error`: how it failed, in the form that is asked for. */
export function endedDocument(context: Data, end: End, error: unknown, config: Data = {}): Data {
  const { phase, terminationKind, terminatedAtState, output } = end
  return {
    context,
    payload: context['payload'] ?? null,
    error,
    platform: { config },
    output,
    outcome: { phase, terminationKind, terminatedAtState, output, error: end.error },
  }
}

const ENDINGS: Readonly<Record<End['terminationKind'], string>> = {
  Success: 'It succeeded',
  Fail: 'It failed',
  Timeout: 'Its time was up',
  Cancel: 'It was cancelled',
  RuntimeError: 'Something went wrong',
}

export function runUrl(id: string): string {
  return `/api/v1/journeys/${encodeURIComponent(id)}`
}

function headOf({ id, name, version, kind }: Run): Data {
  return { journeyId: id, journeyName: name, journeyVersion: version, kind }
}

function timesOf({ startedAt, endedAt, deadlineAt, limitMs, limitedBy }: Run): Data {
  return {
    startedAt: iso(startedAt),
    ...(endedAt === null ? {} : { endedAt: iso(endedAt) }),
    deadlineAt: iso(deadlineAt),
    effectiveMaxDurationSec: limitMs / 1000,
    limitedBy,
  }
}

function relativesOf({ compensates, compensatedBy, scheduleId }: Run): Data {
  return {
    ...(compensates === null ? {} : { compensates: compensates.id }),
    ...(compensatedBy === null ? {} : { compensatedBy }),
    ...(scheduleId === undefined ? {} : { scheduleId }),
  }
}

/** Where the run is, when a parallel state has several branches open. */
function openLeaves({ root }: Run): readonly string[] {
  return leaves(root)
    .filter(({ rest }) => rest.kind !== 'over')
    .map(pathOf)
}

type Links = Readonly<Record<string, Link>>

function statusLinks(run: Run): Links {
  const self = runUrl(run.id)
  const steps = openSteps(run).map(({ state }): [string, Link] => [
    state,
    { href: `${self}/steps/${encodeURIComponent(state)}`, method: 'POST' },
  ])
  const mayCancel = run.phase === 'RUNNING' && run.cancellable
  // In this order, so that a step that is called like one of ours is still found by its longer name.
  return Object.fromEntries([
    ...steps,
    ...steps.map(([id, link]): [string, Link] => [`step:${id}`, link]),
    ['self', { href: self, method: 'GET' }],
    ['result', { href: `${self}/result`, method: 'GET' }],
    ...(mayCancel ? [['cancel', { href: `${self}/steps/cancel`, method: 'POST' }] as const] : []),
    ...relativeLinks(run),
  ])
}

function outcomeLinks(run: Run): Links {
  const status = runUrl(run.id)
  return Object.fromEntries([
    ['self', { href: `${status}/result`, method: 'GET' }],
    ['status', { href: status, method: 'GET' }],
    ...relativeLinks(run),
  ])
}

function relativeLinks({ compensates, compensatedBy }: Run): [string, Link][] {
  const found: [string, Link][] = []
  if (compensates !== null) found.push(['compensates', { href: runUrl(compensates.id), method: 'GET' }])
  if (compensatedBy !== null) found.push(['compensatedBy', { href: runUrl(compensatedBy), method: 'GET' }])
  return found
}

const isData = (value: unknown): value is Data => typeof value === 'object' && value !== null && !Array.isArray(value)
