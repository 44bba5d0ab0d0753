/** The names that a workflow may use, and which unknown ones are near them. */
import { JOB_ALIASES, STEP_ALIASES } from '../names/aliases.ts'
import { nearMissesInOptions } from '../job/enqueue-names.ts'
import { isGiven } from '../is-given.ts'
import { isJobField, OPTION_NAMES } from '../job/job-shapes.ts'
import { nearMissesAmong, vocabulary, type NearMiss } from '../names/near-miss.ts'
import type { Fields } from '../shape.ts'
import { optionsIn, under } from './workflow-places.ts'
import { WORKFLOW_SHAPE } from './workflow-shapes.ts'

/** What the server says of a workflow; ignored when a client sends it. */
const SYSTEM_FIELDS = (
  'state error created_at started_at completed_at cancelled_at metadata steps_total steps_completed jobs_total ' +
  'jobs_completed steps_cancelled steps_already_completed x_purge_at x_deadline progress'
).split(' ')
export const UNDERSTOOD: ReadonlySet<string> = new Set(
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

export function nearMissesInBranch(fields: Fields, at: string): readonly NearMiss[] {
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
export function nearMissesInStep(fields: Fields, at: string): readonly NearMiss[] {
  const unknownIn = (from: Fields): string[] =>
    Object.keys(from).filter(
      (key) => isGiven(from[key]) && !isJobField(key) && (from !== fields || key !== 'depends_on'),
    )
  return [
    ...nearMissesAmong(unknownIn(fields), STEP_NAMES, `${at}.`),
    ...nearMissesAmong(unknownIn(optionsIn(fields)), STEP_NAMES, `${at}.options.`),
  ]
}
