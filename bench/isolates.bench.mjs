// npm run bench -- isolates [--quick] [scenario …]
//
// What does it cost to be able to stop a handler, and how late is it stopped?
//
//   kill      how long after its hard deadline does a busy handler run its last instruction?
//   orphan    how long does a busy process isolate outlive a worker that was killed with -9?
//   attempt   what does an attempt cost in a warm thread and in a warm process, beside a plain call?
//
// Some three minutes; --quick is a look, too short for figures to quote. The whole run is kept in
// bench/results/isolates-latest.md and .json.
import { runScenarios } from './lib/scenarios.mjs'

const BENCHMARK = {
  title: 'Curfew isolates',
  folder: new URL('./isolates/', import.meta.url),
  names: ['kill', 'orphan', 'attempt'],
  record: 'isolates-latest',
}

export const run = (args) => runScenarios(BENCHMARK, args)
