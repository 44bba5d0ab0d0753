// The real server in this process, on a clock that the test turns: an hour passes in milliseconds.
//
//   npx vitest run --root examples/vitest
import { expect, onTestFinished, test } from 'vitest'
import { openTestKit } from '@curfew/sdk/testing'
import { charge, makeCharge } from './invoices.mjs'

async function open(bank) {
  const kit = await openTestKit()
  onTestFinished(() => kit.close())
  const worker = kit.worker()
  worker.handle(charge, makeCharge(bank(kit)))
  await worker.start()
  return kit
}

test('an invoice is charged once', async () => {
  const charged = []
  const kit = await open(() => ({ charge: async (invoice) => charged.push(invoice) }))
  const job = await kit.client.enqueue(charge, ['inv-1'])
  await kit.settle()
  expect(await job.result()).toBe(1)
  expect(charged).toEqual(['inv-1'])
})

test('a bank that hangs is given up after a minute, and the job within its hour', async () => {
  const keys = new Set()
  const kit = await open((kit) => ({
    charge: async (_invoice, { signal, idempotencyKey }) => {
      keys.add(idempotencyKey)
      await kit.sleep('2h', signal)
    },
  }))
  const job = await kit.client.enqueue(charge, ['inv-2'], { retry: { maxAttempts: 100 } })
  await kit.advance('61s')
  await kit.expectTimedOut(job, 'execution')
  await kit.advance('1h')
  expect((await job.refresh()).state).toBe('discarded')
  expect(keys.size).toBe(1) // every attempt had the same key
})
