/**
 * Beats of every kind in any order, with restarts between them, against a model small enough to be believed: when the
 * stall clock, the reservation and the worker's death would be due, and which comes first. A failure names its seed.
 */
import { expect, test } from 'vitest'
import { FakeClock, seededRandom } from '@curfew/core'
import { TestServer } from '../harness.ts'
import { onPostgres, openTestStore } from '../stores.ts'

const SEEDS = onPostgres() ? 40 : 120
const START = new FakeClock().now()

interface Due {
  readonly at: number
  readonly type: string
}

/** Everything in milliseconds since the claim. */
class Model {
  signAt = 0
  visible = { from: 0, ms: 0 }
  seenAt = 0
  seq: number | null = null
  readonly outages: { from: number; to: number }[] = []
  constructor(
    readonly timeoutMs: number,
    readonly visibilityMs: number,
    readonly stallMs: number | null,
    readonly ownStallClock: boolean,
    public known: boolean,
  ) {
    this.visible.ms = visibilityMs
  }

  /** The first limit that would end the attempt; on a tie the order of the list. */
  get due(): Due {
    const limits: Due[] = [{ at: this.timeoutMs, type: 'timeout' }]
    if (this.stallMs !== null) limits.push({ at: this.credited(this.signAt, this.stallMs), type: 'stalled' })
    if (this.known && !this.ownStallClock) limits.push({ at: this.deathAt, type: 'worker_death' })
    limits.push({ at: this.credited(this.visible.from, this.visible.ms), type: 'visibility_timeout' })
    return limits.reduce((first, next) => (next.at < first.at ? next : first))
  }

  get deathAt(): number {
    return this.credited(this.seenAt, 30_000)
  }

  signOfLife(now: number): void {
    this.signAt = now
    this.visible = { from: now, ms: this.visibilityMs }
    this.seenAt = now
  }

  private credited(since: number, ms: number): number {
    const credit = this.outages.reduce((sum, { from, to }) => sum + Math.max(0, to - Math.max(from, since)), 0)
    return since + ms + credit
  }
}

async function live(seed: number): Promise<{ expected: Due; earlier: string; told: unknown; story: unknown[] }> {
  const random = seededRandom(seed)
  const chance = (p: number): boolean => random() < p
  const between = (from: number, to: number): number => from + Math.floor(random() * (to - from + 1))
  const store = await openTestStore()
  let server = await TestServer.open({ store })
  const registered = chance(0.5)
  if (registered) await server.register('w')
  const own = chance(0.7)
  const limits = { visibility_timeout: between(8, 40), timeout: between(20, 120), grace_period: 0 }
  const heartbeat = between(8, 40)
  const { id } = await server.start(
    { ...limits, ...(own ? { heartbeat_timeout: heartbeat } : {}), retry: { max_attempts: 1 } },
    { worker_id: 'w' },
  )
  const stallMs = own ? heartbeat * 1000 : registered ? 60_000 : null
  const model = new Model(limits.timeout * 1000, limits.visibility_timeout * 1000, stallMs, own, registered)
  const story: unknown[] = [{ ...limits, heartbeat, own, registered }]
  const nowMs = (): number => server.clock.now() - START

  const beat = async (): Promise<void> => {
    const listed = chance(0.7)
    const vouched = chance(0.65) ? null : chance(0.5)
    const visibilityMs = chance(0.3) ? between(1, 50) * 1000 : null
    const seq = chance(0.4) ? between(0, 5) : null
    const lease = chance(0.7) ? null : chance(0.7) ? 1 : 9
    story.push({ at: nowMs(), beat: { listed, vouched, visibilityMs, seq, lease } })
    await server.beat('w', listed ? [id] : [], {
      ...(vouched === null ? {} : { x_beats: vouched ? [id] : [] }),
      ...(visibilityMs === null ? {} : { visibility_timeout_ms: visibilityMs }),
      ...(seq === null ? {} : { seq }),
      ...(lease === null ? {} : { x_leases: { [id]: lease } }),
    })
    model.seenAt = nowMs()
    if (seq !== null && model.seq !== null && seq < model.seq) return
    model.known = true
    model.seq = seq ?? model.seq
    if (!listed || lease === 9) return
    if (vouched !== false) model.signAt = nowMs()
    model.visible = { from: nowMs(), ms: visibilityMs ?? model.visibilityMs }
  }
  const report = async (what: 'progress' | 'checkpoint'): Promise<void> => {
    story.push({ at: nowMs(), what })
    await server.call('PUT', `/ojs/v1/jobs/${id}/${what}`, { progress: 0.1, state: 1 })
    model.signOfLife(nowMs())
  }
  const register = async (): Promise<void> => {
    story.push({ at: nowMs(), what: 'register' })
    await server.register('w')
    model.known = true
    model.seenAt = nowMs()
    model.seq = null
  }
  const restart = async (): Promise<void> => {
    const from = ((await store.life()).aliveAt ?? 0) - START
    const to = Math.min(nowMs() + between(1, 60_000), model.timeoutMs - 1)
    if (to <= nowMs()) return
    story.push({ at: nowMs(), restart: { from, to } })
    server = await TestServer.open({ store, clock: new FakeClock(START + to) })
    model.outages.push({ from, to })
  }

  for (let step = 0; step < 14; step += 1) {
    const target = nowMs() + between(1, 12_000)
    if (model.due.at <= target) break
    if (model.known && model.deathAt <= target) {
      model.known = false
      model.seq = null
    }
    await server.advance(target - nowMs())
    if (chance(0.12)) await restart()
    else if (chance(0.6)) await beat()
    else if (chance(0.8)) await report(chance(0.5) ? 'progress' : 'checkpoint')
    else await register()
  }
  const expected = model.due
  await server.advance(expected.at - 1 - nowMs())
  const earlier = (await server.job(id)).state
  await server.advance(1)
  const { error } = await server.job(id)
  const told = { at: Date.parse(String(error?.deadline)) - START, type: error?.type, late: error?.overshoot_ms }
  await server.close()
  return { expected, earlier, told, story }
}

test(
  'an attempt ends when, and by what, the model says, and not a millisecond before',
  { timeout: 60_000 },
  async () => {
    for (let seed = 1; seed <= SEEDS; seed += 1) {
      const { expected, earlier, told, story } = await live(seed)
      const where = `seed ${String(seed)}: ${JSON.stringify(story)}`
      expect({ earlier, told }, where).toEqual({ earlier: 'active', told: { ...expected, late: 0 } })
    }
  },
)
