/** Webhooks as an operator sees them: which endpoints hear of which events, and what became of the deliveries. */
import { toMillis, type Duration } from '../durations.ts'
import { InputError } from '../errors.ts'
import { everyPage, get, part, type Caller, type Signalled } from './operators.ts'
import type { DeliveryView, SubscriptionView, WebhookTestView } from '../wire/webhooks.ts'

export interface SubscriptionSpec {
  readonly url: string
  /** Types of events, groups such as `job.*`, or `*`. */
  readonly events: readonly string[]
  readonly filter?: { readonly queues?: readonly string[]; readonly jobTypes?: readonly string[] }
  /** How long the endpoint has to answer, in whole seconds from 1 to 60; 30 s unless it is given. */
  readonly timeout?: Duration
  /** The server makes one, and shows it once, unless it is given. */
  readonly secret?: string
  readonly active?: boolean
  readonly metadata?: Readonly<Record<string, unknown>>
}

export type SubscriptionChanges = Partial<Omit<SubscriptionSpec, 'secret'>>

export interface DeliveryFilter extends Signalled {
  /** Those of one subscription. */
  readonly subscription?: string
  readonly status?: string
}

const PATH = '/ojs/v1/webhooks'

interface Answer {
  readonly subscription: SubscriptionView
}

export class Webhooks {
  readonly #caller: Caller

  constructor(caller: Caller) {
    this.#caller = caller
  }

  list(options: Signalled = {}): Promise<SubscriptionView[]> {
    return everyPage<SubscriptionView>(this.#caller, `${PATH}/subscriptions`, 'subscriptions', options)
  }

  async get(id: string, options: Signalled = {}): Promise<SubscriptionView> {
    return (await get<Answer>(this.#caller, pathOf(id), options)).subscription
  }

  /** The answer has the `secret`, if the server made it: it is not shown again. */
  async subscribe(spec: SubscriptionSpec, { signal }: Signalled = {}): Promise<SubscriptionView> {
    const body = { ...onWire(spec), secret: spec.secret }
    const call = { method: 'POST', path: `${PATH}/subscriptions`, body, idempotent: false, signal } as const
    return (await this.#caller.call<Answer>(call)).subscription
  }

  async patch(id: string, changes: SubscriptionChanges, { signal }: Signalled = {}): Promise<SubscriptionView> {
    const call = { method: 'PATCH', path: pathOf(id), body: onWire(changes), idempotent: true, signal } as const
    return (await this.#caller.call<Answer>(call)).subscription
  }

  /** Removes it; what is still to be delivered is cancelled. */
  async delete(id: string, { signal }: Signalled = {}): Promise<void> {
    await this.#caller.call({ method: 'DELETE', path: pathOf(id), idempotent: false, signal })
  }

  /** A new secret; for 24 hours deliveries carry signatures with both. */
  async rotateSecret(id: string, options: Signalled & { readonly secret?: string } = {}): Promise<SubscriptionView> {
    const { secret, signal } = options
    const path = `${pathOf(id)}/rotate-secret`
    const call = { method: 'POST', path, body: { secret }, idempotent: false, signal } as const
    return (await this.#caller.call<Answer>(call)).subscription
  }

  /** Sends a `webhook.test` event now, and tells what the endpoint answered. */
  test(id: string, { signal }: Signalled = {}): Promise<WebhookTestView> {
    return this.#caller.call({ method: 'POST', path: `${pathOf(id)}/test`, idempotent: false, signal })
  }

  /** The last deliveries, newest first. */
  deliveries({ subscription, status, ...options }: DeliveryFilter = {}): Promise<DeliveryView[]> {
    const query = { subscription_id: subscription, status }
    return everyPage<DeliveryView>(this.#caller, `${PATH}/deliveries`, 'deliveries', options, query)
  }

  /** With its event and every failed attempt. */
  async delivery(id: string, options: Signalled = {}): Promise<DeliveryView> {
    return (await get<{ delivery: DeliveryView }>(this.#caller, `${PATH}/deliveries/${part(id)}`, options)).delivery
  }

  /** A delivery that was given up is made again. */
  async retryDelivery(id: string, { signal }: Signalled = {}): Promise<DeliveryView> {
    const path = `${PATH}/deliveries/${part(id)}/retry`
    const call = { method: 'POST', path, idempotent: false, signal } as const
    return (await this.#caller.call<{ delivery: DeliveryView }>(call)).delivery
  }
}

function pathOf(id: string): string {
  return `${PATH}/subscriptions/${part(id)}`
}

function onWire({ url, events, filter, timeout, active, metadata }: SubscriptionChanges): Record<string, unknown> {
  return {
    url,
    events,
    filter: filter === undefined ? undefined : { queues: filter.queues, job_types: filter.jobTypes },
    timeout: timeout === undefined ? undefined : wholeSeconds(timeout),
    active,
    metadata,
  }
}

function wholeSeconds(timeout: Duration): number {
  const ms = toMillis(timeout, 'timeout')
  if (ms % 1000 !== 0) throw new InputError('The timeout of a webhook must be whole seconds.', { field: 'timeout' })
  return ms / 1000
}
