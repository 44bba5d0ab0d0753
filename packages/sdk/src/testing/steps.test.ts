import { beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { defineJob } from '../job/define-job.ts'
import { openTestKit, type TestKit } from './kit.ts'

const pay = defineJob('order.pay')

beforeAll(async () => {
  const kit = await openTestKit()
  await kit.close()
}, 60_000)

/** A kit with a worker that charges, cools down and mails. */
async function shop(): Promise<TestKit> {
  const kit = await openTestKit()
  onTestFinished(() => kit.close())
  const worker = kit.worker()
  worker.handle(pay, { timeout: '10s', gracePeriod: '1s' }, async (ctx) => {
    const retry = { maxAttempts: 2, initialInterval: '1s' } as const
    const id = await ctx.step('charge', { timeout: '3s', retry }, () => 7)
    await ctx.sleep('cool-down', '10m')
    await ctx.step('mail', () => {})
    return id
  })
  await worker.start()
  return kit
}

test('the log of a job is shown in the test kit, with times and attempts', async () => {
  const kit = await openTestKit()
  onTestFinished(() => kit.close())
  const worker = kit.worker()
  worker.handle(pay, async (ctx) => {
    ctx.log('charging', { order: 7 })
    await kit.sleep('2s', ctx.signal)
    if (ctx.attempt === 1) throw new Error('declined')
    ctx.log('charged')
  })
  await worker.start()
  const at = kit.now().getTime()
  const job = await kit.client.enqueue(pay, [], { retry: { initialInterval: '1s', jitter: false } })
  await kit.drain()
  expect(await kit.logs(job)).toEqual([
    { at: new Date(at).toISOString(), attempt: 1, message: 'charging', fields: { order: 7 } },
    { at: new Date(at + 3_000).toISOString(), attempt: 2, message: 'charging', fields: { order: 7 } },
    { at: new Date(at + 5_000).toISOString(), attempt: 2, message: 'charged' },
  ])
})

describe('steps in the test kit', () => {
  test('are shown with their times and results, and a sleep passes with the clock', async () => {
    const kit = await shop()
    const at = kit.now().getTime()
    const job = await kit.client.enqueue(pay, [])
    expect(await kit.steps(job)).toMatchObject([
      { name: 'charge', kind: 'step', attempt: 1, result: 7 },
      { name: 'cool-down', kind: 'sleep', to: new Date(at + 600_000) },
    ])
    await kit.drain()
    expect(await kit.client.get(job.id)).toMatchObject({ state: 'completed', result: 7 })
    expect((await kit.steps(job)).map(({ name }) => name)).toEqual(['charge', 'cool-down', 'mail'])
    expect(kit.stepRuns('charge')).toBe(1)
  })

  test('can be made to fail, and are tried again within the attempt', async () => {
    const kit = await shop()
    kit.failStep('charge', new Error('declined'))
    const job = await kit.client.enqueue(pay, [])
    await kit.advance('5s')
    expect([kit.stepRuns('charge'), (await kit.steps(job))[0]?.name]).toEqual([2, 'charge'])
    expect((await kit.client.get(job.id)).errors?.filter(({ interrupted }) => interrupted !== true) ?? []).toEqual([])
  })

  test('fail the attempt when they fail too often, of one type only', async () => {
    const kit = await shop()
    kit.failStep({ type: 'another', name: 'charge' })
    kit.failStep({ type: 'order.pay', name: 'charge' }, new Error('declined'), 2)
    const job = await kit.client.enqueue(pay, [], { retry: { maxAttempts: 1 } })
    await kit.advance('5s')
    expect((await kit.client.get(job.id)).errors).toMatchObject([{ message: 'declined' }])
  })

  test('can be stalled: their limit ends them', async () => {
    const kit = await shop()
    kit.stallStep('charge')
    const job = await kit.client.enqueue(pay, [])
    await kit.advance('2s')
    expect(await kit.steps(job)).toEqual([])
    await kit.advance('3s')
    expect([kit.stepRuns('charge'), (await kit.steps(job))[0]?.name]).toEqual([2, 'charge'])
  })

  test('are in the explanation of the job', async () => {
    const kit = await shop()
    const job = await kit.client.enqueue(pay, [])
    await kit.settle()
    const { spans, text } = await kit.client.explain(job)
    expect(spans.filter(({ name }) => name !== undefined)).toMatchObject([
      { kind: 'step', name: 'charge', attempt: 1 },
      { kind: 'sleep', name: 'cool-down', attempt: 1 },
    ])
    expect(text).toContain('stored step "charge" after 0 s')
    expect(text).toContain('attempt 1 sleeps in "cool-down" until')
    expect(text).toContain('handed back until later (sleep)')
  })
})
