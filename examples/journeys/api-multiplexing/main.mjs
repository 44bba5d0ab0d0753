// Three services, one answer: all in time; the offers late, and left empty; the profile late, and so the whole page.
import { ApiFailedError } from '@curfew/sdk'
import { client, timed, upstream } from '../lib.mjs'

const answers = {
  profiles: { body: { name: 'Ada' } },
  orders: { body: { items: ['tea', 'paper'] } },
  offers: { body: { items: ['ink'] } },
}
const services = await upstream(answers)
await client.journeys.deploy('start-page', services.definition(import.meta.url))

const load = () => timed(() => client.apis.call('start-page', { user: 'ada' }))
const told = ({ name, orders, offers }) => `${name}, ${orders.length} orders, ${offers.length} offers`

console.log(told((await load())[0]))
answers.offers.afterMs = 10_000
console.log(told((await load())[0]))
answers.profiles.afterMs = 10_000
const [error, after] = await timed(() => client.apis.call('start-page', { user: 'ada' }).catch((thrown) => thrown))
if (!(error instanceof ApiFailedError)) throw error
console.log(`${error.status} ${error.code} after ${after}`)

services.close()
await client.close()
