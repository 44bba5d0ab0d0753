/**
 * The terms of an enqueue request: all that it says besides which job it is and what it carries (`id`, `args`, `meta`).
 * Clients that enqueue, enqueue more of the same; an `EnqueueMemory` reads equal terms once.
 */
import { badField, badPolicy, OjsError } from '../../errors.ts'
import type { Fragment, Json, Parent } from '../../job/job.ts'
import type { AskedLimits } from '../../job/limits.ts'
import type { RateLimit } from '../../job/rate-limit.ts'
import { refuseReserved } from '../../job/reserved.ts'
import { DEFAULT_RETRY, type RetryPolicy } from '../../job/retry.ts'
import { seconds, type Instant, type Millis } from '../../time/clock.ts'
import type { NamedMoment } from '../../time/durations.ts'
import { fewFields } from '../few-fields.ts'
import { isGiven } from '../is-given.ts'
import {
  nearMissesInOptions,
  nearMissesInRetries,
  outweighedOptions,
  SYSTEM_FIELDS,
  TOP_NAMES,
  UNDERSTOOD,
} from './enqueue-names.ts'
import { writeGiven } from './given.ts'
import { OPTION_SHAPES, readMoment, readParent, TOP_SHAPES, TYPE_SHAPE } from './job-shapes.ts'
import { readLimits } from './limits.ts'
import { readRateLimit } from './rate-limit.ts'
import { readRetryPolicy, RETRY_POLICY_SHAPE, writeRetryPolicy } from './retry.ts'
import { membersOf, type Member } from '../json/json-text.ts'
import { nearMissesAmong, type NearMiss } from '../names/near-miss.ts'
import type { Fields, Shape } from '../shape.ts'

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

const MAX_KNOWN = 1_000
const MAX_KNOWN_LENGTH = 2_000

/** Terms by the text they were read from. The reader of requests owns it, so it lives no longer than that. */
export class EnqueueMemory {
  readonly #known = new Map<string, Terms>()

  get(words: string): Terms | undefined {
    return this.#known.get(words)
  }

  /** Terms that speak of a time or of a parent mean something else the next time. */
  keep(words: string, terms: Terms): void {
    if (terms.scheduled !== null || terms.expires !== null || terms.parent !== null) return
    if (this.#known.size >= MAX_KNOWN) this.#known.clear()
    this.#known.set(words, terms)
  }
}

export function termsOf(
  top: Fields,
  members: ReadonlyMap<string, Member>,
  now: Instant,
  memory: EnqueueMemory | null,
): Terms {
  if (!isGiven(top['type'])) throw badField('type', 'type is required.')
  if (!isGiven(top['args'])) throw badField('args', 'args is required.')
  TOP_SHAPES.args.read(top['args'], 'args')
  const words = memory === null ? null : wordsOf(members)
  if (memory === null || words === null) return readTerms(top, members, now)
  const read = memory.get(words)
  if (read !== undefined) return read
  // All that is kept is cut from a text of its own: a piece of the request would hold on to the whole of it.
  const text = `{${words}}`
  const terms = readTerms(top, membersOf(text), now)
  memory.keep(text.slice(1, -1), terms)
  return terms
}

/** Null for more of them than are worth remembering. */
function wordsOf(members: ReadonlyMap<string, Member>): string | null {
  let words = ''
  for (const { rawKey, key, value } of members.values()) {
    if (key === 'args' || key === 'meta' || key === 'id') continue
    if (SYSTEM_FIELDS.has(key) && key !== 'max_attempts') continue
    if (value.length > MAX_KNOWN_LENGTH) return null
    words += `${rawKey}:${value},`
  }
  return words.length > MAX_KNOWN_LENGTH ? null : words
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

export function optional<T>(shape: Shape<T>, value: unknown, at: string): T | undefined {
  return isGiven(value) ? shape.read(value, at) : undefined
}
