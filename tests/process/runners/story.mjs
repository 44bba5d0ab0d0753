// The same story for every test runner: nothing in it knows which one.
import assert from 'node:assert/strict'
import { defineJob } from '@curfew/sdk'
import { openTestKit } from '@curfew/sdk/testing'

export async function story() {
  const kit = await openTestKit()
  try {
    const report = defineJob('report')
    const worker = kit.worker()
    worker.handle(report, { timeout: '30m' }, (ctx) => kit.sleep('2h', ctx.signal))
    await worker.start()
    const job = await kit.client.enqueue(report, [7])
    await kit.advance('31m')
    await kit.expectTimedOut(job, 'execution')
    assert.equal((await kit.client.get(job.id)).attempt, 2)
  } finally {
    await kit.close()
  }
}
