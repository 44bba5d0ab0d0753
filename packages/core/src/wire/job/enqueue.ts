/**
 * An enqueue request in either dialect (fields at the top, or in `options`; seconds, or milliseconds with `_ms`) becomes one
 * plain record. `render.ts` is the way out.
 *
 * What the server does not need to understand is not taken apart: it is cut out of the text as the client wrote it.
 */
import { badField, badPolicy, OjsError } from '../../errors.ts'
import type { Fragment, Json, Parent } from '../../job/job.ts'
import type { AskedLimits } from '../../job/limits.ts'
import type { RateLimit } from '../../job/rate-limit.ts'
import { readRateLimit } from './rate-limit.ts'
import { refuseReserved } from '../../job/reserved.ts'
import { DEFAULT_RETRY, type RetryPolicy } from '../../job/retry.ts'
import { tenantOf } from '../tenant.ts'
import type { Unique } from '../../job/unique.ts'
import { seconds, type Instant, type Millis } from '../../time/clock.ts'
import type { NamedMoment } from '../../time/durations.ts'
import {
  nearMissesInOptions,
  nearMissesInRetries,
  outweighedOptions,
  SYSTEM_FIELDS,
  TOP_NAMES,
  UNDERSTOOD,
} from './enqueue-names.ts'
import { fewFields, fewMembersOf } from '../few-fields.ts'
import { writeGiven } from './given.ts'
import { isGiven } from '../is-given.ts'
import { ID_SHAPE, OPTION_SHAPES, readMoment, readParent, TOP_SHAPES, TYPE_SHAPE } from './job-shapes.ts'
import { DEEPEST, depthExceeds, membersOf, type Member } from '../json/json-text.ts'
import { readLimits } from './limits.ts'
import { mergedText } from '../json/merged-text.ts'
import { refuseNearMisses } from '../names/near-miss-words.ts'
import { nearMissesAmong, type NearMiss } from '../names/near-miss.ts'
import { readRetryPolicy, RETRY_POLICY_SHAPE, writeRetryPolicy } from './retry.ts'
import { anyObject, utf8Length, type Fields, type Shape } from '../shape.ts'
import { readUnique } from './unique.ts'

const LARGEST_META = 65_536

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
