/**
 * The OJS envelope, inwards: an enqueue request in either dialect (fields at the top, or in `options`; seconds, or
 * milliseconds with `_ms`) becomes one plain record. `render.ts` is the way out. Nobody else knows the wire.
 *
 * What the server does not need to understand is not taken apart: it is cut out of the text as the client wrote it.
 */
import { badField, badPolicy, OjsError } from '../errors.ts'
import { instant, iso, seconds, type Instant, type Millis } from '../time/clock.ts'
import {
  DELAY_SCHEMA,
  LOCAL_TIMESTAMP_SCHEMA,
  MOMENT_SCHEMA,
  parseMoment,
  type NamedMoment,
} from '../time/durations.ts'
import { FEW_FIELDS, fewFields, fewMembersOf } from './few-fields.ts'
import { isUuidV7, UUID_V7 } from '../ids.ts'
import type { Fragment, Job, Json, Parent } from '../job/job.ts'
import { DEEPEST, depthExceeds, elementsOf, membersOf, type Member } from './json-text.ts'
import type { AskedLimits, SettledName } from '../job/limits.ts'
import { limitShapes, limitsNamed, ON_TIMEOUT_FIELD, onTimeoutShape, readLimits } from './limits.ts'
import {
  didYouMean,
  JOB_ALIASES,
  nearestName,
  nearMissesAmong,
  refuseNearMisses,
  vocabulary,
  type NearMiss,
} from './near-miss.ts'
import { isGiven } from './is-given.ts'
import { ReadShare } from './read-share.ts'
import { RATE_LIMIT_SHAPE, readRateLimit, type RateLimit } from '../job/rate-limit.ts'
import { tenantOf } from '../job/tenant.ts'
import { DEFAULT_RETRY, type RetryPolicy } from '../job/retry.ts'
import { nearMissesInRetry, readRetryPolicy, RETRY_POLICY_SHAPE, writeRetryPolicy } from './retry.ts'
import type { Unique } from '../job/unique.ts'
import { readUnique, UNIQUE_SHAPE } from './unique.ts'
import {
  anyList,
  anyObject,
  anything,
  flag,
  list,
  named,
  object,
  policy,
  ruled,
  text,
  utf8Length,
  whole,
  type Fields,
  type JsonSchema,
  type Shape,
} from './shape.ts'

export const TYPE_SHAPE = text({
  pattern: /^[a-z][a-z0-9_-]*(\.[a-z][a-z0-9_-]*)*$/,
  maxLength: 255,
  expected: 'a job type such as "email.send": lower-case words of letters, digits, "_" and "-", joined by dots',
})
export const QUEUE_SHAPE = text({
  pattern: /^[a-z0-9][a-z0-9.-]*$/,
  maxLength: 128,
  expected: 'a queue name such as "default": lower-case letters, digits, "." and "-", at most 128',
})
export const ID_SHAPE: Shape<string> = {
  json: { type: 'string', format: 'uuid', pattern: UUID_V7.source, description: 'UUIDv7, lower case' },
  read(value, at) {
    if (typeof value !== 'string' || !isUuidV7(value)) throw badField(at, `${at} must be a UUIDv7 in lower case.`)
    return value
  },
}
/** When a worker says that it started: kept and shown as it was sent. ISO 8601 lets the zone be left out. */
export const STARTED_AT_SHAPE: Shape<string> = {
  json: LOCAL_TIMESTAMP_SCHEMA,
  read(value, at) {
    const said = typeof value === 'string' && !value.startsWith('+') ? value : ''
    if ([said, `${said}Z`].every((moment) => parseMoment(moment, instant(0), false) === null))
      throw badField(at, `${at} must be an ISO 8601 timestamp ("2030-01-01T00:00:00Z").`)
    return said
  },
}
/** Queues, types and limiters whose names begin with this are the server's own: it makes and runs their jobs itself. */
export const RESERVED_PREFIX = 'curfew.'
export const isReserved = (name: string): boolean => name.startsWith(RESERVED_PREFIX)

export function refuseReserved(name: string, field: string): void {
  if (isReserved(name))
    throw badPolicy(field, `Names that begin with "${RESERVED_PREFIX}" belong to the server itself; choose another.`)
}

/** Control characters in a worker's name would travel into logs and terminals. */
export const WORKER_ID_SHAPE = text({
  // eslint-disable-next-line no-control-regex
  pattern: /^[^\u0000-\u001f\u007f-\u009f]+$/,
  min: 1,
  maxLength: 255,
  expected: 'a worker id: 1 to 255 characters, none of them a control character',
})

/** What it means depends on when it came; here only whether it means something. */
const momentShape = (json: JsonSchema, allowBareDuration: boolean): Shape<unknown> => ({
  json,
  read: (value, at) => momentIn(value, at, instant(0), allowBareDuration).text,
})

const ID_OR_NONE: JsonSchema = { type: ['string', 'null'] }

export const PARENT_SHAPE: Shape<Parent> = {
  json: {
    title: 'Parent',
    type: 'object',
    properties: { job_id: ID_OR_NONE, journey_id: ID_OR_NONE, workflow_id: ID_OR_NONE },
    additionalProperties: { type: 'null' },
    oneOf: ['job_id', 'journey_id', 'workflow_id'].map((key) => ({
      required: [key],
      properties: { [key]: { type: 'string' } },
    })),
    description: 'Exactly one of them',
  },
  read: (value) => readParent(value),
}

/** Fields that may stand at the top or in `options`; a top-level value wins. */
export const OPTION_SHAPES = {
  queue: QUEUE_SHAPE,
  priority: whole(-100, 100),
  ...limitShapes(),
  [ON_TIMEOUT_FIELD]: onTimeoutShape(),
  scheduled_at: momentShape(MOMENT_SCHEMA, false),
  delay_until: momentShape(DELAY_SCHEMA, true),
  expires_at: momentShape(MOMENT_SCHEMA, false),
  retry: RETRY_POLICY_SHAPE,
  retry_policy: RETRY_POLICY_SHAPE,
  metadata: anyObject(),
  tags: list(text()),
  pending: flag(),
  result_ttl: policy(whole(1, 315_360_000)),
  rate_limit: RATE_LIMIT_SHAPE,
  unique: UNIQUE_SHAPE,
  x_parent: PARENT_SHAPE,
  x_inherit_deadline: flag(),
} as const satisfies Record<string, Shape<unknown>>

export const OPTION_NAMES: readonly string[] = Object.keys(OPTION_SHAPES)

const TOP_SHAPES = {
  type: TYPE_SHAPE,
  args: anyList(),
  id: ID_SHAPE,
  specversion: text({ pattern: /^1\.0$/, expected: '"1.0"' }),
  meta: anyObject(),
  schema: text(),
} as const

/** The documented form of an enqueue request. */
export const OPTIONS_SHAPE = named('JobOptions', ruled(object(OPTION_SHAPES), FEW_FIELDS))
export const JOB_FIELDS = { ...TOP_SHAPES, ...OPTION_SHAPES, options: OPTIONS_SHAPE } as const
export const ENQUEUE_SHAPE = named(
  'EnqueueRequest',
  ruled(object(JOB_FIELDS, { required: ['type', 'args'] }), FEW_FIELDS),
)

/** Kept by the server: silently ignored when a client sends them. */
const SYSTEM_FIELDS = new Set(
  (
    'state attempt max_attempts created_at enqueued_at started_at completed_at discarded_at cancelled_at activated_at ' +
    're_enqueued_at error errors retry_delay_ms next_retry_at next_attempt_at result worker_id workflow_id workflow_step ' +
    'parent_results progress progress_message progress_data checkpoint last_checkpoint cancel_reason previous_state deduplicated x_lease x_limits ' +
    'x_interruptions x_purge_at x_warnings x_workflow_path x_parent_results_omitted'
  ).split(' '),
)
const UNDERSTOOD = new Set([...Object.keys(TOP_SHAPES), ...Object.keys(OPTION_SHAPES), 'options', ...SYSTEM_FIELDS])
/** A request without type or args is refused, so neither can have been meant by another name. */
const NAMES = vocabulary(
  [...Object.keys(TOP_SHAPES), ...Object.keys(OPTION_SHAPES)].filter((name) => name !== 'type' && name !== 'args'),
  JOB_ALIASES,
)
/** At the top there are options as well: by another name, everything in them would have no effect. */
const TOP_ALIASES: Readonly<Record<string, string>> = {
  ...JOB_ALIASES,
  config: 'options',
  job_options: 'options',
  opts: 'options',
  settings: 'options',
}
const TOP_NAMES = vocabulary([...NAMES.names, 'options'], TOP_ALIASES)
const LIMIT_KEYS = [...Object.keys(limitShapes()), ON_TIMEOUT_FIELD]
const LARGEST_META = 65_536
export const MOST_IN_BATCH = 10_000
export const MOST_IN_BULK = 1_000

export interface EnqueueRequest {
  readonly id: string | null
  readonly type: string
  readonly queue: string
  readonly priority: number
  readonly pending: boolean
  readonly asked: AskedLimits
  readonly retry: RetryPolicy
  readonly scheduled: NamedMoment | null
  readonly expires: NamedMoment | null
  readonly resultTtlMs: Millis | null
  readonly parent: Parent | null
  readonly inheritDeadline: boolean
  /** The URI of the schema its arguments are said to fit. */
  readonly schema: string | null
  readonly rateLimit: RateLimit | null
  readonly tenant: string | null
  /** Null: it may be enqueued however often. */
  readonly unique: Unique | null
  readonly traceId: string | null
  /** Unknown fields that were most likely meant to be known ones. */
  readonly nearMisses: readonly NearMiss[]
  readonly body: Fragment
  readonly given: Fragment
}

/** The text of a request, parsed. */
export function parseBody(source: string): unknown {
  if (depthExceeds(source, DEEPEST))
    throw new OjsError('invalid_payload', `The body is nested deeper than ${String(DEEPEST)} levels.`)
  try {
    return JSON.parse(source) as unknown
  } catch {
    throw new OjsError('invalid_payload', 'The body is not valid JSON.')
  }
}

/**
 * `source` is the request's text, `fields` the same parsed; `tenant` the one the call speaks for. `strict` refuses fields
 * that are nearly known.
 */
export function readEnqueue(
  source: string,
  fields: unknown,
  now: Instant,
  tenant: string | null = null,
  strict = false,
): EnqueueRequest {
  const top = anyObject().read(fields, '')
  const members = fewMembersOf(source, '')
  const terms = termsOf(top, members, now)
  if (strict) refuseNearMisses(terms.nearMisses)
  const id = isGiven(top['id']) ? ID_SHAPE.read(top['id'], 'id') : null
  const meta = optional(TOP_SHAPES.meta, top['meta'], 'meta')
  const { metadata } = terms
  const whose = tenantOf(tenant, meta?.['tenant_id'] ?? metadata?.['tenant_id'])
  const sentMeta = mergedText(terms.metadataText, meta === undefined ? undefined : members.get('meta')?.value)
  const metaText = tenant === null ? sentMeta : mergedText(sentMeta, `{"tenant_id":${JSON.stringify(tenant)}}`)
  if (metaText.length > LARGEST_META || utf8Length(metaText) > LARGEST_META) {
    throw new OjsError('payload_too_large', `meta must not be larger than ${String(LARGEST_META)} bytes.`, {
      details: { field: 'meta' },
    })
  }
  const args = members.get('args')?.value ?? '[]'
  const { type, queue } = terms
  const unique = terms.unique === null ? null : readUnique(terms.unique.sent, { type, queue, args, meta: metaText })
  const uniqueText = terms.unique === null ? '' : `,"unique":${terms.unique.text}`
  const traceId = meta?.['trace_id'] ?? metadata?.['trace_id']
  // Written out: spreading the terms into it made a whole enqueue a third dearer.
  return {
    id,
    type,
    queue,
    priority: terms.priority,
    pending: terms.pending,
    asked: terms.asked,
    retry: terms.retry,
    scheduled: terms.scheduled,
    expires: terms.expires,
    resultTtlMs: terms.resultTtlMs,
    parent: terms.parent,
    inheritDeadline: terms.inheritDeadline,
    schema: terms.schema,
    rateLimit: terms.rateLimit,
    tenant: whose,
    unique,
    traceId: typeof traceId === 'string' ? traceId.slice(0, 256) : null,
    nearMisses: terms.nearMisses,
    body: `"args":${args},"meta":${metaText}${terms.body}${uniqueText}${terms.bodyAfterUnique}`,
    given: terms.given,
  }
}

/** All that a request says besides which job it is and what it carries: `id`, `args` and `meta`. */
interface Terms {
  readonly type: string
  readonly queue: string
  readonly priority: number
  readonly pending: boolean
  readonly asked: AskedLimits
  readonly retry: RetryPolicy
  readonly scheduled: NamedMoment | null
  readonly expires: NamedMoment | null
  readonly resultTtlMs: Millis | null
  readonly parent: Parent | null
  readonly inheritDeadline: boolean
  readonly schema: string | null
  readonly rateLimit: RateLimit | null
  readonly unique: { readonly sent: unknown; readonly text: Json } | null
  readonly metadata: Fields | undefined
  readonly metadataText: Json | undefined
  readonly nearMisses: readonly NearMiss[]
  readonly given: Fragment
  /** What follows `meta` in the body of the job, each part with a comma before it. */
  readonly body: string
  readonly bodyAfterUnique: string
}

/** Who enqueues, enqueues more of the same: equal words are read once. */
const known = new Map<string, Terms>()
const MOST_KNOWN = 1_000
const LONGEST_KNOWN = 2_000

function termsOf(top: Fields, members: ReadonlyMap<string, Member>, now: Instant): Terms {
  if (!isGiven(top['type'])) throw badField('type', 'type is required.')
  if (!isGiven(top['args'])) throw badField('args', 'args is required.')
  TOP_SHAPES.args.read(top['args'], 'args')
  const words = wordsOf(members)
  if (words === null) return readTerms(top, members, now)
  const read = known.get(words)
  if (read !== undefined) return read
  // All that is kept is cut from a text of its own: a piece of the request would hold on to the whole of it.
  const text = `{${words}}`
  const terms = readTerms(top, membersOf(text), now)
  const isTimeless = terms.scheduled === null && terms.expires === null
  if (isTimeless && terms.parent === null) {
    if (known.size >= MOST_KNOWN) known.clear()
    known.set(text.slice(1, -1), terms)
  }
  return terms
}

/** Null for more of them than are worth remembering. */
function wordsOf(members: ReadonlyMap<string, Member>): string | null {
  let words = ''
  for (const { rawKey, key, value } of members.values()) {
    if (key === 'args' || key === 'meta' || key === 'id') continue
    if (SYSTEM_FIELDS.has(key) && key !== 'max_attempts') continue
    if (value.length > LONGEST_KNOWN) return null
    words += `${rawKey}:${value},`
  }
  return words.length > LONGEST_KNOWN ? null : words
}

function readTerms(top: Fields, members: ReadonlyMap<string, Member>, now: Instant): Terms {
  const options = isGiven(top['options']) ? fewFields(top['options'], 'options') : {}
  const merged: Record<string, unknown> = {}
  for (const from of [options, top]) {
    for (const key of Object.keys(from)) {
      if (!Object.hasOwn(OPTION_SHAPES, key) || !isGiven(from[key])) continue
      // An option that the field at the top outweighs is held to the same form.
      if (isGiven(merged[key])) OPTION_SHAPES[key as keyof typeof OPTION_SHAPES].read(merged[key], `options.${key}`)
      merged[key] = from[key]
    }
  }
  const type = TYPE_SHAPE.read(top['type'], 'type')
  const queue = optional(OPTION_SHAPES.queue, merged['queue'], 'queue') ?? 'default'
  refuseReserved(type, 'type')
  refuseReserved(queue, 'queue')
  optional(TOP_SHAPES.specversion, top['specversion'], 'specversion')
  const schema = optional(TOP_SHAPES.schema, top['schema'], 'schema') ?? null
  const metadata = optional(OPTION_SHAPES.metadata, merged['metadata'], 'metadata')
  const tags = optional(OPTION_SHAPES.tags, merged['tags'], 'tags')
  const asked = readLimits(merged)
  // Both are read, so that the one that has no effect is held to its form as well.
  const [atTop, inOptions] = [readStart(top, now), readStart(options, now)]
  const scheduled = atTop ?? inOptions
  const expires = readMoment(merged, 'expires_at', now)
  const retryField = isGiven(merged['retry']) ? 'retry' : 'retry_policy'
  const retry = isGiven(merged[retryField]) ? readRetryPolicy(merged[retryField], retryField) : null
  if (retryField === 'retry') optional(RETRY_POLICY_SHAPE, merged['retry_policy'], 'retry_policy')
  refuseSecondRetry(merged)
  const resultTtl = optional(OPTION_SHAPES.result_ttl, merged['result_ttl'], 'result_ttl')
  const rateLimit = isGiven(merged['rate_limit']) ? readRateLimit(merged['rate_limit']) : null
  if (rateLimit?.key != null) refuseReserved(rateLimit.key, 'rate_limit.key')
  const parent = isGiven(merged['x_parent']) ? readParent(merged['x_parent']) : null
  const inheritDeadline =
    optional(OPTION_SHAPES.x_inherit_deadline, merged['x_inherit_deadline'], 'x_inherit_deadline') ?? false
  if (inheritDeadline && parent === null) {
    throw new OjsError(
      'validation_error',
      'x_inherit_deadline needs x_parent with exactly one of job_id, journey_id or workflow_id.',
      {
        details: { field: 'x_inherit_deadline' },
      },
    )
  }

  const rawOption = (key: string): string | undefined =>
    (isGiven(top[key]) ? members : membersOf(members.get('options')?.value ?? '{}')).get(key)?.value
  const parts: string[] = []
  if (tags !== undefined) parts.push(`,"tags":${rawOption('tags') ?? '[]'}`)
  if (isGiven(top['schema'])) parts.push(`,"schema":${members.get('schema')?.value ?? 'null'}`)
  if (retry !== null) parts.push(`,"retry":${JSON.stringify(writeRetryPolicy(retry))}`)
  if (resultTtl !== undefined) parts.push(`,"result_ttl":${String(resultTtl)}`)
  const after: string[] = []
  if (parent !== null) after.push(`,"x_parent":${JSON.stringify({ [`${parent.kind}_id`]: parent.id })}`)
  if (inheritDeadline) after.push(',"x_inherit_deadline":true')
  const unknown: string[] = []
  for (const [key, member] of members) {
    if (UNDERSTOOD.has(key) || member.value === 'null') continue
    after.push(`,${member.rawKey}:${member.value}`)
    unknown.push(key)
  }
  // Kept by the server, and easily mistaken for a setting.
  const { max_attempts: attempts } = top
  if (isGiven(attempts) && attempts !== (retry ?? DEFAULT_RETRY).maxAttempts) unknown.push('max_attempts')
  return {
    type,
    queue,
    priority: optional(OPTION_SHAPES.priority, merged['priority'], 'priority') ?? 0,
    pending: optional(OPTION_SHAPES.pending, merged['pending'], 'pending') ?? false,
    asked,
    retry: retry ?? DEFAULT_RETRY,
    scheduled,
    expires,
    resultTtlMs: resultTtl === undefined ? null : seconds(resultTtl),
    parent,
    inheritDeadline,
    schema,
    rateLimit,
    unique: isGiven(merged['unique']) ? { sent: merged['unique'], text: rawOption('unique') ?? '{}' } : null,
    metadata,
    metadataText: metadata === undefined ? undefined : rawOption('metadata'),
    nearMisses: [
      ...nearMissesAmong(unknown, TOP_NAMES),
      ...nearMissesInOptions(options, 'options'),
      ...nearMissesInRetries(top, ''),
      ...outweighedOptions(top, options),
    ],
    given: writeGiven(merged, scheduled, expires),
    body: parts.join(''),
    bodyAfterUnique: after.join(''),
  }
}

/** Of options that may be given to a job. `at`: where they lie. */
export function nearMissesInOptions(options: Fields, at: string): readonly NearMiss[] {
  const unknown = Object.keys(options).filter((key) => !Object.hasOwn(OPTION_SHAPES, key) && isGiven(options[key]))
  return [...nearMissesAmong(unknown, NAMES, `${at}.`), ...nearMissesInRetries(options, `${at}.`)]
}

/** What stands at the top counts; what `options` say otherwise would be ignored in silence. */
function outweighedOptions(top: Fields, options: Fields): readonly NearMiss[] {
  const isOutweighed = (key: string): boolean =>
    isGiven(options[key]) && isGiven(top[key]) && JSON.stringify(options[key]) !== JSON.stringify(top[key])
  return OPTION_NAMES.filter(isOutweighed).map((key) => ({ field: `options.${key}`, nearest: key, isOutweighed: true }))
}

function nearMissesInRetries(fields: Fields, prefix: string): readonly NearMiss[] {
  return RETRY_FIELDS.flatMap((key) => {
    const sent = fields[key]
    return typeof sent === 'object' && sent !== null && !Array.isArray(sent)
      ? nearMissesInRetry(sent, `${prefix}${key}`)
      : []
  })
}

const RETRY_FIELDS = ['retry', 'retry_policy']

/** A field that means something to an enqueue. */
export const isJobField = (key: string): boolean =>
  key === 'options' || Object.hasOwn(TOP_SHAPES, key) || Object.hasOwn(OPTION_SHAPES, key)

/** Two names for one moment: side by side they must agree. What stands at the top wins over what stands in options. */
function readStart(fields: Fields, now: Instant): NamedMoment | null {
  const scheduled = readMoment(fields, 'scheduled_at', now)
  const delayed = readMoment(fields, 'delay_until', now, true)
  if (scheduled !== null && delayed !== null && scheduled.at !== delayed.at)
    throw badPolicy('delay_until', 'scheduled_at and delay_until are both given and differ; remove delay_until.')
  return scheduled ?? delayed
}

/** Two names for one policy: whichever counted, the other would have no effect. */
function refuseSecondRetry({ retry, retry_policy: other }: Fields): void {
  if (!isGiven(retry) || !isGiven(other)) return
  const [meant, said] = [readRetryPolicy(retry, 'retry'), readRetryPolicy(other, 'retry_policy')]
  if (JSON.stringify(meant) === JSON.stringify(said)) return
  throw badPolicy('retry_policy', 'retry and retry_policy are both given and differ; remove retry_policy.')
}

function optional<T>(shape: Shape<T>, value: unknown, at: string): T | undefined {
  return isGiven(value) ? shape.read(value, at) : undefined
}

/** A request that brings many jobs, as it was read. */
export interface Many<Entry> {
  readonly entries: readonly Entry[]
  /** Fields beside `jobs` that belong into the jobs, or are nearly those of the request. */
  readonly nearMisses: readonly NearMiss[]
}

/** The entries of a batch, each as its own request. A refusal names the entry. Yields between pieces of work. */
export function* readBatch(
  source: string,
  fields: unknown,
  now: Instant,
  tenant: string | null = null,
  strict = false,
): Generator<void, Many<EnqueueRequest>> {
  const entries = list(anything(), 1, MOST_IN_BATCH).read(jobsIn(fields), 'jobs')
  return yield* readEach(source, entries, { now, tenant, strict }, (error, index) => {
    throw atIndex(error, index)
  })
}

/** The entries of a bulk enqueue, each by itself: a request, or why it is none. Yields between pieces of work. */
export function* readBulk(
  source: string,
  fields: unknown,
  now: Instant,
  tenant: string | null = null,
  strict = false,
): Generator<void, Many<EnqueueRequest | OjsError>> {
  const entries = list(anything(), 1, Infinity).read(jobsIn(fields), 'jobs')
  if (entries.length > MOST_IN_BULK) {
    throw new OjsError(
      'payload_too_large',
      `${String(entries.length)} jobs are more than the ${String(MOST_IN_BULK)} that one request may bring.`,
      {
        details: { field: 'jobs', max_batch_size: MOST_IN_BULK },
        hint: 'Send them in several requests.',
      },
    )
  }
  return yield* readEach(source, entries, { now, tenant, strict }, (error) => {
    if (error instanceof OjsError) return error
    throw error
  })
}

function* readEach<Refused>(
  source: string,
  entries: readonly unknown[],
  { now, tenant, strict }: { readonly now: Instant; readonly tenant: string | null; readonly strict: boolean },
  refused: (error: unknown, index: number) => Refused,
): Generator<void, Many<EnqueueRequest | Refused>> {
  const members = fewMembersOf(source, '')
  const nearMisses = nearMissesBesideJobs(members)
  if (strict) refuseNearMisses(nearMisses)
  const texts = elementsOf(members.get('jobs')?.value ?? '[]')
  const read: (EnqueueRequest | Refused)[] = []
  const share = new ReadShare()
  for (const [index, entry] of entries.entries()) {
    const text = texts[index] ?? '{}'
    if (share.isUsedUp()) yield
    share.add(text.length)
    try {
      const fields = anyObject().read(entry, `jobs[${String(index)}]`)
      read.push(readEnqueue(text, fields, now, tenant, strict))
    } catch (error) {
      read.push(refused(error, index))
    }
  }
  return { entries: read, nearMisses }
}

/** The fields of a request that brings many jobs. */
const MANY_FIELDS = ['jobs', 'atomicity', 'idempotency_key']
/** Beside `jobs`, a field of a job has no effect: each job has its own. */
const MANY_NAMES = vocabulary(MANY_FIELDS, {
  atomic: 'atomicity',
  ...Object.fromEntries(
    [
      ...Object.keys(JOB_FIELDS).map((name) => [name, name] as const),
      ...Object.entries(TOP_ALIASES),
      ...['defaults', 'default_options', 'job_defaults'].map((name) => [name, 'options'] as const),
    ].map(([name, meant]) => [name, `jobs[].${meant}`] as const),
  ),
})

function nearMissesBesideJobs(members: ReadonlyMap<string, Member>): readonly NearMiss[] {
  const unknown: string[] = []
  for (const { key, value } of members.values()) if (!MANY_FIELDS.includes(key) && value !== 'null') unknown.push(key)
  return nearMissesAmong(unknown, MANY_NAMES)
}

function jobsIn(fields: unknown): unknown {
  const { jobs } = anyObject().read(fields, '')
  if (!isGiven(jobs)) throw badField('jobs', 'jobs is required: an array of enqueue requests.')
  return jobs
}

export function atIndex(error: unknown, index: number, list = 'jobs'): unknown {
  if (!(error instanceof OjsError)) return error
  const at = `${list}[${String(index)}]`
  // A refusal of the whole entry has named it already.
  return new OjsError(error.code, error.details['field'] === at ? error.message : `${at}: ${error.message}`, {
    details: { ...error.details, index },
    ...(error.hint === undefined ? {} : { hint: error.hint }),
    cause: error,
  })
}

/** Two objects in one, as written; what the second says wins. */
export function mergedText(under: string | undefined, over: string | undefined): Json {
  if (under === undefined) return over ?? '{}'
  const members = new Map([...membersOf(under), ...(over === undefined ? [] : membersOf(over))])
  return `{${[...members.values()].map(({ rawKey, value }) => `${rawKey}:${value}`).join(',')}}`
}

// ---- PATCH ----

const OVERRIDE_KEYS = [...LIMIT_KEYS, 'priority']
const PATCH_KEYS = [...OVERRIDE_KEYS, 'scheduled_at', 'delay_until', 'expires_at']

/** The documented form of a change of limits. `null` removes what was given. */
export const PATCH_SHAPE = changesOf(PATCH_KEYS)
export const OVERRIDE_SHAPE = changesOf(OVERRIDE_KEYS)

function changesOf(keys: readonly string[]): Shape<Fields> {
  const fields = Object.fromEntries(keys.map((key) => [key, OPTION_SHAPES[key as keyof typeof OPTION_SHAPES]]))
  return object({ ...fields, options: object(fields, { unknown: 'refuse' }) }, { unknown: 'refuse' })
}

export interface PatchedEnvelope {
  readonly asked: AskedLimits
  /** The limits that the change speaks of. */
  readonly named: ReadonlySet<SettledName>
  readonly given: Fragment
  readonly priority: number | null
  readonly scheduled: NamedMoment | null
  readonly expires: NamedMoment | null
}

/** What was given, with a PATCH laid over it: by key, a twin replaces its twin, `null` removes. */
export function patchGiven(given: Fragment, sent: unknown, now: Instant): PatchedEnvelope {
  return laidOver(given, sent, now, { keys: PATCH_KEYS, shape: PATCH_SHAPE, at: '' })
}

/** What was given, with what a retry by hand is to change laid over it. */
export function overrideGiven(given: Fragment, sent: unknown, now: Instant): PatchedEnvelope {
  return laidOver(given, sent, now, { keys: OVERRIDE_KEYS, shape: OVERRIDE_SHAPE, at: 'override' })
}

/** `at`: where it lies in the body of the call. */
function laidOver(
  given: Fragment,
  sent: unknown,
  now: Instant,
  { keys, shape, at }: { readonly keys: readonly string[]; readonly shape: Shape<Fields>; readonly at: string },
): PatchedEnvelope {
  const inside = at === '' ? '' : `${at}.`
  const top = anyObject().read(sent, at)
  const options = isGiven(top['options']) ? anyObject().read(top['options'], `${inside}options`) : {}
  const changes: Record<string, unknown> = {}
  for (const [from, prefix] of [
    [options, `${inside}options.`],
    [top, inside],
  ] as const) {
    for (const [key, value] of Object.entries(from)) {
      if (key === 'options' && prefix === inside) continue
      if (!keys.includes(key)) {
        const nearest = nearestName(key, vocabulary(keys))
        const meant = nearest === null ? '' : ` ${didYouMean(nearest)}`
        throw badField(`${prefix}${key}`, `${key} cannot be changed.${meant} What can: ${keys.join(', ')}.`)
      }
      changes[key === 'delay_until' ? 'scheduled_at' : key] = value
    }
  }
  shape.read(top, at)
  const known = JSON.parse(`{${given}}`) as Record<string, unknown>
  const bareAllowed = isGiven(top['delay_until']) || isGiven(options['delay_until'])
  for (const [key, value] of Object.entries(changes)) {
    const twin = key.endsWith('_ms') ? key.slice(0, -3) : `${key}_ms`
    if (changes[twin] === undefined && LIMIT_KEYS.includes(key)) delete known[twin]
    if (value === null) delete known[key]
    else if (key !== 'priority') known[key] = value
  }
  const priority = changes['priority']
  const scheduled = readMoment(known, 'scheduled_at', now, bareAllowed)
  const expires = readMoment(known, 'expires_at', now)
  return {
    asked: readLimits(known, '', inside),
    named: limitsNamed(Object.keys(changes)),
    given: writeGiven(known, scheduled, expires),
    priority:
      priority === undefined
        ? null
        : priority === null
          ? 0
          : OPTION_SHAPES.priority.read(priority, `${inside}priority`),
    scheduled,
    expires,
  }
}

/** What was given, without its `expires_at` (a manual retry drops it). */
export function withoutExpiry(given: Fragment): Fragment {
  const { expires_at: _dropped, ...rest } = JSON.parse(`{${given}}`) as Record<string, unknown>
  return JSON.stringify(rest).slice(1, -1)
}

/** The request as if it had asked for the moment of this job, byte for byte. */
export function scheduledLike(request: EnqueueRequest, job: Job): EnqueueRequest {
  const { scheduled_at: _own, ...rest } = JSON.parse(`{${request.given}}`) as Record<string, unknown>
  const { scheduled_at: written } = JSON.parse(`{${job.given}}`) as Record<string, unknown>
  if (job.scheduledAt === null || typeof written !== 'string') return request
  return {
    ...request,
    scheduled: { at: job.scheduledAt, text: written },
    given: JSON.stringify({ ...rest, scheduled_at: written }).slice(1, -1),
  }
}

function writeGiven(fields: Fields, scheduled: NamedMoment | null, expires: NamedMoment | null): Fragment {
  const parts: string[] = []
  for (const key of LIMIT_KEYS) {
    const value = fields[key]
    const unset = value === 0 && key.endsWith('_ms') && key !== 'grace_period_ms'
    if (isGiven(value) && !unset) parts.push(`"${key}":${JSON.stringify(value)}`)
  }
  if (scheduled !== null) parts.push(`"scheduled_at":${JSON.stringify(scheduled.text)}`)
  if (expires !== null) parts.push(`"expires_at":${JSON.stringify(expires.text)}`)
  if (isGiven(fields['rate_limit'])) parts.push(`"rate_limit":${JSON.stringify(fields['rate_limit'])}`)
  return parts.join(',')
}

/** What was given, with another `scheduled_at` (a limiter put it off). */
export function withSchedule(given: Fragment, at: Instant): Fragment {
  const fields = JSON.parse(`{${given}}`) as Record<string, unknown>
  return JSON.stringify({ ...fields, scheduled_at: iso(at) }).slice(1, -1)
}

function readMoment(fields: Fields, key: string, now: Instant, allowBareDuration = false): NamedMoment | null {
  const value = Object.hasOwn(fields, key) ? fields[key] : undefined
  if (!isGiven(value)) return null
  return momentIn(value, key, now, allowBareDuration)
}

function momentIn(value: unknown, at: string, now: Instant, allowBareDuration: boolean): NamedMoment {
  const moment = typeof value === 'string' ? parseMoment(value, now, allowBareDuration) : null
  if (moment === null)
    throw badField(
      at,
      `${at} must be an RFC 3339 timestamp with a zone ("2030-01-01T00:00:00Z") or relative ("+PT5M").`,
    )
  return moment
}

const PARENTS = { job_id: 'job', journey_id: 'journey', workflow_id: 'workflow' } as const

export function readParent(value: unknown): Parent {
  const fields = policy(anyObject()).read(value, 'x_parent')
  const keys = Object.keys(fields).filter((key) => isGiven(fields[key]))
  const key = keys[0]
  const id = key === undefined ? undefined : fields[key]
  if (keys.length !== 1 || key === undefined || !Object.hasOwn(PARENTS, key) || typeof id !== 'string') {
    throw new OjsError('validation_error', 'x_parent must name exactly one of job_id, journey_id or workflow_id.', {
      details: { field: 'x_parent' },
    })
  }
  return { kind: PARENTS[key as keyof typeof PARENTS], id }
}
