// npm run bench -- workflows [--quick] [scenario …]
//
// What does a member of a workflow cost, and does it cost more when there are many? A real server on loopback, full
// durability.
//
//   groups   groups of 100, 1 000 and 10 000 jobs: begun, taken, and finished in batches
//   chains   chains of 10 and 100 steps: what one step costs
//
// Two to three minutes; --quick is a look of half a minute. The whole run is kept in bench/results/workflows-latest.md and
// .json.
import { runScenarios } from './lib/scenarios.mjs'

const BENCHMARK = {
  title: 'Curfew workflows',
  folder: new URL('./workflows/', import.meta.url),
  names: ['groups', 'chains'],
  record: 'workflows-latest',
}

export const run = (args) => runScenarios(BENCHMARK, args)
