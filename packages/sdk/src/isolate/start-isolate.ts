import type { StartIsolate } from './isolate.ts'
import { ProcessIsolate } from './process-isolate.ts'
import { ThreadIsolate } from './thread-isolate.ts'

/** The real thing; tests of `Isolates` hand in another. */
export const startIsolate: StartIsolate = (kind, setting) =>
  kind.isolation === 'thread' ? new ThreadIsolate(kind, setting) : new ProcessIsolate(kind, setting)
