// A small invoice passes by itself, a larger one waits for a decision, and one is withdrawn while it waits.
import { JourneyFailedError } from '@curfew/sdk'
import { arrived, client, upstream } from '../lib.mjs'

const services = await upstream({ mail: { status: 202 } })
await client.journeys.deploy('approval', services.definition(import.meta.url))

const small = await client.journeys.run('approval', { invoice: 'R-1', amount: 30 })
console.log(`R-1: approved ${small.payload.approved}, no decision needed`)

const large = await client.journeys.start('approval', { invoice: 'R-2', amount: 3000 })
const { currentState, remainingMs } = await arrived(large, 'approve')
console.log(`R-2: open at ${currentState}, ${Math.ceil(remainingMs / 3_600_000)} h left in all`)
try {
  await client.journeys.submit(large, 'approve', { approved: 'perhaps' })
} catch (error) {
  console.log(`R-2: not accepted, ${error.status}; still open`)
}
await client.journeys.submit(large, 'approve', { approved: true })
console.log(`R-2: ${(await client.journeys.result(large)).phase}`)

const withdrawn = await client.journeys.start('approval', { invoice: 'R-3', amount: 3000 })
await client.journeys.cancel(withdrawn)
try {
  await client.journeys.result(withdrawn)
} catch (error) {
  if (!(error instanceof JourneyFailedError)) throw error
  console.log(`R-3: ${error.code} (${error.terminationKind})`)
}

services.close()
await client.close()
