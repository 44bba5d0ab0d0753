/**
 * The line of one worker to the server. Requests and answers take their time, overtake each other, get lost, and come
 * twice; the server may not notice that a caller hung up. It remembers since when the line has been good, by kind of call.
 */
import type { Chance } from '../chance.ts'
import { NetworkError } from '../../../packages/sdk/src/errors.ts'
import type {
  InProcessServer,
  TransportRequest,
  TransportResponse,
} from '../../../packages/sdk/src/client/transport.ts'
import type { FaultRates, Scene } from './scene.ts'

/** `open`: waits for jobs and orders. `report`: everything else that changes something. */
export type CallKind = 'beat' | 'open' | 'report' | 'other'

export interface SentCall {
  readonly kind: CallKind
  readonly path: string
  // eslint-disable-next-line @typescript-eslint/no-explicit-any
  readonly body: any
}

/** A message that takes longer than this is late. */
const PROMPT_MS = 20
/** How long a copy of a checkpoint may be on its way. */
const MAX_STUCK_MS = 3_000
/** No report follows one that got no answer until the worker has given that up. */
const GIVEN_UP_MS = 11_000

export class Line implements InProcessServer {
  readonly #scene: Scene
  readonly #chance: Chance
  readonly #onSent: (call: SentCall) => void
  readonly #badUntil: Record<CallKind, number> = { beat: 0, open: 0, report: 0, other: 0 }
  readonly #open = new Set<() => void>()
  #troubles = 0
  rates: FaultRates
  /** Nothing passes, and neither side hears of it. */
  isSwallowed = false

  constructor(scene: Scene, chance: Chance, rates: FaultRates, onSent: (call: SentCall) => void) {
    this.#scene = scene
    this.#chance = chance
    this.rates = rates
    this.#onSent = onSent
  }

  /** Since when all calls of these kinds arrived promptly, and so did their answers; Infinity: they do not now. */
  goodSince(...kinds: readonly CallKind[]): number {
    if (this.#troubles > 0) return Infinity
    return Math.max(...kinds.map((kind) => this.#badUntil[kind]))
  }

  /** The worker is cut off, or asleep, or the server is down, until the function that is returned is called. */
  trouble(): () => void {
    this.#troubles += 1
    return () => {
      this.#troubles -= 1
      this.#spoil(this.#scene.world.now)
    }
  }

  /** The server is gone: its connections break, at once or without a word. */
  broken(): void {
    const open = [...this.#open]
    this.#open.clear()
    for (const breakOff of open) breakOff()
  }

  readonly handler = (request: TransportRequest): Promise<TransportResponse> => {
    const call = described(request)
    this.#onSent(call)
    return new Promise((resolve, reject) => {
      const { scene, chance, rates } = { scene: this.#scene, chance: this.#chance, rates: this.rates }
      const gone = new AbortController()
      const fails = (reason: string): void => {
        reject(new NetworkError(reason))
      }
      request.signal.addEventListener('abort', () => {
        if (chance.happens(0.7)) scene.later(this.#travelMs(call, false), () => void gone.abort())
        else scene.tally.add('fault: hang-up unnoticed')
      })
      const deliver = (isEcho: boolean): void => {
        // A request that was given up may still be on its way.
        if (request.signal.aborted && chance.happens(0.5)) return
        this.#meet(request, call, gone.signal, isEcho, resolve, fails)
      }
      if (this.isSwallowed || chance.happens(rates.loseRequest)) this.#fault(call, 'request lost')
      else scene.later(this.#travelMs(call, true), () => void deliver(false))
      if (!call.path.includes('register') && chance.happens(rates.twice)) {
        scene.tally.add('fault: request twice')
        // A checkpoint may be overtaken by the next one.
        const stuckMs = call.path.endsWith('/checkpoint') ? chance.between(0, MAX_STUCK_MS) : 0
        scene.later(this.#travelMs(call, true) + 1 + stuckMs, () => void deliver(true))
      }
    })
  }

  #meet(
    request: TransportRequest,
    call: SentCall,
    signal: AbortSignal,
    isEcho: boolean,
    resolve: (response: TransportResponse) => void,
    fails: (reason: string) => void,
  ): void {
    const { server, later, tally } = this.#scene
    const { handler, life } = server
    if (handler === null) {
      this.#spoil(this.#scene.world.now, call.kind)
      if (!isEcho) fails('connection refused')
      return
    }
    const breakOff = (): void => {
      if (this.#chance.happens(0.8)) later(this.#chance.between(0, 50), () => void fails('connection reset'))
      else tally.add('fault: connection dead')
    }
    this.#open.add(breakOff)
    void handler({ ...request, signal }).then((response) => {
      this.#open.delete(breakOff)
      if (server.life !== life || server.handler === null || isEcho) return
      if (response.status >= 500) this.#spoil(this.#scene.world.now, call.kind)
      if (this.isSwallowed || this.#chance.happens(this.rates.loseAnswer)) {
        this.#fault(call, 'answer lost')
        return
      }
      if (bringsJobs(response.body) && this.#chance.happens(this.rates.loseJobs)) {
        this.#fault(call, 'jobs lost')
        return
      }
      later(this.#travelMs(call, true), () => {
        resolve(response)
      })
    })
  }

  #fault(call: SentCall, what: string): void {
    this.#scene.tally.add(`fault: ${what}`)
    this.#scene.tell(() => `network: ${what}: ${call.path} ${JSON.stringify(call.body)}`)
    this.#spoil(this.#scene.world.now + (call.kind === 'report' ? GIVEN_UP_MS : 0), call.kind)
  }

  #travelMs(call: SentCall, counts: boolean): number {
    if (call.path === '/workers/deregister' && this.#chance.happens(this.rates.slowFarewell))
      return this.#chance.between(100, 900)
    if (!this.#chance.happens(this.rates.slow)) return this.#chance.between(0, PROMPT_MS)
    const ms = this.#chance.between(100, Math.max(101, this.rates.slowestMs))
    if (counts) {
      this.#scene.tally.add('fault: late')
      this.#spoil(this.#scene.world.now + ms, call.kind)
    }
    return ms
  }

  #spoil(until: number, ...kinds: readonly CallKind[]): void {
    const spoilt = kinds.length === 0 ? (Object.keys(this.#badUntil) as CallKind[]) : kinds
    for (const kind of spoilt) this.#badUntil[kind] = Math.max(this.#badUntil[kind], until)
  }
}

const bringsJobs = (body: unknown): boolean => typeof body === 'string' && /"jobs":\[\{/.test(body)

function described({ url, body }: TransportRequest): SentCall {
  const path = url.replace('/ojs/v1', '')
  const parsed = body === '' ? {} : (JSON.parse(body) as { listen?: unknown })
  const isBeat = path === '/workers/heartbeat'
  const isOpen = path === '/workers/exchange' && parsed.listen !== undefined
  const isReport = path.startsWith('/workers/') && !isOpen
  return { kind: isBeat ? 'beat' : isOpen ? 'open' : isReport ? 'report' : 'other', path, body: parsed }
}
