/**
 * The OJS envelope, inwards: an enqueue request in either dialect (fields at the top, or in `options`; seconds, or
 * milliseconds with `_ms`) becomes one plain record. `render.ts` is the way out. Nobody else knows the wire.
 *
 * What the server does not need to understand is not taken apart: it is cut out of the text as the client wrote it.
 */
import { badField, badPolicy, OjsError } from './errors.ts'
import { instant, iso, seconds, type Instant, type Millis } from './clock.ts'
import { parseMoment, type NamedMoment } from './durations.ts'
import { isUuidV7 } from './ids.ts'
import type { Fragment, Job, Json, Parent } from './job.ts'
import { DEEPEST, depthExceeds, elementsOf, membersOf, type Member } from './json-text.ts'
import {
  limitShapes,
  limitsNamed,
  ON_TIMEOUT_FIELD,
  onTimeoutShape,
  readLimits,
  type AskedLimits,
  type SettledName,
} from './limits.ts'
import { RATE_LIMIT_SHAPE, readRateLimit, type RateLimit } from './rate-limit.ts'
import { tenantOf } from './tenant.ts'
import { DEFAULT_RETRY, readRetryPolicy, writeRetryPolicy, type RetryPolicy } from './retry.ts'
import { readUnique, UNIQUE_SHAPE, type Unique } from './unique.ts'
import {
  anyList,
  anyObject,
  anything,
  flag,
  list,
  object,
  policy,
  text,
  utf8Length,
  whole,
  type Fields,
  type Shape,
} from './shape.ts'

export const TYPE_SHAPE = text({
  pattern: /^[a-z][a-z0-9_-]*(\.[a-z][a-z0-9_-]*)*$/,
  maxBytes: 255,
  expected: 'a job type such as "email.send": lower-case words of letters, digits, "_" and "-", joined by dots',
})
export const QUEUE_SHAPE = text({
  pattern: /^[a-z0-9][a-z0-9.-]*$/,
  maxBytes: 128,
  expected: 'a queue name such as "default": lower-case letters, digits, "." and "-", at most 128',
})
export const ID_SHAPE: Shape<string> = {
  json: { type: 'string', format: 'uuid', description: 'UUIDv7, lower case' },
  read(value, at) {
    if (typeof value !== 'string' || !isUuidV7(value)) throw badField(at, `${at} must be a UUIDv7 in lower case.`)
    return value
  },
}
/** When a worker says that it started: kept and shown as it was sent. ISO 8601 lets the zone be left out. */
export const STARTED_AT_SHAPE: Shape<string> = {
  json: { type: 'string', format: 'date-time' },
  read(value, at) {
    const said = typeof value === 'string' && !value.startsWith('+') ? value : ''
    if ([said, `${said}Z`].every((moment) => parseMoment(moment, instant(0), false) === null))
      throw badField(at, `${at} must be an ISO 8601 timestamp ("2030-01-01T00:00:00Z").`)
    return said
  },
}
/** Queues and types whose names begin with this are the server's own: it makes and runs their jobs itself. */
export const RESERVED_PREFIX = 'curfew.'

export function refuseReserved(name: string, field: string): void {
  if (name.startsWith(RESERVED_PREFIX))
    throw badPolicy(field, `Names that begin with "${RESERVED_PREFIX}" belong to the server itself; choose another.`)
}

/** Control characters in a worker's name would travel into logs and terminals. */
export const WORKER_ID_SHAPE = text({
  // eslint-disable-next-line no-control-regex
  pattern: /^[^\u0000-\u001f\u007f-\u009f]+$/,
  min: 1,
  maxBytes: 255,
  expected: 'a worker id: 1 to 255 bytes without control characters',
})

const momentShape = {
  json: { type: 'string', description: 'RFC 3339 with a zone, or relative: +PT2S' },
  read: (value: unknown): unknown => value,
}

/** Fields that may stand at the top or in `options`; a top-level value wins. */
const OPTION_SHAPES = {
  queue: QUEUE_SHAPE,
  priority: whole(-100, 100),
  ...limitShapes(),
  [ON_TIMEOUT_FIELD]: onTimeoutShape(),
  scheduled_at: momentShape,
  delay_until: momentShape,
  expires_at: momentShape,
  retry: policy(anyObject()),
  retry_policy: policy(anyObject()),
  metadata: anyObject(),
  tags: list(text()),
  pending: flag(),
  result_ttl: policy(whole(1, 315_360_000)),
  rate_limit: RATE_LIMIT_SHAPE,
  unique: UNIQUE_SHAPE,
  x_parent: anyObject(),
  x_inherit_deadline: flag(),
} as const satisfies Record<string, Shape<unknown>>

const TOP_SHAPES = {
  type: TYPE_SHAPE,
  args: anyList(),
  id: ID_SHAPE,
  specversion: text({ pattern: /^1\.0$/, expected: '"1.0"' }),
  meta: anyObject(),
  schema: text(),
} as const

/** The documented form of an enqueue request. */
export const ENQUEUE_SHAPE = object(
  { ...TOP_SHAPES, ...OPTION_SHAPES, options: object(OPTION_SHAPES) },
  { required: ['type', 'args'] },
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

/** `source` is the request's text, `fields` the same parsed; `tenant` the one the call speaks for. */
export function readEnqueue(
  source: string,
  fields: unknown,
  now: Instant,
  tenant: string | null = null,
): EnqueueRequest {
  const top = anyObject().read(fields, '')
  const members = membersOf(source)
  const terms = termsOf(top, members, now)
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
    if (key === 'args' || key === 'meta' || key === 'id' || SYSTEM_FIELDS.has(key)) continue
    if (value.length > LONGEST_KNOWN) return null
    words += `${rawKey}:${value},`
  }
  return words.length > LONGEST_KNOWN ? null : words
}

function readTerms(top: Fields, members: ReadonlyMap<string, Member>, now: Instant): Terms {
  const options = isGiven(top['options']) ? anyObject().read(top['options'], 'options') : {}
  const merged: Record<string, unknown> = {}
  for (const from of [options, top]) {
    for (const key of Object.keys(from))
      if (Object.hasOwn(OPTION_SHAPES, key) && isGiven(from[key])) merged[key] = from[key]
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
  const scheduled =
    readMoment(top, 'scheduled_at', now) ??
    readMoment(top, 'delay_until', now, true) ??
    readMoment(options, 'scheduled_at', now) ??
    readMoment(options, 'delay_until', now, true)
  const expires = readMoment(merged, 'expires_at', now)
  const retryField = isGiven(merged['retry']) ? 'retry' : 'retry_policy'
  const retry = isGiven(merged[retryField]) ? readRetryPolicy(merged[retryField], retryField) : null
  const resultTtl = optional(OPTION_SHAPES.result_ttl, merged['result_ttl'], 'result_ttl')
  const rateLimit = isGiven(merged['rate_limit']) ? readRateLimit(merged['rate_limit']) : null
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
  for (const [key, member] of members) {
    if (!UNDERSTOOD.has(key) && member.value !== 'null') after.push(`,${member.rawKey}:${member.value}`)
  }
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
    given: writeGiven(merged, scheduled, expires),
    body: parts.join(''),
    bodyAfterUnique: after.join(''),
  }
}

function optional<T>(shape: Shape<T>, value: unknown, at: string): T | undefined {
  return isGiven(value) ? shape.read(value, at) : undefined
}

/** The entries of a batch, each as its own request. A refusal names the entry. */
export function readBatch(
  source: string,
  fields: unknown,
  now: Instant,
  tenant: string | null = null,
): EnqueueRequest[] {
  const entries = list(anything(), 1, MOST_IN_BATCH).read(jobsIn(fields), 'jobs')
  const texts = textsOfJobs(source)
  return entries.map((entry, index) => {
    try {
      return readEnqueue(texts[index] ?? '{}', anyObject().read(entry, `jobs[${String(index)}]`), now, tenant)
    } catch (error) {
      throw atIndex(error, index)
    }
  })
}

/** The entries of a bulk enqueue, each by itself: a request, or why it is none. */
export function readBulk(
  source: string,
  fields: unknown,
  now: Instant,
  tenant: string | null = null,
): (EnqueueRequest | OjsError)[] {
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
  const texts = textsOfJobs(source)
  return entries.map((entry, index) => {
    try {
      return readEnqueue(texts[index] ?? '{}', anyObject().read(entry, `jobs[${String(index)}]`), now, tenant)
    } catch (error) {
      if (error instanceof OjsError) return error
      throw error
    }
  })
}

function jobsIn(fields: unknown): unknown {
  const { jobs } = anyObject().read(fields, '')
  if (!isGiven(jobs)) throw badField('jobs', 'jobs is required: an array of enqueue requests.')
  return jobs
}

const textsOfJobs = (source: string): string[] => elementsOf(membersOf(source).get('jobs')?.value ?? '[]')

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
export const PATCH_SHAPE = object(
  Object.fromEntries([
    ...PATCH_KEYS.map((key) => [key, OPTION_SHAPES[key as keyof typeof OPTION_SHAPES]]),
    ['options', anyObject()],
  ]) as Record<string, Shape<unknown>>,
  { unknown: 'refuse' },
)

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
  return laidOver(given, sent, now, { keys: PATCH_KEYS, at: '' })
}

/** What was given, with what a retry by hand is to change laid over it. */
export function overrideGiven(given: Fragment, sent: unknown, now: Instant): PatchedEnvelope {
  return laidOver(given, sent, now, { keys: OVERRIDE_KEYS, at: 'override' })
}

/** `at`: where it lies in the body of the call. */
function laidOver(
  given: Fragment,
  sent: unknown,
  now: Instant,
  { keys, at }: { readonly keys: readonly string[]; readonly at: string },
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
        throw badField(`${prefix}${key}`, `${key} cannot be changed. What can: ${keys.join(', ')}.`)
      }
      changes[key === 'delay_until' ? 'scheduled_at' : key] = value
    }
  }
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
  const moment = typeof value === 'string' ? parseMoment(value, now, allowBareDuration) : null
  if (moment === null) {
    throw badField(
      key,
      `${key} must be an RFC 3339 timestamp with a zone ("2030-01-01T00:00:00Z") or relative ("+PT5M").`,
    )
  }
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

const isGiven = (value: unknown): boolean => value !== undefined && value !== null
