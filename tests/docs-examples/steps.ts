import { defineJob, Worker } from '@curfew/sdk'

declare function pay(order: string, options: { signal: AbortSignal; idempotencyKey: string }): Promise<{ id: string }>
declare function send(to: string, text: string, signal: AbortSignal): Promise<void>

const order = defineJob<[order: string, email: string]>('order.pay', {
  limits: { timeout: '1m', totalTimeout: '1d' },
})

const worker = new Worker({ url: 'http://127.0.0.1:8080' })
worker.handle(order, async (ctx, [id, email]) => {
  const charge = await ctx.step('charge', { timeout: '5s', retry: { maxAttempts: 3 } }, (signal) =>
    pay(id, { signal, idempotencyKey: ctx.jobId }),
  )
  await ctx.step('receipt', (signal) => send(email, `Paid: ${charge.id}`, signal))
  await ctx.sleep('cool-down', '2h')
  await ctx.step('survey', (signal) => send(email, 'How was it?', signal))
  return charge.id
})
await worker.run()
