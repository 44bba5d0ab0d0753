/** The names that an enqueue request may use, and which unknown ones are near them. */
import { JOB_ALIASES } from '../names/aliases.ts'
import { isGiven } from '../is-given.ts'
import { OPTION_NAMES, OPTION_SHAPES, TOP_SHAPES } from './job-shapes.ts'
import { nearMissesAmong, vocabulary, type NearMiss } from '../names/near-miss.ts'
import { nearMissesInRetry } from './retry.ts'
import type { Fields } from '../shape.ts'

/** Kept by the server: silently ignored when a client sends them. */
export const SYSTEM_FIELDS = new Set(
  (
    'state attempt max_attempts created_at enqueued_at started_at completed_at discarded_at cancelled_at activated_at ' +
    're_enqueued_at error errors retry_delay_ms next_retry_at next_attempt_at result worker_id workflow_id workflow_step ' +
    'parent_results progress progress_message progress_data checkpoint last_checkpoint cancel_reason previous_state deduplicated x_lease x_limits ' +
    'x_interruptions x_purge_at x_warnings x_workflow_path x_parent_results_omitted'
  ).split(' '),
)
export const UNDERSTOOD = new Set([
  ...Object.keys(TOP_SHAPES),
  ...Object.keys(OPTION_SHAPES),
  'options',
  ...SYSTEM_FIELDS,
])
/** A request without type or args is refused, so neither can have been meant by another name. */
const NAMES = vocabulary(
  [...Object.keys(TOP_SHAPES), ...Object.keys(OPTION_SHAPES)].filter((name) => name !== 'type' && name !== 'args'),
  JOB_ALIASES,
)
/** At the top there are options as well: by another name, everything in them would have no effect. */
export const TOP_ALIASES: Readonly<Record<string, string>> = {
  ...JOB_ALIASES,
  config: 'options',
  job_options: 'options',
  opts: 'options',
  settings: 'options',
}
export const TOP_NAMES = vocabulary([...NAMES.names, 'options'], TOP_ALIASES)

/** Of options that may be given to a job. `at`: where they lie. */
export function nearMissesInOptions(options: Fields, at: string): readonly NearMiss[] {
  const unknown = Object.keys(options).filter((key) => !Object.hasOwn(OPTION_SHAPES, key) && isGiven(options[key]))
  return [...nearMissesAmong(unknown, NAMES, `${at}.`), ...nearMissesInRetries(options, `${at}.`)]
}

/** What stands at the top counts; what `options` say otherwise would be ignored in silence. */
export function outweighedOptions(top: Fields, options: Fields): readonly NearMiss[] {
  const isOutweighed = (key: string): boolean =>
    isGiven(options[key]) && isGiven(top[key]) && JSON.stringify(options[key]) !== JSON.stringify(top[key])
  return OPTION_NAMES.filter(isOutweighed).map((key) => ({ field: `options.${key}`, nearest: key, isOutweighed: true }))
}

export function nearMissesInRetries(fields: Fields, prefix: string): readonly NearMiss[] {
  return RETRY_FIELDS.flatMap((key) => {
    const sent = fields[key]
    return typeof sent === 'object' && sent !== null && !Array.isArray(sent)
      ? nearMissesInRetry(sent, `${prefix}${key}`)
      : []
  })
}

const RETRY_FIELDS = ['retry', 'retry_policy']
