/**
 * A server process in the world: the engine and the door of the real product on the world's clock and disk. It boots,
 * answers, dies between any two awaits of its store, stops politely, and boots again on the same data.
 *
 * Every call that reached the door is kept as an Exchange until the checks have seen it: what was asked, at which
 * instant of the server's clock, and what was answered, if it lived to answer.
 */
import { OjsError, type Host, type Timer } from '@curfew/core'
import { Engine } from '../../packages/server/src/engine/engine.ts'
import type { EngineSettings } from '../../packages/server/src/engine/kernel/context.ts'
import { Meters } from '../../packages/server/src/engine/metrics/meters.ts'
import { createApp, type Handler } from '../../packages/server/src/http/api/app.ts'
import { StoreUnavailable } from '../../packages/server/src/store/store.ts'
import { messageOf, type Call } from './calls.ts'
import type { Chance } from './chance.ts'
import type { Disk, Weather } from './disk.ts'
import type { World } from './world.ts'

export interface Answer {
  readonly status: number
  // eslint-disable-next-line @typescript-eslint/no-explicit-any
  readonly body: any
}

export interface Exchange {
  readonly call: Call
  readonly order: number
  /** Null while it waits (a long poll), and for ever when the server died over it. */
  answer: Answer | null
  died: boolean
  /** The caller hung up. */
  hangUp(): void
}

/** The process's own share of the machine: its timers and what it deferred die with it. */
class Machine implements Host {
  readonly #host: Host
  readonly #timers = new Set<Timer>()
  #alive = true

  constructor(host: Host) {
    this.#host = host
  }

  wallMs(): number {
    return this.#host.wallMs()
  }

  monotonicMs(): number {
    return this.#host.monotonicMs()
  }

  setTimer(ms: number, fire: () => void): Timer {
    if (!this.#alive) return { cancel: () => {} }
    const timer = this.#host.setTimer(ms, () => {
      this.#timers.delete(timer)
      fire()
    })
    this.#timers.add(timer)
    return {
      cancel: () => {
        timer.cancel()
        this.#timers.delete(timer)
      },
    }
  }

  defer(run: () => void): void {
    this.#host.defer(() => {
      if (this.#alive) run()
    })
  }

  die(): void {
    this.#alive = false
    for (const timer of this.#timers) timer.cancel()
    this.#timers.clear()
  }
}

export interface ServerParts {
  readonly world: World
  readonly disk: Disk
  readonly chance: Chance
  readonly weather: Weather
  readonly settings: EngineSettings
  readonly tell: (text: string) => void
  /** Something that may never happen in a healthy product: a command or a request that broke. */
  readonly broke: (text: string) => void
  /** The process is gone, and with it every open connection. */
  readonly onDeath?: () => void
}

export type Phase = 'down' | 'booting' | 'up' | 'stopping'

export class Server {
  readonly #parts: ServerParts
  #phase: Phase = 'down'
  #machine: Machine | null = null
  #engine: Engine | null = null
  #handler: Handler | null = null
  #life = 0
  #order = 0
  #open = new Set<Exchange>()
  #met: Exchange[] = []

  constructor(parts: ServerParts) {
    this.#parts = parts
  }

  get phase(): Phase {
    return this.#phase
  }

  /** Which of its lives this is, counted from 1. */
  get life(): number {
    return this.#life
  }

  get engine(): Engine | null {
    return this.#engine
  }

  /** The door itself, for clients that make their own requests; null when no process listens. */
  get handler(): Handler | null {
    return this.#handler
  }

  /** Long polls of this worker that are open now. */
  polls(workerId: string): boolean {
    return [...this.#open].some(({ call }) => call.verb === 'fetch' && call.body.worker_id === workerId)
  }

  /** Exchanges that are new or were answered since the last call, in the order they came. */
  takeMet(): Exchange[] {
    const met = this.#met
    this.#met = []
    return met
  }

  boot(): void {
    if (this.#phase !== 'down') return
    const { disk, world, weather, settings, chance } = this.#parts
    const life = ++this.#life
    this.#phase = 'booting'
    world.stir()
    const machine = new Machine(world.clock)
    this.#machine = machine
    const store = disk.open(weather, (where) => {
      if (this.#life === life) this.die(`at ${where}`)
    })
    Engine.open({ store, host: machine, random: chance.unit, settings, log: this.#log(), meters: new Meters() }).then(
      (engine) => {
        if (this.#life !== life || this.#phase !== 'booting') return
        this.#engine = engine
        this.#handler = createApp({
          engine,
          info: { version: 'simulated', conformance: false, backend: 'sqlite', pid: 1 },
        })
        this.#phase = 'up'
        this.#parts.tell('server: up')
      },
      (error: unknown) => {
        if (this.#life !== life) return
        const isRefused =
          error instanceof StoreUnavailable || (error instanceof OjsError && error.code === 'unavailable')
        if (!isRefused) this.#parts.broke(`boot failed: ${String(error)}`)
        this.die('it could not boot')
      },
    )
  }

  /** kill -9, or worse. */
  die(how: string): void {
    if (this.#phase === 'down') return
    this.#parts.tell(`server: dead, ${how}`)
    this.#parts.world.stir()
    this.#gone()
    for (const exchange of this.#open) {
      exchange.died = true
      if (!this.#met.includes(exchange)) this.#met.push(exchange)
    }
    this.#open.clear()
    this.#parts.onDeath?.()
  }

  /** SIGTERM: what has arrived is answered, and no more is taken. */
  stop(): void {
    const engine = this.#engine
    const life = this.#life
    if (this.#phase !== 'up' || engine === null) return
    this.#phase = 'stopping'
    this.#parts.world.stir()
    this.#parts.tell('server: stopping')
    engine.close().then(
      () => {
        if (this.#life === life) this.die('it stopped')
      },
      (error: unknown) => {
        this.#parts.broke(`stop failed: ${String(error)}`)
      },
    )
  }

  /** Null when no server listens. `answered` is called at the instant of the answer; never, when the server dies first. */
  meet(call: Call, answered: (answer: Answer) => void): Exchange | null {
    const handler = this.#handler
    if (handler === null) return null
    const life = this.#life
    const { method, url, body } = messageOf(call)
    const gone = new AbortController()
    const exchange: Exchange = {
      call,
      order: this.#order++,
      answer: null,
      died: false,
      hangUp: () => {
        this.#parts.world.stir()
        gone.abort()
      },
    }
    this.#parts.world.stir()
    this.#open.add(exchange)
    this.#met.push(exchange)
    void handler({
      method,
      url,
      headers: { 'content-type': 'application/json' },
      body: body === undefined ? '' : JSON.stringify(body),
      signal: gone.signal,
    }).then((response) => {
      if (this.#life !== life || exchange.died || typeof response.body !== 'string') return
      this.#open.delete(exchange)
      exchange.answer = {
        status: response.status,
        body: response.body === '' ? {} : (JSON.parse(response.body) as unknown),
      }
      if (!this.#met.includes(exchange)) this.#met.push(exchange)
      answered(exchange.answer)
    })
    return exchange
  }

  #gone(): void {
    this.#machine?.die()
    this.#machine = null
    this.#engine = null
    this.#handler = null
    this.#phase = 'down'
  }

  #log(): Engine['log'] {
    const { tell, broke } = this.#parts
    return {
      info: (_, message) => {
        tell(`log: ${message}`)
      },
      warn: (_, message) => {
        tell(`log: ${message}`)
      },
      error: (fields, message) => {
        const { err } = fields as { err?: unknown }
        if (err instanceof StoreUnavailable) tell(`log: ${message} (${err.reason})`)
        else broke(`${message}: ${err instanceof Error ? (err.stack ?? err.message) : JSON.stringify(fields)}`)
      },
    }
  }
}
