// Runs the scenarios of a benchmark: all of them, which is kept for the record, or those that were named.
import { machine, markdown, save } from './report.mjs'

export async function runScenarios({ title, folder, names, record }, args) {
  const quick = args.includes('--quick')
  const asked = args.filter((arg) => arg !== '--quick')
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
    scenarios.push(await scenario.run({ quick }))
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
