/**
 * A workflow as it is asked for: the tree is read level by level and every step's enqueue request is read as if it were
 * sent alone, so that nothing can turn out to be wrong when its turn comes. A refusal names the place.
 *
 *   {"type":"chain","steps":[…]}                      {"type":"group","jobs":[…]}
 *   {"type":"batch","jobs":[…],"callbacks":{…}}       {"steps":[{"id","depends_on",…}]}   a DAG has no type
 *
 * An entry with a list of its own (`steps` or `jobs`) is a branch, whatever its type says; any other is a job. `options`
 * of a branch are defaults for everything below it.
 *
 * workflow-shapes.ts has the documented form, workflow-reader.ts reads the tree.
 */
import { badPolicy, OjsError } from '../../errors.ts'
import type { Fragment, Parent } from '../../job/job.ts'
import { millis, seconds, type Instant, type Millis } from '../../time/clock.ts'
import type { EnqueueRequest } from '../job/enqueue.ts'
import { fewMembersOf } from '../few-fields.ts'
import { isGiven } from '../is-given.ts'
import { ID_SHAPE, readParent } from '../job/job-shapes.ts'
import type { Member } from '../json/json-text.ts'
import { refuseNearMisses } from '../names/near-miss-words.ts'
import type { NearMiss } from '../names/near-miss.ts'
import { anyObject, flag, utf8Length, type Fields } from '../shape.ts'
import { NO_DEFAULTS } from './workflow-defaults.ts'
import { UNDERSTOOD } from './workflow-names.ts'
import { bad, isBranch } from './workflow-places.ts'
import { Reader } from './workflow-reader.ts'
import {
  MAX_NESTING,
  MAX_MORE_BYTES,
  MAX_JOBS,
  NAME_SHAPE,
  TIMEOUT_MS_SHAPE,
  TIMEOUT_SHAPE,
} from './workflow-shapes.ts'
import type { Branch, WorkflowStep } from '../../workflow/workflow.ts'

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
  if (more.length > MAX_MORE_BYTES || utf8Length(more) > MAX_MORE_BYTES) {
    throw new OjsError(
      'payload_too_large',
      `meta and other fields of a workflow take at most ${String(MAX_MORE_BYTES)} bytes.`,
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
    if (depth > MAX_NESTING) throw bad('', `Workflows may be nested at most ${String(MAX_NESTING)} deep.`)
    const below: unknown[] = []
    for (const node of level) {
      const entries = isBranch(node) ? [node['steps'], node['jobs']].filter(Array.isArray).flat(1) : null
      if (entries === null) jobs += 1
      else branches += 1
      for (const entry of entries ?? []) below.push(entry)
      if (branches > MAX_JOBS) throw bad('', `A workflow may have at most ${String(MAX_JOBS)} lists.`)
      // What is below is a job each, or has at least one.
      if (jobs + below.length > MAX_JOBS) {
        const field = Array.isArray(top['jobs']) ? 'jobs' : 'steps'
        throw bad(field, `A workflow may have at most ${String(MAX_JOBS)} jobs.`, { max_jobs: MAX_JOBS })
      }
    }
    level = below
  }
}
