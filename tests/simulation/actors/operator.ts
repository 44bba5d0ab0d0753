/** An operator and readers: cancels, patches, pauses, retries, directs, sets policies, reads. */
import type { Call, Fields } from '../calls.ts'
import type { Chance } from '../chance.ts'
import { Actor, type Stage } from '../stage.ts'
import { limitsFor, momentsFor } from './producer.ts'

export class Operator extends Actor {
  readonly #everyMs: number

  constructor(name: string, stage: Stage, chance: Chance, everyMs: number) {
    super(name, stage, chance)
    this.#everyMs = everyMs
    this.#next()
  }

  #next(): void {
    this.later(this.chance.length(0, this.#everyMs * 2, 50), () => {
      const call = this.#call()
      if (call !== null) this.send(call)
      // A paused queue is not forgotten.
      if (call?.verb === 'pause') {
        this.later(this.chance.length(500, 15_000), () => {
          this.send({ verb: 'resume', queue: call.queue })
        })
      }
      this.#next()
    })
  }

  #call(): Call | null {
    const { chance, stage } = this
    const queue = chance.pick(stage.queues)
    const { knownJobs } = stage
    // The newest are the ones that still wait; the others are likely to be over.
    const jobId = knownJobs.length === 0 ? null : chance.pick(chance.happens(0.5) ? knownJobs.slice(-4) : knownJobs)
    const workerId = chance.pick(stage.workerIds)
    if (jobId === null) return { verb: 'list', queue }
    const acts: readonly (readonly [number, () => Call])[] = [
      [5, () => ({ verb: 'look', jobId })],
      [3, () => ({ verb: 'list', queue })],
      [2, () => ({ verb: 'queues' })],
      [3, () => ({ verb: 'cancel', jobId })],
      [1, () => ({ verb: 'activate', jobId })],
      [5, () => ({ verb: 'patch', jobId, body: this.#changes() })],
      [3, () => ({ verb: 'retry', jobId, fromDeadLetters: chance.happens(0.5) })],
      [1, () => ({ verb: 'pause', queue })],
      [1, () => ({ verb: 'configure', queue, body: this.#defaults() })],
      [1, () => ({ verb: 'direct', workerId, word: chance.pick(['quiet', 'resume', 'resume', 'terminate']) })],
      [
        1,
        () => ({ verb: 'policy', type: chance.pick(stage.types), body: chance.happens(0.3) ? null : this.#policy() }),
      ],
    ]
    return chance.weighted(acts)()
  }

  #changes(): Fields {
    const limits = inMillis(limitsFor(this.chance))
    const removed = ['timeout_ms', 'total_timeout_ms', 'enqueue_ttl_ms', 'x_on_timeout', 'expires_at', 'scheduled_at']
    return {
      ...Object.fromEntries(Object.entries(limits).filter(() => this.chance.happens(0.5))),
      ...momentsFor(this.chance, this.stage.serverNow()),
      ...(this.chance.happens(0.3) ? { priority: this.chance.between(-2, 2) } : {}),
      ...(this.chance.happens(0.2) ? { [this.chance.pick(removed)]: null } : {}),
    }
  }

  #defaults(): Fields {
    const limits = inMillis(limitsFor(this.chance, 'default_'))
    return Object.fromEntries(
      Object.entries(limits).map(([key, value]) => [key, this.chance.happens(0.2) ? null : value]),
    )
  }

  #policy(): Fields {
    const { x_on_timeout: _mode, ...caps } = limitsFor(this.chance)
    return { ...limitsFor(this.chance), ...(this.chance.happens(0.4) ? { caps } : {}) }
  }
}

/** One spelling only, so that a change and what it changes bear the same name. */
function inMillis(fields: Fields): Fields {
  return Object.fromEntries(
    Object.entries(fields).map(([key, value]) =>
      key.endsWith('_ms') || typeof value !== 'number' ? [key, value] : [`${key}_ms`, value * 1000],
    ),
  )
}
