/**
 * An enqueue request in either dialect (fields at the top, or in `options`; seconds, or milliseconds with `_ms`) becomes one
 * plain record. `render.ts` is the way out.
 *
 * What the server does not need to understand is not taken apart: it is cut out of the text as the client wrote it.
 */
import { OjsError } from '../../errors.ts'
import type { Fragment, Parent } from '../../job/job.ts'
import type { AskedLimits } from '../../job/limits.ts'
import type { RateLimit } from '../../job/rate-limit.ts'
import type { RetryPolicy } from '../../job/retry.ts'
import type { Unique } from '../../job/unique.ts'
import type { Instant, Millis } from '../../time/clock.ts'
import type { NamedMoment } from '../../time/durations.ts'
import { fewMembersOf } from '../few-fields.ts'
import { isGiven } from '../is-given.ts'
import { optional, termsOf, type EnqueueMemory } from './enqueue-terms.ts'
import { ID_SHAPE, TOP_SHAPES } from './job-shapes.ts'
import { readUnique } from './unique.ts'
import { MAX_JSON_DEPTH, depthExceeds } from '../json/json-text.ts'
import { mergedText } from '../json/merged-text.ts'
import { refuseNearMisses } from '../names/near-miss-words.ts'
import type { NearMiss } from '../names/near-miss.ts'
import { anyObject, utf8Length } from '../shape.ts'
import { tenantOf } from '../tenant.ts'

const MAX_META_BYTES = 65_536

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
  if (depthExceeds(source, MAX_JSON_DEPTH))
    throw new OjsError('invalid_payload', `The body is nested deeper than ${String(MAX_JSON_DEPTH)} levels.`)
  try {
    return JSON.parse(source) as unknown
  } catch {
    throw new OjsError('invalid_payload', 'The body is not valid JSON.')
  }
}

/**
 * `source` is the request's text, `fields` the same parsed; `tenant` the one the call speaks for. `strict` refuses fields
 * that are nearly known. `memory` saves reading terms again that were read before.
 */
export function readEnqueue(
  source: string,
  fields: unknown,
  now: Instant,
  tenant: string | null = null,
  strict = false,
  memory: EnqueueMemory | null = null,
): EnqueueRequest {
  const top = anyObject().read(fields, '')
  const members = fewMembersOf(source, '')
  const terms = termsOf(top, members, now, memory)
  if (strict) refuseNearMisses(terms.nearMisses)
  const id = isGiven(top['id']) ? ID_SHAPE.read(top['id'], 'id') : null
  const meta = optional(TOP_SHAPES.meta, top['meta'], 'meta')
  const { metadata } = terms
  const whose = tenantOf(tenant, meta?.['tenant_id'] ?? metadata?.['tenant_id'])
  const sentMeta = mergedText(terms.metadataText, meta === undefined ? undefined : members.get('meta')?.value)
  const metaText = tenant === null ? sentMeta : mergedText(sentMeta, `{"tenant_id":${JSON.stringify(tenant)}}`)
  if (metaText.length > MAX_META_BYTES || utf8Length(metaText) > MAX_META_BYTES) {
    throw new OjsError('payload_too_large', `meta must not be larger than ${String(MAX_META_BYTES)} bytes.`, {
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
