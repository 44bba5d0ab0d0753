import { defineJob } from '@curfew/sdk'

export const charge = defineJob('invoice.charge', { limits: { timeout: '1m', totalTimeout: '1h' } })

/** `bank` is handed in, so that a test can bring a slow one. */
export const makeCharge =
  (bank) =>
  async (ctx, [invoice]) =>
    bank.charge(invoice, { signal: ctx.signal, idempotencyKey: ctx.jobId })
