/** The documented form of a workflow. workflow-reader.ts reads it, and names the place of a mistake. */
import { MAX_DURATION_MS } from '../../time/durations.ts'
import { ID_SHAPE, JOB_FIELDS, OPTION_SHAPES, PARENT_SHAPE } from '../job/job-shapes.ts'
import {
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
  whole,
  type JsonSchema,
  type Shape,
} from '../shape.ts'
import { BRANCH_KINDS, HOOKS } from '../../workflow/workflow.ts'

export const MAX_JOBS = 10_000
export const MAX_NESTING = 16
export const MAX_DEPENDENCIES = 100_000
export const MAX_MORE_BYTES = 65_536

export const NAME_SHAPE = text({ maxLength: 255 })
export const STEP_ID_SHAPE = text({ min: 1, maxLength: 255, expected: 'a non-empty string' })
export const TIMEOUT_SHAPE = policy(whole(1, MAX_DURATION_MS / 1000))
export const TIMEOUT_MS_SHAPE = policy(whole(0, MAX_DURATION_MS))

/** What belongs to the whole workflow, and not to a step. */
const NOT_GIVEN: Shape<unknown> = { json: { type: 'null' }, read: (value) => value }
const NOT_FOR_A_STEP = { x_parent: NOT_GIVEN, x_inherit_deadline: NOT_GIVEN, unique: NOT_GIVEN } as const
export const STEP_OPTIONS_SHAPE = named('StepOptions', object({ ...OPTION_SHAPES, ...NOT_FOR_A_STEP }))
const DEPENDS_ON_SHAPE = list(text({ min: 1, maxLength: 255 }), 0, MAX_DEPENDENCIES)

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
  maxItems: MAX_JOBS,
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
    steps: list(ENTRY_SHAPE, 0, MAX_JOBS),
    jobs: list(ENTRY_SHAPE, 0, MAX_JOBS),
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
