/** What all actors share: the world they act in, how they are heard, and the jobs that were mentioned. */
import type { Call } from './calls.ts'
import type { Chance } from './chance.ts'
import type { Network, SendOptions } from './network.ts'
import type { Answer, Server } from './server.ts'
import type { World } from './world.ts'

/** A line for the log of a repeated run; built only if there is a listener. */
export type Tell = (text: string | (() => string)) => void

export interface Stage {
  readonly world: World
  readonly network: Network
  readonly server: Server
  readonly queues: readonly string[]
  readonly types: readonly string[]
  /** Ids of jobs that exist, or may; the newest last. */
  readonly knownJobs: string[]
  readonly workerIds: string[]
  /** The time a server would tell, or the wall's when none is up. */
  readonly serverNow: () => number
  readonly tell: Tell
}

export abstract class Actor {
  readonly name: string
  protected readonly stage: Stage
  protected readonly chance: Chance

  constructor(name: string, stage: Stage, chance: Chance) {
    this.name = name
    this.stage = stage
    this.chance = chance
  }

  protected send(call: Call, heard: (answer: Answer | null) => void = () => {}, options?: SendOptions): void {
    this.stage.tell(() => `${this.name}: ${JSON.stringify(call)}`)
    this.stage.network.send(this.name, call, heard, options)
  }

  protected later(ms: number, act: () => void): void {
    this.stage.world.after(ms, act)
  }
}
