// npm run bench -- sdk [--quick] [scenario …]
//
// What does the SDK cost, and what does travelling together bring? A real server and a real client in another process.
//
//   processing   how many jobs a second does one worker get through, with one call for everything and with a call each?
//   enqueueing   how many jobs a second does one client enqueue, when calls made together travel together?
//
// About a minute. The whole run is kept in bench/results/sdk-latest.md and .json.
import { runScenarios } from './lib/scenarios.mjs'

const BENCHMARK = {
  title: 'Curfew SDK',
  folder: new URL('./sdk/', import.meta.url),
  names: ['processing', 'enqueueing'],
  record: 'sdk-latest',
}

export const run = (args) => runScenarios(BENCHMARK, args)
