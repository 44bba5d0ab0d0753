// npm run bench -- server [--quick] [--against DIR] [scenario …]
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
// bench/results/server-latest.md and .json; a quick or partial one is only printed. `--against DIR` measures enqueue and
// fetch-ack here and in another checkout that was built, in turn, and prints the ratios.
import { runScenarios } from './lib/scenarios.mjs'

const BENCHMARK = {
  title: 'Curfew server',
  folder: new URL('./server/', import.meta.url),
  names: ['enqueue', 'fetch-ack', 'overshoot', 'beat', 'depth'],
  comparable: ['enqueue', 'fetch-ack'],
  record: 'server-latest',
}

export const run = (args) => runScenarios(BENCHMARK, args)
