/** Unique policies on the wire, and the text of what a policy chose. */
import { badPolicy, OjsError } from '../../errors.ts'
import { JOB_STATES, type Json } from '../../job/job.ts'
import {
  CONFLICTS,
  DIMENSIONS,
  WAITING_OR_ACTIVE,
  type Dimension,
  type Unique,
  type UniquePolicy,
} from '../../job/unique.ts'
import { millis, type Millis } from '../../time/clock.ts'
import { MAX_DURATION_MS, parseIsoDuration } from '../../time/durations.ts'
import { DURATION_SCHEMA } from '../time-schemas.ts'
import { canonical, objectText } from '../json/canonical.ts'
import { elementsOf, membersOf } from '../json/json-text.ts'
import {
  list,
  named,
  notBoth,
  object,
  oneOf,
  orNull,
  policy,
  ruled,
  text,
  whole,
  type JsonSchema,
  type Shape,
} from '../shape.ts'

const BY_DEFAULT: readonly Dimension[] = ['type', 'args']

const isDimension = (name: string): name is Dimension => (DIMENSIONS as readonly string[]).includes(name)

const periodShape: Shape<string> = {
  json: DURATION_SCHEMA,
  read(value, at) {
    readPeriod(value, at)
    return value as string
  },
}

/** What `readUniquePolicy` says about fields that need each other. */
const BETWEEN_FIELDS: readonly JsonSchema[] = [
  notBoth('keys', 'key'),
  {
    if: filledList('args_keys'),
    then: { properties: { keys: orNull({ contains: { const: 'args' } }), key: orNull(dimensionsWith('args')) } },
  },
  {
    if: filledList('meta_keys'),
    then: {
      anyOf: [
        { required: ['keys'], properties: { keys: { type: 'array', contains: { const: 'meta' } } } },
        { required: ['key'], properties: { key: { type: 'array', ...dimensionsWith('meta') } } },
      ],
    },
    else: {
      properties: {
        keys: orNull({ not: { contains: { const: 'meta' } } }),
        key: orNull({ anyOf: [{ not: { contains: { const: 'meta' } } }, { contains: { not: { enum: DIMENSIONS } } }] }),
      },
    },
  },
]

function filledList(field: string): JsonSchema {
  return { required: [field], properties: { [field]: { type: 'array', minItems: 1 } } }
}

function dimensionsWith(name: Dimension): JsonSchema {
  return { contains: { const: name }, items: { enum: DIMENSIONS } }
}

export const UNIQUE_SHAPE = named(
  'Unique',
  ruled(
    policy(
      object(
        {
          keys: list(oneOf(...DIMENSIONS)),
          key: list(text({ min: 1 }), 1),
          args_keys: list(text()),
          meta_keys: list(text()),
          period: periodShape,
          period_ms: whole(1, MAX_DURATION_MS),
          states: list(oneOf(...JOB_STATES), 1),
          on_conflict: oneOf(...CONFLICTS, 'use_existing'),
        },
        { unknown: 'refuse' },
      ),
    ),
    { allOf: BETWEEN_FIELDS },
  ),
)

/** Reads a policy in any of its dialects. Every refusal is a 422 that names the field. */
export function readUniquePolicy(value: unknown, at = 'unique'): UniquePolicy {
  const read = UNIQUE_SHAPE.read(value, at)
  if (read.keys !== undefined && read.key !== undefined)
    throw badPolicy(`${at}.key`, `Give ${at}.keys or ${at}.key, not both.`)
  if (read.key !== undefined && isGiven(read.args_keys) && !read.key.every(isDimension))
    throw badPolicy(
      `${at}.key`,
      `${at}.key names fields of the arguments, and so does ${at}.args_keys: give one of them.`,
    )
  // The dialect of some SDKs: `key` holds names of dimensions, or else names of fields of the first argument.
  const named = read.keys ?? (read.key?.every(isDimension) === true ? read.key : BY_DEFAULT)
  const picked = read.key !== undefined && !read.key.every(isDimension) ? read.key : read.args_keys
  // OJS unique jobs §2.2: the type counts, named or not.
  const keys = DIMENSIONS.filter((dimension) => dimension === 'type' || named.includes(dimension))
  const argsKeys = isGiven(picked) ? [...new Set(picked)].sort() : null
  const metaKeys = isGiven(read.meta_keys) ? [...new Set(read.meta_keys)].sort() : []
  if (argsKeys !== null && !keys.includes('args'))
    throw badPolicy(`${at}.args_keys`, `${at}.args_keys chooses among the arguments: ${at}.keys must name "args".`)
  if (metaKeys.length > 0 && !keys.includes('meta'))
    throw badPolicy(`${at}.meta_keys`, `${at}.meta_keys chooses among the metadata: ${at}.keys must name "meta".`)
  if (metaKeys.length === 0 && keys.includes('meta'))
    throw badPolicy(`${at}.meta_keys`, `${at}.keys names "meta": ${at}.meta_keys must say which fields of it count.`)
  return {
    keys,
    argsKeys,
    metaKeys,
    periodMs: periodOf(read, at),
    states: read.states ?? WAITING_OR_ACTIVE,
    onConflict: read.on_conflict === 'use_existing' ? 'ignore' : (read.on_conflict ?? 'reject'),
  }
}

const isGiven = (names: readonly string[] | undefined): names is readonly string[] =>
  names !== undefined && names.length > 0

/** Some SDKs send it in milliseconds. */
function periodOf({ period, period_ms }: { period?: string; period_ms?: number }, at: string): Millis | null {
  const ms = readPeriod(period, `${at}.period`)
  if (period_ms === undefined) return ms
  if (ms !== null && ms !== period_ms)
    throw badPolicy(`${at}.period_ms`, `${at}.period and ${at}.period_ms mean the same and must not differ.`)
  return millis(period_ms)
}

function readPeriod(value: unknown, at: string): Millis | null {
  if (value === undefined) return null
  const ms = typeof value === 'string' ? parseIsoDuration(value) : null
  if (ms === null || ms <= 0 || ms > MAX_DURATION_MS)
    throw badPolicy(at, `${at} must be an ISO 8601 duration such as "PT1H", longer than 0.`)
  return ms
}

/** The parts of a job a policy can choose from; `args` and `meta` as they were written. */
export interface Dimensions {
  readonly type: string
  readonly queue: string
  readonly args: Json
  readonly meta: Json
}

export function readUnique(value: unknown, job: Dimensions, at = 'unique'): Unique {
  const policy = readUniquePolicy(value, at)
  return { policy, text: uniqueText(policy, job, at) }
}

/** The canonical text of the chosen dimensions: the same for the same work, however it was written. */
export function uniqueText({ keys, argsKeys, metaKeys }: UniquePolicy, job: Dimensions, at = 'unique'): string {
  const chosen: Readonly<Record<Dimension, () => string>> = {
    type: () => JSON.stringify(job.type),
    queue: () => JSON.stringify(job.queue),
    args: () => (argsKeys === null ? bounded(job.args, at) : chosenArgs(job.args, argsKeys, `${at}.args_keys`)),
    meta: () => picked(membersOf(job.meta), metaKeys),
  }
  const parts = [...keys].sort().map((dimension) => `"${dimension}":${chosen[dimension]()}`)
  return `{${parts.join(',')}}`
}

function chosenArgs(args: Json, names: readonly string[], at: string): string {
  const [first] = elementsOf(args)
  const members = first?.startsWith('{') === true ? membersOf(first) : new Map<string, { value: string }>()
  // A missing field would make jobs the same that merely lack it (OJS unique jobs §2.2).
  const missing = names.find((name) => !members.has(name))
  if (missing !== undefined)
    throw badPolicy(at, `${at} names ${JSON.stringify(missing)}, which the first argument does not have.`)
  return picked(members, names)
}

function picked(members: ReadonlyMap<string, { readonly value: string }>, names: readonly string[]): string {
  return objectText(
    names.flatMap((name) => {
      const member = members.get(name)
      return member === undefined ? [] : [[name, bounded(member.value, name)] as const]
    }),
  )
}

/** To bring a text into its one spelling takes much longer than to read it, and cannot be interrupted. */
export const MAX_COMPARED = 65_536

function bounded(json: Json, at: string): string {
  if (json.length <= MAX_COMPARED) return canonical(json)
  throw new OjsError(
    'payload_too_large',
    `${at} compares ${String(json.length)} characters of arguments; at most ${String(MAX_COMPARED)} can be compared.`,
    {
      details: { field: 'unique', max_compared: MAX_COMPARED },
      hint: 'Name the fields that tell jobs apart in unique.args_keys, such as an id.',
    },
  )
}
