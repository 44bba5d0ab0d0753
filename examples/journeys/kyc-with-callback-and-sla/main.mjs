// A customer is checked: the provider takes the request and calls back. Then another one, who does not pass.
import { JourneyFailedError } from '@curfew/sdk'
import { arrived, client, upstream } from '../lib.mjs'

let checks = 0
const services = await upstream({ kyc: () => ({ status: 202, body: { id: `check-${(checks += 1)}` } }) })
await client.journeys.deploy('kyc', services.definition(import.meta.url))

async function check(customer, result) {
  const run = await client.journeys.start('kyc', { customer })
  const { currentState, remainingMs } = await arrived(run, 'verdict')
  console.log(`${customer}: open at ${currentState}, ${Math.ceil(remainingMs / 3_600_000)} h left`)
  // The provider would do this: a POST to /api/v1/journeys/{id}/steps/verdict.
  await client.journeys.submit(run, 'verdict', { result })
  return client.journeys.result(run)
}

const { status, output } = await check('Ada', 'clear')
console.log(`Ada: ${status} by ${output.check}`)
try {
  await check('Mallory', 'suspicious')
} catch (error) {
  if (!(error instanceof JourneyFailedError)) throw error
  console.log(`Mallory: ${error.code}, ${error.reason}`)
}

services.close()
await client.close()
