/** Webhooks and their deliveries, field by field as the server writes them. */

export interface SubscriptionView {
  readonly id: string
  readonly url: string
  readonly events: readonly string[]
  readonly active: boolean
  /** In seconds. */
  readonly timeout: number
  /** Only in the answer to the call that made it. */
  readonly secret?: string
  readonly [field: string]: unknown
}

export interface DeliveryView {
  readonly id: string
  readonly subscription_id: string
  readonly event_id: string
  readonly event_type: string
  readonly status: string
  readonly attempts: number
  readonly created_at: string
  readonly [field: string]: unknown
}

export interface WebhookTestView {
  readonly success: boolean
  readonly response_time_ms: number
  readonly [field: string]: unknown
}
