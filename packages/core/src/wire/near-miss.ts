/**
 * Near misses: unknown names that were most likely meant to be known ones. `totalTimeout`, `timeout_seconds` or `grace`
 * in an enqueue would otherwise be kept as fields of its sender's own, and the limit would not hold. A name that is far
 * from every known one is left alone: the Open Job Spec lets senders add fields (ADR 0046).
 *
 * A name is near when it is a known one in another spelling (camelCase, kebab-case, words in another order), a known one
 * with a unit (`timeout_seconds`), the name of the same thing in another system (`ttl`), or one or two slips away.
 *
 * Only unknown names are looked up, so a request without any costs nothing.
 */
import { badPolicy, OjsError } from '../errors.ts'

export interface NearMiss {
  /** The unknown field, with its path. */
  readonly field: string
  /** The known name that was most likely meant. */
  readonly nearest: string
  /** The field is known, but `nearest` says something else and counts. */
  readonly isOutweighed?: true
}

export const NO_NEAR_MISSES: readonly NearMiss[] = []

/** Known names, prepared for lookups. */
export interface Vocabulary {
  readonly names: readonly string[]
  /** By their letters and digits alone, the words in order of the alphabet. */
  readonly bySpelling: ReadonlyMap<string, string>
  /** Those in which slips are recognised: each is compared with every unknown name. */
  readonly bySlips: readonly Spelled[]
}

interface Spelled {
  /** The known name that is meant. */
  readonly name: string
  readonly snake: string
  readonly maxSlips: number
  readonly isAlias: boolean
}

/** In a shorter name a first letter that differs makes another word of it; a shorter alias is not compared at all. */
const LONG_NAME = 8

/** `aliases`: other systems' names for what a known name means. */
export function vocabulary(names: readonly string[], aliases: Readonly<Record<string, string>> = {}): Vocabulary {
  const bySpelling = new Map<string, string>()
  const put = (word: string, name: string): void => {
    for (const spelling of spellingsOf(word)) if (!bySpelling.has(spelling)) bySpelling.set(spelling, name)
  }
  for (const name of names) put(name, name)
  for (const [alias, name] of Object.entries(aliases)) put(alias, name)
  const spelled = names.map((name): Spelled => {
    const snake = snakeOf(name)
    return { name, snake, maxSlips: slipsAllowed(snake), isAlias: false }
  })
  for (const [alias, name] of Object.entries(aliases)) {
    const snake = snakeOf(alias)
    if (snake.length >= LONG_NAME) spelled.push({ name, snake, maxSlips: 1, isAlias: true })
  }
  return { names, bySpelling, bySlips: spelled.filter(({ maxSlips }) => maxSlips > 0) }
}

/** So many unknown names of one object are searched for slips: each is compared with all known names. */
const MAX_SLIP_SEARCHES = 50
/** Longer names are not looked up. */
const MAX_NAME_LENGTH = 64

/**
 * Of `unknown` names, those that are near a known one. `prefix`: where they lie. Other spellings and aliases are found
 * wherever they stand; only the search for slips has a bound.
 */
export function nearMissesAmong(unknown: readonly string[], known: Vocabulary, prefix = ''): readonly NearMiss[] {
  if (unknown.length === 0) return NO_NEAR_MISSES
  const found: NearMiss[] = []
  let searches = 0
  for (const name of unknown) {
    if (name.length > MAX_NAME_LENGTH) continue
    const snake = snakeOf(name)
    let nearest = inOtherWords(snake, known)
    if (nearest === undefined) {
      nearest = searches < MAX_SLIP_SEARCHES ? bySlips(snake, known.bySlips) : null
      searches += 1
    }
    if (nearest !== null) found.push({ field: `${prefix}${name}`, nearest })
  }
  return found
}

export function nearestName(word: string, known: Vocabulary): string | null {
  if (word.length > MAX_NAME_LENGTH) return null
  const snake = snakeOf(word)
  const nearest = inOtherWords(snake, known)
  return nearest === undefined ? bySlips(snake, known.bySlips) : nearest
}

/** The known name by its spelling, an alias or a unit. Null: the name is free; undefined: it may still hold slips. */
function inOtherWords(snake: string, known: Vocabulary): string | null | undefined {
  // Names that begin with x_ are free for everybody: only one that is a slip away from ours was meant to be ours.
  const isExtension = isExtensionName(snake)
  const spelled = bySpelling(snake, known) ?? (isExtension ? null : withoutUnit(snake, known))
  if (spelled === null) return undefined
  return isExtension && !isExtensionName(spelled) ? null : spelled
}

/** Wherever the name lies: `options.x_on_timeout` is one. */
const isExtensionName = (name: string): boolean => /(?:^|\.)x_/.test(name)

function bySpelling(snake: string, { bySpelling: known }: Vocabulary): string | null {
  for (const spelling of spellingsOf(snake)) {
    const name = known.get(spelling)
    if (name !== undefined) return name
  }
  return null
}

const MILLIS = /_(?:in_)?(?:ms|msecs?|millis|milliseconds?)$/
const UNITS = /_(?:in_)?(?:s|secs?|seconds?|m|mins?|minutes?|h|hrs?|hours?|d|days?|iso)$/

/** `timeout_seconds` is `timeout`, `ttl_millis` is `enqueue_ttl_ms`. */
function withoutUnit(snake: string, known: Vocabulary): string | null {
  for (const [unit, suffix] of [
    [MILLIS, '_ms'],
    [UNITS, ''],
  ] as const) {
    const base = unit.test(snake) ? bySpelling(snake.replace(unit, ''), known) : null
    if (base !== null) return known.names.includes(`${base}${suffix}`) ? `${base}${suffix}` : base
  }
  return null
}

/** `totalTimeout`, `total-timeout` and `TOTAL_TIMEOUT` are `total_timeout`. */
const snakeOf = (word: string): string =>
  word
    .replaceAll(/([a-z0-9])([A-Z])/g, '$1_$2')
    .toLowerCase()
    .replaceAll(/[^a-z0-9]+/g, '_')

/** As it is written, without what separates words; and with the words in order of the alphabet. */
function spellingsOf(word: string): readonly [string, string] {
  const words = snakeOf(word).split('_')
  return [words.join(''), words.toSorted().join(' ')]
}

function bySlips(word: string, names: readonly Spelled[]): string | null {
  const isExtension = isExtensionName(word)
  let [nearest, fewest]: [string | null, number] = [null, Infinity]
  for (const { name, snake, maxSlips, isAlias } of names) {
    if (isExtension && !isExtensionName(name)) continue
    // With another first letter a short name is another word (beta, meta), and so is an alias (headline, deadline).
    if ((isAlias || snake.length < LONG_NAME) && snake[0] !== word[0]) continue
    // executed_at tells of the past, execute_at asks for something.
    if (isAlias && PAST_TENSE.test(word) && !PAST_TENSE.test(snake)) continue
    const slips = slipsBetween(word, snake, maxSlips)
    if (slips < fewest) [nearest, fewest] = [name, slips]
  }
  return nearest
}

const PAST_TENSE = /ed(?:_|$)/

/** A short name is soon another word. */
function slipsAllowed({ length }: string): number {
  return length < 4 ? 0 : length < 11 ? 1 : 2
}

/** Letters added, left out, exchanged or swapped with their neighbour; Infinity when there are more than `most`. */
function slipsBetween(word: string, name: string, most: number): number {
  if (Math.abs(word.length - name.length) > most) return Infinity
  // What both begin and end with has no slips; the sum is only made for what lies between.
  let [from, toWord, toName] = [0, word.length, name.length]
  while (from < toWord && from < toName && word[from] === name[from]) from += 1
  while (toWord > from && toName > from && word[toWord - 1] === name[toName - 1])
    [toWord, toName] = [toWord - 1, toName - 1]
  const [a, b] = [word.slice(from, toWord), name.slice(from, toName)]
  if (most === 1 && Math.max(a.length, b.length) > 2) return Infinity
  const slips = distance(a, b, most)
  return slips <= most ? slips : Infinity
}

/** Infinity as soon as it is certain that it is more than `most`. */
function distance(a: string, b: string, most: number): number {
  let [before, last] = [[] as number[], Array.from({ length: b.length + 1 }, (_, index) => index)]
  let leastOfLast = 0
  for (let i = 1; i <= a.length; i += 1) {
    const row = [i]
    let leastOfRow = i
    for (let j = 1; j <= b.length; j += 1) {
      const isSame = a[i - 1] === b[j - 1]
      let least = Math.min((last[j] ?? 0) + 1, (row[j - 1] ?? 0) + 1, (last[j - 1] ?? 0) + (isSame ? 0 : 1))
      if (i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1])
        least = Math.min(least, (before[j - 2] ?? 0) + 1)
      row.push(least)
      if (least < leastOfRow) leastOfRow = least
    }
    // All that follows is made of these two rows, and never less.
    if (leastOfLast > most && leastOfRow > most) return Infinity
    ;[before, last, leastOfLast] = [last, row, leastOfRow]
  }
  return last[b.length] ?? Infinity
}

// ---- What is said of them ----

const NO_WARNINGS: readonly string[] = []
/** Of one object; more would only repeat it. */
const MAX_WARNINGS = 20

export function nearMissWarnings(misses: readonly NearMiss[]): readonly string[] {
  if (misses.length === 0) return NO_WARNINGS
  const told = misses
    .slice(0, MAX_WARNINGS)
    .map(({ field, nearest, isOutweighed }) =>
      isOutweighed === true
        ? `${outweighed(field, nearest)}. Send one of them.`
        : `${isNotKnown(field)} and has no effect. ${didYouMean(nearest)}`,
    )
  if (misses.length > MAX_WARNINGS)
    told.push(`${String(misses.length - MAX_WARNINGS)} more fields are not known either.`)
  return told
}

/** For servers that were started with `--strict`. */
export function refuseNearMisses(misses: readonly NearMiss[]): void {
  const [first] = misses
  if (first === undefined) return
  const { field, nearest, isOutweighed } = first
  const { code, details } = badPolicy(field, '')
  const why = isOutweighed === true ? `${outweighed(field, nearest)}.` : `${isNotKnown(field)}. ${didYouMean(nearest)}`
  throw new OjsError(code, why, {
    details: { ...details, nearest, near_misses: misses.slice(0, MAX_WARNINGS) },
    hint: 'Rename the field or leave it out. This server runs with --strict, which refuses fields that are nearly known.',
  })
}

const isNotKnown = (field: string): string => `${field} is not a known field`
const outweighed = (field: string, by: string): string => `${field} has no effect: ${by} differs from it and counts`
export const didYouMean = (name: string): string => `Did you mean ${name}?`

/** For objects that refuse what they do not know. */
export function unknownKey(key: string, known: Vocabulary): string {
  const nearest = nearestName(key, known)
  const meant = nearest === null ? '' : ` ${didYouMean(nearest)}`
  return `Unknown key ${JSON.stringify(key)}.${meant} Known: ${known.names.join(', ')}.`
}

/** The same misses, seen from further up. */
export const missesWithin = (prefix: string, misses: readonly NearMiss[]): readonly NearMiss[] =>
  misses.length === 0 ? misses : misses.map((miss) => ({ ...miss, field: `${prefix}${miss.field}` }))

// ---- Other systems' names ----

const ATTEMPTS = 'max_attempts'

/** For one thing that a job can be given. */
export const JOB_ALIASES: Readonly<Record<string, string>> = {
  // one attempt
  attempt_timeout: 'timeout',
  execution_timeout: 'timeout',
  job_timeout: 'timeout',
  run_timeout: 'timeout',
  start_to_close_timeout: 'timeout',
  max_duration: 'timeout',
  max_execution_time: 'timeout',
  max_runtime: 'timeout',
  time_limit: 'timeout',
  soft_time_limit: 'timeout',
  reserve_for: 'timeout',
  time_to_run: 'timeout',
  ttr: 'timeout',
  // the whole life
  deadline: 'total_timeout',
  lifetime: 'total_timeout',
  max_age: 'total_timeout',
  max_lifetime: 'total_timeout',
  overall_timeout: 'total_timeout',
  schedule_to_close_timeout: 'total_timeout',
  total: 'total_timeout',
  // waiting
  ttl: 'enqueue_ttl',
  job_ttl: 'enqueue_ttl',
  message_ttl: 'enqueue_ttl',
  queue_timeout: 'enqueue_ttl',
  queue_ttl: 'enqueue_ttl',
  schedule_to_start_timeout: 'enqueue_ttl',
  wait_timeout: 'enqueue_ttl',
  discard_after: 'expires_at',
  expiration: 'expires_at',
  expire_at: 'expires_at',
  expire_in: 'expires_at',
  expires: 'expires_at',
  expires_in: 'expires_at',
  expiry: 'expires_at',
  valid_until: 'expires_at',
  // stopping, silence, reservation
  grace: 'grace_period',
  grace_time: 'grace_period',
  grace_timeout: 'grace_period',
  kill_timeout: 'grace_period',
  shutdown_timeout: 'grace_period',
  heartbeat: 'heartbeat_timeout',
  stall_timeout: 'heartbeat_timeout',
  stalled_timeout: 'heartbeat_timeout',
  ack_timeout: 'visibility_timeout',
  invisibility_timeout: 'visibility_timeout',
  lease_timeout: 'visibility_timeout',
  lock_duration: 'visibility_timeout',
  lock_timeout: 'visibility_timeout',
  visibility: 'visibility_timeout',
  on_timeout: 'x_on_timeout',
  timeout_action: 'x_on_timeout',
  timeout_policy: 'x_on_timeout',
  inherit_deadline: 'x_inherit_deadline',
  // when
  countdown: 'scheduled_at',
  delay: 'scheduled_at',
  eta: 'scheduled_at',
  execute_at: 'scheduled_at',
  not_before: 'scheduled_at',
  perform_at: 'scheduled_at',
  process_at: 'scheduled_at',
  process_in: 'scheduled_at',
  run_at: 'scheduled_at',
  run_in: 'scheduled_at',
  schedule_at: 'scheduled_at',
  schedule_in: 'scheduled_at',
  scheduled_for: 'scheduled_at',
  start_after: 'scheduled_at',
  start_at: 'scheduled_at',
  // again
  attempts: `retry.${ATTEMPTS}`,
  [ATTEMPTS]: `retry.${ATTEMPTS}`,
  max_retry: `retry.${ATTEMPTS}`,
  max_retries: `retry.${ATTEMPTS}`,
  max_tries: `retry.${ATTEMPTS}`,
  retries: `retry.${ATTEMPTS}`,
  retry_attempts: `retry.${ATTEMPTS}`,
  retry_count: `retry.${ATTEMPTS}`,
  retry_limit: `retry.${ATTEMPTS}`,
  retry_max: `retry.${ATTEMPTS}`,
  tries: `retry.${ATTEMPTS}`,
  backoff: 'retry.backoff_strategy',
  retry_backoff: 'retry.backoff_strategy',
  retry_delay: 'retry.initial_interval',
  retry_interval: 'retry.initial_interval',
  // the rest
  job_priority: 'priority',
  prio: 'priority',
  queue_name: 'queue',
  keep_result: 'result_ttl',
  result_expires: 'result_ttl',
  throttle: 'rate_limit',
  uniq: 'unique',
  unique_for: 'unique',
}

/** For one thing that only a step of a workflow has. */
export const STEP_ALIASES: Readonly<Record<string, string>> = {
  after: 'depends_on',
  dependency: 'depends_on',
  dependencies: 'depends_on',
  depends: 'depends_on',
  needs: 'depends_on',
  requires: 'depends_on',
  run_after: 'depends_on',
  step_id: 'id',
}

/** For one part of a retry policy. */
export const RETRY_ALIASES: Readonly<Record<string, string>> = {
  attempts: ATTEMPTS,
  count: ATTEMPTS,
  limit: ATTEMPTS,
  max: ATTEMPTS,
  max_retry: ATTEMPTS,
  max_retries: ATTEMPTS,
  max_tries: ATTEMPTS,
  maximum_attempts: ATTEMPTS,
  retries: ATTEMPTS,
  retry_limit: ATTEMPTS,
  times: ATTEMPTS,
  tries: ATTEMPTS,
  base_delay: 'initial_interval',
  delay: 'initial_interval',
  initial_backoff: 'initial_interval',
  initial_delay: 'initial_interval',
  interval: 'initial_interval',
  min_delay: 'initial_interval',
  retry_delay: 'initial_interval',
  max_backoff: 'max_interval',
  max_delay: 'max_interval',
  maximum_interval: 'max_interval',
  coefficient: 'backoff_coefficient',
  exponent: 'backoff_coefficient',
  factor: 'backoff_coefficient',
  multiplier: 'backoff_coefficient',
  type: 'backoff_strategy',
  non_retryable: 'non_retryable_errors',
  non_retryable_error_types: 'non_retryable_errors',
  dont_retry_on: 'non_retryable_errors',
  dead_letter: 'on_exhaustion',
  on_exhausted: 'on_exhaustion',
  randomize: 'jitter',
}
