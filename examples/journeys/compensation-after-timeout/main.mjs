// A flight is booked and paid. Then the bank is too slow: the run ends in time, and the seat is given back.
import { setTimeout as pause } from 'node:timers/promises'
import { client, timed, upstream } from '../lib.mjs'

let seats = 0
const cancelled = []
const answers = {
  airline({ path, body }) {
    if (path === '/seats') return { status: 201, body: { id: `seat-${(seats += 1)}` } }
    cancelled.push(`${body.seat} is given back because of ${body.because}`)
    return { body: {} }
  },
  bank: { status: 201 },
}
const services = await upstream(answers)
await client.journeys.deploy('flight', services.definition(import.meta.url))

const book = () => client.journeys.start('flight', { flight: 'CF 1', card: '4711' })

const paid = await book()
console.log(`${paid.phase}: ${paid.output.seat}`)

answers.bank.afterMs = 30_000
const [late, after] = await timed(book)
console.log(`${late.phase}: ${late.error.code} at ${late.terminatedAtState} after ${after}`)
while (cancelled.length === 0) await pause(20)
console.log(cancelled[0])
const { compensatedBy } = await client.journeys.status(late)
const { kind, phase } = await client.journeys.result(compensatedBy)
console.log(`${kind}: ${phase}`)

services.close()
await client.close()
