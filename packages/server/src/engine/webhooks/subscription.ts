/** Subscriptions: made, changed, given a new secret, removed. */
import {
  cancel,
  isTerminal,
  notFound,
  patchWebhook,
  readWebhook,
  rotateSecret,
  SECRET_PREFIX,
  uuidV7,
  WEBHOOK,
  webhookEvent,
  type Job,
  type Random,
  type Webhook,
} from '@curfew/core'
import type { Command } from '../kernel/command.ts'
import type { WebhooksContext } from './context.ts'
import type { Unit } from '../kernel/unit.ts'

const MAX_AT_ONCE = 200

/** The secret is shown once, and only if it was made here. */
export interface Subscribed {
  readonly webhook: Webhook
  readonly secret: string | null
}

export async function subscribe(context: WebhooksContext, sent: unknown, tenant: string | null): Promise<Subscribed> {
  const { last } = await context.read((reads) => reads.eventBounds())
  const id = `sub_${uuidV7(context.now(), context.random)}`
  const secret = newSecret(context.random)
  const webhook = await context.run<Webhook>({
    name: 'webhook',
    run: (unit) => {
      const made = readWebhook(sent, { id, tenant, secret, cursor: last }, termsOf(context), unit.now)
      unit.addDoc(WEBHOOK, id, made)
      unit.emit(webhookEvent('webhook.subscription.created', id, unit.now))
      return made
    },
  })
  context.webhooks.learn()
  return { webhook, secret: webhook.secret === secret ? secret : null }
}

export async function changeSubscription(context: WebhooksContext, id: string, sent: unknown): Promise<Webhook> {
  const { last } = await context.read((reads) => reads.eventBounds())
  const changed = await context.run(
    onWebhook(id, (unit, webhook) => {
      const after = patchWebhook(webhook, sent, last, termsOf(context), unit.now)
      unit.putDoc(WEBHOOK, id, after)
      return after
    }),
  )
  context.webhooks.learn()
  return changed
}

export async function rotate(context: WebhooksContext, id: string, given: string | undefined): Promise<Subscribed> {
  const secret = given ?? newSecret(context.random)
  const webhook = await context.run(
    onWebhook(id, (unit, before) => {
      const after = rotateSecret(before, secret, unit.now)
      unit.putDoc(WEBHOOK, id, after)
      return after
    }),
  )
  return { webhook, secret: given === undefined ? secret : null }
}

/** What is left of its deliveries is cancelled; one that slips through finds no subscription. */
export async function unsubscribe(context: WebhooksContext, id: string): Promise<Webhook> {
  const webhook = await context.run(
    onWebhook(id, (unit, before) => {
      unit.putDoc(WEBHOOK, id, null)
      unit.emit(webhookEvent('webhook.subscription.deleted', id, unit.now))
      return before
    }),
  )
  let after: string | null = null
  for (let more = true; more;) {
    const place: string | null = after
    const jobs: Job[] = await context.read((reads) => reads.owned({ kind: 'webhook', id }, place, MAX_AT_ONCE))
    const open = jobs.filter(({ state }) => !isTerminal(state)).map((job) => job.id)
    if (open.length > 0) await context.run(cancelOpen(open))
    after = jobs.at(-1)?.id ?? null
    more = jobs.length === MAX_AT_ONCE
  }
  return webhook
}

function cancelOpen(ids: readonly string[]): Command<void> {
  return {
    name: 'cancel',
    needs: { jobs: ids },
    size: ids.length,
    run: (unit) => {
      for (const job of unit.jobs(ids))
        if (!isTerminal(job.state)) unit.apply(cancel(job, unit.moment, { reason: 'subscription_deleted' }))
    },
  }
}

function onWebhook(id: string, change: (unit: Unit, webhook: Webhook) => Webhook): Command<Webhook> {
  return {
    name: 'webhook',
    needs: { docs: [{ kind: WEBHOOK.kind, id }] },
    run: (unit) => {
      const webhook = unit.doc(WEBHOOK, id)
      if (webhook === null) throw notFound('subscription', id)
      return change(unit, webhook)
    },
  }
}

const termsOf = ({ settings }: WebhooksContext): { allowInsecure: boolean } => ({
  allowInsecure: settings.allowPrivateNetwork,
})

/** As Standard Webhooks have them: 32 bytes. */
function newSecret(random: Random): string {
  const bytes = Buffer.alloc(32)
  for (let at = 0; at < bytes.length; at += 4) bytes.writeUInt32BE(Math.floor(random() * 4_294_967_296), at)
  return SECRET_PREFIX + bytes.toString('base64')
}
