// How late is one deadline of many runs decided, when each of them is in the middle of a call?
import { Pool } from '../lib/http-client.mjs'
import { startLoad } from '../lib/processes.mjs'
import { atMost, quantile, row } from '../lib/report.mjs'
import { call, deploy, serve, start, upstream } from './stage.mjs'

export const name = 'One deadline of many runs'
const question =
  '1 000 runs, each in a call that is never answered, and all with the deadline of one parent. How much later than it each ' +
  'run was decided, as its event tells; and when the called service saw the last of its callers hang up.'

const RUNS = 1_000
/** A server opens at most 256 connections to one origin. */
const SERVICES = 4

export async function run({ quick }) {
  const trials = quick ? 2 : 10
  const figures = { p50: [], p99: [], most: [], hungUp: [] }
  const server = await serve()
  const load = startLoad()
  try {
    for (let trial = 0; trial < trials; trial += 1) {
      const { late, hungUp } = await load.run(import.meta.url, 'once', { port: server.port, trial })
      figures.p50.push(quantile(late, 0.5))
      figures.p99.push(quantile(late, 0.99))
      figures.most.push(late.at(-1))
      figures.hungUp.push(hungUp)
      console.error(
        `  trial ${trial + 1}: p50 ${figures.p50.at(-1)} ms, p99 ${figures.p99.at(-1)} ms, most ${figures.most.at(-1)} ms, last hang-up ${hungUp} ms`,
      )
    }
  } finally {
    await Promise.all([server, load].map((one) => one.stop()))
  }
  return {
    name,
    question,
    rows: [
      row('decided after the deadline, p50', 'ms', figures.p50),
      row('decided after the deadline, p99', 'ms', figures.p99),
      row('the worst trial: p99', 'ms', [Math.max(...figures.p99)], atMost(50)),
      row('decided after the deadline, most', 'ms', figures.most),
      row('the last caller hung up after', 'ms', figures.hungUp),
    ],
  }
}

export async function once({ port, trial }) {
  const pool = new Pool(port, 40)
  const services = await Promise.all(Array.from({ length: SERVICES }, () => upstream(true)))
  const [parentName, name] = [`parent-${trial}`, `hanging-${trial}`]
  const done = { type: 'succeed' }
  const input = { schema: { type: 'object' } }
  const hold = { type: 'wait', wait: { channel: 'manual', input }, next: 'done' }
  await deploy(pool, parentName, 15, { start: 'hold', states: { hold, done } })
  for (const [n, { url }] of services.entries())
    await deploy(pool, `${name}-${n}`, 600, { start: 'load', states: { load: call(url, 'done'), done } })
  const parent = await start(pool, parentName)
  const { deadlineAt } = await pool.json('GET', `/api/v1/journeys/${parent}`)
  const query = `?x_inherit_deadline=true&x_parent=${encodeURIComponent(JSON.stringify({ journey_id: parent }))}`
  const begin = (_, n) => start(pool, `${name}-${n % SERVICES}`, {}, query)
  const ids = new Set(await Promise.all(Array.from({ length: RUNS }, begin)))
  const calls = () => services.reduce((sum, { open }) => sum + open.calls, 0)
  while (calls() < RUNS) await new Promise((resolve) => setTimeout(resolve, 20))
  const at = Date.parse(deadlineAt)
  if (Date.now() > at - 500) throw new Error('the runs were not under way before their deadline')
  await new Promise((resolve) => setTimeout(resolve, at + 2_000 - Date.now()))
  const late = []
  for (let after = '', more = true; more;) {
    const page = await pool.json('GET', `/ojs/v1/events?types=journey.timeout&limit=1000${after}`)
    for (const { subject, data } of page.events) if (ids.has(subject)) late.push(data.overshoot_ms)
    more = page.events.length === 1000
    after = `&after=${page.events.at(-1)?.id}`
  }
  pool.close()
  const hungUpAt = services.flatMap((service) => service.hungUpAt)
  const hungUp = hungUpAt.length === RUNS ? Math.max(...hungUpAt) - at : Infinity
  for (const service of services) service.close()
  if (late.length !== RUNS) throw new Error(`${late.length} of ${RUNS} runs ended by their deadline`)
  return { late: late.sort((a, b) => a - b), hungUp }
}
