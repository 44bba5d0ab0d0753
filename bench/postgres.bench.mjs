// npm run bench -- postgres [--quick] [scenario …]
//
// What do servers on one PostgreSQL carry, and does it get slower with what is kept? Real processes on loopback, the
// database on the same machine, commits on disk, one question a scenario:
//
//   throughput  what do one, two and three servers carry together?
//   depth       does taking jobs become slower when a million are waiting?
//   history     does it become slower when five million that are over are kept?
//
// Some ten minutes and 10 GB of disk; --quick is a look of one minute, too short for figures to quote. The whole run is
// kept in bench/results/postgres-latest.md and .json; a quick or partial one is only printed.
import { machine, markdown, save } from './lib/report.mjs'

const SCENARIOS = ['throughput', 'depth', 'history']

export async function run(args) {
  const quick = args.includes('--quick')
  const asked = args.filter((arg) => arg !== '--quick')
  const unknown = asked.filter((name) => !SCENARIOS.includes(name))
  if (unknown.length > 0) {
    console.error(`There is no scenario ${unknown.join(', ')}. Scenarios: ${SCENARIOS.join(', ')}`)
    process.exitCode = 1
    return
  }
  const chosen = asked.length > 0 ? SCENARIOS.filter((name) => asked.includes(name)) : SCENARIOS
  const began = performance.now()
  const taken = machine()
  const scenarios = []
  for (const file of chosen) {
    const scenario = await import(`./postgres/${file}.mjs`)
    console.error(`… ${scenario.name}`)
    scenarios.push(await scenario.run({ quick }))
  }
  const report = {
    title: `Curfew on PostgreSQL${quick ? ', a quick look' : ''}`,
    machine: taken,
    taken: (performance.now() - began) / 1000,
    scenarios,
  }
  const whole = !quick && asked.length === 0
  console.log(whole ? save('postgres-latest', report) : markdown(report))
}
