/**
 * Cron entries on the wire, in both dialects: `expression` and `job_template`, or `cron` and the fields of the job beside
 * it. What the template says is kept as it was written, and read as an enqueue request: now, to refuse what could never be
 * enqueued, and again at every firing.
 */
import type { Cron, CronAsked, Overlap } from '../cron/cron.ts'
import { badField, OjsError } from '../errors.ts'
import type { Json } from '../job/job.ts'
import { iso, type Instant } from '../time/clock.ts'
import { parseBody, readEnqueue, type EnqueueRequest } from './job/enqueue.ts'
import { fewFields, fewMembersOf } from './few-fields.ts'
import { isGiven } from './is-given.ts'
import { isJobField, JOB_FIELDS, OPTIONS_SHAPE, TYPE_SHAPE } from './job/job-shapes.ts'
import { membersOf } from './json/json-text.ts'
import { mergedText } from './json/merged-text.ts'
import { refuseNearMisses } from './names/near-miss-words.ts'
import { missesWithin, nearMissesAmong, NO_NEAR_MISSES, vocabulary, type NearMiss } from './names/near-miss.ts'
import {
  anyList,
  anyObject,
  flag,
  named,
  object,
  oneNotNull,
  oneOf,
  ruled,
  text,
  type Fields,
  type Shape,
} from './shape.ts'

export const CRON_NAME_SHAPE = text({
  pattern: /^[a-z0-9][a-z0-9.-]*$/,
  maxLength: 255,
  expected: 'a name such as "daily-report": lower-case letters, digits, "." and "-", at most 255',
})

const MEANT: Readonly<Record<string, Overlap>> = {
  skip: 'skip',
  allow: 'allow',
  cancel_previous: 'cancel_previous',
  cancel: 'cancel_previous',
  replace: 'cancel_previous',
  enqueue: 'enqueue',
  queue: 'enqueue',
}

const NO_ID: Shape<never> = {
  json: { type: 'null' },
  read() {
    throw badField('id', 'id cannot be given: every firing is a job of its own.')
  },
}

/** Its fields are judged by the calendar, which says what is wrong with which. */
const EXPRESSION_SHAPE = named('CronExpression', text({ min: 1, expected: 'a cron expression such as "0 9 * * 1-5"' }))

const ENTRY_SHAPES = {
  expression: EXPRESSION_SHAPE,
  cron: EXPRESSION_SHAPE,
  timezone: text({ min: 1, expected: 'a name of the IANA database such as "Europe/Berlin"' }),
  overlap_policy: oneOf('skip', 'allow', 'cancel_previous', 'enqueue', 'cancel', 'replace', 'queue'),
  enabled: flag(),
  description: text({ maxLength: 4_096 }),
} as const
const TEMPLATE_SHAPES = { type: TYPE_SHAPE, args: anyList(), meta: anyObject(), options: OPTIONS_SHAPE } as const
/** Every firing is a job of its own, so an id is not for a template. */
const JOB_TEMPLATE_SHAPE = named('JobTemplate', object({ ...JOB_FIELDS, id: NO_ID }, { required: ['type'] }))

/** The documented form. */
export const CRON_SHAPE = ruled(
  object(
    { ...JOB_FIELDS, id: NO_ID, name: CRON_NAME_SHAPE, ...ENTRY_SHAPES, job_template: JOB_TEMPLATE_SHAPE },
    { required: ['name'] },
  ),
  { allOf: [oneNotNull('expression', 'cron'), oneNotNull('job_template', 'type')] },
)
export const CRON_PATCH_SHAPE = ruled(
  object(
    { ...ENTRY_SHAPES, job_template: JOB_TEMPLATE_SHAPE, ...TEMPLATE_SHAPES },
    { unknown: 'refuse', kept: ['type'] },
  ),
  {
    // The whole job anew, or parts of it.
    anyOf: [
      { properties: { job_template: { type: 'null' } } },
      { not: { anyOf: Object.keys(TEMPLATE_SHAPES).map((key) => ({ required: [key] })) } },
    ],
  },
)

/** Of the entry, not of its job; the second row is kept by the server and ignored when a client sends it. */
const ENTRY_KEYS = new Set(
  (
    'name expression cron timezone overlap_policy enabled description job_template ' +
    'status created_at updated_at next_run_at last_run_at run_count waiting_since x_warnings'
  ).split(' '),
)
const NAMES = vocabulary(Object.keys(ENTRY_SHAPES), {
  tz: 'timezone',
  schedule: 'expression',
  cron_expression: 'expression',
  overlap: 'overlap_policy',
  concurrency_policy: 'overlap_policy',
  active: 'enabled',
  template: 'job_template',
  job: 'job_template',
})

/** `tenant`: the one the call speaks for. `strict` refuses fields that are nearly known. */
export function readCron(
  source: string,
  fields: unknown,
  now: Instant,
  tenant: string | null = null,
  strict = false,
): CronAsked {
  const top = anyObject().read(fields, '')
  const members = fewMembersOf(source, '')
  const name = required(top, 'name', CRON_NAME_SHAPE)
  const field = expressionField(top)
  const expression = required(top, field, ENTRY_SHAPES[field])
  const nested = isGiven(top['job_template'])
  const written = nested
    ? (members.get('job_template')?.value ?? '{}')
    : objectText([...members.values()].filter(({ key }) => !ENTRY_KEYS.has(key)))
  const { nearMisses, ...template } = readTemplate(name, written, nested ? 'job_template' : '', now, tenant)
  if (nested) refuseBesideTemplate(top, template.queue)
  const unknown = Object.keys(top).filter((key) => !ENTRY_KEYS.has(key) && !isJobField(key) && isGiven(top[key]))
  const misses = [...nearMisses, ...nearMissesAmong(unknown, NAMES)]
  if (strict) refuseNearMisses(misses)
  const asked: CronAsked = {
    name,
    field,
    expression,
    timezone: given(top, 'timezone', ENTRY_SHAPES.timezone) ?? 'UTC',
    overlap: MEANT[given(top, 'overlap_policy', ENTRY_SHAPES.overlap_policy) ?? 'skip'] ?? 'skip',
    enabled: given(top, 'enabled', ENTRY_SHAPES.enabled) ?? null,
    description: given(top, 'description', ENTRY_SHAPES.description) ?? null,
    ...template,
    nearMisses: misses,
  }
  // Fields of the job beside a template say the same as it, and are held to their form.
  if (nested) CRON_SHAPE.read(top, '')
  return asked
}

/**
 * `job_template` holds the whole job, so a field of the job beside it would have no effect. What an answer of the server
 * shows there may come back: it says the same.
 */
function refuseBesideTemplate(top: Fields, queue: string): void {
  const template = anyObject().read(top['job_template'], 'job_template')
  const means: Fields = { args: [], meta: {}, options: {}, queue, ...template }
  for (const key of Object.keys(top)) {
    if (!isJobField(key) || !isGiven(top[key])) continue
    if (JSON.stringify(top[key]) === JSON.stringify(means[key])) continue
    throw badField(
      key,
      `${key} is given beside job_template, which holds the whole job, and differs from it. Remove ${key}, or move it into job_template.`,
    )
  }
}

/** The entry with a change laid over it; `null` takes a description, or a part of the job, away. */
export function patchCron(cron: Cron, source: string, fields: unknown, now: Instant, strict = false): CronAsked {
  const top = anyObject().read(fields, '')
  CRON_PATCH_SHAPE.read(top, '')
  const members = fewMembersOf(source, '')
  const parts = Object.keys(TEMPLATE_SHAPES).filter((key) => Object.hasOwn(top, key))
  const nested = isGiven(top['job_template'])
  if (nested && parts.length > 0)
    throw badField(parts[0] ?? '', 'Send either job_template, which replaces the whole job, or single fields of it.')
  const kept = membersOf(cron.template)
  for (const key of parts) {
    const member = members.get(key)
    if (member !== undefined && member.value !== 'null') kept.set(key, member)
    else kept.delete(key)
  }
  const written = nested ? (members.get('job_template')?.value ?? '{}') : objectText([...kept.values()])
  const field = expressionField(top)
  const { nearMisses, ...template } =
    nested || parts.length > 0
      ? readTemplate(cron.name, written, nested ? 'job_template' : '', now, cron.tenant)
      : { ...templateOf(cron), nearMisses: NO_NEAR_MISSES }
  if (strict) refuseNearMisses(nearMisses)
  return {
    name: cron.name,
    field,
    expression: given(top, field, ENTRY_SHAPES[field]) ?? cron.expression,
    timezone: given(top, 'timezone', ENTRY_SHAPES.timezone) ?? cron.timezone,
    overlap: MEANT[given(top, 'overlap_policy', ENTRY_SHAPES.overlap_policy) ?? cron.overlap] ?? cron.overlap,
    enabled: given(top, 'enabled', ENTRY_SHAPES.enabled) ?? cron.enabled,
    description: Object.hasOwn(top, 'description')
      ? (given(top, 'description', ENTRY_SHAPES.description) ?? null)
      : cron.description,
    ...template,
    nearMisses,
  }
}

type Template = Pick<Cron, 'template' | 'type' | 'queue' | 'tenant'>

const templateOf = ({ template, type, queue, tenant }: Cron): Template => ({ template, type, queue, tenant })

/** The request a firing makes. */
export function requestOf(cron: Cron, scheduledAt: Instant, now: Instant, manual: boolean): EnqueueRequest {
  return requestFrom(cron.name, cron.template, scheduledAt, now, manual)
}

function requestFrom(
  name: string,
  template: Json,
  scheduledAt: Instant,
  now: Instant,
  manual: boolean,
  tenant: string | null = null,
): EnqueueRequest {
  const members = membersOf(template)
  const added = { cron_name: name, cron_triggered_at: iso(scheduledAt), ...(manual ? { cron_manual: true } : {}) }
  const meta = mergedText(members.get('meta')?.value, JSON.stringify(added))
  members.set('meta', { key: 'meta', rawKey: '"meta"', value: meta, from: 0 })
  const source = objectText([...members.values()])
  return readEnqueue(source, parseBody(source), now, tenant)
}

/** As it is kept: with arguments, and with what `options` says of `meta` where jobs have it (OJS cron §2.2). */
function readTemplate(
  name: string,
  source: string,
  prefix: string,
  now: Instant,
  whose: string | null,
): Template & { readonly nearMisses: readonly NearMiss[] } {
  try {
    const members = fewMembersOf(source, '')
    const fields = anyObject().read(JSON.parse(source), '')
    if (isGiven(fields['id'])) throw badField('id', 'id cannot be given: every firing is a job of its own.')
    const put = (key: string, value: string): void => {
      members.set(key, { key, rawKey: JSON.stringify(key), value, from: 0 })
    }
    if (!isGiven(fields['args'])) put('args', '[]')
    if (isGiven(fields['meta'])) anyObject().read(fields['meta'], 'meta')
    else members.delete('meta')
    const options = isGiven(fields['options']) ? fewFields(fields['options'], 'options') : {}
    if (isGiven(options['meta'])) {
      anyObject().read(options['meta'], 'options.meta')
      const rest = membersOf(members.get('options')?.value ?? '{}')
      put('meta', mergedText(rest.get('meta')?.value, members.get('meta')?.value))
      rest.delete('meta')
      put('options', objectText([...rest.values()]))
    }
    // Refuses a template that speaks for another tenant than the call.
    requestFrom(name, objectText([...members.values()]), now, now, true, whose)
    if (whose !== null) put('meta', mergedText(members.get('meta')?.value, JSON.stringify({ tenant_id: whose })))
    const template = objectText([...members.values()])
    const { type, queue, tenant, nearMisses } = requestFrom(name, template, now, now, true)
    return { template, type, queue, tenant, nearMisses: missesWithin(prefix === '' ? '' : `${prefix}.`, nearMisses) }
  } catch (error) {
    throw prefix === '' ? error : within(error, prefix)
  }
}

function within(error: unknown, prefix: string): unknown {
  if (!(error instanceof OjsError)) return error
  const { field } = error.details
  return new OjsError(error.code, `${prefix}: ${error.message}`, {
    details: { ...error.details, field: typeof field === 'string' && field !== '' ? `${prefix}.${field}` : prefix },
    ...(error.hint === undefined ? {} : { hint: error.hint }),
    cause: error,
  })
}

function expressionField(top: Fields): 'expression' | 'cron' {
  const { expression, cron } = top
  if (isGiven(expression) && isGiven(cron) && expression !== cron)
    throw badField('cron', 'cron and expression mean the same and must not differ.')
  return isGiven(cron) && !isGiven(expression) ? 'cron' : 'expression'
}

function required<T>(from: Fields, key: string, shape: Shape<T>): T {
  if (!isGiven(from[key])) throw badField(key, `${key} is required.`)
  return shape.read(from[key], key)
}

function given<T>(from: Fields, key: string, shape: Shape<T>): T | undefined {
  return isGiven(from[key]) ? shape.read(from[key], key) : undefined
}

function objectText(members: readonly { readonly rawKey: string; readonly value: string }[]): Json {
  return `{${members.map(({ rawKey, value }) => `${rawKey}:${value}`).join(',')}}`
}
