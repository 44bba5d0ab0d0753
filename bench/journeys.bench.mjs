// npm run bench -- journeys [--quick] [scenario …]
//
// Does a run stay linear when it is wide, and do other runs stay on time? A real server on loopback, full durability.
//
//   wide        a parallel of 1 250 and of 5 000 branches: how long it takes, and how late unrelated runs are meanwhile
//   deadlines   1 000 runs with calls that hang and one deadline: how late it is decided, in each of ten trials
//
// About five minutes; --quick is a look of one minute. The server calls others: run it where only loopback is reachable.
// The whole run is kept in bench/results/journeys-latest.md and .json.
import { runScenarios } from './lib/scenarios.mjs'

const BENCHMARK = {
  title: 'Curfew journeys',
  folder: new URL('./journeys/', import.meta.url),
  names: ['wide', 'deadlines'],
  record: 'journeys-latest',
}

export const run = (args) => runScenarios(BENCHMARK, args)
