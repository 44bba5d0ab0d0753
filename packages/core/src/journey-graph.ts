/** Rules about graphs as a whole. */
import type { Definition } from './journey.ts'
import type { Reading } from './journey-reading.ts'

export function checkGraphs(reading: Reading, _definition: Definition): void {
  for (const { ids, targets } of reading.graphs) {
    for (const { id, path, what } of targets) {
      if (!ids.has(id))
        reading.found.error('GRAPH-1', path, `${what} leads to ${JSON.stringify(id)}, which is no state of this graph.`)
    }
  }
}
