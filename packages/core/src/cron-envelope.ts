/**
 * Cron entries on the wire, in both dialects: `expression` and `job_template`, or `cron` and the fields of the job beside
 * it. What the template says is kept as it was written, and read as an enqueue request: now, to refuse what could never be
 * enqueued, and again at every firing.
 */
import { iso, type Instant } from './clock.ts'
import type { Cron, CronAsked, Overlap } from './cron.ts'
import { mergedText, parseBody, readEnqueue, type EnqueueRequest } from './envelope.ts'
import { badField, OjsError } from './errors.ts'
import type { Json } from './job.ts'
import { membersOf } from './json-text.ts'
import { anyList, anyObject, flag, object, oneOf, text, type Fields, type Shape } from './shape.ts'

export const CRON_NAME_SHAPE = text({
  pattern: /^[a-z0-9][a-z0-9.-]*$/,
  maxBytes: 255,
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

const ENTRY_SHAPES = {
  expression: text({ min: 1, expected: 'a cron expression such as "0 9 * * 1-5"' }),
  cron: text({ min: 1, expected: 'a cron expression such as "0 9 * * 1-5"' }),
  timezone: text({ min: 1, expected: 'a name of the IANA database such as "Europe/Berlin"' }),
  overlap_policy: oneOf('skip', 'allow', 'cancel_previous', 'enqueue', 'cancel', 'replace', 'queue'),
  enabled: flag(),
  description: text({ maxBytes: 4_096 }),
} as const
const TEMPLATE_SHAPES = { type: text(), args: anyList(), meta: anyObject(), options: anyObject() }

/** The documented form. */
export const CRON_SHAPE = object(
  { name: CRON_NAME_SHAPE, ...ENTRY_SHAPES, job_template: object(TEMPLATE_SHAPES), ...TEMPLATE_SHAPES },
  { required: ['name'] },
)
export const CRON_PATCH_SHAPE = object(
  { ...ENTRY_SHAPES, job_template: object(TEMPLATE_SHAPES), ...TEMPLATE_SHAPES },
  { unknown: 'refuse' },
)

/** Of the entry, not of its job; the second row is kept by the server and ignored when a client sends it. */
const ENTRY_KEYS = new Set(
  (
    'name expression cron timezone overlap_policy enabled description job_template ' +
    'status created_at updated_at next_run_at last_run_at run_count waiting_since'
  ).split(' '),
)

/** `tenant`: the one the call speaks for. */
export function readCron(source: string, fields: unknown, now: Instant, tenant: string | null = null): CronAsked {
  const top = anyObject().read(fields, '')
  const members = membersOf(source)
  const name = required(top, 'name', CRON_NAME_SHAPE)
  const field = expressionField(top)
  const expression = required(top, field, ENTRY_SHAPES[field])
  const nested = isGiven(top['job_template'])
  const written = nested
    ? (members.get('job_template')?.value ?? '{}')
    : objectText([...members.values()].filter(({ key }) => !ENTRY_KEYS.has(key)))
  return {
    name,
    field,
    expression,
    timezone: given(top, 'timezone', ENTRY_SHAPES.timezone) ?? 'UTC',
    overlap: MEANT[given(top, 'overlap_policy', ENTRY_SHAPES.overlap_policy) ?? 'skip'] ?? 'skip',
    enabled: given(top, 'enabled', ENTRY_SHAPES.enabled) ?? null,
    description: given(top, 'description', ENTRY_SHAPES.description) ?? null,
    ...readTemplate(name, written, nested ? 'job_template' : '', now, tenant),
  }
}

/** The entry with a change laid over it; `null` takes a description, or a part of the job, away. */
export function patchCron(cron: Cron, source: string, fields: unknown, now: Instant): CronAsked {
  const top = anyObject().read(fields, '')
  CRON_PATCH_SHAPE.read(top, '')
  const members = membersOf(source)
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
    ...(nested || parts.length > 0
      ? readTemplate(cron.name, written, nested ? 'job_template' : '', now, cron.tenant)
      : { template: cron.template, type: cron.type, queue: cron.queue, tenant: cron.tenant }),
  }
}

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
  const told = { cron_name: name, cron_triggered_at: iso(scheduledAt), ...(manual ? { cron_manual: true } : {}) }
  const meta = mergedText(members.get('meta')?.value, JSON.stringify(told))
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
): Pick<Cron, 'template' | 'type' | 'queue' | 'tenant'> {
  try {
    const fields = anyObject().read(JSON.parse(source), '')
    if (isGiven(fields['id'])) throw badField('id', 'id cannot be given: every firing is a job of its own.')
    const members = membersOf(source)
    const put = (key: string, value: string): void => {
      members.set(key, { key, rawKey: JSON.stringify(key), value, from: 0 })
    }
    if (!isGiven(fields['args'])) put('args', '[]')
    if (isGiven(fields['meta'])) anyObject().read(fields['meta'], 'meta')
    else members.delete('meta')
    const options = isGiven(fields['options']) ? anyObject().read(fields['options'], 'options') : {}
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
    const { type, queue, tenant } = requestFrom(name, template, now, now, true)
    return { template, type, queue, tenant }
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

/** An entry as clients see it: the names of both dialects. */
export function renderCron(cron: Cron): Json {
  const members = membersOf(cron.template)
  const part = (key: string, otherwise: Json): Json => {
    const value = members.get(key)?.value ?? 'null'
    return `"${key}":${value === 'null' ? otherwise : value}`
  }
  const own = JSON.stringify({
    name: cron.name,
    expression: cron.expression,
    cron: cron.expression,
    timezone: cron.timezone,
    overlap_policy: cron.overlap,
    enabled: cron.enabled,
    status: cron.enabled ? 'active' : 'disabled',
    description: cron.description,
    type: cron.type,
    queue: cron.queue,
    ...(cron.tenant === null ? {} : { tenant_id: cron.tenant }),
    created_at: iso(cron.createdAt),
    updated_at: iso(cron.updatedAt),
    next_run_at: cron.nextRunAt === null ? null : iso(cron.nextRunAt),
    last_run_at: cron.lastRunAt === null ? null : iso(cron.lastRunAt),
    run_count: cron.runCount,
    ...(cron.waitingAt === null ? {} : { waiting_since: iso(cron.waitingAt) }),
  })
  const job = [part('args', '[]'), part('meta', '{}'), part('options', '{}'), `"job_template":${cron.template}`]
  return `${own.slice(0, -1)},${job.join(',')}}`
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

const isGiven = (value: unknown): boolean => value !== undefined && value !== null
