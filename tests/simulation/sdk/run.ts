/**
 * One run: a seed becomes a server, workers of the SDK, jobs, an operator and faults; then the faults end, and everything
 * must settle. Every promise is checked as it goes.
 */
import { DEFAULT_LIMITS, millis, seconds } from '@curfew/core'
import type { EngineSettings } from '../../../packages/server/src/engine/kernel/context.ts'
import type { MakeSession } from '../../../packages/sdk/src/worker/worker.ts'
import { TEST_SETTINGS } from '../../harness.ts'
import { Moods } from '../actors/weather.ts'
import { Chance } from '../chance.ts'
import { Disk } from '../disk.ts'
import { Server } from '../server.ts'
import type { Tell } from '../stage.ts'
import { Violation } from '../violation.ts'
import { World } from '../world.ts'
import { ask, meddle, operate, produce, troubles, upset, type Troubles } from './actors.ts'
import { Ledger, isRunning, nameOf } from './ledger.ts'
import { BrokenPromise, type Promised } from './promises.ts'
import { NO_FAULTS, faultRates, type FaultRates, type Scene } from './scene.ts'
import { SimulatedWorker } from './simulated-worker.ts'
import { Tally } from './tally.ts'

export interface Outcome {
  readonly seed: number
  readonly broken: Error | null
  readonly lines: readonly string[]
  readonly tally: Tally
}

export interface RunOptions {
  readonly verbose?: boolean
  /** How sessions are made: with a planted fault. */
  readonly plant?: MakeSession | null
}

const MAX_WORKERS = 6
/** A job held by a worker that does not run it, for this long while nothing is wrong, is lost. */
const UNRETURNED_MS = 15_000
const LOOK_EVERY_MS = 2_500
const SETTLED_WITHIN_MS = 300_000

export async function runSeed(seed: number, { verbose = false, plant = null }: RunOptions = {}): Promise<Outcome> {
  const run = new Run(seed, verbose, plant)
  let broken: Error | null = null
  try {
    await run.live()
    await run.settle()
  } catch (error) {
    if (!(error instanceof BrokenPromise || error instanceof Violation)) throw error
    broken = error
  } finally {
    run.close()
  }
  return { seed, broken, lines: run.lines ?? [], tally: run.tally }
}

class Run {
  readonly tally = new Tally()
  readonly lines: string[] | null
  readonly #chance: Chance
  readonly #plant: MakeSession | null
  readonly #disk = new Disk()
  readonly #world: World
  readonly #moods: Moods
  readonly #server: Server
  readonly #ledger: Ledger
  readonly #scene: Scene
  readonly #rates: FaultRates
  readonly #troubles: Troubles
  readonly #meddling: Chance
  readonly #leaveMs: number
  #broken: BrokenPromise | null = null
  #isCalm = false
  #downTroubles: (() => void)[] | null = null
  #spawned = 0

  constructor(seed: number, verbose: boolean, plant: MakeSession | null) {
    this.lines = verbose ? [] : null
    this.#plant = plant
    this.#chance = new Chance(seed)
    this.#world = new World(this.#chance.fork(), () => this.#watch())
    this.#moods = new Moods(this.#world, this.#chance.fork())
    const settings = settingsFor(this.#chance.fork())
    this.#ledger = new Ledger(() => this.#scene)
    this.#server = new Server({
      world: this.#world,
      disk: this.#disk,
      chance: this.#chance.fork(),
      weather: this.#moods,
      settings,
      tell: (text) => {
        this.#tell(text)
      },
      broke: (text) => {
        this.#blame('healthy', text)
      },
      onDeath: () => {
        for (const { line } of this.#ledger.workers.values()) line.broken()
      },
    })
    this.#rates = faultRates(this.#chance.fork())
    this.#troubles = troubles(this.#chance.fork())
    this.#meddling = this.#chance.fork()
    this.#leaveMs = settings.workerTimeoutMs + 10_000
    this.#scene = {
      world: this.#world,
      server: this.#server,
      ledger: this.#ledger,
      intervalMs: settings.heartbeatIntervalMs,
      tally: this.tally,
      blame: this.#blame,
      tell: this.#tell,
      onClaim: (workerId) => {
        if (this.#isCalm || !this.#meddling.happens(this.#troubles.ownAtClaim)) return
        meddle(this.#scene, this.#meddling, this.#ledger.workers.get(workerId))
      },
      later: (ms, act) => {
        this.#world.after(ms, () => {
          this.#world.stir()
          act()
        })
      },
    }
  }

  async live(): Promise<void> {
    const chance = this.#chance
    this.#server.boot()
    await this.#pass(0)
    for (let count = chance.between(1, 3); count > 0; count -= 1) this.#spawn()
    const lengthMs = chance.length(8_000, 25_000)
    const isOver = (): boolean => this.#isCalm
    produce(this.#scene, chance.fork(), lengthMs * 0.8)
    operate(this.#scene, chance.fork(), chance.length(300, 3_000), isOver)
    upset(this.#scene, chance.fork(), this.#moods, this.#troubles, isOver)
    this.#keepUp(chance.fork())
    await this.#pass(lengthMs)
  }

  async settle(): Promise<void> {
    this.#tell('faults end here')
    this.#isCalm = true
    this.#moods.calm()
    if (this.#server.phase === 'stopping') await this.#pass(0)
    this.#server.boot()
    await this.#pass(0)
    for (const worker of this.#ledger.workers.values()) {
      worker.line.rates = NO_FAULTS
      worker.calm()
    }
    await this.#pass(100)
    for (const worker of this.#alive()) {
      ask(this.#scene, { verb: 'direct', workerId: worker.id, word: 'resume' })
      worker.resume()
    }
    const until = this.#world.now + SETTLED_WITHIN_MS
    while (this.#open().length > 0) {
      if (!this.#alive().some(({ isLeaving }) => !isLeaving)) this.#spawn()
      if (this.#world.now > until)
        this.#blame(
          'settles',
          this.#open()
            .map(({ id, state }) => `${id} is ${state}`)
            .join(', '),
        )
      await this.#pass(LOOK_EVERY_MS)
      this.#checkReturned()
    }
    // Long enough for workers that leave, and for those that are silent to be declared dead.
    await this.#pass(this.#leaveMs)
  }

  close(): void {
    this.#server.die('the run is over')
    this.#disk.close()
  }

  #spawn(): void {
    const id = `w${String(++this.#spawned)}`
    this.#tell(`${id} is started`)
    const worker = new SimulatedWorker(
      this.#scene,
      id,
      this.#chance.fork(),
      this.#isCalm ? NO_FAULTS : this.#rates,
      this.#plant,
    )
    this.#downTroubles?.push(worker.line.trouble())
  }

  /** A server that is down is started again, and a worker that is gone is replaced. */
  #keepUp(chance: Chance): void {
    this.#scene.later(chance.length(50, 3_000, 50), () => {
      if (this.#isCalm) return
      if (this.#server.phase === 'down') this.#server.boot()
      if (this.#alive().length < 3 && this.#spawned < MAX_WORKERS && chance.happens(0.3)) this.#spawn()
      this.#keepUp(chance)
    })
  }

  #alive(): SimulatedWorker[] {
    return [...this.#ledger.workers.values()].filter(({ isGone }) => !isGone)
  }

  #open(): { readonly id: string; readonly state: string }[] {
    return [...this.#ledger.jobs.values()].filter(
      ({ state }) => state !== 'completed' && state !== 'discarded' && state !== 'cancelled',
    )
  }

  #checkReturned(): void {
    const { now } = this.#world
    for (const attempt of this.#ledger.attempts.values()) {
      if (attempt.overBy !== null || isRunning(attempt) || now - attempt.claimedAt < UNRETURNED_MS) continue
      const worker = this.#ledger.workers.get(attempt.workerId)
      if (worker === undefined || worker.isGone || now - worker.line.goodSince('beat', 'report') < UNRETURNED_MS)
        continue
      this.#blame('everyLeaseReturned', `${nameOf(attempt)} is active, and ${worker.id} does not run it`)
    }
  }

  async #pass(ms: number): Promise<void> {
    await this.#world.runUntil(this.#world.now + ms)
  }

  #watch(): Promise<void> {
    this.#ledger.look(this.#disk.takeCommits())
    this.#noteServer()
    if (this.#broken !== null) throw this.#broken
    return Promise.resolve()
  }

  /** While the server is not there no line is good. */
  #noteServer(): void {
    const isUp = this.#server.phase === 'up'
    if (!isUp) this.#downTroubles ??= [...this.#ledger.workers.values()].map(({ line }) => line.trouble())
    else if (this.#downTroubles !== null) {
      for (const end of this.#downTroubles) end()
      this.#downTroubles = null
    }
  }

  readonly #blame = (promise: Promised, detail: string): void => {
    if (this.#broken !== null) return
    this.#tell(() => `BROKEN ${promise}: ${detail}`)
    this.#broken = new BrokenPromise(promise, detail)
    this.#world.stir()
  }

  readonly #tell: Tell = (text) => {
    if (this.lines === null) return
    const at = new Date(this.#world.clock.wallMs()).toISOString().slice(14, 23)
    this.lines.push(`${at} ${typeof text === 'string' ? text : text()}`)
  }
}

function settingsFor(chance: Chance): EngineSettings {
  const heartbeatIntervalMs = seconds(chance.between(1, 5))
  const ms = (least: number, most: number): ReturnType<typeof millis> => millis(chance.length(least, most))
  // In some runs the death of a worker is noticed before any limit of its jobs.
  const least = chance.happens(0.25) ? 30_000 : 0
  return {
    ...TEST_SETTINGS,
    conformance: false,
    heartbeatIntervalMs,
    workerTimeoutMs: millis(heartbeatIntervalMs * chance.between(3, 6)),
    limits: {
      ...DEFAULT_LIMITS,
      defaults: {
        timeout: ms(least + 3_000, least + 20_000),
        grace: ms(0, 5_000),
        heartbeat: ms(least + 1_000, least + 15_000),
        visibility: ms(least + 2_000, least + 30_000),
        total: null,
        ttl: null,
        onTimeout: 'retry',
      },
    },
  }
}
