/** Webhook subscriptions as clients send them. */
import { badField, badPolicy } from '../errors.ts'
import { seconds, type Instant } from '../time/clock.ts'
import { nextLookAt, SECRET_PREFIX, type Webhook, type WebhookFilter } from '../webhook/webhook.ts'
import { QUEUE_SHAPE, TYPE_SHAPE } from './job/job-shapes.ts'
import { anyObject, flag, list, object, policy, text, utf8Length, whole, type Fields } from './shape.ts'

const EVENT_PATTERN = text({
  pattern: /^(\*|[a-z_]+(\.[a-z_]+)*(\.\*)?)$/,
  maxLength: 128,
  expected: 'a type of event such as "job.completed", a group such as "job.*", or "*"',
})
const MAX_URL_LENGTH = 2_048
const MAX_METADATA_BYTES = 16_384
/** OJS webhooks §7.3. */
const TIMEOUT_S = { least: 1, most: 60, byDefault: 30 }
const BASE64 = '(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?'
/** Either form: `whsec_` and base64, or any text. It becomes a key, so it must be hard to guess. */
const SECRET_SHAPE = policy(
  text({
    pattern: new RegExp(`^(?:(?!${SECRET_PREFIX})[\\s\\S]*|${SECRET_PREFIX}${BASE64})$`),
    min: 16,
    maxLength: 256,
    expected: `16 to 256 characters long; after ${SECRET_PREFIX}, base64`,
  }),
)

const FIELDS = {
  url: text({
    pattern: /^[hH][tT][tT][pP][sS]?:\/\/[^/?#\\\s]+[^\s]*$/,
    maxLength: MAX_URL_LENGTH,
    format: 'uri',
    expected: 'an absolute https URL such as "https://example.com/hooks"',
  }),
  events: list(EVENT_PATTERN, 1, 100),
  filter: object({ queues: list(QUEUE_SHAPE, 0, 100), job_types: list(TYPE_SHAPE, 0, 100) }, { unknown: 'refuse' }),
  metadata: anyObject(),
  active: flag(),
  timeout: policy(whole(TIMEOUT_S.least, TIMEOUT_S.most)),
} as const

export const WEBHOOK_SHAPE = object(
  { ...FIELDS, secret: SECRET_SHAPE },
  { required: ['url', 'events'], unknown: 'refuse' },
)
/** `null` takes filter, metadata and timeout away. */
export const WEBHOOK_PATCH_SHAPE = object(FIELDS, { unknown: 'refuse', kept: ['url', 'events', 'active'] })
export const ROTATE_SHAPE = object({ secret: SECRET_SHAPE }, { unknown: 'refuse' })

export interface WebhookTerms {
  /** `http:` endpoints are for development. */
  readonly allowInsecure: boolean
}

export interface NewWebhook {
  readonly id: string
  readonly tenant: string | null
  readonly secret: string
  readonly cursor: number
}

/** `made` is what the server gives it; a secret that was sent wins. */
export function readWebhook(sent: unknown, made: NewWebhook, terms: WebhookTerms, now: Instant): Webhook {
  const fields = WEBHOOK_SHAPE.read(sent, '')
  return {
    id: made.id,
    tenant: made.tenant,
    url: readUrl(fields.url, terms),
    events: fields.events,
    filter: readFilter(fields.filter),
    metadata: readMetadata(fields.metadata),
    active: fields.active ?? true,
    inactiveReason: null,
    timeoutMs: seconds(fields.timeout ?? TIMEOUT_S.byDefault),
    secret: fields.secret ?? made.secret,
    oldSecret: null,
    cursor: made.cursor,
    lookAt: nextLookAt(now),
    createdAt: now,
    updatedAt: now,
  }
}

/** `last` is the end of the log: a subscription that is turned on again begins there. */
export function patchWebhook(
  webhook: Webhook,
  sent: unknown,
  last: number,
  terms: WebhookTerms,
  now: Instant,
): Webhook {
  const given = anyObject().read(sent, '')
  const fields = WEBHOOK_PATCH_SHAPE.read(given, '')
  const removes = (key: string): boolean => given[key] === null
  const active = fields.active ?? webhook.active
  return {
    ...webhook,
    url: fields.url === undefined ? webhook.url : readUrl(fields.url, terms),
    events: fields.events ?? webhook.events,
    filter: fields.filter !== undefined || removes('filter') ? readFilter(fields.filter) : webhook.filter,
    metadata: fields.metadata !== undefined || removes('metadata') ? readMetadata(fields.metadata) : webhook.metadata,
    timeoutMs:
      fields.timeout !== undefined || removes('timeout')
        ? seconds(fields.timeout ?? TIMEOUT_S.byDefault)
        : webhook.timeoutMs,
    active,
    inactiveReason: active ? null : webhook.inactiveReason,
    cursor: active && !webhook.active ? last : webhook.cursor,
    lookAt: active && !webhook.active ? nextLookAt(now) : webhook.lookAt,
    updatedAt: now,
  }
}

function readUrl(url: string, { allowInsecure }: WebhookTerms): string {
  // core has no URL; what it really names is decided when it is called.
  const [, scheme = '', authority = ''] = /^(https?):\/\/([^/?#\\\s]+)[^\s]*$/i.exec(url) ?? []
  if (scheme === '') throw badField('url', 'url must be an absolute https URL such as "https://example.com/hooks".')
  if (authority.includes('@'))
    throw badPolicy('url', 'url must not contain credentials; deliveries are signed with the secret instead.')
  // OJS webhooks §8.4
  if (scheme.toLowerCase() === 'http' && !allowInsecure)
    throw badPolicy('url', 'url must be https; http is for servers started with --allow-private-network.')
  return url
}

function readFilter(filter: { queues?: string[]; job_types?: string[] } | undefined): WebhookFilter {
  return { queues: filter?.queues ?? [], jobTypes: filter?.job_types ?? [] }
}

function readMetadata(metadata: Fields | undefined): Fields | null {
  if (metadata === undefined) return null
  if (utf8Length(JSON.stringify(metadata)) > MAX_METADATA_BYTES)
    throw badField('metadata', `metadata must not be larger than ${String(MAX_METADATA_BYTES)} bytes.`)
  return metadata
}
