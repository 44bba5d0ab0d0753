// The service answers before the timer; then the timer is faster, and the call is cut off; then the service fails.
import { client, timed, upstream } from '../lib.mjs'

const answers = { taste: { body: { book: 'A Room of One’s Own' } } }
const services = await upstream(answers)
await client.journeys.deploy('recommendation', services.definition(import.meta.url))

const ask = () => timed(() => client.journeys.run('recommendation', { user: 'ada' }))
const told = ([{ book, personal }, after]) => `${book} (${personal ? 'personal' : 'not personal'}) after ${after}`

console.log(`quick: ${told(await ask())}`)
answers.taste.afterMs = 3_500
console.log(`slow: ${told(await ask())}`)
answers.taste = { status: 500 }
console.log(`broken: ${told(await ask())}`)

services.close()
await client.close()
