/** What everything in one run shares. */
import type { Chance } from '../chance.ts'
import type { Server } from '../server.ts'
import type { Tell } from '../stage.ts'
import type { World } from '../world.ts'
import type { Ledger } from './ledger.ts'
import type { Blame } from './promises.ts'
import type { Tally } from './tally.ts'

export interface Scene {
  readonly world: World
  readonly server: Server
  readonly ledger: Ledger
  readonly intervalMs: number
  readonly tally: Tally
  readonly blame: Blame
  readonly tell: Tell
  /** A job was handed to this worker just now; the answer is on its way. */
  readonly onClaim: (workerId: string) => void
  /** Runs in so long, in a turn in which the server and the workers are heard. */
  readonly later: (ms: number, act: () => void) => void
}

export interface FaultRates {
  readonly loseRequest: number
  readonly loseAnswer: number
  /** The server gets the request twice. */
  readonly twice: number
  readonly slow: number
  readonly slowestMs: number
  /** Answers that bring jobs are lost, and all others arrive. */
  readonly loseJobs: number
  /** The deregistration takes long, and everything else does not. */
  readonly slowFarewell: number
}

export const NO_FAULTS: FaultRates = {
  loseRequest: 0,
  loseAnswer: 0,
  twice: 0,
  slow: 0,
  slowestMs: 0,
  loseJobs: 0,
  slowFarewell: 0,
}

export function faultRates(chance: Chance): FaultRates {
  const aimed = {
    loseJobs: chance.happens(0.3) ? chance.unit() * 0.3 : 0,
    slowFarewell: chance.happens(0.5) ? chance.unit() : 0,
  }
  if (chance.happens(0.3)) return { ...NO_FAULTS, ...aimed }
  const scale = chance.pick([0.3, 1, 1, 2])
  return {
    loseRequest: chance.unit() * 0.05 * scale,
    loseAnswer: chance.unit() * 0.08 * scale,
    twice: chance.unit() * 0.05 * scale,
    slow: chance.unit() * 0.1 * scale,
    slowestMs: chance.length(300, 12_000),
    ...aimed,
  }
}
