/**
 * One run: a seed becomes a world with a server, producers, workers, an operator and bad weather; then the weather
 * stops, and everything that still can must come to its end.
 */
import { DEFAULT_LIMITS, millis, seconds, type LimitSettings } from '@curfew/core'
import type { EngineSettings } from '../../packages/server/src/engine/kernel/context.ts'
import { TEST_SETTINGS } from '../harness.ts'
import { Moods, Storm, type Climate } from './actors/weather.ts'
import { Operator } from './actors/operator.ts'
import { Producer } from './actors/producer.ts'
import { mannersFor, Worker } from './actors/worker.ts'
import type { Call } from './calls.ts'
import { Chance } from './chance.ts'
import { Checker } from './checker.ts'
import { checkClocks, checkStore } from './deep-checks.ts'
import { Disk } from './disk.ts'
import { Model } from './model/model.ts'
import { isOver } from './model/records.ts'
import { Network, PERFECT, type NetworkRates } from './network.ts'
import { Server, type Answer } from './server.ts'
import type { Stage, Tell } from './stage.ts'
import { insist, Violation } from './violation.ts'
import { World } from './world.ts'

export interface Told {
  readonly seed: number
  readonly violation: Violation | null
  /** What happened, when it was asked for. */
  readonly lines: readonly string[]
  /** The same seed gives the same sum. */
  readonly fingerprint: string
  readonly steps: number
  readonly tried: ReadonlyMap<string, number>
}

const DEEP_EVERY = 80

export async function runSeed(seed: number, { verbose = false } = {}): Promise<Told> {
  const run = new Run(seed, verbose)
  let violation: Violation | null = null
  try {
    await run.live()
    await run.end()
  } catch (error) {
    if (!(error instanceof Violation)) throw error
    violation = error
  } finally {
    run.close()
  }
  return { seed, violation, ...run.told }
}

class Run {
  readonly #chance: Chance
  readonly #lines: string[] | null
  readonly #disk = new Disk()
  readonly #world: World
  readonly #moods: Moods
  readonly #settings: EngineSettings
  readonly #model: Model
  readonly #server: Server
  readonly #checker: Checker
  readonly #network: Network
  readonly #stage: Stage
  #broken: string | null = null

  constructor(seed: number, verbose: boolean) {
    this.#chance = new Chance(seed)
    this.#lines = verbose ? [] : null
    this.#world = new World(this.#chance.fork(), () => this.#watch())
    this.#moods = new Moods(this.#world, this.#chance.fork())
    this.#settings = settingsFor(this.#chance.fork())
    this.#model = new Model(this.#settings)
    const [world, disk, model] = [this.#world, this.#disk, this.#model]
    this.#server = new Server({
      world,
      disk,
      chance: this.#chance.fork(),
      weather: this.#moods,
      settings: this.#settings,
      tell: this.#tell,
      broke: (text) => {
        this.#broken ??= text
      },
    })
    const server = this.#server
    this.#checker = new Checker({
      world,
      model,
      disk,
      server,
      refusedAt: () => this.#moods.refusedAt,
      tell: this.#tell,
    })
    this.#network = new Network(world, server, this.#chance.fork(), ratesFor(this.#chance.fork()))
    const count = this.#chance.between(1, 3)
    this.#stage = {
      world,
      network: this.#network,
      server,
      queues: ['default', 'mail', 'video'].slice(0, count),
      types: ['video.transcode', 'mail.send'],
      knownJobs: [],
      workerIds: [],
      serverNow: () => this.#checker.now,
      tell: this.#tell,
    }
  }

  get told(): Omit<Told, 'seed' | 'violation'> {
    const sum = [...this.#checker.rows.values()].map(({ id, state, attempt }) => `${id}${state}${String(attempt)}`)
    const tried = [...this.#checker.tried].map(([what, times]) => `${what} ${String(times)}`)
    return {
      lines: this.#lines ?? [],
      fingerprint: [...sum, ...tried, String(this.#world.now), String(this.#world.steps)].join('\n'),
      steps: this.#world.steps,
      tried: this.#checker.tried,
    }
  }

  /** The story: everybody acts, and the weather is as it is. */
  async live(): Promise<void> {
    const chance = this.#chance
    this.#server.boot()
    const lengthMs = chance.length(10_000, 40_000)
    const beatEveryMs = this.#settings.heartbeatIntervalMs
    const jobs = chance.between(8, 30)
    // Where little is asked, nothing but its own timer wakes a server.
    const isQuiet = chance.happens(0.15)
    const workers = Array.from({ length: chance.between(2, 4) }, (_, index) => {
      const own = chance.fork()
      return new Worker(`w${String(index + 1)}`, this.#stage, own, mannersFor(own, beatEveryMs, isQuiet))
    })
    new Producer('p1', this.#stage, chance.fork(), { jobs, overMs: lengthMs * 0.7 })
    new Operator('op', this.#stage, chance.fork(), isQuiet ? 15_000 : chance.length(500, 3_000))
    const victims = {
      world: this.#world,
      server: this.#server,
      network: this.#network,
      moods: this.#moods,
      workers,
      tell: this.#tell,
    }
    const storm = new Storm(victims, chance.fork(), climateFor(chance.fork()))
    await this.#world.runUntil(this.#world.now + lengthMs)
    storm.stop()
    for (const worker of workers) worker.end()
  }

  /** Faults stop. Whatever can run runs, whatever cannot expires, and in the end everything is forgotten in time. */
  async end(): Promise<void> {
    this.#tell('the weather is fine from now on')
    this.#world.hush()
    this.#network.rates = PERFECT
    if (this.#server.phase === 'stopping') await this.#pass(0)
    this.#server.boot()
    await this.#pass(2_000)
    for (const queue of this.#stage.queues) await this.#ask({ verb: 'resume', queue })
    for (let rounds = 0; this.#open().length > 0; rounds += 1) {
      insist(
        'liveness',
        rounds < 400,
        () =>
          `${this.#open()
            .map(({ id, state }) => `${id} is ${state}`)
            .join()} for ever`,
      )
      await this.#round()
    }
    await this.#checkDeeply()
    for (let due = this.#model.nextDue(); due !== null; due = this.#model.nextDue())
      await this.#pass(due.at - this.#checker.now)
    await this.#checkDeeply()
    insist(
      'liveness',
      this.#checker.rows.size === 0,
      () => `${String(this.#checker.rows.size)} jobs were never removed`,
    )
  }

  close(): void {
    this.#server.die('the run is over')
    this.#disk.close()
  }

  #open(): { id: string; state: string }[] {
    return [...this.#model.jobs.values()].filter((job) => !isOver(job))
  }

  /** A perfect worker takes what there is; otherwise time passes until something happens by itself. */
  async #round(): Promise<void> {
    const open = [...this.#model.jobs.values()].filter((job) => !isOver(job))
    const pending = open.find(({ state }) => state === 'pending')
    if (pending !== undefined) await this.#ask({ verb: 'activate', jobId: pending.id })
    else if (open.some(({ state }) => state === 'available')) {
      const answer = await this.#ask({ verb: 'fetch', body: { queues: this.#stage.queues, count: 100 } })
      for (const { id, x_lease } of answer.body.jobs as { id: string; x_lease: number }[]) {
        await this.#ask({ verb: 'ack', body: { job_id: id, x_lease, result: 'at last' } })
      }
    } else {
      const at = Math.min(...open.map((job) => this.#model.dueOf(job)?.at ?? Infinity))
      insist(
        'liveness',
        at !== Infinity,
        () => `${open.map(({ id, state }) => `${id} is ${state}`).join()} without a deadline`,
      )
      await this.#pass(Math.max(1, at - this.#checker.now))
    }
  }

  async #pass(ms: number): Promise<void> {
    await this.#world.runUntil(this.#world.now + ms)
  }

  /** Asks and hears at once. */
  async #ask(call: Call): Promise<Answer> {
    this.#tell(() => `end: ${JSON.stringify(call)}`)
    let answer: Answer | null = null as Answer | null
    this.#server.meet(call, (heard) => {
      answer = heard
    })
    await this.#pass(0)
    insist('liveness', answer !== null, () => `no server answers ${JSON.stringify(call)}`)
    return answer
  }

  async #watch(): Promise<void> {
    if (this.#broken !== null) throw new Violation('broken', this.#broken)
    this.#checker.look()
    if (this.#world.steps % DEEP_EVERY === 0) await this.#checkDeeply()
  }

  async #checkDeeply(): Promise<void> {
    const { engine, phase } = this.#server
    if (phase !== 'up' || engine === null) return
    await checkStore(this.#disk.calm, this.#checker, this.#model)
    await checkClocks(this.#disk.calm, this.#model, engine.outages)
    const active = [...this.#checker.rows.values()].filter(({ state }) => state === 'active').length
    insist(
      'counts',
      engine.activeJobs === active,
      () => `the engine counts ${String(engine.activeJobs)} active jobs of ${String(active)}`,
    )
  }

  readonly #tell: Tell = (text) => {
    if (this.#lines === null) return
    const at = new Date(this.#checker.now).toISOString().slice(11, 23)
    this.#lines.push(
      `${at} +${((this.#world.now % 1e7) / 1000).toFixed(3)} ${typeof text === 'string' ? text : text()}`,
    )
  }
}

// ---- What a seed decides about the run as a whole ----

function settingsFor(chance: Chance): EngineSettings {
  const heartbeatIntervalMs = seconds(chance.between(1, 4))
  const retention = (): ReturnType<typeof seconds> => seconds(chance.between(20, 300))
  return {
    ...TEST_SETTINGS,
    conformance: false,
    allowPrivateNetwork: false,
    platformConfig: {},
    strict: false,
    limits: chance.happens(0.85)
      ? shortLimits(chance)
      : { ...DEFAULT_LIMITS, judgeUnknownWorkers: chance.happens(0.1) },
    heartbeatIntervalMs,
    workerTimeoutMs: millis(heartbeatIntervalMs * chance.between(3, 6)),
    requireOwner: chance.happens(0.1),
    retention: {
      completedMs: retention(),
      cancelledMs: retention(),
      discardedMs: retention(),
      deadLetterMs: retention(),
    },
  }
}

function shortLimits(chance: Chance): LimitSettings {
  const ms = (least: number, most: number): ReturnType<typeof millis> => millis(chance.length(least, most))
  return {
    defaults: {
      timeout: ms(2_000, 40_000),
      grace: ms(0, 8_000),
      heartbeat: ms(2_000, 20_000),
      visibility: ms(2_000, 40_000),
      total: chance.happens(0.15) ? ms(20_000, 90_000) : null,
      ttl: chance.happens(0.1) ? ms(5_000, 60_000) : null,
      onTimeout: chance.happens(0.15) ? 'discard' : 'retry',
    },
    caps: {
      ...(chance.happens(0.15) ? { timeout: ms(1_000, 10_000) } : {}),
      ...(chance.happens(0.1) ? { total: ms(10_000, 60_000) } : {}),
      ...(chance.happens(0.1) ? { grace: ms(250, 3_000) } : {}),
      ...(chance.happens(0.1) ? { visibility: ms(1_000, 10_000) } : {}),
      ...(chance.happens(0.1) ? { heartbeat: ms(1_000, 10_000) } : {}),
    },
    run: DEFAULT_LIMITS.run,
    judgeUnknownWorkers: chance.happens(0.1),
  }
}

function climateFor(chance: Chance): Climate {
  const every = (probability: number, leastMs: number, mostMs: number): number =>
    chance.happens(probability) ? chance.length(leastMs, mostMs) : 0
  return {
    crashEveryMs: every(0.6, 4_000, 30_000),
    refuseEveryMs: every(0.25, 4_000, 30_000),
    forgets: chance.happens(0.1) ? 0.05 : 0,
    wallEveryMs: every(0.3, 5_000, 30_000),
    cutEveryMs: every(0.5, 5_000, 30_000),
    workerTroubleEveryMs: every(0.8, 3_000, 20_000),
  }
}

function ratesFor(chance: Chance): NetworkRates {
  if (chance.happens(0.25)) return PERFECT
  return {
    loseRequest: chance.unit() * 0.08,
    loseAnswer: chance.unit() * 0.1,
    twice: chance.unit() * 0.1,
    slow: chance.unit() * 0.15,
    slowestMs: chance.length(500, 15_000),
  }
}
