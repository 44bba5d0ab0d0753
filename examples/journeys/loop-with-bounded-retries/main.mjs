// An export that is ready at the third try, and one that never is.
import { JourneyFailedError } from '@curfew/sdk'
import { client, timed, upstream } from '../lib.mjs'

let asked = 0
const answers = {
  exports: () => ({ body: (asked += 1) < 3 ? { ready: false } : { ready: true, url: 'https://files.example/7.csv' } }),
}
const services = await upstream(answers)
await client.journeys.deploy('export', services.definition(import.meta.url))

const run = (id) => timed(() => client.journeys.run('export', { export: id }))

const [{ url, tries }, after] = await run('7')
console.log(`${url} after ${tries} tries and ${after}`)

answers.exports = { body: { ready: false } }
try {
  await run('8')
} catch (error) {
  if (!(error instanceof JourneyFailedError)) throw error
  console.log(`${error.code}: ${error.reason}`)
}

services.close()
await client.close()
