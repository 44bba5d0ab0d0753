/** Graphs and their states as they are written: what each must have, may have, and must not have. */
import { instant, seconds } from '../../time/clock.ts'
import { SHAPE, type Field, type Mapping } from '../../diagnostics.ts'
import { MAX_DURATION_MS, parseIsoDuration, parseMoment } from '../../time/durations.ts'
import type { Choice, Graph, Parallel, State, StateId, Subjourney, TimerState, Transform, Wait } from '../definition.ts'
import { readHttpCall, readReason } from './http.ts'
import { checkId as checkIdOf, readApiKeyCheck } from '../api-key.ts'
import { readJob } from './job.ts'
import { readScheduleTask } from './schedule.ts'
import {
  checkId,
  isMapped,
  needMapper,
  readExpression,
  readMapper,
  readProjection,
  readSchema,
  readTarget,
  readVariable,
  warnIfNeverReached,
  type Leads,
  type Reading,
} from './reading.ts'
import { STATUS_MEMBERS } from '../view/view.ts'

const MAX_SECONDS = MAX_DURATION_MS / 1000

/** Null: what it does cannot be read; where it leads is known nevertheless. */
type Read = (reading: Reading, state: Mapping, leads: Leads) => State | null

const READERS: Readonly<Record<string, { readonly keys: readonly string[]; readonly read: Read }>> = {
  task: { keys: ['task', 'next'], read: readTask },
  choice: { keys: ['choices', 'default'], read: readChoice },
  transform: { keys: ['transform', 'next'], read: readTransform },
  wait: { keys: ['wait', 'next'], read: (reading, state, leads) => readWait(reading, state, leads, 'wait') },
  webhook: { keys: ['webhook', 'next'], read: (reading, state, leads) => readWait(reading, state, leads, 'webhook') },
  timer: { keys: ['timer', 'next'], read: readTimer },
  parallel: { keys: ['parallel', 'next'], read: readParallel },
  subjourney: { keys: ['subjourney', 'next'], read: readSubjourney },
  succeed: {
    keys: ['outputVar'],
    read: (_, state) => ({ type: 'succeed', outputVar: readVariable(state.get('outputVar')) }),
  },
  fail: { keys: ['errorCode', 'reason'], read: readFail },
}
const TYPES = Object.keys(READERS)

/** `start` and `states` among the members of something. */
export function readGraph(reading: Reading, of: Mapping): Graph {
  const targets: { id: StateId; path: string; what: string }[] = []
  const leads: Leads = (field) => {
    const id = field?.text('GRAPH-1', { expected: 'the name of a state' }) ?? null
    if (field === null || id === null) return ''
    targets.push({ id, path: field.path, what: field.name })
    return id
  }
  const start = leads(of.need('start', 'GRAPH-1'))
  const written = of.need('states', 'GRAPH-1')?.mapping() ?? null
  if (written?.keys().length === 0) written.at.error('GRAPH-1', 'states must have at least one state.')
  const states = new Map<StateId, State>()
  for (const id of written?.keys() ?? []) {
    const field = written?.field(id)
    const state = field === undefined ? null : readState(reading, field, leads)
    if (state !== null) states.set(id, state)
  }
  reading.graphs.push({ path: of.at.path, start, ids: new Set(written?.keys()), states, targets })
  return { start, states: Object.fromEntries(states) }
}

function readState(reading: Reading, field: Field, leads: Leads): State | null {
  checkId(field, 'The state')
  const state = field.mapping()
  const type = state?.need('type')?.oneOf(TYPES) ?? null
  const reader = type === null ? undefined : READERS[type]
  if (state === null || type === null || reader === undefined) return null
  if (reading.kind === 'Api' && ['wait', 'webhook', 'timer'].includes(type))
    state.field('type').error('KIND-1', `A definition of kind Api must not have a ${type}: nothing may make it wait.`)
  field.members(['type', ...reader.keys])
  return reader.read(reading, state, leads)
}

const next = (state: Mapping, leads: Leads): StateId => leads(state.need('next', 'GRAPH-1'))

function readTask(reading: Reading, state: Mapping, leads: Leads): State | null {
  const after = next(state, leads)
  const task = state.need('task')?.mapping() ?? null
  const kind = task?.need('kind') ?? null
  if (task === null || kind === null) return null
  if (kind.value === 'httpCall:v1') return readHttpCall(reading, task, after)
  if (kind.value === 'job:v1') return readJob(reading, task, after)
  if (kind.value === 'apiKeyValidate:v1') {
    const check = readApiKeyCheck(task, after)
    reading.apiKeys.set(checkIdOf(check), { profile: check.profile, source: check.source })
    return check
  }
  if (kind.value === 'schedule:v1') {
    if (reading.kind !== 'Api') return readScheduleTask(reading, task, after)
    kind.error('KIND-1', 'A definition of kind Api must not have a schedule.')
  } else if (typeof kind.value === 'string' && /^[A-Za-z]\w*:v\d+$/.test(kind.value))
    kind.error(SHAPE, `${kind.value} is not supported here; there are ${TASKS}.`)
  else kind.refuse(SHAPE, TASKS)
  return null
}

const TASKS = 'httpCall:v1, job:v1, schedule:v1 and apiKeyValidate:v1'

function readChoice(reading: Reading, state: Mapping, leads: Leads): Choice {
  const choices = (state.need('choices')?.list(SHAPE, 1) ?? []).map((field) => {
    const choice = field.members(['when', 'next'])
    const when = choice?.need('when')?.members(['predicate']) ?? null
    return {
      predicate: readExpression(reading, when?.need('predicate', 'EXPR-1') ?? null),
      next: choice === null ? '' : next(choice, leads),
    }
  })
  const otherwise = state.get('default')
  if (otherwise === null)
    state.at.warn(
      'CHOICE-1',
      'There is no default: a run for which none of the choices holds fails with RUNTIME_NO_CHOICE.',
    )
  return { type: 'choice', choices, default: otherwise === null ? null : leads(otherwise) }
}

function readTransform(reading: Reading, state: Mapping, leads: Leads): Transform {
  const transform = state.need('transform')?.members(['mapper', 'mapperRef', 'target', 'resultVar']) ?? null
  const after = next(state, leads)
  if (transform === null)
    return { type: 'transform', mapper: { lang: '', expr: '' }, target: { kind: 'context', path: [] }, next: after }
  const target = readTarget(transform, ['context', 'var', 'attributes'])
  if (target.kind === 'attributes' && reading.kind === 'Api')
    transform
      .get('target')
      ?.mapping()
      ?.get('kind')
      ?.error('KIND-1', 'A definition of kind Api must not write attributes: they could not be read.')
  return { type: 'transform', mapper: needMapper(reading, transform), target, next: after }
}

function readWait(reading: Reading, state: Mapping, leads: Leads, type: 'wait' | 'webhook'): Wait {
  if (state.at.name === 'cancel')
    state.at.errorAtKey('WAIT-1', `A ${type} must not be called cancel: steps/cancel cancels the run.`)
  const keys = ['input', 'response', 'timeoutSec', 'onTimeout', 'default']
  const known = type === 'wait' ? ['channel', ...keys] : keys
  const step = state.need(type)?.members(known, { notHere: ['apply', 'on', 'security'] }) ?? null
  step?.get('channel')?.oneOf(['manual'])
  const input = readSchema(reading, inputSchema(step))
  const response = readProjection(reading, step?.get('response') ?? null, STATUS_MEMBERS)
  const timeout = step?.get('timeoutSec') ?? null
  const onTimeout = step?.get('onTimeout') ?? null
  const timeoutSec = timeout?.whole('WAIT-1', 1, MAX_SECONDS) ?? null
  if (timeout !== null && onTimeout === null)
    timeout.error('WAIT-1', 'timeoutSec needs onTimeout: where to go when the time is up.')
  if (timeout === null && onTimeout !== null)
    onTimeout.error('WAIT-1', 'onTimeout needs timeoutSec: after how long to go there.')
  const timeoutMs = timeoutSec === null ? null : seconds(timeoutSec)
  if (timeout !== null) warnIfNeverReached(reading, timeout, timeoutMs)
  return {
    type,
    input: input ?? true,
    response,
    timeoutMs,
    onTimeout: onTimeout === null ? null : leads(onTimeout),
    next: nextOfWait(state, step, leads, type),
  }
}

function inputSchema(step: Mapping | null): Field | null {
  if (step === null) return null
  const why = 'what may be submitted'
  return step.need('input', 'WAIT-1', why)?.members(['schema'])?.need('schema', 'WAIT-1', why) ?? null
}

/** Older definitions have it inside, as `default`. */
function nextOfWait(state: Mapping, step: Mapping | null, leads: Leads, type: string): StateId {
  const inner = step?.get('default') ?? null
  if (inner === null) return next(state, leads)
  state.at.found.warn('DEPR-1', inner.path, `default inside ${type} is deprecated; write next beside ${type}.`, 'key')
  if (!state.has('next')) return leads(inner)
  inner.errorAtKey(SHAPE, `Give next or the old ${type}.default, not both.`)
  return next(state, leads)
}

function readTimer(reading: Reading, state: Mapping, leads: Leads): TimerState {
  const timer = state.need('timer')?.members(['duration', 'until'], { code: 'TIMER-1' }) ?? null
  const after = next(state, leads)
  const [duration, until] = [timer?.get('duration') ?? null, timer?.get('until') ?? null]
  if (timer !== null && (duration === null) === (until === null))
    timer.at.error('TIMER-1', 'timer must have exactly one of duration and until.')
  const kind = duration === null ? 'until' : 'duration'
  const due = duration ?? until
  return { type: 'timer', kind, due: due === null ? '' : readDue(reading, due, kind), next: after }
}

function readDue(reading: Reading, due: Field, kind: 'duration' | 'until'): TimerState['due'] {
  if (isMapped(due.value)) {
    const mapping = due.mapping()
    return mapping === null ? '' : needMapper(reading, mapping)
  }
  if (typeof due.value === 'object' && due.value !== null) return readExpression(reading, due)
  const text = typeof due.value === 'string' ? due.value : ''
  if (kind === 'until') {
    if (text.startsWith('+') || parseMoment(text, instant(0), false) === null)
      due.refuse('TIMER-1', 'an instant such as "2030-12-31T23:59:00Z" (RFC 3339, with its zone)')
    return text
  }
  const ms = parseIsoDuration(text)
  if (ms === null || ms > MAX_DURATION_MS) due.refuse('TIMER-1', 'an ISO 8601 duration such as PT5M, at most ten years')
  else warnIfNeverReached(reading, due, ms)
  return text
}

function readParallel(reading: Reading, state: Mapping, leads: Leads): Parallel {
  const parallel = state.need('parallel')?.members(['branches', 'join']) ?? null
  const names = new Set<string>()
  const written = parallel?.need('branches')?.list(SHAPE, 1) ?? []
  if (written.length > reading.maxBranches)
    parallel
      ?.field('branches')
      .error(
        'GRAPH-3',
        `A parallel has at most ${String(reading.maxBranches)} branches; these are ${String(written.length)}. Split them over several runs.`,
      )
  const branches = written.flatMap((field) => {
    const branch = field.members(['name', 'start', 'states'])
    if (branch === null) return []
    const named = branch.need('name')
    const name = named?.text('NAME-1', { pattern: /^[A-Za-z0-9_][A-Za-z0-9_-]{0,127}$/, expected: BRANCH_NAME }) ?? ''
    if (names.has(name)) named?.error('NAME-1', `Two branches are called ${JSON.stringify(name)}.`)
    names.add(name)
    return [{ name, ...readGraph(reading, branch) }]
  })
  const join = parallel?.get('join')?.members(['strategy', 'errorPolicy', 'mapper', 'mapperRef', 'resultVar']) ?? null
  return {
    type: 'parallel',
    branches,
    join: {
      strategy: join?.get('strategy')?.oneOf(['allOf', 'anyOf', 'firstCompleted']) ?? 'allOf',
      errorPolicy: join?.get('errorPolicy')?.oneOf(['collectAll', 'failFast', 'ignoreErrors']) ?? 'collectAll',
      mapper: join === null ? null : readMapper(reading, join),
      resultVar: readVariable(join?.get('resultVar') ?? null),
    },
    next: next(state, leads),
  }
}

const BRANCH_NAME = 'a name of letters, digits, "_" and "-"'

function readSubjourney(reading: Reading, state: Mapping, leads: Leads): Subjourney {
  const known = ['ref', 'input', 'resultVar', 'resultKind', 'onFailure']
  const subjourney = state.need('subjourney')?.members(known) ?? null
  const named = subjourney?.need('ref', 'GRAPH-1') ?? null
  const ref = named?.text('GRAPH-1') ?? ''
  if (ref !== '' && !reading.subjourneys.has(ref))
    named?.error('GRAPH-1', `There is no subjourney ${JSON.stringify(ref)} in spec.subjourneys.`)
  const input = subjourney?.get('input')?.members(['mapper', 'mapperRef']) ?? null
  const onFailure = subjourney?.get('onFailure')?.members(['behavior']) ?? null
  return {
    type: 'subjourney',
    ref,
    input: input === null ? null : needMapper(reading, input),
    resultVar: readVariable(subjourney?.get('resultVar') ?? null),
    resultKind: subjourney?.get('resultKind')?.oneOf(['output', 'outcome']) ?? 'output',
    onFailure: onFailure?.get('behavior')?.oneOf(['propagate', 'capture']) ?? 'propagate',
    next: next(state, leads),
  }
}

function readFail(_: Reading, state: Mapping): State {
  const reason = readReason(state.need('reason'), SHAPE)
  return { type: 'fail', errorCode: state.need('errorCode')?.text() ?? '', reason }
}
