// Does a branch cost more when there are many, and are other runs late because of them?
import { Pool } from '../lib/http-client.mjs'
import { startLoad } from '../lib/processes.mjs'
import { atMost, quantile, row } from '../lib/report.mjs'
import { deploy, outcomeOf, serve, start, upstream } from './stage.mjs'

export const name = 'Wide parallels'
const question =
  'One run with 1 250 branches, and one with 5 000: branches that only compute (a transform, then the end), and branches ' +
  'that each make a call to a service on loopback. Meanwhile unrelated runs of one timer each begin every 20 ms; they are ' +
  'late by as much as they end after their timer.'

const SIZES = [1_250, 5_000]
const KINDS = ['compute', 'call']

export async function run({ quick }) {
  const rounds = quick ? 1 : 3
  const figures = new Map()
  const note = (label, value) => figures.set(label, [...(figures.get(label) ?? []), value])
  for (let round = 0; round < rounds; round += 1) {
    const server = await serve()
    const load = startLoad()
    try {
      for (const kind of KINDS) {
        for (const size of SIZES) {
          const { ms, late } = await load.run(import.meta.url, 'once', { port: server.port, kind, size })
          note(`${kind} ${size} ms`, ms)
          note(`${kind} ${size} p99`, quantile(late, 0.99))
          note(`${kind} ${size} max`, late.at(-1))
          if (size !== SIZES.at(-1)) continue
          // The same load for as long, without the wide run: what the machine itself makes late.
          const alone = await load.run(import.meta.url, 'alone', { port: server.port, ms })
          note(`${kind} alone max`, alone.late.at(-1))
        }
        const of = (size) => figures.get(`${kind} ${size} ms`).at(-1)
        note(`${kind} ratio`, of(5_000) / of(1_250))
      }
    } finally {
      await Promise.all([server, load].map((one) => one.stop()))
    }
  }
  const rows = KINDS.flatMap((kind) => {
    const words = kind === 'compute' ? 'branches that compute' : 'branches that call'
    const of = (label) => figures.get(`${kind} ${label}`)
    return [
      row(`${words}, 1 250: the run`, 'ms', of('1250 ms')),
      row(`${words}, 5 000: the run`, 'ms', of('5000 ms')),
      row(`${words}: ratio 5 000 : 1 250`, '', of('ratio'), atMost(6)),
      row(`${words}, 5 000: other runs late, p99`, 'ms', of('5000 p99')),
      row(`${words}, 5 000: other runs late, most`, 'ms', of('5000 max'), atMost(50)),
      row(`as long without a wide run: other runs late, most`, 'ms', of('alone max')),
    ]
  })
  return { name, question, rows }
}

/** One wide run beside unrelated ones; answers how long it took, and how late the others were. */
export async function once({ port, kind, size }) {
  const pool = new Pool(port, 40)
  const service = await upstream(false)
  const title = `wide-${kind}-${size}`
  // A definition has at most 1 MiB, so 5 000 branches have to be short.
  const task = { kind: 'httpCall:v1', method: 'GET', url: service.url, resultVar: 'r' }
  const transform = { mapperRef: 'add', target: { kind: 'var' }, resultVar: 'n' }
  const first = kind === 'call' ? { type: 'task', task, next: 'z' } : { type: 'transform', transform, next: 'z' }
  const branches = Array.from({ length: size }, (_, n) => ({
    name: `b${n}`,
    start: 'a',
    states: { a: first, z: { type: 'succeed', outputVar: 'n' } },
  }))
  await deploy(pool, title, 120, {
    mappers: { add: { lang: 'jsonata', expr: 'context.n + 1' } },
    start: 'fan',
    states: {
      fan: { type: 'parallel', parallel: { branches, join: { resultVar: 'all' } }, next: 'done' },
      done: { type: 'succeed', outputVar: 'n' },
    },
  })
  let outcome
  const late = await beside(pool, async () => {
    outcome = await outcomeOf(pool, await start(pool, title, { n: 1 }))
  })
  pool.close()
  service.close()
  const { phase, startedAt, endedAt } = outcome
  if (phase !== 'SUCCEEDED') throw new Error(`${title} ended as ${phase}`)
  return { ms: Date.parse(endedAt) - Date.parse(startedAt), late }
}

/** The other runs alone. */
export async function alone({ port, ms }) {
  const pool = new Pool(port, 40)
  const late = await beside(pool, () => new Promise((resolve) => setTimeout(resolve, ms)))
  pool.close()
  return { late }
}

/** Starts unrelated runs, half a second before the work and until it is done; answers how late each ended, in order. */
async function beside(pool, work) {
  const pause = { lang: 'jsonata', expr: 'context.pause' }
  const sleep = { type: 'timer', timer: { duration: { mapper: pause } }, next: 'done' }
  await deploy(pool, 'beside', 60, { start: 'sleep', states: { sleep, done: { type: 'succeed', outputVar: 'pause' } } })
  const others = []
  let isOver = false
  const starting = (async () => {
    for (let n = 0; !isOver; n += 1) {
      others.push(lateness(pool, 100 + (n % 7) * 13))
      await new Promise((resolve) => setTimeout(resolve, 20))
    }
  })()
  await new Promise((resolve) => setTimeout(resolve, 500))
  await work()
  isOver = true
  await starting
  return (await Promise.all(others)).sort((a, b) => a - b)
}

async function lateness(pool, ms) {
  const id = await start(pool, 'beside', { pause: `PT${ms / 1000}S` })
  const { startedAt, endedAt } = await outcomeOf(pool, id)
  return Date.parse(endedAt) - Date.parse(startedAt) - ms
}
