/**
 * Everything that goes wrong by itself: servers die in the middle of a transaction or between two, or are restarted;
 * disks refuse; wall clocks are set; cables are cut; workers are killed and frozen. Until it is stopped.
 */
import type { Chance } from '../chance.ts'
import type { Point, Weather } from '../disk.ts'
import type { Network } from '../network.ts'
import type { Server } from '../server.ts'
import type { World } from '../world.ts'
import type { Worker } from './worker.ts'

export interface Climate {
  /** How often, on average; 0 = never. */
  readonly crashEveryMs: number
  readonly refuseEveryMs: number
  readonly forgets: number
  readonly wallEveryMs: number
  readonly cutEveryMs: number
  readonly workerTroubleEveryMs: number
}

/** The disk's mood, asked at every await of the store. */
export class Moods implements Weather {
  readonly #world: World
  readonly #chance: Chance
  /** How often the disk cannot say when the next row wants to be woken, although it has just committed. */
  #forgets = 0
  #pointsToDeath: number | null = null
  #pointsToRefusal = 0
  #refusals = 0
  #refusalsUntil = 0
  refusedAt = -Infinity

  constructor(world: World, chance: Chance) {
    this.#world = world
    this.#chance = chance
  }

  set forgets(probability: number) {
    this.#forgets = probability
  }

  /** The server dies at the n-th point from now. */
  killAfter(points: number): void {
    this.#pointsToDeath = points
  }

  /** After so many points, so many times, if it comes to that within this time. */
  refuse(points: number, times: number, forMs: number): void {
    this.#pointsToRefusal = points
    this.#refusals = times
    this.#refusalsUntil = this.#world.now + forMs
  }

  calm(): void {
    this.#pointsToDeath = null
    this.#refusals = 0
    this.#forgets = 0
  }

  dies(_point: Point): boolean {
    if (this.#pointsToDeath === null) return false
    this.#pointsToDeath -= 1
    if (this.#pointsToDeath > 0) return false
    this.#pointsToDeath = null
    return true
  }

  refuses(_point: Point, what: string): boolean {
    const isRefused = this.#isRefused() || (what === 'nextWakeAt' && this.#chance.happens(this.#forgets))
    if (isRefused) this.refusedAt = this.#world.now
    return isRefused
  }

  #isRefused(): boolean {
    if (this.#refusals <= 0 || this.#world.now > this.#refusalsUntil || this.#pointsToRefusal-- > 0) return false
    this.#refusals -= 1
    return true
  }
}

export interface Victims {
  readonly world: World
  readonly server: Server
  readonly network: Network
  readonly moods: Moods
  readonly workers: readonly Worker[]
  readonly tell: (text: string) => void
}

export class Storm {
  readonly #victims: Victims
  readonly #chance: Chance
  #isOver = false

  constructor(victims: Victims, chance: Chance, climate: Climate) {
    this.#victims = victims
    this.#chance = chance
    victims.moods.forgets = climate.forgets
    this.#every(climate.crashEveryMs, () => this.#crash())
    this.#every(climate.refuseEveryMs, () => this.#refuse())
    this.#every(climate.wallEveryMs, () => this.#stepWall())
    this.#every(climate.cutEveryMs, () => {
      const worker = chance.pick(victims.workers)
      victims.tell(`weather: ${worker.name} is cut off`)
      victims.network.cut(worker.name, chance.length(500, 15_000))
    })
    this.#every(climate.workerTroubleEveryMs, () => this.#trouble(chance.pick(victims.workers)))
    this.#keepUp()
  }

  stop(): void {
    this.#isOver = true
    this.#victims.moods.calm()
  }

  #every(averageMs: number, act: () => void): void {
    if (averageMs === 0) return
    const next = (): void => {
      this.#victims.world.after(this.#chance.length(0, averageMs * 2, 50), () => {
        if (this.#isOver) return
        act()
        next()
      })
    }
    next()
  }

  /** Starts a server that is down. */
  #keepUp(): void {
    const { world, server } = this.#victims
    world.after(
      this.#chance.weighted([
        [3, this.#chance.length(50, 1_000, 50)],
        [2, this.#chance.length(500, 8_000)],
      ]),
      () => {
        if (this.#isOver) return
        if (server.phase === 'down') server.boot()
        this.#keepUp()
      },
    )
  }

  #crash(): void {
    const { server, moods } = this.#victims
    const how = this.#chance.weighted([
      [6, 'inside'],
      [3, 'between'],
      [2, 'politely'],
    ] as const)
    if (how === 'inside') moods.killAfter(this.#chance.between(1, 14))
    else if (how === 'between') server.die('killed')
    else server.stop()
  }

  #refuse(): void {
    this.#victims.tell('weather: the disk refuses')
    this.#victims.moods.refuse(this.#chance.between(0, 9), this.#chance.between(1, 4), this.#chance.length(250, 4_000))
  }

  #stepWall(): void {
    const byMs = this.#chance.weighted([
      [3, this.#chance.between(-3_000, 3_000)],
      [2, this.#chance.between(-40_000, 40_000)],
      [1, this.#chance.between(-3_600_000, 600_000)],
    ])
    this.#victims.tell(`weather: the wall clock is set by ${String(byMs)} ms`)
    this.#victims.world.clock.stepWall(byMs)
  }

  #trouble(worker: Worker): void {
    const ms = this.#chance.length(250, 20_000)
    const acts: readonly (readonly [number, () => void])[] = [
      [
        3,
        () => {
          worker.crash(ms)
        },
      ],
      [
        4,
        () => {
          worker.freeze(ms)
        },
      ],
      [
        2,
        () => {
          worker.silence(ms * 2)
        },
      ],
      [
        1,
        () => {
          worker.leave(ms)
        },
      ],
      [
        1,
        () => {
          worker.register()
        },
      ],
    ]
    this.#chance.weighted(acts)()
  }
}
