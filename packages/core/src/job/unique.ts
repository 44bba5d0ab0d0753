/**
 * Unique jobs (OJS unique jobs): what makes two jobs the same work, and what happens to the second.
 *
 * A policy chooses dimensions of a job: its type (always), its queue, its arguments or some of them, some of its
 * metadata. Their canonical text is what is compared; the server keeps its hash with the job. The text follows RFC 8785
 * (sorted keys, no space, numbers and strings in one spelling) with two additions: strings are brought to NFC, and a
 * number that no double holds keeps all its digits, so that two large ids never look like one.
 *
 * Whether a job is a duplicate is decided once, when it is enqueued; retries are never asked again (§9.2).
 */
import { badPolicy, OjsError } from '../errors.ts'
import { millis, type Instant, type Millis } from '../time/clock.ts'
import { after, isDue } from '../time/sums.ts'
import { DURATION_SCHEMA, LONGEST_MS, parseIsoDuration } from '../time/durations.ts'
import { isTerminal, JOB_STATES, type Job, type JobState, type Json } from './job.ts'
import { elementsOf, membersOf } from '../wire/json-text.ts'
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
} from '../wire/shape.ts'

const DIMENSIONS = ['type', 'queue', 'args', 'meta'] as const
export type Dimension = (typeof DIMENSIONS)[number]

const CONFLICTS = ['reject', 'replace', 'replace_except_schedule', 'ignore'] as const
export type OnConflict = (typeof CONFLICTS)[number]

export interface UniquePolicy {
  readonly keys: readonly Dimension[]
  /** Fields of the first argument; null: all arguments. */
  readonly argsKeys: readonly string[] | null
  readonly metaKeys: readonly string[]
  /** How long after a job was created another counts as its duplicate; null: for as long as its state is among `states`. */
  readonly periodMs: Millis | null
  readonly states: readonly JobState[]
  readonly onConflict: OnConflict
}

/** What an enqueue request says about its uniqueness: the policy, and the text of what it chose. */
export interface Unique {
  readonly policy: UniquePolicy
  readonly text: string
}

/** What is not over yet. */
const WAITING_OR_ACTIVE: readonly JobState[] = JOB_STATES.filter((state) => !isTerminal(state))
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
          period_ms: whole(1, LONGEST_MS),
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
  if (ms === null || ms <= 0 || ms > LONGEST_MS)
    throw badPolicy(at, `${at} must be an ISO 8601 duration such as "PT1H", longer than nothing.`)
  return ms
}

// ---- What is compared ----

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
    `${at} compares ${String(json.length)} signs of arguments; at most ${String(MAX_COMPARED)} can be compared.`,
    {
      details: { field: 'unique', max_compared: MAX_COMPARED },
      hint: 'Name the fields that tell jobs apart in unique.args_keys, such as an id.',
    },
  )
}

/** JSON text in its one spelling. Expects text that `JSON.parse` has accepted. */
export function canonical(json: Json): string {
  const value = json.trim()
  switch (value[0]) {
    case '{':
      return objectText([...membersOf(value)].map(([key, member]) => [key, canonical(member.value)] as const))
    case '[':
      return `[${elementsOf(value).map(canonical).join(',')}]`
    case '"':
      return stringText(JSON.parse(value) as string)
    case 't':
    case 'f':
    case 'n':
      return value
    default:
      return numberText(value)
  }
}

/** Lone surrogates come out as escapes, so that hashing the text as UTF-8 keeps them apart. */
const stringText = (value: string): string => JSON.stringify(value.normalize('NFC'))

/** Sorted by key. Keys that only NFC makes equal stay two, in the order of how they were spelled. */
function objectText(members: readonly (readonly [key: string, value: string])[]): string {
  const spelled = members.map(([key, value]) => ({ key, name: key.normalize('NFC'), value }))
  spelled.sort((a, b) => compare(a.name, b.name) || compare(a.key, b.key))
  return `{${spelled.map(({ name, value }) => `${JSON.stringify(name)}:${value}`).join(',')}}`
}

const compare = (a: string, b: string): number => (a < b ? -1 : a > b ? 1 : 0)

/** `1`, `1.0` and `10e-1` are one number. What a double would round keeps its digits. */
function numberText(written: string): string {
  const exact = decimal(written)
  const rounded = Number(written)
  if (!Number.isFinite(rounded)) return exact
  const usual = JSON.stringify(rounded)
  return decimal(usual) === exact ? usual : exact
}

const NUMBER = /^(-?)(\d+)(?:\.(\d+))?(?:[eE]([+-]?\d+))?$/

/** Nobody counts so far; such a number is what it was written as. */
const LONGEST_POWER = 20

/** A number as its significant digits and a power of ten, exactly. */
function decimal(written: string): string {
  const [, sign = '', whole = '', fraction = '', power = '0'] = NUMBER.exec(written) ?? []
  const digits = withoutLeadingZeros(`${whole}${fraction}`)
  if (digits === '') return '0'
  if (power.length > LONGEST_POWER) return written
  const significant = withoutTrailingZeros(digits)
  const exponent = BigInt(power) - BigInt(fraction.length) + BigInt(digits.length - significant.length)
  return `${sign}${significant}e${String(exponent)}`
}

/** By hand: a pattern for trailing zeros would look at every zero again and again. */
function withoutTrailingZeros(digits: string): string {
  let end = digits.length
  while (end > 0 && digits[end - 1] === '0') end -= 1
  return digits.slice(0, end)
}

function withoutLeadingZeros(digits: string): string {
  let from = 0
  while (from < digits.length && digits[from] === '0') from += 1
  return digits.slice(from)
}

// ---- What follows ----

/** What becomes of a new job, given the jobs that share its fingerprint. */
export type UniqueVerdict =
  | { readonly kind: 'admit'; readonly replaces: readonly Job[]; readonly scheduledLike: Job | null }
  | { readonly kind: 'keep'; readonly existing: Job }
  | { readonly kind: 'refuse'; readonly existing: Job; readonly why: 'exists' | 'active' }

/**
 * `found`: jobs with the same fingerprint. `scheduledLike` of an admission is the job whose moment is taken over, if one
 * is.
 */
export function uniqueVerdict(policy: UniquePolicy, found: readonly Job[], now: Instant): UniqueVerdict {
  const duplicates = found.filter(
    (job) =>
      policy.states.includes(job.state) &&
      (policy.periodMs === null || !isDue(after(job.createdAt, policy.periodMs), now)),
  )
  const [existing] = duplicates.sort(mostAlive)
  if (existing === undefined) return { kind: 'admit', replaces: [], scheduledLike: null }
  if (policy.onConflict === 'ignore') return { kind: 'keep', existing }
  if (policy.onConflict === 'reject') return { kind: 'refuse', existing, why: 'exists' }
  const active = duplicates.find(({ state }) => state === 'active')
  if (active !== undefined) return { kind: 'refuse', existing: active, why: 'active' }
  const replaces = duplicates.filter(({ state }) => !isTerminal(state))
  const waits = replaces.find(({ state }) => state === 'scheduled') ?? null
  return { kind: 'admit', replaces, scheduledLike: policy.onConflict === 'replace_except_schedule' ? waits : null }
}

/** Of several, the one that is not over yet; then the newest. */
function mostAlive(a: Job, b: Job): number {
  const over = Number(isTerminal(a.state)) - Number(isTerminal(b.state))
  return over !== 0 ? over : b.createdAt - a.createdAt || compare(b.id, a.id)
}

export function duplicateError(
  { existing, why }: Extract<UniqueVerdict, { kind: 'refuse' }>,
  fingerprint: string,
): OjsError {
  return new OjsError(
    'duplicate',
    why === 'active'
      ? 'A job for the same work is running, and one that runs is not replaced.'
      : 'A job for the same work exists already.',
    { details: { existing_job_id: existing.id, existing_state: existing.state, unique_key: fingerprint } },
  )
}
