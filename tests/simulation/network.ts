/**
 * The network between the actors and the server. Requests and answers take their time, overtake each other, get lost,
 * and come twice; a partition swallows everything to and from one side. The caller hears an answer or, when its
 * patience is over, nothing.
 */
import { isLook, type Call } from './calls.ts'
import type { Chance } from './chance.ts'
import type { Answer, Exchange, Server } from './server.ts'
import type { World } from './world.ts'

export interface NetworkRates {
  readonly loseRequest: number
  readonly loseAnswer: number
  readonly twice: number
  /** How often a message takes seconds instead of milliseconds. */
  readonly slow: number
  readonly slowestMs: number
}

export const PERFECT: NetworkRates = { loseRequest: 0, loseAnswer: 0, twice: 0, slow: 0, slowestMs: 0 }

export interface SendOptions {
  /** How long the request travels, to the millisecond. */
  readonly travelMs?: number
  readonly patienceMs?: number
}

export class Network {
  readonly #world: World
  readonly #server: Server
  readonly #chance: Chance
  readonly #cutUntil = new Map<string, number>()
  rates: NetworkRates

  constructor(world: World, server: Server, chance: Chance, rates: NetworkRates) {
    this.#world = world
    this.#server = server
    this.#chance = chance
    this.rates = rates
  }

  /** Nothing passes between this actor and the server for a while. */
  cut(actor: string, forMs: number): void {
    this.#cutUntil.set(actor, this.#world.now + forMs)
  }

  /** `heard` is called once: with the answer, or with null when none came. */
  send(from: string, call: Call, heard: (answer: Answer | null) => void, options: SendOptions = {}): void {
    let over = false
    let exchange: Exchange | null = null
    const end = (answer: Answer | null): void => {
      if (over) return
      over = true
      giveUp()
      heard(answer)
    }
    const wait = call.verb === 'fetch' ? (call.body.wait_ms ?? 0) : 0
    const patienceMs = (options.patienceMs ?? 3_000) + wait
    const deliver = (): void => {
      if (this.#isCut(from) || this.#chance.happens(this.rates.loseRequest)) return
      const met = this.#server.meet(call, (answer) => {
        if (this.#chance.happens(this.rates.loseAnswer)) return
        this.#world.after(this.#travelMs(), () => {
          if (!this.#isCut(from)) end(answer)
        })
      })
      exchange ??= met
    }
    this.#world.after(options.travelMs ?? this.#travelMs(), deliver, isLook(call))
    if (this.#chance.happens(this.rates.twice)) this.#world.after(this.#travelMs() * 2, deliver, isLook(call))
    const giveUp = this.#world.after(patienceMs, () => {
      if (!over && exchange !== null && this.#chance.happens(0.7)) exchange.hangUp()
      end(null)
    })
  }

  #isCut(actor: string): boolean {
    return (this.#cutUntil.get(actor) ?? 0) > this.#world.now
  }

  #travelMs(): number {
    if (this.#chance.happens(this.rates.slow)) return this.#chance.between(200, this.rates.slowestMs)
    return this.#chance.between(0, 20)
  }
}
