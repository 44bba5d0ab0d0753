// Runs the scenarios of a benchmark: all of them, which is kept for the record, or those that were named. Beside another
// checkout (`--against`) only those that can be compared run.
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { machine, markdown, save } from './report.mjs'

export async function runScenarios({ title, folder, names, record, comparable = [] }, args) {
  const quick = args.includes('--quick')
  const place = args.indexOf('--against')
  const against = place < 0 ? null : (args[place + 1] ?? '')
  const named = args.filter(
    (arg, index) => arg !== '--quick' && (place < 0 || (index !== place && index !== place + 1)),
  )
  const wrong = problem(against, named, comparable)
  if (wrong !== null) {
    console.error(wrong)
    process.exitCode = 1
    return
  }
  const asked = against !== null && named.length === 0 ? comparable : named
  const unknown = asked.filter((name) => !names.includes(name))
  if (unknown.length > 0) {
    console.error(`There is no scenario ${unknown.join(', ')}. Scenarios: ${names.join(', ')}`)
    process.exitCode = 1
    return
  }
  const chosen = asked.length > 0 ? names.filter((name) => asked.includes(name)) : names
  const began = performance.now()
  const taken = machine()
  const scenarios = []
  for (const file of chosen) {
    const scenario = await import(new URL(`${file}.mjs`, folder).href)
    console.error(`… ${scenario.name}`)
    scenarios.push(await scenario.run({ quick, against }))
  }
  const report = {
    title: `${title}${quick ? ', a quick look' : ''}`,
    machine: taken,
    taken: (performance.now() - began) / 1000,
    scenarios,
  }
  const whole = !quick && asked.length === 0
  console.log(whole ? save(record, report) : markdown(report))
}

function problem(against, named, comparable) {
  if (against === null) return null
  if (!existsSync(join(against, 'packages/sdk/dist/index.js')))
    return `--against takes the folder of another checkout that was built (npm run build), not "${against}".`
  const other = named.filter((name) => !comparable.includes(name))
  if (other.length === 0 && comparable.length > 0) return null
  return `--against compares only these scenarios: ${comparable.join(', ') || 'none here'}`
}
