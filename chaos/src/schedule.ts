/**
 * Which fault happens when, drawn from a seed. A fault names its victim by a number that is taken modulo what is there, so
 * that the schedule does not depend on how the run goes.
 */
import { seededRandom } from '@curfew/core'

export const FAULTS = {
  'kill-server': 'kill -9 of a server, started again',
  'pause-server': 'SIGSTOP of a server, shorter than any liveness clock',
  'freeze-server': 'SIGSTOP of a server for longer than the worker timeout',
  'kill-worker': 'kill -9 of a worker, another one started',
  'pause-worker': 'SIGSTOP of a worker, shorter than any liveness clock',
  'freeze-worker': 'SIGSTOP of a worker for longer than the worker timeout',
  'stop-worker': 'SIGTERM of a worker, another one started',
  'reset-connections': 'RST on all connections of a server',
  'half-open': 'connections of a server swallow all bytes, then break',
  'slow-link': 'each packet of a server is 50 to 300 ms late',
  'cut-link': 'the network interface of a worker is down',
  'step-clock': 'the wall clock of a server jumps up to an hour ahead or back',
  'restart-database': 'PostgreSQL is restarted in order',
  'crash-database': 'PostgreSQL is killed and recovers',
  'pause-database': 'SIGSTOP of all processes of PostgreSQL',
  'fill-disk': 'no space is left for the data file',
} as const

export type FaultKind = keyof typeof FAULTS

export interface Fault {
  readonly atMs: number
  readonly kind: FaultKind
  readonly victim: number
  /** How long it lasts. */
  readonly forMs: number
  /** Drawn once more, for what else the fault has to choose. */
  readonly draw: number
}

interface Weight {
  readonly kind: FaultKind
  readonly share: number
  readonly forMs: readonly [least: number, most: number]
  readonly only?: 'sqlite' | 'postgres'
}

/** Silence after which a worker is dead; faults are shorter or longer than this. */
export const WORKER_TIMEOUT_MS = 6_000

const WEIGHTS: readonly Weight[] = [
  { kind: 'kill-server', share: 40, forMs: [0, 800] },
  { kind: 'pause-server', share: 8, forMs: [100, 1_200] },
  { kind: 'freeze-server', share: 3, forMs: [WORKER_TIMEOUT_MS + 500, WORKER_TIMEOUT_MS + 3_000], only: 'postgres' },
  { kind: 'kill-worker', share: 8, forMs: [0, 300] },
  { kind: 'pause-worker', share: 6, forMs: [100, 1_200] },
  { kind: 'freeze-worker', share: 3, forMs: [WORKER_TIMEOUT_MS + 500, WORKER_TIMEOUT_MS + 3_000] },
  { kind: 'stop-worker', share: 6, forMs: [0, 300] },
  { kind: 'reset-connections', share: 8, forMs: [0, 0] },
  { kind: 'half-open', share: 5, forMs: [500, 3_000] },
  { kind: 'slow-link', share: 4, forMs: [1_000, 3_000] },
  { kind: 'cut-link', share: 4, forMs: [500, WORKER_TIMEOUT_MS + 2_000] },
  { kind: 'step-clock', share: 3, forMs: [0, 0] },
  { kind: 'restart-database', share: 1, forMs: [200, 1_500], only: 'postgres' },
  { kind: 'crash-database', share: 1, forMs: [200, 1_500], only: 'postgres' },
  { kind: 'pause-database', share: 2, forMs: [300, 2_500], only: 'postgres' },
  { kind: 'fill-disk', share: 2, forMs: [500, 2_500], only: 'sqlite' },
]

export function scheduleOf(options: {
  readonly store: 'sqlite' | 'postgres'
  readonly seconds: number
  readonly seed: number
  readonly every: number
}): Fault[] {
  const random = seededRandom(options.seed)
  const weights = WEIGHTS.filter(({ only }) => only === undefined || only === options.store)
  const whole = weights.reduce((sum, { share }) => sum + share, 0)
  const faults: Fault[] = []
  for (let atMs = 1_500; ;) {
    atMs += options.every * 1_000 * (0.2 + 1.6 * random())
    if (atMs > options.seconds * 1_000) return faults
    let left = random() * whole
    const drawn = weights.find(({ share }) => (left -= share) < 0) ?? weights[0]
    if (drawn === undefined) throw new Error('there is no fault to draw from')
    const [least, most] = drawn.forMs
    const forMs = least + random() * (most - least)
    faults.push({ atMs, kind: drawn.kind, victim: Math.floor(random() * 1e6), forMs, draw: random() })
  }
}
