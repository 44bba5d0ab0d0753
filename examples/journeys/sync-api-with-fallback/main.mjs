// One caller, three times: the usual service answers; it is too slow and the backup answers; both are too slow.
import { ApiFailedError } from '@curfew/sdk'
import { client, timed, upstream } from '../lib.mjs'

const answers = { pricing: { body: { price: 12, from: 'pricing' } }, backup: { body: { price: 13, from: 'backup' } } }
const services = await upstream(answers)
await client.journeys.deploy('price-quote', services.definition(import.meta.url))

async function ask() {
  try {
    const { price, from } = await client.apis.call('price-quote', { sku: 'tea' })
    return `${price} from ${from}`
  } catch (error) {
    if (!(error instanceof ApiFailedError)) throw error
    return `${error.status} ${error.code}`
  }
}

console.log('the usual one answers: %s', await ask())
answers.pricing.afterMs = 10_000
console.log('it is too slow: %s, after %s', ...(await timed(ask)))
answers.backup.afterMs = 10_000
console.log('so is the backup: %s, after %s', ...(await timed(ask)))

services.close()
await client.close()
