import { WEBHOOK } from '@curfew/core'
import type { Feature } from '../kernel/feature.ts'
import type { WebhooksContext } from './context.ts'
import { followDeliveries } from './delivery.ts'
import { wakeWebhook } from './webhooks.ts'

/** Subscriptions are served from the event log; deliveries are jobs, and their ends are told of. */
export function webhooks(context: WebhooksContext): Feature {
  const own = context.webhooks
  return {
    follows: { webhook: followDeliveries },
    wakes: {
      [WEBHOOK.kind]: {
        wake: (unit, id) => {
          wakeWebhook(context, unit, id)
        },
      },
    },
    isBusy: () => own.isBusy,
    open: () => own.open(),
    close: () => own.close(),
    reset: () => {
      own.forget()
    },
  }
}
