/**
 * A workflow as it is asked for: the tree is read level by level and every step's enqueue request is read as if it were
 * sent alone, so that nothing can turn out to be wrong when its turn comes. A refusal names the place.
 *
 *   {"type":"chain","steps":[…]}                      {"type":"group","jobs":[…]}
 *   {"type":"batch","jobs":[…],"callbacks":{…}}       {"steps":[{"id","depends_on",…}]}   a DAG has no type
 *
 * An entry with a list of its own (`steps` or `jobs`) is a branch, whatever its type says; any other is a job. `options`
 * of a branch are defaults for everything below it.
 */
import { badField, badPolicy, OjsError } from '../errors.ts'
import { millis, seconds, type Instant, type Millis } from '../time/clock.ts'
import { LONGEST_MS } from '../time/durations.ts'
import {
  ID_SHAPE,
  isJobField,
  JOB_FIELDS,
  nearMissesInOptions,
  OPTION_NAMES,
  OPTION_SHAPES,
  PARENT_SHAPE,
  readEnqueue,
  readParent,
  type EnqueueRequest,
} from './envelope.ts'
import { fewFields, fewMembersOf } from './few-fields.ts'
import type { Fragment, Json, Parent } from '../job/job.ts'
import { elementsOf, membersOf, type Member } from './json-text.ts'
import { isGiven } from './is-given.ts'
import { ReadShare } from './read-share.ts'
import {
  JOB_ALIASES,
  missesWithin,
  nearMissesAmong,
  refuseNearMisses,
  STEP_ALIASES,
  vocabulary,
  type NearMiss,
} from './near-miss.ts'
import {
  anyList,
  anyObject,
  flag,
  list,
  named,
  object,
  oneNotNull,
  oneOf,
  orNull,
  policy,
  ruled,
  text,
  utf8Length,
  whole,
  type Fields,
  type JsonSchema,
  type Shape,
} from './shape.ts'
import {
  BRANCH_KINDS,
  HOOKS,
  NO_BRANCH_YET,
  type Branch,
  type BranchKind,
  type Hook,
  type WorkflowStep,
} from '../workflow/workflow.ts'

export const MOST_JOBS = 10_000
export const DEEPEST_NESTING = 16
export const MOST_DEPENDENCIES = 100_000
const LARGEST_MORE = 65_536

const NAME_SHAPE = text({ maxLength: 255 })
const STEP_ID_SHAPE = text({ min: 1, maxLength: 255, expected: 'a non-empty string' })
const TIMEOUT_SHAPE = policy(whole(1, LONGEST_MS / 1000))
const TIMEOUT_MS_SHAPE = policy(whole(0, LONGEST_MS))

// ---- The documented form. What is described here is read by `Reader`, which names the place of a mistake ----

/** What belongs to the whole workflow, and not to a step. */
const NOT_GIVEN: Shape<unknown> = { json: { type: 'null' }, read: (value) => value }
const NOT_FOR_A_STEP = { x_parent: NOT_GIVEN, x_inherit_deadline: NOT_GIVEN, unique: NOT_GIVEN } as const
const STEP_OPTIONS_SHAPE = named('StepOptions', object({ ...OPTION_SHAPES, ...NOT_FOR_A_STEP }))
const DEPENDS_ON_SHAPE = list(text({ min: 1, maxLength: 255 }), 0, MOST_DEPENDENCIES)

const STEP_JOB_SHAPE = named(
  'WorkflowJob',
  object(
    {
      ...JOB_FIELDS,
      ...NOT_FOR_A_STEP,
      options: STEP_OPTIONS_SHAPE,
      id: STEP_ID_SHAPE,
      name: NAME_SHAPE,
      depends_on: DEPENDS_ON_SHAPE,
      steps: NOT_GIVEN,
      jobs: NOT_GIVEN,
      workflow_timeout: NOT_GIVEN,
      workflow_timeout_ms: NOT_GIVEN,
    },
    { required: ['type', 'args'] },
  ),
)

const NONE: JsonSchema = { type: 'null' }
const FILLED: JsonSchema = { type: 'array', minItems: 1 }
/** Only steps of a DAG wait for each other. */
const IN_ORDER: JsonSchema = {
  ...FILLED,
  items: { properties: { depends_on: { anyOf: [NONE, { type: 'array', maxItems: 0 }] } } },
}
/** Which list a branch has, by its type. */
const BY_KIND: JsonSchema = {
  anyOf: [
    {
      required: ['type', 'steps'],
      properties: { type: { const: 'chain' }, steps: IN_ORDER, jobs: NONE, callbacks: NONE },
    },
    {
      required: ['type', 'jobs'],
      properties: { type: { const: 'group' }, jobs: IN_ORDER, steps: NONE, callbacks: NONE },
    },
    {
      required: ['type', 'jobs', 'callbacks'],
      properties: { type: { const: 'batch' }, jobs: IN_ORDER, steps: NONE, callbacks: oneNotNull(...HOOKS) },
    },
    {
      required: ['steps'],
      properties: {
        type: { enum: ['dag', null] },
        steps: { ...FILLED, items: { required: ['id'], properties: { id: { type: 'string' } } } },
        jobs: NONE,
        callbacks: NONE,
      },
    },
  ],
}

const ENTRIES: JsonSchema = {
  type: ['array', 'null'],
  maxItems: MOST_JOBS,
  items: { $ref: '#/components/schemas/WorkflowEntry' },
}
const CALLBACKS_SHAPE = object(
  { on_complete: STEP_JOB_SHAPE, on_success: STEP_JOB_SHAPE, on_failure: STEP_JOB_SHAPE },
  { unknown: 'refuse' },
)
const BRANCH_JSON: JsonSchema = {
  title: 'WorkflowBranch',
  type: 'object',
  properties: {
    type: { enum: [...BRANCH_KINDS, null] },
    id: orNull(STEP_ID_SHAPE.json),
    name: orNull(NAME_SHAPE.json),
    depends_on: orNull(DEPENDS_ON_SHAPE.json),
    steps: ENTRIES,
    jobs: ENTRIES,
    callbacks: orNull(CALLBACKS_SHAPE.json),
    options: orNull(STEP_OPTIONS_SHAPE.json),
    workflow_timeout: NONE,
    workflow_timeout_ms: NONE,
    x_parent: NONE,
    x_inherit_deadline: NONE,
    unique: NONE,
  },
  ...BY_KIND,
}
/** A job, or a branch with a list of its own. */
const ENTRY_SHAPE: Shape<unknown> = {
  json: { title: 'WorkflowEntry', anyOf: [STEP_JOB_SHAPE.json, BRANCH_JSON] },
  read: (value) => value,
}

export const WORKFLOW_SHAPE = ruled(
  object({
    type: oneOf(...BRANCH_KINDS),
    name: NAME_SHAPE,
    id: ID_SHAPE,
    steps: list(ENTRY_SHAPE, 0, MOST_JOBS),
    jobs: list(ENTRY_SHAPE, 0, MOST_JOBS),
    callbacks: CALLBACKS_SHAPE,
    options: STEP_OPTIONS_SHAPE,
    workflow_timeout: TIMEOUT_SHAPE,
    workflow_timeout_ms: TIMEOUT_MS_SHAPE,
    x_parent: PARENT_SHAPE,
    x_inherit_deadline: flag(),
    meta: anyObject(),
  }),
  BY_KIND,
)

export interface WorkflowRequest {
  readonly id: string | null
  readonly name: string | null
  readonly limitMs: Millis | null
  readonly parent: Parent | null
  readonly inheritDeadline: boolean
  readonly more: Fragment
  readonly branch: Branch
  /** By number, from 1. */
  readonly steps: readonly WorkflowStep[]
  /** The enqueue request of each step that is a job. */
  readonly requests: ReadonlyMap<number, EnqueueRequest>
  /** Jobs that are members. */
  readonly jobs: number
  /** Unknown fields that were most likely meant to be known ones: of the workflow, its lists and its steps. */
  readonly nearMisses: readonly NearMiss[]
}

/** What the server says of a workflow; ignored when a client sends it. */
const SYSTEM_FIELDS = (
  'state error created_at started_at completed_at cancelled_at metadata steps_total steps_completed jobs_total ' +
  'jobs_completed steps_cancelled steps_already_completed x_purge_at x_deadline progress'
).split(' ')
const UNDERSTOOD: ReadonlySet<string> = new Set(
  [...Object.keys(WORKFLOW_SHAPE.json['properties'] as object), ...SYSTEM_FIELDS].filter((name) => name !== 'meta'),
)

/** Of a list within a workflow. */
const BRANCH_FIELDS = 'type name id steps jobs callbacks options depends_on meta'.split(' ')
/** Limits belong into the options of a list, which hold for every job below. */
const IN_OPTIONS: Readonly<Record<string, string>> = Object.fromEntries(
  [...OPTION_NAMES.map((name) => [name, name] as const), ...Object.entries(JOB_ALIASES)].map(
    ([alias, name]) => [alias, `options.${name}`] as const,
  ),
)
const BRANCH_NAMES = vocabulary(BRANCH_FIELDS, { ...IN_OPTIONS, ...STEP_ALIASES })
/** What a step has besides the fields of its job. Another spelling of `id` is found among these. */
const STEP_NAMES = vocabulary(['depends_on'], STEP_ALIASES)
/** The whole has one limit of its own, whatever it is called. */
const OF_THE_WHOLE = 'timeout total_timeout deadline lifetime max_age max_duration max_lifetime max_runtime time_limit'
const WORKFLOW_NAMES = vocabulary([...BRANCH_FIELDS, 'workflow_timeout', 'workflow_timeout_ms'], {
  ...IN_OPTIONS,
  ...Object.fromEntries(OF_THE_WHOLE.split(' ').map((alias) => [alias, 'workflow_timeout'])),
  timeout_ms: 'workflow_timeout_ms',
  total_timeout_ms: 'workflow_timeout_ms',
  on_timeout: 'options.x_on_timeout',
})

/** `source` is the request's text, `sent` the same parsed. `strict` refuses fields that are nearly known. Yields between pieces of work. */
export function* readWorkflow(
  source: string,
  sent: unknown,
  now: Instant,
  tenant: string | null = null,
  strict = false,
): Generator<void, WorkflowRequest> {
  const fields = anyObject().read(sent, '')
  const members = fewMembersOf(source, '')
  refuseTooMuch(fields)
  if (isGiven(fields['meta'])) anyObject().read(fields['meta'], 'meta')
  const { limitMs, parent, inheritDeadline } = readLimits(fields)
  const reader = new Reader(now, tenant)
  const branch = yield* reader.read({ fields, members, defaults: NO_DEFAULTS }, '', 0, '')
  if (strict) refuseNearMisses(reader.nearMisses)
  return {
    id: isGiven(fields['id']) ? ID_SHAPE.read(fields['id'], 'id') : null,
    name: isGiven(fields['name']) ? NAME_SHAPE.read(fields['name'], 'name') : null,
    limitMs,
    parent,
    inheritDeadline,
    more: moreOf(members),
    branch,
    steps: reader.steps,
    requests: reader.requests,
    jobs: [...reader.steps].filter(({ branch: own, hook }) => own === null && hook === null).length,
    nearMisses: reader.nearMisses,
  }
}

function readLimits(fields: Fields): Pick<WorkflowRequest, 'limitMs' | 'parent' | 'inheritDeadline'> {
  const given = <T>(key: string, read: (value: unknown) => T): T | null =>
    isGiven(fields[key]) ? read(fields[key]) : null
  const inSeconds = given('workflow_timeout', (value) => seconds(TIMEOUT_SHAPE.read(value, 'workflow_timeout')))
  const inMillis = given('workflow_timeout_ms', (value) => TIMEOUT_MS_SHAPE.read(value, 'workflow_timeout_ms'))
  const fromMillis = inMillis === null || inMillis === 0 ? null : millis(inMillis)
  if (inSeconds !== null && fromMillis !== null && inSeconds !== fromMillis)
    throw badPolicy('workflow_timeout_ms', 'workflow_timeout and workflow_timeout_ms must not differ.')
  const parent = given('x_parent', readParent)
  const inheritDeadline = given('x_inherit_deadline', (value) => flag().read(value, 'x_inherit_deadline')) ?? false
  if (inheritDeadline && parent === null) {
    throw badPolicy(
      'x_inherit_deadline',
      'x_inherit_deadline needs x_parent with exactly one of job_id, journey_id or workflow_id.',
    )
  }
  return { limitMs: inSeconds ?? fromMillis, parent, inheritDeadline }
}

/** Unknown fields are kept and given back; they travel with every change of the workflow, so they must stay small. */
function moreOf(members: ReadonlyMap<string, Member>): Fragment {
  const kept = [...members.values()].filter(({ key, value }) => !UNDERSTOOD.has(key) && value !== 'null')
  const more = kept.map(({ rawKey, value }) => `${rawKey}:${value}`).join(',')
  if (more.length > LARGEST_MORE || utf8Length(more) > LARGEST_MORE) {
    throw new OjsError(
      'payload_too_large',
      `meta and other fields of a workflow take at most ${String(LARGEST_MORE)} bytes.`,
      {
        details: { field: 'meta' },
      },
    )
  }
  return more
}

/** Counted before anything is taken apart, so that too much costs little. */
function refuseTooMuch(top: Fields): void {
  let [jobs, branches] = [0, 0]
  let level: readonly unknown[] = [top]
  for (let depth = 0; level.length > 0; depth += 1) {
    if (depth > DEEPEST_NESTING) throw bad('', `Workflows may be nested at most ${String(DEEPEST_NESTING)} deep.`)
    const below: unknown[] = []
    for (const node of level) {
      const entries = isBranch(node) ? [node['steps'], node['jobs']].filter(Array.isArray).flat(1) : null
      if (entries === null) jobs += 1
      else branches += 1
      for (const entry of entries ?? []) below.push(entry)
      if (branches > MOST_JOBS) throw bad('', `A workflow may have at most ${String(MOST_JOBS)} lists.`)
      // What is below is a job each, or has at least one.
      if (jobs + below.length > MOST_JOBS) {
        const field = Array.isArray(top['jobs']) ? 'jobs' : 'steps'
        throw bad(field, `A workflow may have at most ${String(MOST_JOBS)} jobs.`, { max_jobs: MOST_JOBS })
      }
    }
    level = below
  }
}

interface Given {
  readonly fields: Fields
  readonly members: ReadonlyMap<string, Member>
  readonly defaults: Defaults
}

/** Options that hold for every job below, unless it says otherwise. */
interface Defaults {
  readonly fields: Fields
  readonly members: ReadonlyMap<string, Member>
}

const NO_DEFAULTS: Defaults = { fields: {}, members: new Map() }

interface Unread extends Given {
  readonly step: number
  readonly at: string
  readonly path: string
}

class Reader {
  readonly steps: WorkflowStep[] = []
  readonly requests = new Map<number, EnqueueRequest>()
  readonly nearMisses: NearMiss[] = []
  readonly #now: Instant
  readonly #tenant: string | null
  readonly #unread: Unread[] = []
  readonly #share = new ReadShare()
  #dependencies = 0

  constructor(now: Instant, tenant: string | null) {
    this.#now = now
    this.#tenant = tenant
  }

  /** Reads the root, and then what was found on each level. */
  *read(root: Given, at: string, number: number, path: string): Generator<void, Branch> {
    const branch = yield* this.#branch(root, at, number, path)
    // The list grows while it is read.
    for (const next of this.#unread) {
      const step = this.#step(next.step)
      this.#put({ ...step, branch: yield* this.#branch(next, next.at, next.step, next.path) })
    }
    return branch
  }

  #step(number: number): WorkflowStep {
    const step = this.steps[number - 1]
    if (step === undefined) throw new Error(`there is no step ${String(number)}`)
    return step
  }

  #put(step: WorkflowStep): void {
    this.steps[step.number - 1] = step
  }

  *#branch(given: Given, at: string, number: number, path: string): Generator<void, Branch> {
    const { fields, members } = given
    const kind = kindOf(fields, at)
    const key = kind === 'group' || kind === 'batch' ? 'jobs' : 'steps'
    const entries = entriesOf(fields, kind, key, at)
    const texts = elementsOf(members.get(key)?.value ?? '[]')
    const defaults = withDefaults(given, at)
    this.nearMisses.push(...nearMissesInBranch(fields, at))
    const first = this.steps.length + 1
    for (const [index, entry] of entries.entries()) {
      if (this.#share.isUsedUp()) yield
      const where = `${under(at, key)}[${String(index)}]`
      this.#entry(entry, texts[index] ?? '{}', defaults, {
        up: number,
        index,
        path: path === '' ? String(index) : `${path}/${String(index)}`,
        at: where,
        hook: null,
        kind,
      })
    }
    if (kind === 'dag') this.#connect(first, entries, at)
    const hooks = kind === 'batch' ? this.#callbacks(given, defaults, number, path, at, entries.length) : []
    if (kind !== 'batch' && isGiven(fields['callbacks']))
      throw bad(under(at, 'callbacks'), `Only a batch has callbacks; this is a ${kind}.`)
    // An option that every job below outweighs is held to its form as well.
    if (isGiven(fields['options'])) STEP_OPTIONS_SHAPE.read(fields['options'], under(at, 'options'))
    return { kind, first, count: entries.length, hooks, ...NO_BRANCH_YET }
  }

  #callbacks(given: Given, defaults: Defaults, up: number, path: string, at: string, count: number): Hook[] {
    const where = under(at, 'callbacks')
    const sent = isGiven(given.fields['callbacks']) ? anyObject().read(given.fields['callbacks'], where) : {}
    for (const name of Object.keys(sent)) {
      if (!HOOKS.some((hook) => hook === name))
        throw bad(under(where, name), `There is no callback ${JSON.stringify(name)}. Known: ${HOOKS.join(', ')}.`)
    }
    const members = membersOf(given.members.get('callbacks')?.value ?? '{}')
    const hooks = HOOKS.filter((hook) => isGiven(sent[hook]))
    if (hooks.length === 0) throw bad(where, `A batch needs at least one callback: ${HOOKS.join(', ')}.`)
    for (const [place, hook] of hooks.entries()) {
      if (isBranch(sent[hook])) throw bad(under(where, hook), 'A callback is one job.')
      this.#entry(sent[hook], members.get(hook)?.value ?? '{}', defaults, {
        up,
        index: count + place,
        path: path === '' ? hook : `${path}/${hook}`,
        at: under(where, hook),
        hook,
        kind: 'batch',
      })
    }
    return hooks
  }

  #entry(
    sent: unknown,
    source: string,
    defaults: Defaults,
    place: { up: number; index: number; path: string; at: string; hook: Hook | null; kind: BranchKind },
  ): void {
    const { up, index, path, at, hook, kind } = place
    if (typeof sent !== 'object' || sent === null || Array.isArray(sent)) throw bad(at, `${at} must be an object.`)
    const fields = sent as Fields
    const members = fewMembersOf(source, at)
    fewFields(optionsIn(fields), under(at, 'options'))
    const number = this.steps.length + 1
    for (const key of ['workflow_timeout', 'workflow_timeout_ms', 'x_parent', 'x_inherit_deadline', 'unique']) {
      if (isGiven(fields[key]) || isGiven(optionsIn(fields)[key])) {
        throw new OjsError('validation_error', `${under(at, key)}: ${NOT_FOR_STEPS[key] ?? 'not for a step.'}`, {
          details: { field: under(at, key) },
        })
      }
    }
    if (kind !== 'dag' && isGiven(fields['depends_on']) && !isEmptyList(fields['depends_on'])) {
      throw bad(under(at, 'depends_on'), `depends_on belongs to a DAG: leave out the type ${JSON.stringify(kind)}.`)
    }
    const ownId = isGiven(fields['id']) ? STEP_ID_SHAPE.read(fields['id'], under(at, 'id')) : null
    if (kind === 'dag' && ownId === null) throw bad(under(at, 'id'), 'A step of a DAG needs an id.')
    const branch = isBranch(fields)
    const template = branch ? null : jobText(fields, members, defaults)
    this.#share.add(template?.source.length ?? source.length)
    const step: WorkflowStep = {
      number,
      up,
      index,
      path,
      id: ownId ?? hook ?? `step-${String(index)}`,
      hook,
      type: branch ? kindOf(fields, at) : '',
      name: isGiven(fields['name']) ? NAME_SHAPE.read(fields['name'], under(at, 'name')) : null,
      state: 'waiting',
      branch: null,
      template: template?.source ?? null,
      jobId: null,
      after: [],
      next: [],
      missing: 0,
      before: '',
      omitted: 0,
      startedAt: null,
      endedAt: null,
      result: null,
      error: null,
    }
    if (template === null) {
      this.steps.push(step)
      this.#unread.push({ fields, members, defaults, step: number, at, path })
      return
    }
    const request = this.#request(template, at)
    this.requests.set(number, request)
    // What comes from the options of a list was told of there.
    const own = request.nearMisses.filter(({ field }) => !isInherited(field, optionsIn(fields), defaults))
    this.nearMisses.push(...nearMissesInStep(fields, at), ...missesWithin(`${at}.`, own))
    this.steps.push({ ...step, type: request.type })
  }

  #request({ source, fields }: Template, at: string): EnqueueRequest {
    try {
      return readEnqueue(source, fields, this.#now, this.#tenant)
    } catch (error) {
      throw error instanceof OjsError ? inStep(error, at) : error
    }
  }

  /** In linear time: names, edges, and whether there is an order in which all can run. */
  #connect(first: number, entries: readonly unknown[], at: string): void {
    const numbers = new Map<string, number>()
    const where = (number: number): string => `${under(at, 'steps')}[${String(number - first)}]`
    for (let number = first; number < first + entries.length; number += 1) {
      const { id } = this.#step(number)
      if (numbers.has(id)) throw bad(`${where(number)}.id`, `Two steps have the id ${JSON.stringify(id)}.`)
      numbers.set(id, number)
    }
    const next = new Map<number, number[]>()
    for (const [index, entry] of entries.entries()) {
      const number = first + index
      const sent = (entry as Fields)['depends_on']
      if (!isGiven(sent)) continue
      const field = `${where(number)}.depends_on`
      const after: number[] = []
      const seen = new Set<number>()
      this.#dependencies += anyList().read(sent, field).length
      if (this.#dependencies > MOST_DEPENDENCIES)
        throw bad(field, `A workflow may have at most ${String(MOST_DEPENDENCIES)} dependencies.`)
      for (const id of anyList().read(sent, field)) {
        const other = typeof id === 'string' ? numbers.get(id) : undefined
        if (other === undefined) throw bad(field, `There is no step ${JSON.stringify(id)} to depend on.`)
        if (other === number) throw bad(field, `The step ${JSON.stringify(id)} depends on itself.`)
        if (seen.has(other)) throw bad(field, `${JSON.stringify(id)} is named twice.`)
        seen.add(other)
        after.push(other)
        const dependents = next.get(other)
        if (dependents === undefined) next.set(other, [number])
        else dependents.push(number)
      }
      this.#put({ ...this.#step(number), after, missing: after.length })
    }
    for (const [number, dependents] of next) this.#put({ ...this.#step(number), next: dependents })
    this.#refuseCycles(first, entries.length, at)
  }

  #refuseCycles(first: number, count: number, at: string): void {
    const missing = new Map<number, number>()
    const ready: number[] = []
    for (let number = first; number < first + count; number += 1) {
      const step = this.#step(number)
      missing.set(number, step.missing)
      if (step.missing === 0) ready.push(number)
    }
    for (let number = ready.pop(); number !== undefined; number = ready.pop()) {
      missing.delete(number)
      for (const dependent of this.#step(number).next) {
        const left = (missing.get(dependent) ?? 0) - 1
        missing.set(dependent, left)
        if (left === 0) ready.push(dependent)
      }
    }
    const [stuck] = missing.keys()
    if (stuck === undefined) return
    // Whatever is left waits for something that is left: going back from any of them ends in a circle.
    const trail: number[] = []
    for (let number = stuck; !trail.includes(number) && trail.length < SHOWN_OF_A_CYCLE;) {
      trail.push(number)
      number = this.#step(number).after.find((other) => missing.has(other)) ?? stuck
    }
    const names = trail.map((number) => JSON.stringify(this.#step(number).id))
    throw bad(under(at, 'steps'), `These steps wait for each other: ${names.join(', ')}.`)
  }
}

const SHOWN_OF_A_CYCLE = 20

const NOT_FOR_STEPS: Readonly<Record<string, string>> = {
  workflow_timeout: 'only the whole workflow has a workflow_timeout.',
  workflow_timeout_ms: 'only the whole workflow has a workflow_timeout_ms.',
  x_parent: 'the workflow is the parent of its steps; give x_parent to the workflow.',
  x_inherit_deadline: 'steps always inherit the deadline of their workflow; give it to the workflow.',
  unique: 'a step always has a job of its own, so it cannot be unique.',
}

function kindOf(fields: Fields, at: string): BranchKind {
  const { type } = fields
  if (!isGiven(type)) {
    if (isGiven(fields['jobs'])) throw bad(under(at, 'type'), 'type is required: "group" or "batch".')
    return 'dag'
  }
  const kind = BRANCH_KINDS.find((known) => known === type)
  if (kind === undefined)
    throw bad(under(at, 'type'), 'type must be chain, group or batch; a DAG (steps with depends_on) has none.')
  return kind
}

function entriesOf(fields: Fields, kind: BranchKind, key: 'steps' | 'jobs', at: string): readonly unknown[] {
  const other = key === 'jobs' ? 'steps' : 'jobs'
  if (isGiven(fields[other])) throw bad(under(at, other), `A ${kind} has ${key}, not ${other}.`)
  const entries = fields[key]
  if (!isGiven(entries)) throw bad(under(at, key), `${under(at, key)} is required: a list with at least one entry.`)
  if (!Array.isArray(entries) || entries.length === 0)
    throw bad(under(at, key), `${under(at, key)} must be a list with at least one entry.`)
  return entries as readonly unknown[]
}

/** What a branch says for all below it, over what was said above it. */
function withDefaults({ fields, members, defaults }: Given, at: string): Defaults {
  if (!isGiven(fields['options'])) return defaults
  const own = fewFields(fields['options'], under(at, 'options'))
  const texts = membersOf(members.get('options')?.value ?? '{}')
  const kept = [...defaults.members].filter(([key]) => !isSaid(own, key))
  return {
    fields: Object.fromEntries([...kept.map(([key]) => [key, defaults.fields[key]]), ...Object.entries(own)]) as Fields,
    members: new Map([...kept, ...texts]),
  }
}

function nearMissesInBranch(fields: Fields, at: string): readonly NearMiss[] {
  const isWhole = at === ''
  const unknown = Object.keys(fields).filter(
    (key) => isGiven(fields[key]) && !BRANCH_FIELDS.includes(key) && !(isWhole && UNDERSTOOD.has(key)),
  )
  return [
    ...nearMissesAmong(unknown, isWhole ? WORKFLOW_NAMES : BRANCH_NAMES, isWhole ? '' : `${at}.`),
    ...nearMissesInOptions(optionsIn(fields), under(at, 'options')),
  ]
}

/** Of the fields that say where a step stands: without them its order would be lost. */
function nearMissesInStep(fields: Fields, at: string): readonly NearMiss[] {
  const unknownIn = (from: Fields): string[] =>
    Object.keys(from).filter(
      (key) => isGiven(from[key]) && !isJobField(key) && (from !== fields || key !== 'depends_on'),
    )
  return [
    ...nearMissesAmong(unknownIn(fields), STEP_NAMES, `${at}.`),
    ...nearMissesAmong(unknownIn(optionsIn(fields)), STEP_NAMES, `${at}.options.`),
  ]
}

function isInherited(field: string, own: Fields, { members }: Defaults): boolean {
  const [, key = ''] = /^options\.([^.]*)/.exec(field) ?? []
  return members.has(key) && !Object.hasOwn(own, key)
}

interface Template {
  readonly source: Json
  readonly fields: Fields
}

/** A step's enqueue request: what it says itself, and the defaults it says nothing about. */
function jobText(fields: Fields, members: ReadonlyMap<string, Member>, defaults: Defaults): Template {
  const options = optionsIn(fields)
  const extra = [...defaults.members.values()].filter(({ key }) => !isSaid(fields, key) && !isSaid(options, key))
  const own = [...members.values()].filter(({ key }) => key !== 'id' && key !== 'depends_on' && key !== 'options')
  const said = membersOf(members.get('options')?.value ?? '{}')
  const inOptions = [...extra, ...said.values()]
  const texts = own.map(({ rawKey, value }) => `${rawKey}:${value}`)
  // Options of the wrong form are left to be refused as such.
  const areObject = !isGiven(fields['options']) || Object.is(options, fields['options'])
  const { id: _id, depends_on: _dependsOn, options: sent, ...rest } = fields
  if (!areObject) {
    texts.push(`"options":${members.get('options')?.value ?? 'null'}`)
    return { source: `{${texts.join(',')}}`, fields: { ...rest, options: sent } }
  }
  if (inOptions.length === 0) return { source: `{${texts.join(',')}}`, fields: rest }
  texts.push(`"options":{${inOptions.map(({ rawKey, value }) => `${rawKey}:${value}`).join(',')}}`)
  const merged = { ...Object.fromEntries(extra.map(({ key }) => [key, defaults.fields[key]])), ...options }
  return { source: `{${texts.join(',')}}`, fields: { ...rest, options: merged } }
}

/** A field said in another unit, or by another name, is said. */
function isSaid(fields: Fields, key: string): boolean {
  const twin = key.endsWith('_ms') ? key.slice(0, -3) : (TWINS[key] ?? `${key}_ms`)
  return isGiven(fields[key]) || isGiven(fields[twin])
}

const TWINS: Readonly<Record<string, string>> = {
  retry: 'retry_policy',
  retry_policy: 'retry',
  scheduled_at: 'delay_until',
  delay_until: 'scheduled_at',
}

function inStep(error: OjsError, at: string): OjsError {
  const { field } = error.details
  const where = typeof field === 'string' && field !== '' ? under(at, field) : at
  return new OjsError(error.code, `${at}: ${error.message}`, {
    details: { ...error.details, field: where, validation_errors: [{ path: `$.${where}`, message: error.message }] },
    ...(error.hint === undefined ? {} : { hint: error.hint }),
    cause: error,
  })
}

function bad(field: string, message: string, more: Record<string, unknown> = {}): OjsError {
  const { code, details } = badField(field, message)
  const path = field === '' ? '$' : `$.${field}`
  return new OjsError(code, message, { details: { ...details, ...more, validation_errors: [{ path, message }] } })
}

const under = (at: string, key: string): string => (at === '' ? key : `${at}.${key}`)

function optionsIn(fields: Fields): Fields {
  const { options } = fields
  return typeof options === 'object' && options !== null && !Array.isArray(options) ? (options as Fields) : {}
}

function isBranch(node: unknown): node is Fields {
  return (
    typeof node === 'object' &&
    node !== null &&
    !Array.isArray(node) &&
    (isGiven((node as Fields)['steps']) || isGiven((node as Fields)['jobs']))
  )
}

const isEmptyList = (value: unknown): boolean => Array.isArray(value) && value.length === 0
