/** Webhooks: subscriptions, and what became of their deliveries. */
import {
  ANY_JOB,
  iso,
  isTerminal,
  notFound,
  OjsError,
  oneOf,
  readDoc,
  ROTATE_SHAPE,
  text,
  undeliverable,
  unheardOf,
  WEBHOOK,
  WEBHOOK_PATCH_SHAPE,
  WEBHOOK_QUEUE,
  WEBHOOK_SHAPE,
  type Job,
  type Webhook,
} from '@curfew/core'
import { deliveryId, readDelivery } from '../../engine/webhooks/delivery.ts'
import { retryDead } from '../../engine/jobs/dead-letter.ts'
import { selectJobs } from '../../engine/jobs/job-list.ts'
import {
  changeSubscription,
  rotate,
  subscribe,
  unsubscribe,
  type Subscribed,
} from '../../engine/webhooks/subscription.ts'
import type { JobPage } from '../../store/store.ts'
import { objectOf, arrayOf, type Answer } from '../api/message.ts'
import { PAGES } from '../api/query.ts'
import { bodyOf, pagingOf, paginationOf, param, queryOf, tenantOf, type Call, type Route } from '../api/route.ts'

const PATH = '/ojs/v1/webhooks/subscriptions'
const MAX_SUBSCRIPTIONS = 10_000

/** Without the secret, which is shown once, in the answer to the subscription. */
function view(webhook: Webhook): Record<string, unknown> {
  const { filter, oldSecret } = webhook
  return {
    id: webhook.id,
    ...(webhook.tenant === null ? {} : { tenant_id: webhook.tenant }),
    url: webhook.url,
    events: webhook.events,
    ...(filter.queues.length + filter.jobTypes.length === 0
      ? {}
      : {
          filter: {
            ...(filter.queues.length === 0 ? {} : { queues: filter.queues }),
            ...(filter.jobTypes.length === 0 ? {} : { job_types: filter.jobTypes }),
          },
        }),
    ...(webhook.metadata === null ? {} : { metadata: webhook.metadata }),
    active: webhook.active,
    ...(webhook.inactiveReason === null ? {} : { inactive_reason: webhook.inactiveReason }),
    timeout: webhook.timeoutMs / 1000,
    ...(oldSecret === null ? {} : { old_secret_expires_at: iso(oldSecret.until) }),
    created_at: iso(webhook.createdAt),
    updated_at: iso(webhook.updatedAt),
  }
}

function told({ webhook, secret }: Subscribed): Answer['body'] {
  const shown = { ...view(webhook), ...(secret === null ? {} : { secret }), ...warningsOf(webhook) }
  return JSON.stringify({ ...shown, subscription: shown })
}

function warningsOf({ events, filter }: Webhook): Record<string, unknown> {
  const warnings = [
    ...unheardOf(events).map((pattern) => `No event of this server fits ${JSON.stringify(pattern)}.`),
    ...undeliverable(filter).map(
      (name) =>
        `${JSON.stringify(name)} belongs to the server itself: events about it are never delivered. Read them from GET /ojs/v1/events.`,
    ),
  ]
  return warnings.length === 0 ? {} : { x_warnings: warnings }
}

const answer = (webhook: Webhook): Answer => ({ body: told({ webhook, secret: null }) })

async function find(call: Call): Promise<Webhook> {
  const id = param(call, 'id')
  const doc = await call.engine.read((reads) => reads.doc(WEBHOOK.kind, id))
  const webhook = doc === null ? null : readDoc<Webhook>(doc)
  if (webhook === null || !isSeen(call, webhook.tenant)) throw notFound('subscription', id)
  return webhook
}

/** Who speaks for a tenant sees nothing of the others. */
function isSeen(call: Call, tenant: string | null): boolean {
  const asker = tenantOf(call)
  return asker === null || asker === tenant
}

/** The id in the path, if the asker may know of it. */
const ownId = async (call: Call): Promise<string> => (await find(call)).id

async function listSubscriptions(call: Call): Promise<Answer> {
  const paging = pagingOf(call, 50)
  const docs = await call.engine.read((reads) => reads.docs(WEBHOOK.kind, '', null, MAX_SUBSCRIPTIONS))
  const seen = docs.map((doc) => readDoc<Webhook>(doc)).filter(({ tenant }) => isSeen(call, tenant))
  const shown = seen.slice(paging.offset, paging.offset + paging.limit).map(view)
  return {
    body: JSON.stringify({ subscriptions: shown, pagination: paginationOf(paging, seen.length, shown.length) }),
  }
}

async function test(call: Call): Promise<Answer> {
  const { verdict, answer: got, tookMs } = await call.engine.webhooks.test(await ownId(call))
  return {
    body: JSON.stringify({
      success: verdict?.kind === 'delivered',
      ...(got === null ? {} : { status_code: got.status }),
      response_time_ms: tookMs,
      ...(got === null ? {} : { response_body: got.body.slice(0, 1_000) }),
      ...(verdict === null
        ? { error: 'the server is stopping' }
        : verdict.kind === 'delivered'
          ? {}
          : { error: verdict.reason }),
    }),
  }
}

// ---- Deliveries ----

const STATUSES = ['pending', 'delivering', 'retrying', 'delivered', 'dead', 'cancelled'] as const
const DELIVERY_QUERY = { status: oneOf(...STATUSES), ...PAGES } as const
const ALL_DELIVERIES_QUERY = { subscription_id: text(), ...DELIVERY_QUERY } as const

function statusOf({ state, deadLetter }: Job): (typeof STATUSES)[number] {
  if (state === 'active') return 'delivering'
  if (state === 'completed') return 'delivered'
  if (state === 'retryable') return 'retrying'
  return state === 'discarded' && deadLetter ? 'dead' : isTerminal(state) ? 'cancelled' : 'pending'
}

function deliveryView(job: Job, whole: boolean): string {
  const { subscriptionId, eventId, eventType, event } = readDelivery(job)
  return objectOf({
    id: JSON.stringify(deliveryId(job)),
    job_id: JSON.stringify(job.id),
    subscription_id: JSON.stringify(subscriptionId),
    event_id: JSON.stringify(eventId),
    event_type: JSON.stringify(eventType),
    status: JSON.stringify(statusOf(job)),
    attempts: String(job.attempt),
    response: job.result ?? undefined,
    error: job.error ?? undefined,
    errors: whole ? `[${job.errors}]` : undefined,
    next_attempt_at: job.nextRetryAt === null ? undefined : JSON.stringify(iso(job.nextRetryAt)),
    created_at: JSON.stringify(iso(job.createdAt)),
    event: whole ? event : undefined,
  })
}

/** How far back one looks for the deliveries of one subscription. */
const MAX_SCANNED = 2_000
const CHUNK = 200

async function listDeliveries(call: Call, subscriptionId: string | null): Promise<Answer> {
  const paging = pagingOf(call, 50)
  const { status = null } = queryOf(call, DELIVERY_QUERY)
  const filter = { ...ANY_JOB, queue: WEBHOOK_QUEUE }
  const fits = (job: Job): boolean =>
    isSeen(call, job.tenant) &&
    (subscriptionId === null || readDelivery(job).subscriptionId === subscriptionId) &&
    (status === null || statusOf(job) === status)
  const found: Job[] = []
  let before: string | null = null
  for (let scanned = 0, more = true; more && scanned < MAX_SCANNED; scanned += CHUNK) {
    const cursor: string | null = before
    const page: JobPage = await selectJobs(call.engine, filter, cursor, { offset: 0, limit: CHUNK })
    found.push(...page.jobs.filter(fits))
    before = page.next
    more = before !== null && found.length < paging.offset + paging.limit + 1
  }
  const shown = found.slice(paging.offset, paging.offset + paging.limit)
  return {
    body: objectOf({
      deliveries: arrayOf(shown.map((job) => deliveryView(job, false))),
      pagination: JSON.stringify(paginationOf(paging, found.length, shown.length)),
    }),
  }
}

async function findDelivery(call: Call): Promise<Job> {
  const id = param(call, 'id')
  const job = await call.engine.read((reads) => reads.job(id.replace(/^del_/, '')))
  if (job === null || job.queue !== WEBHOOK_QUEUE || !isSeen(call, job.tenant)) throw notFound('delivery', id)
  return job
}

async function retryDelivery(call: Call): Promise<Answer> {
  const { id, state } = await findDelivery(call)
  if (state !== 'discarded' && state !== 'cancelled')
    throw new OjsError('conflict', 'Only a delivery that was given up can be delivered again.', {
      details: { current_state: state },
    })
  const job = await call.engine.run(retryDead(call.engine, id, { onlyDead: false }))
  call.engine.webhooks.learn()
  return { body: `{"delivery":${deliveryView(job, true)}}` }
}

export const WEBHOOK_ROUTES: readonly Route[] = [
  {
    method: 'POST',
    path: PATH,
    tag: 'webhooks',
    summary: 'Subscribe an endpoint to events. A secret made by the server is shown only in this answer',
    body: { shape: WEBHOOK_SHAPE },
    answers: { 201: 'The subscription' },
    handle: async (call) => {
      const made = await subscribe(call.engine, call.json, tenantOf(call))
      return { status: 201, headers: { Location: `${PATH}/${made.webhook.id}` }, body: told(made) }
    },
  },
  {
    method: 'GET',
    path: PATH,
    tag: 'webhooks',
    summary: 'All subscriptions, oldest first',
    query: PAGES,
    handle: listSubscriptions,
  },
  {
    method: 'GET',
    path: `${PATH}/:id`,
    tag: 'webhooks',
    summary: 'One subscription',
    handle: async (call) => answer(await find(call)),
  },
  {
    method: 'PATCH',
    path: `${PATH}/:id`,
    tag: 'webhooks',
    summary: 'Change a subscription. One that is turned on again begins with what happens from then on',
    body: { shape: WEBHOOK_PATCH_SHAPE },
    handle: async (call) => answer(await changeSubscription(call.engine, await ownId(call), call.json)),
  },
  {
    method: 'DELETE',
    path: `${PATH}/:id`,
    tag: 'webhooks',
    summary: 'Remove a subscription and what is still to be delivered to it',
    handle: async (call) => {
      const { id } = await unsubscribe(call.engine, await ownId(call))
      return { body: JSON.stringify({ deleted: true, id }) }
    },
  },
  {
    method: 'POST',
    path: `${PATH}/:id/rotate-secret`,
    tag: 'webhooks',
    summary: 'A new secret; deliveries carry signatures with both for 24 hours',
    body: { shape: ROTATE_SHAPE, optional: true },
    handle: async (call) => ({
      body: told(await rotate(call.engine, await ownId(call), bodyOf(call, ROTATE_SHAPE).secret)),
    }),
  },
  {
    method: 'POST',
    path: `${PATH}/:id/test`,
    tag: 'webhooks',
    summary: 'Send a webhook.test event now, and say what came back',
    handle: test,
  },
  {
    method: 'GET',
    path: `${PATH}/:id/deliveries`,
    tag: 'webhooks',
    summary: 'The last deliveries of a subscription, newest first',
    query: DELIVERY_QUERY,
    handle: async (call) => listDeliveries(call, (await find(call)).id),
  },
  {
    method: 'GET',
    path: '/ojs/v1/webhooks/deliveries',
    tag: 'webhooks',
    summary: 'The last deliveries, newest first',
    query: ALL_DELIVERIES_QUERY,
    handle: (call) => listDeliveries(call, queryOf(call, ALL_DELIVERIES_QUERY).subscription_id ?? null),
  },
  {
    method: 'GET',
    path: '/ojs/v1/webhooks/deliveries/:id',
    tag: 'webhooks',
    summary: 'One delivery with its event and every failed attempt',
    handle: async (call) => ({ body: `{"delivery":${deliveryView(await findDelivery(call), true)}}` }),
  },
  {
    method: 'POST',
    path: '/ojs/v1/webhooks/deliveries/:id/retry',
    tag: 'webhooks',
    summary: 'Deliver again what was given up',
    handle: retryDelivery,
  },
]
