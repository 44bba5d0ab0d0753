// npm run bench -- sdk [--quick] [--against DIR] [scenario …]
//
// What does the SDK cost, what does travelling together bring, and how quickly does a worker react? Real servers and real
// clients in other processes.
//
//   processing    how many jobs a second does one worker get through, with one call for everything and with a call each?
//   enqueueing    how many jobs a second does one client enqueue, when calls made together travel together?
//   cancelling    how long after a cancel is the signal of a running handler aborted?
//   handing-over  how long after SIGTERM does the job of the leaving worker begin elsewhere?
//   outages       how long after its server is back does a worker deliver its first report?
//
// About three minutes. The whole run is kept in bench/results/sdk-latest.md and .json. `--against DIR` measures processing
// and enqueueing here and in another checkout that was built, in turn, and prints the ratios.
import { runScenarios } from './lib/scenarios.mjs'

const BENCHMARK = {
  title: 'Curfew SDK',
  folder: new URL('./sdk/', import.meta.url),
  names: ['processing', 'enqueueing', 'cancelling', 'handing-over', 'outages'],
  comparable: ['processing', 'enqueueing'],
  record: 'sdk-latest',
}

export const run = (args) => runScenarios(BENCHMARK, args)
