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
import { runScenarios } from './lib/scenarios.mjs'

const BENCHMARK = {
  title: 'Curfew on PostgreSQL',
  folder: new URL('./postgres/', import.meta.url),
  names: ['throughput', 'depth', 'history'],
  record: 'postgres-latest',
}

export const run = (args) => runScenarios(BENCHMARK, args)
