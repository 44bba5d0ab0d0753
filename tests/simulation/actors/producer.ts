/** A producer: publishes jobs under all kinds of limits, repeats itself when it hears nothing, watches what it made. */
import { instant, uuidV7 } from '@curfew/core'
import type { Fields, JobBody } from '../calls.ts'
import type { Chance } from '../chance.ts'
import { Actor, type Stage } from '../stage.ts'
import type { Answer } from '../server.ts'

export interface ProducerPlan {
  readonly jobs: number
  readonly overMs: number
}

export class Producer extends Actor {
  #count = 0

  constructor(name: string, stage: Stage, chance: Chance, plan: ProducerPlan) {
    super(name, stage, chance)
    for (let left = plan.jobs; left > 0;) {
      const together = this.chance.happens(0.15) ? Math.min(left, this.chance.between(2, 5)) : 1
      this.later(this.chance.length(0, plan.overMs), () => {
        this.#publish(together)
      })
      left -= together
    }
  }

  #publish(together: number): void {
    const bodies = Array.from({ length: together }, () => this.#body())
    const [only] = bodies
    const call =
      together === 1 && only !== undefined
        ? ({ verb: 'enqueue', body: only } as const)
        : ({ verb: 'batch', jobs: bodies } as const)
    for (const { id } of bodies) if (id !== undefined) this.stage.knownJobs.push(id)
    const heard =
      (triesLeft: number) =>
      (answer: Answer | null): void => {
        if (answer === null || answer.status === 503) {
          if (triesLeft > 0 && bodies.every(({ id }) => id !== undefined)) this.send(call, heard(triesLeft - 1))
          return
        }
        if (answer.status !== 201) return
        const made = (answer.body.jobs ?? [answer.body.job]) as { id: string }[]
        for (const { id } of made) {
          if (!this.stage.knownJobs.includes(id)) this.stage.knownJobs.push(id)
          if (this.chance.happens(0.3)) this.#watch(id)
        }
      }
    this.send(call, heard(2))
  }

  #watch(jobId: string): void {
    this.later(this.chance.length(0, 20_000), () => {
      this.send({ verb: 'look', jobId })
    })
  }

  #body(): JobBody {
    const { chance, stage } = this
    const token = `${this.name}-${String(++this.#count)}`
    const id = chance.happens(0.5) ? { id: this.#id() } : {}
    return {
      type: chance.pick(stage.types),
      queue: chance.pick(stage.queues),
      args: [token],
      ...id,
      ...limitsFor(chance),
      ...momentsFor(chance, stage.serverNow()),
      ...(chance.happens(0.7) ? { retry: retryFor(chance) } : {}),
      ...(chance.happens(0.3) ? { priority: chance.between(-2, 2) } : {}),
      ...(chance.happens(0.06) ? { pending: true } : {}),
      ...(chance.happens(0.1) ? { result_ttl: chance.between(1, 600) } : {}),
      ...this.#family(),
    }
  }

  /** Sometimes an id that is taken. */
  #id(): string {
    const { knownJobs } = this.stage
    if (knownJobs.length > 0 && this.chance.happens(0.06)) return this.chance.pick(knownJobs)
    return uuidV7(instant(this.stage.world.now), this.chance.unit)
  }

  #family(): Fields {
    const { knownJobs } = this.stage
    if (knownJobs.length === 0 || !this.chance.happens(0.2)) return {}
    const parent = this.chance.pick(knownJobs.slice(-6))
    return { x_parent: { job_id: parent }, x_inherit_deadline: this.chance.happens(0.85) }
  }
}

/** Lengths in seconds or milliseconds, most of them short enough to run out. */
export function limitsFor(chance: Chance, prefix = ''): Fields {
  const fields: Record<string, unknown> = {}
  const give = (name: string, probability: number, leastMs: number, mostMs: number): void => {
    if (!chance.happens(probability)) return
    const ms = chance.length(leastMs, mostMs)
    if (ms % 1000 === 0 && chance.happens(0.3)) fields[prefix + name] = ms / 1000
    else fields[`${prefix}${name}_ms`] = ms
  }
  give('timeout', 0.6, 250, 12_000)
  give('grace_period', 0.4, 1, 5_000)
  give('total_timeout', 0.4, 4_000, 60_000)
  give('enqueue_ttl', 0.25, 250, 20_000)
  give('heartbeat_timeout', 0.25, 1_000, 15_000)
  give('visibility_timeout', 0.2, 500, 15_000)
  if (chance.happens(0.05)) fields[`${prefix}grace_period_ms`] ??= 0
  if (fields[`${prefix}grace_period`] !== undefined) delete fields[`${prefix}grace_period_ms`]
  if (chance.happens(0.2)) fields[`${prefix}x_on_timeout`] = chance.pick(['retry', 'discard'])
  return fields
}

export function momentsFor(chance: Chance, now: number): Fields {
  const moment = (ms: number): string =>
    chance.happens(0.5) ? `+PT${String(Math.max(0, ms) / 1000)}S` : new Date(now + ms).toISOString()
  return {
    ...(chance.happens(0.15) ? { scheduled_at: moment(chance.length(0, 15_000) - 1_000) } : {}),
    ...(chance.happens(0.12) ? { expires_at: moment(chance.length(0, 20_000) - 1_000) } : {}),
  }
}

function retryFor(chance: Chance): Fields {
  const initial = chance.length(50, 3_000, 50)
  return {
    ...(chance.happens(0.8) ? { max_attempts: chance.between(0, 5) } : {}),
    ...(chance.happens(0.8) ? { initial_interval_ms: initial } : {}),
    ...(chance.happens(0.3) ? { max_interval_ms: Math.max(initial, chance.length(1_000, 10_000)) } : {}),
    ...(chance.happens(0.4) ? { backoff_coefficient: chance.pick([1, 1.5, 2, 3]) } : {}),
    ...(chance.happens(0.5) ? { jitter: chance.happens(0.5) } : {}),
    ...(chance.happens(0.4)
      ? { backoff_strategy: chance.pick(['constant', 'linear', 'exponential', 'polynomial']) }
      : {}),
    ...(chance.happens(0.4) ? { on_exhaustion: chance.pick(['discard', 'dead_letter']) } : {}),
    ...(chance.happens(0.15)
      ? { non_retryable_errors: [chance.pick(['timeout', 'stalled', 'App.*', 'App.Broken'])] }
      : {}),
  }
}
