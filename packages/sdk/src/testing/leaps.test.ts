/** The kit leaps over times in which workers only beat and poll. What happens, and when, must not show it. */
import { seededRandom, type Random } from '@curfew/core'
import { beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { defineJob } from '../job/define-job.ts'
import type { EnqueueOptions } from '../job/enqueue-options.ts'
import { state } from '../journey/journey-states.ts'
import { journey } from '../journey/journey.ts'
import type { JobView } from '../wire/jobs.ts'
import type { Worker } from '../worker/worker.ts'
import { openKit, openTestKit, type TestKit } from './kit.ts'

interface Task {
  readonly name: string
  /** How long an attempt takes. */
  readonly takesMs: number
  /** How many attempts fail first. */
  readonly fails: number
}

const task = defineJob<[Task]>('task')
const SECOND = 1_000
const MINUTE = 60 * SECOND
const HOUR = 60 * MINUTE

// The first kit loads the server, which takes seconds where it has to be translated.
beforeAll(async () => {
  const kit = await openTestKit()
  await kit.close()
}, 60_000)

interface Played {
  readonly kit: TestKit
  /** Calls to the server so far, and answers. */
  readonly calls: () => number
  /** What was warned of, or went wrong. */
  readonly troubles: readonly string[]
}

async function kitThat(leaps: boolean, seed = 1): Promise<Played> {
  let calls = 0
  const onCall = (): void => {
    calls += 1
  }
  const troubles: string[] = []
  const note = (_fields: object, message: string): void => void troubles.push(message)
  const kit = await openKit({ seed, log: { debug() {}, info() {}, warn: note, error: note } }, { leaps, onCall })
  onTestFinished(() => kit.close())
  return { kit, calls: () => calls, troubles }
}

async function startWorker(kit: TestKit): Promise<Worker> {
  const worker = kit.worker({ concurrency: 100 })
  worker.handle(task, async (ctx, [{ takesMs, fails }]) => {
    await kit.sleep({ ms: takesMs }, ctx.signal)
    if (ctx.attempt <= fails) throw new Error('not yet')
    return ctx.attempt
  })
  await worker.start()
  return worker
}

const aTask = (fields: Partial<Task> = {}): Task => ({ name: 'one', takesMs: 0, fails: 0, ...fields })

const get = <T>(kit: TestKit, path: string, query = {}): Promise<T> =>
  kit.client.connection.call<T>({ method: 'GET', path, query, idempotent: true })

interface WorkerView {
  readonly worker_id: string
  readonly last_heartbeat_at: string
}

async function workersOf(kit: TestKit): Promise<readonly WorkerView[]> {
  return (await get<{ workers: WorkerView[] }>(kit, '/ojs/v1/workers')).workers
}

interface EventView {
  readonly id: string
  readonly type: string
  readonly time: string
  readonly subject: string
  readonly data: Readonly<Record<string, unknown>>
}

async function eventsOf(kit: TestKit): Promise<readonly EventView[]> {
  const found: EventView[] = []
  for (let more = true; more;) {
    const after = found.at(-1)?.id
    const page = await get<{ events: EventView[]; has_more: boolean }>(kit, '/ojs/v1/events', { limit: 1_000, after })
    found.push(...page.events)
    more = page.has_more
  }
  return found
}

async function jobsOf(kit: TestKit): Promise<JobView[]> {
  const found: JobView[] = []
  for await (const job of kit.client.list({})) found.push(job)
  return found
}

describe('a time in which nothing happens', () => {
  test.each([
    [1, 1, 50],
    [1, 7, 50],
    [5, 1, 150],
  ])('costs %i idle workers in %i days only a few calls', async (workers, days, most) => {
    const { kit, calls } = await kitThat(true)
    for (let count = 0; count < workers; count += 1) await startWorker(kit)
    const [began, before] = [kit.now().getTime(), calls()]
    await kit.advance({ ms: days * 24 * HOUR })
    expect(calls() - before).toBeLessThan(most)
    expect(kit.now().getTime() - began).toBe(days * 24 * HOUR)
  })

  test('leaves workers as alive as if they had given every sign of life', async () => {
    const { kit, troubles } = await kitThat(true)
    const ids = [(await startWorker(kit)).id, (await startWorker(kit)).id]
    await kit.advance('3d')
    const seen = await workersOf(kit)
    expect(seen.map(({ worker_id: id }) => id).sort()).toEqual(ids.sort())
    for (const { last_heartbeat_at: beat } of seen)
      expect(kit.now().getTime() - Date.parse(beat)).toBeLessThanOrEqual(5 * SECOND)
    expect((await eventsOf(kit)).map(({ type }) => type)).not.toContain('worker.died')
    expect(troubles).toEqual([])
  })

  test('ends when a job falls due, which is handed out at once and with its full time', async () => {
    const { kit, calls, troubles } = await kitThat(true)
    const worker = await startWorker(kit)
    const began = kit.now().getTime()
    const { id } = await kit.client.enqueue(task, [aTask({ takesMs: HOUR })], { delay: '1d', timeout: '10m' })
    const before = calls()
    await kit.advance('1d')
    expect(calls() - before).toBeLessThan(50)
    expect(worker.active).toBe(1)
    await kit.advance({ ms: 10 * MINUTE - 1 })
    expect((await kit.client.get(id)).state).toBe('active')
    await kit.advance({ ms: 1 })
    const seen = await kit.expectTimedOut(id, 'execution')
    expect(seen.errors?.[0]).toMatchObject({ elapsed_seconds: 600 })
    expect(Date.parse(String(seen.started_at)) - began).toBe(24 * HOUR)
    expect(troubles).toEqual([])
  })

  test("ends when a timer of the test's own falls due", async () => {
    const { kit, calls } = await kitThat(true)
    await startWorker(kit)
    const began = kit.now().getTime()
    const woken: number[] = []
    void kit.sleep('7h').then(() => woken.push(kit.now().getTime() - began))
    const before = calls()
    await kit.advance('1d')
    expect(woken).toEqual([7 * HOUR])
    expect(calls() - before).toBeLessThan(100)
  })

  test('ends before a client stops waiting for a result: the answer comes at its own instant', async () => {
    const { kit } = await kitThat(true)
    await startWorker(kit)
    const began = kit.now().getTime()
    const { id } = await kit.client.enqueue(task, [aTask()], { delay: '3h' })
    const gaveUp: number[] = []
    kit.client.waitForResult(id, { timeout: '47m' }).catch(() => gaveUp.push(kit.now().getTime() - began))
    await kit.advance('2h')
    expect(gaveUp).toEqual([47 * MINUTE])
  })
})

describe('workers that are not idle', () => {
  test('one that is killed is declared dead at its own instant', async () => {
    const { kit } = await kitThat(true)
    const worker = await startWorker(kit)
    await startWorker(kit)
    await kit.advance('1d')
    const killedAt = kit.now().getTime()
    kit.killWorker(worker)
    await kit.advance('1d')
    const deaths = (await eventsOf(kit)).filter(({ type }) => type === 'worker.died')
    expect(deaths.map(({ subject, time }) => [subject, Date.parse(time) - killedAt])).toEqual([
      [worker.id, 30 * SECOND],
    ])
    expect(await workersOf(kit)).toHaveLength(1)
  })

  test.each(['stall', 'partition'] as const)('nothing is skipped while one is under %s', async (trouble) => {
    const played = await kitThat(true)
    const other = await kitThat(false)
    const calls: number[] = []
    for (const { kit, calls: counted } of [played, other]) {
      const worker = await startWorker(kit)
      kit[trouble](worker)
      await kit.advance('1h')
      calls.push(counted())
      await (trouble === 'stall' ? kit.resume(worker) : kit.heal(worker))
      await kit.advance('1m')
    }
    expect(await eventsOf(played.kit)).toEqual(await eventsOf(other.kit))
    expect(calls[0]).toBe(calls[1])
  })
})

// ---- The same script, with leaps and without ----

const nap = journey('nap', '1.0.0', {
  execution: { maxDuration: '14m', onTimeout: { errorCode: 'LATE', reason: 'it took too long' } },
  lifecycle: { startMode: 'async' },
  start: 'nap',
  states: {
    nap: state.timer({ duration: '13m', next: 'work' }),
    work: state.job({ type: 'task', args: [aTask({ takesMs: 90 * SECOND })], resultVar: 'done', next: 'end' }),
    end: state.succeed(),
  },
})

class Script {
  readonly #random: Random
  #name = 0

  constructor(seed: number) {
    this.#random = seededRandom(seed)
  }

  below(most: number): number {
    return Math.floor(this.#random() * most)
  }

  maybe<T>(chance: number, make: () => T): T | undefined {
    return this.#random() < chance ? make() : undefined
  }

  /** Short ones and long ones alike. */
  length(shortestMs: number, longestMs: number): { ms: number } {
    return { ms: Math.round(shortestMs * (longestMs / shortestMs) ** this.#random()) }
  }

  task(): Task {
    const takesMs = this.maybe(0.6, () => this.length(SECOND, 3 * MINUTE).ms) ?? 0
    return { name: String((this.#name += 1)), takesMs, fails: this.below(4) }
  }

  options(): EnqueueOptions {
    const limited = { key: `limiter-${String(this.below(2))}`, rate: { limit: 1, period: '3m' } } as const
    const options = {
      queue: this.maybe(0.1, () => 'unserved'),
      delay: this.maybe(0.6, () => this.length(SECOND, HOUR)),
      timeout: this.length(5 * SECOND, 2 * MINUTE),
      gracePeriod: this.maybe(0.2, () => this.length(SECOND, MINUTE)),
      totalTimeout: this.maybe(0.3, () => this.length(2 * MINUTE, HOUR)),
      enqueueTtl: this.maybe(0.3, () => this.length(MINUTE, 40 * MINUTE)),
      rateLimit: this.maybe(0.1, () => limited),
      retry: {
        maxAttempts: 1 + this.below(4),
        initialInterval: this.length(SECOND, 20 * MINUTE),
        jitter: this.below(2) === 0,
      },
    }
    return Object.fromEntries(Object.entries(options).filter(([, value]) => value !== undefined))
  }
}

async function play(kit: TestKit, seed: number): Promise<void> {
  const script = new Script(seed)
  let worker = await startWorker(kit)
  await kit.client.journeys.deploy(nap)
  const every = `@every ${String(10 + script.below(40))}m`
  await kit.client.crons.upsert('often', { cron: every, job: task, input: [script.task()], options: { timeout: '5m' } })
  await kit.client.crons.upsert('hourly', { cron: '7 13-15 * * *', job: task, input: [script.task()] })
  const ids: string[] = []
  for (let steps = 0; steps < 15; steps += 1) {
    for (let jobs = script.below(4); jobs > 0; jobs -= 1)
      ids.push((await kit.client.enqueue(task, [script.task()], script.options())).id)
    if (script.maybe(0.15, () => true)) await kit.client.journeys.start(nap)
    const id = script.maybe(0.15, () => ids[script.below(ids.length)])
    if (id !== undefined) await kit.client.cancel(id).catch(() => {})
    if (script.maybe(0.08, () => true)) {
      kit.killWorker(worker)
      worker = await startWorker(kit)
    }
    await kit.advance(script.length(SECOND, HOUR))
  }
}

/** What tells at which instants a worker beats, in the view of a job or in an event. */
const OF_BEATS = new Set(['visibility_deadline', 'last_heartbeat_at'])
const withoutBeats = (views: readonly object[]): unknown =>
  JSON.parse(JSON.stringify(views, (key, value: unknown) => (OF_BEATS.has(key) ? undefined : value)))

describe('the same script with leaps and without them', () => {
  const seeds = [2, 3, 5, 6, 15]
  test.each(seeds)(
    'gives every job the same states at the same instants (seed %i)',
    { timeout: 60_000 },
    async (seed) => {
      const [leaping, plain] = [await kitThat(true, seed), await kitThat(false, seed)]
      await play(leaping.kit, seed)
      await play(plain.kit, seed)
      expect(leaping.kit.now()).toEqual(plain.kit.now())
      expect(withoutBeats(await jobsOf(leaping.kit))).toEqual(withoutBeats(await jobsOf(plain.kit)))
      expect(withoutBeats(await eventsOf(leaping.kit))).toEqual(withoutBeats(await eventsOf(plain.kit)))
      expect(leaping.calls()).toBeLessThan(plain.calls())
    },
  )
})
