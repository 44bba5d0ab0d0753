/** Reads the tree of a workflow, level by level, into numbered steps. */
import { OjsError } from '../../errors.ts'
import type { Instant } from '../../time/clock.ts'
import { readEnqueue, type EnqueueRequest } from '../job/enqueue.ts'
import { fewFields, fewMembersOf } from '../few-fields.ts'
import { isGiven } from '../is-given.ts'
import { elementsOf, membersOf } from '../json/json-text.ts'
import { missesWithin, type NearMiss } from '../names/near-miss.ts'
import { EnqueueMemory } from '../job/enqueue-terms.ts'
import { ReadShare } from '../read-share.ts'
import { anyList, anyObject, type Fields } from '../shape.ts'
import { isInherited, jobText, withDefaults, type Defaults, type Given, type Template } from './workflow-defaults.ts'
import { nearMissesInBranch, nearMissesInStep } from './workflow-names.ts'
import { bad, inStep, isBranch, optionsIn, under } from './workflow-places.ts'
import { MAX_DEPENDENCIES, NAME_SHAPE, STEP_ID_SHAPE, STEP_OPTIONS_SHAPE } from './workflow-shapes.ts'
import {
  BRANCH_KINDS,
  HOOKS,
  NO_BRANCH_YET,
  type Branch,
  type BranchKind,
  type Hook,
  type WorkflowStep,
} from '../../workflow/workflow.ts'

interface Unread extends Given {
  readonly step: number
  readonly at: string
  readonly path: string
}

export class Reader {
  readonly steps: WorkflowStep[] = []
  readonly requests = new Map<number, EnqueueRequest>()
  readonly nearMisses: NearMiss[] = []
  readonly #now: Instant
  readonly #tenant: string | null
  readonly #unread: Unread[] = []
  readonly #share = new ReadShare()
  readonly #memory = new EnqueueMemory()
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
    // Near misses in the options of a list were reported there.
    const own = request.nearMisses.filter(({ field }) => !isInherited(field, optionsIn(fields), defaults))
    this.nearMisses.push(...nearMissesInStep(fields, at), ...missesWithin(`${at}.`, own))
    this.steps.push({ ...step, type: request.type })
  }

  #request({ source, fields }: Template, at: string): EnqueueRequest {
    try {
      return readEnqueue(source, fields, this.#now, this.#tenant, false, this.#memory)
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
      if (this.#dependencies > MAX_DEPENDENCIES)
        throw bad(field, `A workflow may have at most ${String(MAX_DEPENDENCIES)} dependencies.`)
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

const isEmptyList = (value: unknown): boolean => Array.isArray(value) && value.length === 0
