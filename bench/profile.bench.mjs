// npm run bench -- profile [enqueue|fetch-ack]
//
// Where does the server's time go? Runs it under the CPU profiler with the load of that scenario, and prints the
// functions with the most time of their own, and the shares of the rooms. The profiles stay for a look in DevTools.
import { mkdtempSync, readdirSync, readFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { startLoad, startServer } from './lib/processes.mjs'

const SHOWN = 40

export async function run(args) {
  for (const scenario of args.length > 0 ? args : ['enqueue', 'fetch-ack']) await profile(scenario)
}

async function profile(scenario) {
  const folder = mkdtempSync(join(tmpdir(), `curfew-profile-${scenario}-`))
  const node = ['--cpu-prof', `--cpu-prof-dir=${folder}`, '--cpu-prof-interval=250']
  const server = await startServer({ node })
  const load = startLoad()
  const module = new URL(`server/${scenario}.mjs`, import.meta.url).href
  const { port } = server
  try {
    if (scenario === 'enqueue') await load.run(module, 'enqueue', { port, forMs: 10_000 })
    else
      for (let round = 0; round < 3; round += 1)
        await load.run(module, 'fetchAndAck', { port, jobs: 10_000, count: 10, workers: 10 })
  } finally {
    await Promise.all([server, load].map((one) => one.stop()))
  }
  const [file] = readdirSync(folder)
  print(scenario, join(folder, file))
}

function print(scenario, file) {
  const { nodes, samples, timeDeltas } = JSON.parse(readFileSync(file, 'utf8'))
  const byId = new Map(nodes.map((node) => [node.id, node]))
  const functions = new Map()
  const rooms = new Map()
  let total = 0
  samples.forEach((id, index) => {
    const { functionName, url, lineNumber } = byId.get(id).callFrame
    if (functionName === '(idle)') return
    const us = timeDeltas[index]
    total += us
    const place = url === '' ? '' : `${roomFile(url)}:${lineNumber + 1}`
    add(functions, `${functionName || '(anonymous)'}  ${place}`, us)
    add(rooms, roomOf(functionName, url), us)
  })
  const share = (us) => `${((us / total) * 100).toFixed(1).padStart(5)} %`
  console.log(`\n${scenario}: ${(total / 1e6).toFixed(1)} s of work; ${file}\n`)
  for (const [room, us] of largest(rooms)) console.log(`${share(us)}  ${room}`)
  console.log()
  for (const [name, us] of largest(functions).slice(0, SHOWN)) console.log(`${share(us)}  ${name}`)
}

function add(sums, key, us) {
  sums.set(key, (sums.get(key) ?? 0) + us)
}

function largest(sums) {
  return [...sums].sort(([, a], [, b]) => b - a)
}

function roomFile(url) {
  return url.replace(/^.*\/(packages|node_modules)\//, '').replace('/dist/', '/')
}

function roomOf(functionName, url) {
  const room = /packages\/(core|server)\/dist\/(\w+\/)?/.exec(url)
  if (room !== null) return room[1] === 'core' ? 'core' : `server/${room[2] ?? ''}`
  const library = /node_modules\/((?:@[^/]+\/)?[^/]+)/.exec(url)
  if (library !== null) return library[1]
  if (url.startsWith('node:')) return `node: ${url.slice(5).split('/').slice(0, 2).join('/')}`
  return functionName.startsWith('(') ? functionName : 'native'
}
