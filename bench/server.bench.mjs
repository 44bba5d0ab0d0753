// npm run bench -- server [--quick] [scenario …]
//
// What does the server cost and keep? Real processes on loopback, full durability, one question a scenario:
//
//   enqueue     what does a durable enqueue cost beside a bare HTTP server?
//   fetch-ack   how many jobs a second can workers take and finish?
//   overshoot   how late are deadlines decided when there are many?
//   beat        does a heartbeat cost more when the server holds more jobs?
//   depth       does taking jobs become slower when many are waiting?
//
// Some five minutes; --quick is a look of under one, too short for figures to quote. The whole run is kept in
// bench/results/server-latest.md and .json; a quick or partial one is only printed.
import { machine, markdown, save } from './lib/report.mjs'

const SCENARIOS = ['enqueue', 'fetch-ack', 'overshoot', 'beat', 'depth']

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
    const scenario = await import(`./server/${file}.mjs`)
    console.error(`… ${scenario.name}`)
    scenarios.push(await scenario.run({ quick }))
  }
  const report = {
    title: `Curfew server${quick ? ', a quick look' : ''}`,
    machine: taken,
    taken: (performance.now() - began) / 1000,
    scenarios,
  }
  const whole = !quick && asked.length === 0
  console.log(whole ? save('server-latest', report) : markdown(report))
}
