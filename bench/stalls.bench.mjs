// npm run bench -- stalls [--quick] [--against DIR] [situation …]
//
// How long does one caller hold up everybody else? The server has one event loop. Each situation is a load that one
// caller may send; the figure is the longest time for which the loop of the server stood still meanwhile, as the
// server's own process measured it.
//
//   bodies    bodies of 9 MiB that hold nothing but small values
//   batches   batches of 10 000 jobs
//   metrics   GET /metrics and the lists of queues, with 30 000 queues
//   branches  a journey with 5 000 parallel branches
//   streams   20 event streams that are never read, while 30 000 jobs are enqueued
//
// `--against DIR` measures the same in another checkout that was built and prints both columns. A run of all
// situations is kept in bench/results/stalls-latest.md and .json.
import { existsSync, mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { HERE, startServer } from './lib/processes.mjs'
import { machine, quantile } from './lib/report.mjs'
import { SITUATIONS } from './stalls/situations.mjs'

const MAX_MS = 50
const results = fileURLToPath(new URL('./results/', import.meta.url))
const probe = new URL('./lib/loop-delay.mjs', import.meta.url).href

export async function run(args) {
  const place = args.indexOf('--against')
  const against = place < 0 ? null : (args[place + 1] ?? '')
  const quick = args.includes('--quick')
  const named = args.filter((arg, at) => !arg.startsWith('--') && (place < 0 || at !== place + 1))
  const unknown = named.filter((name) => !(name in SITUATIONS))
  const wrong =
    unknown.length > 0
      ? `There is no situation ${unknown.join(', ')}. Situations: ${Object.keys(SITUATIONS).join(', ')}`
      : against !== null && !existsSync(join(against, 'packages/server/dist/cli/main.js'))
        ? `--against takes the folder of another checkout that was built (npm run build), not "${against}".`
        : null
  if (wrong !== null) {
    console.error(wrong)
    process.exitCode = 1
    return
  }
  const chosen = Object.entries(SITUATIONS).filter(([name]) => named.length === 0 || named.includes(name))
  const report = {
    title: `Curfew stalls${quick ? ', one round each' : ''}`,
    machine: machine(),
    mostMs: MAX_MS,
    compared: against !== null,
    rows: [],
  }
  for (const [name, { prepare, steps }] of chosen) {
    console.error(`… ${name}`)
    const here = await measured(HERE, prepare, steps, quick)
    const other = against === null ? null : await measured(against, prepare, steps, quick)
    for (const [at, measure] of here.entries())
      report.rows.push({ ...measure, ...(other === null ? {} : { other: other[at] }) })
  }
  const text = markdown(report)
  console.log(text)
  if (named.length > 0) return
  mkdirSync(results, { recursive: true })
  writeFileSync(join(results, 'stalls-latest.md'), text)
  writeFileSync(join(results, 'stalls-latest.json'), `${JSON.stringify(report, null, 2)}\n`)
}

/** The longest stalls of each step, on a server of its own. */
async function measured(root, prepare, steps, quick) {
  const server = await startServer({ root, node: ['--import', probe], channel: true, flags: ['--log-level', 'error'] })
  const seen = []
  try {
    const stage = await prepare(server.port, quick)
    for (const [label, { act, times }] of Object.entries(steps)) {
      const rounds = []
      let answer = ''
      for (let round = 0; round < (quick ? 1 : times); round += 1) {
        await server.tell('begin')
        answer = await Promise.race([act(stage), givenUp()])
        rounds.push(await server.tell('end'))
      }
      const own = rounds.map(({ ownMs }) => ownMs).sort((a, b) => a - b)
      seen.push({ label, answer, rounds, longestMs: quantile(own, 0.5), leastMs: own[0], mostMs: own.at(-1) })
    }
    stage.close()
  } finally {
    await server.stop()
  }
  return seen
}

/** What takes longer is not waited for: its stalls so far are recorded. */
const PATIENCE_S = 60

async function givenUp() {
  await setTimeout(PATIENCE_S * 1000, undefined, { ref: false })
  return `no answer within ${PATIENCE_S} s`
}

function markdown({ title, machine: { date, node, cores, cpu, system, load }, mostMs, compared, rows }) {
  const shown = ({ longestMs, leastMs, mostMs: highestMs, answer }) =>
    `${longestMs.toFixed(0)} ms (${leastMs.toFixed(0)}–${highestMs.toFixed(0)}), ${answer}`
  return [
    `# ${title}`,
    '',
    `Taken ${date.slice(0, 16).replace('T', ' ')} UTC on ${cores} × ${cpu}, ${system}, Node ${node}, load ${load.toFixed(1)}.`,
    'Each figure is the longest time for which the event loop of the server stood still, without the time for which other',
    'programs had the processor: the median of its rounds, the lowest and the highest, and the answer the caller got.',
    `The target is ${mostMs} ms.`,
    '',
    compared ? '| | this build | the other build | |' : '| | this build | |',
    compared ? '|---|--:|--:|---|' : '|---|--:|---|',
    ...rows.map(({ label, other, ...here }) => {
      const verdict = here.longestMs <= mostMs ? 'met' : '**missed**'
      return `| ${label} | ${shown(here)} |${other === undefined ? '' : ` ${shown(other)} |`} ${verdict} |`
    }),
    '',
  ].join('\n')
}
