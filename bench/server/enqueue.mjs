// How much does durability, and everything else a job server does, cost beside a plain HTTP server?
import { Buffer } from 'node:buffer'
import { compare } from '../lib/against.mjs'
import { hammer, Pool, requestBytes } from '../lib/http-client.mjs'
import { startLoad, startProgram, startServer } from '../lib/processes.mjs'
import { atLeast, row } from '../lib/report.mjs'

export const name = 'Durable enqueue, one job per request'
const question =
  '50 connections, one job each time; every answer is on disk (synchronous=FULL). Beside it a bare `node:http` server ' +
  'that reads and parses the same body, answers as many bytes, and stores nothing. Rounds alternate.'

const CONNECTIONS = 50
const JOB = {
  type: 'email.send',
  args: ['ada@example.com', { template: 'welcome', locale: 'en', vars: { name: 'Ada', plan: 'pro' } }],
  queue: 'mail',
  options: { timeout_ms: 30_000 },
}

export async function run({ quick, against }) {
  const [rounds, forMs] = quick ? [3, 600] : [31, 600]
  if (against !== null) return beside(against, rounds, forMs)
  const server = await startServer()
  const load = startLoad()
  const answerBytes = await answerSize(server.port)
  const plain = await startProgram('plain-server.mjs', [String(answerBytes)])
  const echo = await startProgram('echo-server.mjs', [String(answerBytes)])
  const measure = async (target) => {
    const before = target.cpuMs()
    const figures = await load.run(import.meta.url, 'enqueue', { port: target.port, forMs })
    const after = target.cpuMs()
    return { ...figures, cpuUs: before === null ? null : ((after - before) * 1000) / figures.count }
  }
  const seen = { curfew: [], plain: [], client: [] }
  try {
    for (const target of [plain, server, echo]) await measure(target) // warm up
    for (let round = 0; round < rounds; round += 1) {
      // Each goes first as often as the other.
      const order = round % 2 === 0 ? ['curfew', 'plain'] : ['plain', 'curfew']
      for (const which of order) seen[which].push(await measure(which === 'curfew' ? server : plain))
      if (round % 3 === 0) seen.client.push(await measure(echo))
    }
  } finally {
    await Promise.all([server, plain, echo, load].map((one) => one.stop()))
  }
  const pick = (which, field) => seen[which].map((figures) => figures[field])
  const ratio = seen.curfew.map(({ perSecond }, round) => perSecond / seen.plain[round].perSecond)
  return {
    name,
    question,
    rows: [
      row('curfew', '/s', pick('curfew', 'perSecond')),
      row('bare node:http', '/s', pick('plain', 'perSecond')),
      row('ratio', '', ratio, atLeast(0.5)),
      row('curfew, median answer', 'ms', pick('curfew', 'p50Ms')),
      row('curfew, p99 answer', 'ms', pick('curfew', 'p99Ms')),
      row('curfew, processor time per request', 'µs', pick('curfew', 'cpuUs')),
      row('bare node:http, processor time per request', 'µs', pick('plain', 'cpuUs')),
      row(
        'ratio of processor times',
        '',
        seen.curfew.map(({ cpuUs }, round) => seen.plain[round].cpuUs / cpuUs),
      ),
      row('the client alone', '/s', pick('client', 'perSecond')),
    ],
    notes: [`Bodies: ${Buffer.byteLength(JSON.stringify(JOB))} bytes sent, ${answerBytes} bytes answered.`],
  }
}

/** The two builds in turn, on servers of their own. */
async function beside(against, rounds, forMs) {
  const ways = [{ label: 'one job per request, 50 connections' }]
  const once = async ({ port, load }) => (await load.run(import.meta.url, 'enqueue', { port, forMs })).perSecond
  return { name, question, rows: await compare({ against, rounds, ways, once }) }
}

export function enqueue({ port, forMs, connections = CONNECTIONS }) {
  const bytes = requestBytes('POST', '/ojs/v1/jobs', JOB)
  return hammer({ port, connections, forMs, bytes, expected: 201 })
}

async function answerSize(port) {
  const pool = new Pool(port, 1)
  const { body } = await pool.request(requestBytes('POST', '/ojs/v1/jobs', JOB))
  pool.close()
  return body.length
}
